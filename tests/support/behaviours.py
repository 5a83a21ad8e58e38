"""How an upstream may behave: each function returns a behaviour for `upstream.Upstream`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal

from tests.support.upstream import Behaviour, Exchange

Framing = Literal["length", "chunked", "close"]
"""How the end of a body is told: by its length, by a last chunk, or by the end of the connection."""

Headers = Sequence[tuple[str, str]]


def head(status: int = 200, headers: Headers = (), *, reason: str = "", version: str = "1.1") -> bytes:
    """A response head."""
    lines = [
        f"HTTP/{version} {status} {reason or 'Because'}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def _framed(status: int, headers: Headers, framing: Framing, length: int, version: str = "1.1") -> bytes:
    extra = {
        "length": [("Content-Length", str(length))],
        "chunked": [("Transfer-Encoding", "chunked")],
        "close": [],
    }
    return head(status, [*headers, *extra[framing]], version=version)


def answer(
    body: bytes = b"ok",
    status: int = 200,
    headers: Headers = (),
    *,
    framing: Framing = "length",
    after: float = 0.0,
    keep: bool = True,
) -> Behaviour:
    """Read the request whole (so it is done: a write is committed), and answer `after` so many seconds."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        if after:
            await exchange.sleep(after)
        framed = chunk(body) + LAST_CHUNK if framing == "chunked" else body
        if exchange.request.method == "HEAD":
            framed = b""
        await exchange.send(_framed(status, headers, framing, len(body)) + framed)
        exchange.keep = keep and framing != "close"

    return behave


def echo() -> Behaviour:
    """Answer with the body of the request."""

    async def behave(exchange: Exchange) -> None:
        body = await exchange.read_all()
        await exchange.send(_framed(200, (), "length", len(body)) + body)

    return behave


def stall() -> Behaviour:
    """Read the request whole, and say nothing until the peer leaves."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.until_left()

    return behave


def deaf() -> Behaviour:
    """Read no more than the head, and say nothing until the peer leaves."""

    async def behave(exchange: Exchange) -> None:
        exchange.deaf()
        await exchange.until_left()

    return behave


def stall_after_head(
    status: int = 200, headers: Headers = (), *, framing: Framing = "length", length: int = 10
) -> Behaviour:
    """Say the head and nothing more."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.send(_framed(status, headers, framing, length))
        await exchange.until_left()

    return behave


def drip(
    pieces: Iterable[bytes] | None = None,
    *,
    every: float = 0.02,
    framing: Framing = "chunked",
    length: int = 1_000_000,
    headers: Headers = (),
    version: str = "1.1",
    then: Literal["end", "stall", "close", "reset"] = "end",
) -> Behaviour:
    """Send the pieces of a body (without end, if none are given) with a pause before each but the first; then end."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.send(_framed(200, headers, framing, length, version))
        given = pieces if pieces is not None else (b"piece %d\n" % number for number in itertools.count())
        for number, piece in enumerate(given):
            if number and every:
                await exchange.sleep(every)
            await exchange.send(chunk(piece) if framing == "chunked" else piece)
        await _finish(exchange, framing, then)

    return behave


async def _finish(exchange: Exchange, framing: Framing, then: str) -> None:
    if then == "stall":
        await exchange.until_left()
    elif then == "reset":
        exchange.reset()
    elif then == "end" and framing == "chunked":
        await exchange.send(LAST_CHUNK)
    else:
        exchange.keep = then == "end" and framing == "length"
        if not exchange.keep:
            exchange.close()


def cut_after(
    sent: int, of: int, *, framing: Framing = "chunked", reset: bool = False, piece: int = 1000
) -> Behaviour:
    """Announce `of` pieces of a body, send only the first `sent`, and close (or reset)."""
    pieces = [b"%d" % (number % 10) * piece for number in range(sent)]
    return drip(pieces, every=0, framing=framing, length=of * piece, then="reset" if reset else "close")


def hang_up(*, reset: bool = False, after: float = 0.0) -> Behaviour:
    """Read the request whole and close without an answer (or reset)."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        if after:
            await exchange.sleep(after)
        if reset:
            exchange.reset()
        exchange.keep = False

    return behave


def early(
    body: bytes = b"no need", status: int = 200, headers: Headers = (), *, close: bool = False
) -> Behaviour:
    """Answer at once, without reading the body of the request."""

    async def behave(exchange: Exchange) -> None:
        exchange.deaf()
        await exchange.send(_framed(status, headers, "length", len(body)) + body)
        if not close:
            await exchange.until_left()

    return behave


def interim(*statuses: int, then: Behaviour, headers: Headers = ()) -> Behaviour:
    """Send interim responses as soon as the head has come, then behave as told."""

    async def behave(exchange: Exchange) -> None:
        for status in statuses:
            await exchange.send(head(status, headers))
        await then(exchange)

    return behave


def events(
    payloads: Iterable[str],
    *,
    every: float = 0.0,
    framing: Framing = "chunked",
    then: Literal["end", "stall", "close", "reset"] = "end",
    headers: Headers = (),
) -> Behaviour:
    """An event stream with these payloads as its `data`; then end, or say nothing more."""
    pieces = [f"data: {payload}\n\n".encode() for payload in payloads]
    length = sum(map(len, pieces)) + (0 if then == "end" else 1000)
    kind = ("Content-Type", "text/event-stream; charset=utf-8")
    return drip(pieces, every=every, framing=framing, length=length, headers=[kind, *headers], then=then)


def upgrade(protocol: str = "websocket", *, greeting: bytes = b"", echo: bool = True) -> Behaviour:
    """Agree to leave HTTP, say `greeting`, and send back whatever comes until the peer ends its side."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.send(head(101, [("Upgrade", protocol), ("Connection", "Upgrade")]) + greeting)
        while data := await exchange.receive():
            if echo:
                await exchange.send(data)
        exchange.keep = False

    return behave


def raw(
    *pieces: bytes, every: float = 0.0, then: Literal["keep", "stall", "close", "reset"] = "close"
) -> Behaviour:
    """Read the request whole and send these bytes as they are."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        for number, piece in enumerate(pieces):
            if number and every:
                await exchange.sleep(every)
            await exchange.send(piece)
        if then == "stall":
            await exchange.until_left()
        elif then == "reset":
            exchange.reset()
        exchange.keep = then == "keep"

    return behave
