"""The reader of the streams: opens them all, takes the time of each event, and says which of them broke.

It is given its orders as one line of JSON (`Orders`) and tells of itself line by line:

    {"open": 1000}        every stream has had its first event (or it was given up on those that have not): the watch begins
    {"measured": ...}     `Seen`, after so many seconds; the streams are still open
    {"closed": ...}       after a line on its standard input: all are closed

Events are found in the bytes as they come: what frames them (chunks) is passed over, since only whole events are counted
and each has its number. An event that is lost, or comes twice, makes a stream a broken one.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from array import array
from dataclasses import asdict, dataclass, field
from time import monotonic_ns
from typing import Final, cast

import uvloop

AT_ONCE: Final = 200  # streams that are being opened at one time
_EVENT: Final = re.compile(rb'data: \{"n":(\d+),"at":(\d+),')
_LONGEST: Final = 256  # of an event and what frames it


@dataclass(frozen=True)
class Orders:
    """`patience`: seconds for the first event of a stream. `fields`: of the request, each a line."""

    port: int
    target: str
    authority: str
    fields: list[str]
    count: int
    seconds: float
    patience: float = 15.0

    @property
    def request(self) -> bytes:
        lines = [f"GET {self.target} HTTP/1.1", f"Host: {self.authority}", *self.fields, "", ""]
        return "\r\n".join(lines).encode()


@dataclass
class Seen:
    """Milliseconds, but for the seconds of the watch. `broke`: why, and how many streams."""

    count: int
    seconds: float = 0.0
    firsts: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    broke: dict[str, int] = field(default_factory=dict)

    def broken(self, why: str) -> None:
        self.broke[why] = self.broke.get(why, 0) + 1


class Watch:
    """What all streams share. Delays are kept while the watch is on only."""

    def __init__(self) -> None:
        self.on = False
        self.delays = array("q")
        self.ending = False


class Reading(asyncio.Protocol):
    """One stream."""

    def __init__(self, request: bytes, watch: Watch, first: asyncio.Future[float]) -> None:
        self._request = request
        self._watch = watch
        self._first = first
        self._asked = 0
        self._rest = b""
        self._number = 0
        self._answered = False
        self.broke: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._asked = monotonic_ns()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = monotonic_ns()
        data = self._rest + data
        if not self._answered:
            line, ended, _ = data.partition(b"\r\n")
            if not ended:
                self._rest = data
                return
            self._answered = True
            if not line.startswith(b"HTTP/1.1 200"):
                self._break("answered " + line[:60].decode("latin-1"))
        end = 0
        for found in _EVENT.finditer(data):
            end = found.end()
            self._number += 1
            if int(found[1]) != self._number:
                self._break("an event was lost or came twice")
            elif self._number == 1 and not self._first.done():
                self._first.set_result((now - self._asked) / 1e6)
            if self._watch.on:
                self._watch.delays.append(now - int(found[2]))
        self._rest = data[max(end, len(data) - _LONGEST) :]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._watch.ending:
            self._break("closed" if exc is None else f"lost: {type(exc).__name__}")

    def _break(self, why: str) -> None:
        self.broke = self.broke or why
        if not self._first.done():
            self._first.set_exception(ConnectionError(why))

    def close(self) -> None:
        self._transport.abort()


async def open_stream(orders: Orders, watch: Watch, seen: Seen, turn: asyncio.Semaphore) -> Reading | None:
    loop = asyncio.get_running_loop()
    first: asyncio.Future[float] = loop.create_future()
    async with turn:
        try:
            async with asyncio.timeout(orders.patience):
                _, reading = await loop.create_connection(
                    lambda: Reading(orders.request, watch, first), "127.0.0.1", orders.port
                )
                seen.firsts.append(await first)
        except TimeoutError:
            seen.broken(f"no event within {orders.patience:.0f} s")
        except OSError as fault:
            seen.broken(str(fault))
        else:
            return reading
    return None


def _tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def _read(orders: Orders) -> None:
    watch, seen = Watch(), Seen(orders.count)
    turn = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(open_stream(orders, watch, seen, turn)) for _ in range(orders.count)]
    readings = [reading for task in tasks if (reading := task.result()) is not None]
    _tell(open=len(readings))
    began, watch.on = monotonic_ns(), True
    await asyncio.sleep(orders.seconds if readings else 0)
    watch.on = False
    seen.seconds = (monotonic_ns() - began) / 1e9
    seen.delays = [delay / 1e6 for delay in watch.delays]
    for reading in readings:
        if reading.broke is not None:
            seen.broken(reading.broke)
    _tell(measured=asdict(seen))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    watch.ending = True
    for reading in readings:
        reading.close()
    await asyncio.sleep(0.1)
    _tell(closed=len(readings))


if __name__ == "__main__":
    uvloop.run(_read(Orders(**json.loads(sys.stdin.readline()))))
