"""Requests at a steady rate over kept connections, each timed from when it was due.

Whether those before are answered makes no difference to when the next one is due. One that finds no connection free
waits for one, and that counts as its time, as does what a late timer takes. The loop is asyncio's over select(), whose
timers are good to some ten microseconds; those of uvloop come in whole milliseconds, which is one request here.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
from collections import deque
from dataclasses import dataclass, field
from typing import Final

import httptools

from bench.procs import HOST

LINGER: Final = 2.0  # seconds after the last request was due, in which answers still count


@dataclass(frozen=True)
class Pace:
    """So many requests a second, for so long, over so many connections. What is due in the first `lead` seconds warms up
    and is not timed.
    """

    rate: int = 1_000
    seconds: float = 2.0
    connections: int = 16
    lead: float = 0.2


@dataclass
class Block:
    """`ms`: of each timed request, from when it was due to the last byte of its answer, or to the end of the block where
    none came. `failed`: other answers than 200, and broken connections; `unanswered`: without any answer to the end.
    """

    ms: list[float] = field(default_factory=list)
    failed: int = 0
    unanswered: int = 0


def steadily(port: int, request: bytes, pace: Pace) -> Block:
    """Asks `port` for one block. What it takes beyond that is bounded by LINGER."""
    gc.collect()
    gc.disable()  # a collection in the middle would be told as the proxy's slowness
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            return runner.run(_block(port, request, pace))
    finally:
        gc.enable()


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def _block(port: int, request: bytes, pace: Pace) -> Block:
    pacer = _Pacer(port, request, pace)
    try:
        await pacer.connect()
        await pacer.run()
    finally:
        pacer.close()
        await asyncio.sleep(0)  # the loop lets go of what was aborted
    return pacer.block


class _Line(asyncio.Protocol):
    """One connection, with one request under way at most; `due` is that request's, None while it is free."""

    def __init__(self, pacer: _Pacer) -> None:
        self._pacer = pacer
        self._parser = httptools.HttpResponseParser(self)
        self.due: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, due: float, request: bytes) -> None:
        self.due = due
        self._parser = httptools.HttpResponseParser(self)
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()

    def on_message_complete(self) -> None:
        self._pacer.answered(self, self._parser.get_status_code(), kept=self._parser.should_keep_alive())

    def connection_lost(self, exc: Exception | None) -> None:
        self._pacer.lost(self)


class _Pacer:
    """When what is due, and which connection it goes out on."""

    def __init__(self, port: int, request: bytes, pace: Pace) -> None:
        self.block = Block()
        self._loop = asyncio.get_running_loop()
        self._port, self._request, self._pace = port, request, pace
        self._free: deque[_Line] = deque()
        self._busy: set[_Line] = set()
        self._waiting: deque[float] = deque()
        self._dialling: set[asyncio.Task[None]] = set()
        self._most = round(pace.rate * (pace.lead + pace.seconds))
        self._began = 0.0
        self._sent = 0
        self._over = asyncio.Event()
        self._ending = False
        self._dials = pace.connections + self._most  # a new one for each request at most

    async def connect(self) -> None:
        await asyncio.gather(*(self._dial() for _ in range(self._pace.connections)))

    async def run(self) -> None:
        """Return when every request has its answer, or LINGER after the last one was due."""
        self._began = self._loop.time()
        self._timed_from = self._due(round(self._pace.rate * self._pace.lead))
        self._loop.call_at(self._due(0), self._tick)
        whole = self._pace.lead + self._pace.seconds
        try:
            async with asyncio.timeout(whole + LINGER):
                await self._over.wait()
        except TimeoutError:
            self._give_up()

    def close(self) -> None:
        self._ending = True
        for task in self._dialling:
            task.cancel()
        for line in (*self._free, *self._busy):
            line.transport.abort()

    def answered(self, line: _Line, status: int, *, kept: bool) -> None:
        self._note(line, ok=status == 200)
        if not kept:
            line.transport.abort()  # `lost` dials another
        elif self._waiting:
            self._send(line, self._waiting.popleft())
        else:
            self._free.append(line)
        self._look_whether_over()

    def lost(self, line: _Line) -> None:
        if self._ending:
            return
        self._dials -= 1
        if line.due is not None:
            self._note(line, ok=False)
        elif line in self._free:
            self._free.remove(line)
        if self._dials > 0:
            task = self._loop.create_task(self._dial())
            self._dialling.add(task)
            task.add_done_callback(self._dialling.discard)
        self._look_whether_over()

    async def _dial(self) -> None:
        """One that cannot be had is one fewer: what is due then waits for the others."""
        try:
            _, line = await self._loop.create_connection(lambda: _Line(self), HOST, self._port)
        except OSError:
            return
        if self._waiting:
            self._send(line, self._waiting.popleft())
        else:
            self._free.append(line)

    def _due(self, number: int) -> float:
        """Of each by its number: a sum of many spans would drift."""
        return self._began + (1 + number) / self._pace.rate

    def _tick(self) -> None:
        """All that is due by now goes out, or waits: a late timer makes no request late that it does not count."""
        now = self._loop.time()
        while self._sent < self._most and (due := self._due(self._sent)) <= now:
            self._sent += 1
            if self._free:
                self._send(self._free.popleft(), due)
            else:
                self._waiting.append(due)
        if self._sent < self._most:
            self._loop.call_at(self._due(self._sent), self._tick)

    def _send(self, line: _Line, due: float) -> None:
        self._busy.add(line)
        line.ask(due, self._request)

    def _note(self, line: _Line, *, ok: bool) -> None:
        self._busy.discard(line)
        due, line.due = line.due, None
        if due is None or due < self._timed_from:
            return
        self.block.ms.append((self._loop.time() - due) * 1000)
        self.block.failed += not ok

    def _look_whether_over(self) -> None:
        if self._sent == self._most and not (self._waiting or self._busy):
            self._over.set()

    def _give_up(self) -> None:
        now = self._loop.time()
        still = [line.due for line in self._busy if line.due is not None] + list(self._waiting)
        late = [due for due in still if due >= self._timed_from]
        self.block.unanswered = len(late)
        self.block.ms += [(now - due) * 1000 for due in late]
