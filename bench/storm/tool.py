"""The tool that the storm falls on: so many workers, one queue in front of them, and a count of what they did.

`GET /work/UNIT?ms=400` is one piece of work. It waits for a worker, first come, first served, and keeps that worker for
as long as it says. The worker sleeps: the tool is slow for want of workers, never for want of a processor. As in a
server with a pool of threads, nobody looks whether a caller is still there before the answer is ready; with `notices`,
whoever has left is passed over when a worker comes free.

`GET /counts` tells what was done, `GET /readyz` that it listens. Run with the port, the number of workers, and perhaps
the word `notices`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Protocol, cast
from urllib.parse import parse_qs, urlsplit

import httptools
import uvloop


class Caller(Protocol):
    gone: bool

    def answer(self) -> None: ...


@dataclass
class Counts:
    """`arrivals`: calls that came; `units`: different pieces of work among them. Of the work that was done, in
    milliseconds of a worker, `for_nobody_ms` is what had lost its caller when it was done.
    """

    arrivals: int = 0
    units: int = 0
    worked_ms: int = 0
    for_nobody_ms: int = 0
    passed_over: int = 0
    longest_queue: int = 0


@dataclass
class Work:
    unit: str
    ms: int
    caller: Caller


@dataclass
class Workers:
    """`later` calls something after so many seconds."""

    free: int
    later: Callable[[float, Callable[[], None]], object]
    notices: bool = False
    counts: Counts = field(default_factory=Counts)
    queue: deque[Work] = field(default_factory=deque)
    seen: set[str] = field(default_factory=set)

    def take(self, work: Work) -> None:
        self.seen.add(work.unit)
        self.counts.arrivals += 1
        self.counts.units = len(self.seen)
        self.queue.append(work)
        self._start()
        self.counts.longest_queue = max(self.counts.longest_queue, len(self.queue))

    def _start(self) -> None:
        while self.free and self.queue:
            work = self.queue.popleft()
            if self.notices and work.caller.gone:
                self.counts.passed_over += 1
                continue
            self.free -= 1
            self.later(work.ms / 1000, partial(self._finish, work))

    def _finish(self, work: Work) -> None:
        self.free += 1
        self.counts.worked_ms += work.ms
        if work.caller.gone:
            self.counts.for_nobody_ms += work.ms
        else:
            work.caller.answer()
        self._start()


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time on it."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_message_complete(self) -> None:
        url, self._url = urlsplit(self._url.decode()), b""
        if url.path.startswith("/work/"):
            ms = int(parse_qs(url.query)["ms"][0])
            self._workers.take(Work(url.path.removeprefix("/work/"), ms, self))
        else:
            self.answer(json.dumps(asdict(self._workers.counts)).encode())

    def answer(self, body: bytes = b"done") -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True


async def _serve(port: int, workers: int, *, notices: bool) -> None:
    loop = asyncio.get_running_loop()
    shared = Workers(workers, loop.call_later, notices)
    server = await loop.create_server(lambda: _Connection(shared), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2]), notices="notices" in sys.argv[3:]))
