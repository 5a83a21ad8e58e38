"""Callers with a stopwatch: as little as can be between the socket and the clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import httptools

from bench.procs import HOST, Failed

_GIVE_UP: Final = 10.0


@dataclass(frozen=True)
class Call:
    """From just before the request is written to the first byte of the answer."""

    status: int
    elapsed_ms: float


class _Caller(asyncio.Protocol):
    """One connection, used for call after call for as long as the proxy keeps it."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[Call] | None = None
        self._began = self._first_byte = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self.reusable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def call(self, request: bytes) -> Call:
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._first_byte = 0.0
        self._began = perf_counter()
        self._transport.write(request)
        try:
            async with asyncio.timeout(_GIVE_UP):
                return await self._answer
        except TimeoutError:
            raise Failed(f"no answer from the proxy within {_GIVE_UP:.0f} s") from None

    def data_received(self, data: bytes) -> None:
        self._first_byte = self._first_byte or perf_counter()
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.reusable = self._parser.should_keep_alive()
        if self._answer and not self._answer.done():
            elapsed = (self._first_byte - self._began) * 1000
            self._answer.set_result(Call(self._parser.get_status_code(), elapsed))

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        if self._answer and not self._answer.done():
            self._answer.set_exception(Failed(f"the proxy closed the connection without an answer: {exc}"))

    def close(self) -> None:
        self._transport.close()


async def _connect(port: int) -> _Caller:
    _, caller = await asyncio.get_running_loop().create_connection(_Caller, HOST, port)
    return caller


async def _call_in_a_row(port: int, request: bytes, times: int, wait: float = 0.0) -> list[Call]:
    caller = await _connect(port)
    await asyncio.sleep(wait)
    calls = []
    for _ in range(times):
        if not caller.reusable:
            caller.close()
            caller = await _connect(port)
        calls.append(await caller.call(request))
    caller.close()
    return calls


async def call_spread(port: int, request: bytes, callers: int, count: int, spread_ms: int) -> list[Call]:
    """Independent callers: each one's next call follows its last answer, and the first ones are spread out."""
    waits = (spread_ms / 1000 * number / callers for number in range(callers))
    rows = await asyncio.gather(*(_call_in_a_row(port, request, count // callers, wait) for wait in waits))
    return [call for row in rows for call in row]
