"""Callers of a soak: connections that are kept and used by one call at a time, and no more between socket and answer than it takes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import Final, cast

import httptools

from bench.procs import HOST

PATIENCE: Final = 20.0
"""Seconds after which a call without an answer counts as a broken one: longer than any of the soak takes."""


class Broken(Exception):
    """A call that got no answer: no connection, or one that closed before the head."""


@dataclass(frozen=True)
class Answer:
    """`whole`: the body came to its end as its framing says. `ms`: from just before the request to the last byte."""

    status: int
    body: bytes
    whole: bool
    ms: float


class Caller(asyncio.Protocol):
    """One connection to the sidecar."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[Answer] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._began = 0.0
        self._body: list[bytes] = []
        self._head = False
        self.reusable = True

    @classmethod
    async def connect(cls, port: int) -> Caller:
        """Open a connection. Raises Broken."""
        try:
            _, caller = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        except OSError as fault:
            raise Broken(f"no connection: {fault}") from None
        return caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def call(self, request: bytes) -> Answer:
        """Send a request, and return its answer. Raises Broken."""
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._body, self._head = [], False
        self._began = perf_counter()
        self._transport.write(request)
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._answer
        except TimeoutError:
            self.abort()
            raise Broken(f"no answer within {PATIENCE:.0f} s") from None

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as fault:
            self._fail(f"the answer is none: {fault}")

    def on_headers_complete(self) -> None:
        self._head = True

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        self.reusable = self._parser.should_keep_alive()
        self._settle(whole=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        if self._head:
            self._settle(whole=False)
        else:
            self._fail("closed without an answer")

    def abort(self) -> None:
        """Drop the connection."""
        self.reusable = False
        self._transport.abort()

    def _settle(self, *, whole: bool) -> None:
        if self._answer is not None and not self._answer.done():
            ms = (perf_counter() - self._began) * 1000
            self._answer.set_result(Answer(self._parser.get_status_code(), b"".join(self._body), whole, ms))

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken(why))


class Callers:
    """Connections that are kept between calls, the one used last first, so that those that are not needed fall idle."""

    def __init__(self, port: int, most_idle: int = 256) -> None:
        self._port = port
        self._idle: list[Caller] = []
        self._most_idle = most_idle

    async def call(self, request: bytes) -> Answer:
        """Send a request on a kept connection, or on a new one. Raises Broken."""
        caller = self._kept() or await Caller.connect(self._port)
        answer = await caller.call(request)
        if caller.reusable and answer.whole and len(self._idle) < self._most_idle:
            self._idle.append(caller)
        else:
            caller.abort()
        return answer

    def _kept(self) -> Caller | None:
        while self._idle:
            caller = self._idle.pop()
            if caller.reusable:
                return caller
        return None

    def close(self) -> None:
        """Drop the connections that are idle."""
        while self._idle:
            self._idle.pop().abort()
