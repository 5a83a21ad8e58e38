"""The kinds of calls of a soak, how many of each come, and what each is to get.

A kind is a coroutine that makes one call, or a small job of several, and returns what was wrong: nothing, as a rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bench.procs import HOST
from trials.soak.caller import PATIENCE, Answer, Broken, Caller, Callers

KEYS: Final = 3_000  # different answers that may be kept: more than the cache has room for
_ECHOES: Final = 4


@dataclass(frozen=True)
class Ports:
    """Where everything is. `dead`: nobody listens there."""

    outbound: int
    control: int
    upstream: int
    echo: int
    dead: int


Kind = Callable[["Mix"], Awaitable[str]]


class Mix:
    """Calls of all kinds through one sidecar. `waits`: what a GET took, in milliseconds, until somebody takes them away."""

    def __init__(self, ports: Ports, callers: Callers) -> None:
        self._ports = ports
        self._callers = callers
        self._number = 0
        self.waits: list[float] = []

    # -- calls that are to complete --------------------------------------------------------------------------------

    async def read(self) -> str:
        """A GET on a kept connection."""
        answer = await self._callers.call(self._request("GET", "/small"))
        self.waits.append(answer.ms)
        return _expect(answer, 200)

    async def read_alone(self) -> str:
        """A GET on a connection of its own."""
        caller = await Caller.connect(self._ports.outbound)
        try:
            return _expect(await caller.call(self._request("GET", "/small", "Connection: close")), 200)
        finally:
            caller.abort()

    async def write(self) -> str:
        """A POST, which is journaled before it leaves."""
        return _expect(await self._callers.call(self._post("/orders/new")), 200)

    async def cached(self) -> str:
        """A GET whose answer may be kept, of more than there is room for."""
        number = self._next()
        key = number * number % KEYS if number % 2 else number % KEYS
        return _expect(await self._callers.call(self._request("GET", f"/cached/{key}")), 200)

    async def laddered(self) -> str:
        """A GET on a route with a ladder: every second one has time for the lower rung only."""
        short = self._next() % 2
        answer = await self._callers.call(
            self._request("GET", "/laddered/x", budget_ms=200 if short else 5_000)
        )
        return _expect(answer, 200) or (
            "" if short == (answer.body == b"later") else "the wrong rung answered"
        )

    async def job(self) -> str:
        """Three calls under one budget; most say at the end that the job is done, the others let it run out."""
        number = self._next()
        told = f"Budget-Id: job-{number}"
        for path in ("/small", "/orders/ask", "/small"):
            answer = await self._callers.call(self._request("GET", path, told, budget_ms=8_000))
            if wrong := _expect(answer, 200):
                return wrong
        return "" if number % 8 == 0 else await self._close_budget(f"job-{number}")

    async def stream(self) -> str:
        """An event stream with a budget, to its end."""
        path = "/events?count=20&every=50"
        answer = await self._callers.call(self._request("GET", path, "Accept: text/event-stream"))
        return _expect(answer, 200) or ("" if answer.body.count(b"data:") == 20 else "events are missing")

    async def listen(self) -> str:
        """A subscription: an event stream without a budget."""
        path = "/events?count=10&every=500"
        request = self._request("GET", path, "Accept: text/event-stream", budget_ms=None)
        answer = await self._callers.call(request)
        return _expect(answer, 200) or ("" if answer.body.count(b"data:") == 10 else "events are missing")

    async def tunnel(self) -> str:
        """A tunnel with something that is not HTTP."""
        try:
            reader, writer = await asyncio.open_connection(HOST, self._ports.outbound)
        except OSError as fault:
            raise Broken(f"no connection: {fault}") from None
        try:
            async with asyncio.timeout(PATIENCE):
                place = f"{HOST}:{self._ports.echo}"
                writer.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " not in head.split(b"\r\n")[0]:
                    return f"answered {head[:40]!r}"
                for number in range(_ECHOES):
                    said = b"\x00said %d" % number
                    writer.write(said)
                    if await reader.readexactly(len(said)) != said:
                        return "the echo was another one"
                    await asyncio.sleep(0.02)
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as fault:
            raise Broken(f"tunnel: {type(fault).__name__}") from None
        finally:
            writer.close()
        return ""

    # -- calls that are to end otherwise ---------------------------------------------------------------------------

    async def cut_read(self) -> str:
        """A GET that is cut."""
        return _expect(await self._callers.call(self._request("GET", "/slow?ms=0", budget_ms=60)), 504)

    async def cut_stream(self) -> str:
        """An event stream that is cut."""
        path = "/events?count=1000&every=40"
        request = self._request("GET", path, "Accept: text/event-stream", budget_ms=300)
        answer = await self._callers.call(request)
        if answer.status == 504:  # it was too busy for the head to come in time
            return ""
        return _expect(answer, 200, whole=False) or (
            "" if b"event: error" in answer.body else "no error event"
        )

    async def cut_write(self) -> str:
        """A POST that is cut; the late answer of every second one comes while the sidecar lingers."""
        late = 300 if self._next() % 2 else 0
        answer = await self._callers.call(self._post(f"/slow?ms={late}", budget_ms=60))
        if answer.status == 504 and json.loads(answer.body)["phase"] == "not_sent":
            return ""  # it was too busy to send it in time
        return _expect(answer, 424)

    async def leave(self) -> str:
        """A client that goes before it has its answer."""
        caller = await Caller.connect(self._ports.outbound)
        with contextlib.suppress(TimeoutError, Broken):
            async with asyncio.timeout(0.03):
                await caller.call(self._request("GET", "/slow?ms=2000"))
        caller.abort()
        return ""

    async def refused(self) -> str:
        """A call to a port where nobody listens."""
        return _expect(await self._callers.call(self._request("GET", "/", port=self._ports.dead)), 502)

    async def malformed(self) -> str:
        """What is no request."""
        caller = await Caller.connect(self._ports.outbound)
        try:
            return _expect(await caller.call(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n"), 400)
        finally:
            caller.abort()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _request(
        self,
        method: str,
        path: str,
        *fields: str,
        budget_ms: int | None = 30_000,
        port: int | None = None,
        body: str = "",
    ) -> bytes:
        place = f"{HOST}:{self._ports.upstream if port is None else port}"
        lines = [f"{method} http://{place}{path} HTTP/1.1", f"Host: {place}", *fields]
        if budget_ms is not None:
            lines.append(f"Budget-Remaining-Ms: {budget_ms}")
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", body]).encode()

    def _post(self, path: str, budget_ms: int = 30_000) -> bytes:
        body = f'{{"order":{self._next()},"note":"{"x" * 160}"}}'
        return self._request("POST", path, budget_ms=budget_ms, body=body)

    async def _close_budget(self, id: str) -> str:
        caller = await Caller.connect(self._ports.control)
        place = f"{HOST}:{self._ports.control}"
        head = f"POST /budgets/{id}/close HTTP/1.1\r\nHost: {place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        try:
            return _expect(await caller.call(head.encode()), 200)
        finally:
            caller.abort()


def _expect(answer: Answer, status: int, *, whole: bool = True) -> str:
    if answer.status != status:
        return f"status {answer.status} instead of {status}"
    if answer.whole != whole:
        return "the answer broke off" if whole else "the answer looks whole"
    return ""


SHARES: Final[dict[str, tuple[float, Kind]]] = {
    "GET": (46, Mix.read),
    "GET, connection not kept": (5, Mix.read_alone),
    "POST": (20, Mix.write),
    "GET, may be cached": (12, Mix.cached),
    "ladder": (4, Mix.laddered),
    "job by id": (1.5, Mix.job),
    "event stream": (0.7, Mix.stream),
    "subscription": (0.1, Mix.listen),
    "tunnel": (1.5, Mix.tunnel),
    "GET, cut": (3, Mix.cut_read),
    "event stream, cut": (0.6, Mix.cut_stream),
    "POST, cut": (0.6, Mix.cut_write),
    "client leaves": (2, Mix.leave),
    "connection refused": (2, Mix.refused),
    "malformed": (1, Mix.malformed),
}
"""The kinds by name: how many of a hundred, and what one does."""

FULL_LOAD: Final = ("GET", "GET", "GET", "POST")
"""What full load is made of: the kinds that do not wait."""
