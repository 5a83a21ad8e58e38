"""One client connection, and one call on it: exactly the bytes that were planned, and what came back, read with h11."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
import struct
import time
from typing import Final

import h11

from trials.chaos.facts import Ask, Heard
from trials.chaos.words import DEFAULT_BUDGET_MS, pattern, stream_of

SLACK_MS: Final = 8_000
"""How much longer than its budget a call may take at most: no measure of precision, only of whether it hangs."""
_PAUSE: Final = 0.15
_UP_AGAIN_WITHIN: Final = 45.0
"""How long a client waits for a sidecar that is not there (seconds)."""
_WANTED: Final = (
    "budget-", "connection", "content-type", "proxy-status", "retry-after", "x-arrival", "x-should-retry", "x-size",
    "x-token",
)  # fmt: skip
_EVENT: Final = re.compile(rb'"content":"(\S+)\.(\d+)-\d+ "')


class Caller:
    """Calls one after the other, on connections that are kept as long as they can be. `ports`: of the upstream, by place."""

    def __init__(self, sidecar: int, ports: dict[str, int]) -> None:
        """Connect when there is something to say."""
        self._sidecar = sidecar
        self._ports = ports
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._parser = h11.Connection(h11.CLIENT)

    async def call(self, ask: Ask) -> Heard:
        """Make a call."""
        if not await self._connected(ask):
            now = time.monotonic_ns()
            return Heard(now, now, "nothing", "unreached")
        talk = _Talk(ask, self)
        budget = ask.stated_ms if ask.stated_ms is not None else DEFAULT_BUDGET_MS
        try:
            async with asyncio.timeout((budget + SLACK_MS) / 1000 + 2):
                await talk.run()
        except TimeoutError:
            talk.end = "hung"
        except (ConnectionError, OSError) as error:
            talk.end = "reset" if isinstance(error, ConnectionResetError | BrokenPipeError) else "fin"
        heard = talk.heard()
        if not heard.whole or talk.closes:
            self.close(rudely=ask.rudely and heard.end == "left")
        else:
            self._parser.start_next_cycle()
        return heard

    def close(self, *, rudely: bool = False) -> None:
        """Close the connection; `rudely`: with a RST."""
        writer, self._writer, self._reader = self._writer, None, None
        if writer is None:
            return
        if rudely:
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):  # the other side was faster
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        else:
            writer.close()

    async def _connected(self, ask: Ask) -> bool:
        """Use the connection there is, or open one. One that has ended meanwhile is seen by its reader."""
        if self._reader is not None and (self._reader.at_eof() or random.Random(ask.id).random() < 0.3):
            self.close()
        if self._reader is not None:
            return True
        until = time.monotonic() + _UP_AGAIN_WITHIN
        while time.monotonic() < until:
            try:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._sidecar)
            except OSError:
                await asyncio.sleep(_PAUSE)
                continue
            self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=200_000)
            return True
        return False

    def target(self, ask: Ask) -> str:
        """Return where a call is sent to."""
        return f"http://127.0.0.1:{self._ports[ask.place]}/{ask.route}/{ask.unit}"

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self._writer is not None
        self._writer.write(data)

    async def receive(self) -> bytes:
        """Return what has come; b"" at the end."""
        assert self._reader is not None
        return await self._reader.read(65_536)

    @property
    def parser(self) -> h11.Connection:
        """What reads the answers on this connection."""
        return self._parser


class _Talk:
    """One request and its answer, as far as it comes."""

    def __init__(self, ask: Ask, caller: Caller) -> None:
        self._ask = ask
        self._caller = caller
        self._chance = random.Random(f"talk {ask.id}")
        self._began = time.monotonic_ns()
        self._sent = "nothing"
        self._status = 0
        self._fields: dict[str, str] = {}
        self._trailers: dict[str, str] = {}
        self._body = bytearray()
        self.end = ""
        self.closes = True

    async def run(self) -> None:
        """Send, and read the answer."""
        await self._send()
        if self.end or self._ask.leave == "sent":
            self.end = "left"
            return
        if self._ask.leave == "waiting":
            try:
                async with asyncio.timeout(self._chance.uniform(0.0, 0.3)):
                    await self._read()
            except TimeoutError:
                self.end = "left"
        else:
            await self._read()

    async def _send(self) -> None:
        ask, caller = self._ask, self._caller
        head, body = render(ask, caller.target(ask)), request_body(ask)
        if ask.leave == "head":
            self._sent = "part"
            caller.send(head[: len(head) // 2])
            self.end = "left"
            return await asyncio.sleep(self._chance.choice((0.0, 0.02)))
        if ask.leave == "body":
            self._sent = "head"
            caller.send(head + body[: len(body) // 2])
            self.end = "left"
            return await asyncio.sleep(self._chance.choice((0.0, 0.02, 0.1)))
        self._sent = "whole"
        if body and self._chance.random() < 0.15:  # one that takes its time
            caller.send(head + body[: len(body) // 2])
            await asyncio.sleep(self._chance.uniform(0.001, 0.05))
            caller.send(body[len(body) // 2 :])
        else:
            caller.send(head + body)
        return None

    async def _read(self) -> None:
        parser = self._caller.parser
        # h11 has to know what is asked; what was sent is rendered here, so that it can be anything.
        parser.send(h11.Request(method=self._ask.method, target="/", headers=[("Host", "a")]))
        parser.send(h11.EndOfMessage())
        while not self.end:
            try:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    parser.receive_data(await self._caller.receive())
                    continue
            except h11.RemoteProtocolError as fault:
                self.end = "fin" if "closed" in str(fault).lower() else "garbage"
                return
            self._take(event)

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Response):
            self._status = event.status_code
            self._fields = _wanted(event.headers)
            if self._ask.leave == "answer":
                self.end = "left"
        elif isinstance(event, h11.Data):
            self._body += event.data
        elif isinstance(event, h11.EndOfMessage):
            self._trailers = _wanted(event.headers)
            parser = self._caller.parser
            self.closes = parser.their_state is not h11.DONE or bool(parser.trailing_data[0])
            if self.closes and parser.trailing_data[0]:
                self.end = "garbage"  # what nobody has asked for came after the answer
            else:
                self.end = "message"
        elif isinstance(event, h11.ConnectionClosed):
            self.end = "fin"

    def heard(self) -> Heard:
        """Return what it came to."""
        body, problem = self._judged(), None
        if body == "own":
            problem = json.loads(self._body) if self._body else {}
        return Heard(
            self._began,
            time.monotonic_ns(),
            self._sent,
            self.end,
            self._status,
            self._fields,
            self._trailers,
            body,
            len(self._body),
            problem,
        )

    def _judged(self) -> str:
        """Hold the body against what it should be, byte for byte."""
        whole = self.end == "message"
        if not self._fields:
            return ""
        if self._fields.get("content-type") == "application/problem+json":
            return "own" if whole else "prefix"
        if self._ask.method == "HEAD":
            return "equal" if not self._body else "different"
        token, arrival = self._fields.get("x-token", ""), int(self._fields.get("x-arrival", "0"))
        size, body = int(self._fields.get("x-size", "0")), bytes(self._body)
        if self._fields.get("content-type") == "text/event-stream":
            return judged_stream(token, arrival, size, body, whole=whole)
        if body == pattern(token, arrival, size):
            return "equal"
        return "prefix" if body == pattern(token, arrival, size)[: len(body)] else "different"


def judged_stream(token: str, arrival: int, events: int, body: bytes, *, whole: bool = True) -> str:
    """Say what a stream is, beside the one that it should be: `equal`, a `prefix`, `closed` or `failed` after one, `different`."""
    if body == stream_of(token, arrival, events):
        return "equal"
    full = stream_of(token, arrival, max(events, body.count(b"\n\n") + 1))
    endless = full[: full.rfind(b'data: {"id"')]
    if endless.startswith(body):
        return "prefix"
    # What follows the last event of the tool's own is the sidecar's.
    at = 0
    for line in endless.split(b"\n\n"):
        if not body.startswith(line + b"\n\n", at):
            break
        at += len(line) + 2
    rest = body[at:]
    others = [found for found in _EVENT.findall(rest) if found != (token.encode(), b"%d" % arrival)]
    if others:
        return "different"
    if b'"error"' in rest:
        return "failed"
    if rest.endswith(b"data: [DONE]\n\n"):
        return "closed"
    # The client may have left in the middle of the sidecar's own words.
    return "different" if whole or not rest.startswith((b"data: {", b"event: ")) else "prefix"


def _wanted(headers: object) -> dict[str, str]:
    assert isinstance(headers, h11._headers.Headers | list)
    named = ((name.decode(), value.decode("latin-1")) for name, value in headers)
    return {name: value for name, value in named if name.startswith(_WANTED)}


def request_body(ask: Ask) -> bytes:
    """Return the body of a request, framed: the same for each sending of its unit."""
    if not ask.size:
        return b""
    body = pattern(f"body-{ask.unit}", 0, ask.size)
    if not ask.chunked:
        return body
    half = len(body) // 2 + 1
    pieces = [piece for piece in (body[:half], body[half:]) if piece]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def render(ask: Ask, target: str) -> bytes:
    """Return the head of a request. Its id goes with it twice: to the upstream, and as a label into the sidecar's record."""
    fields: list[tuple[str, object]] = [
        ("Host", target.split("/")[2]),
        ("X-Call", ask.id),
        ("X-Behave", " ".join(ask.ways)),
        ("Budget-Stage", ask.id),
    ]
    if ask.size:
        fields.append(("Transfer-Encoding", "chunked") if ask.chunked else ("Content-Length", ask.size))
    if ask.key is not None:
        fields.append(("Idempotency-Key", ask.key))
    if ask.budget is not None:
        fields.append(("Budget-Id", ask.budget))
    if ask.stated_ms is not None:
        fields.append(("Budget-Remaining-Ms", ask.stated_ms))
    if ask.confirmed:
        fields.append(("Budget-Retry", "confirmed"))
    lines = [f"{ask.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode()
