"""The upstream of the streams: a server that sends each of its event streams an event every so many milliseconds.

Any request gets an answer of `text/event-stream`, chunked, whose first event comes with the head. An event says its number
and when it was written, by the clock that all processes of a machine share (CLOCK_MONOTONIC, nanoseconds):

    id: 7
    data: {"n":7,"at":123456789012345,"of":"weather"}

The streams share the time between two events evenly, in slots of 5 ms, so that neither the proxy nor the reader is given
all events at one moment. `GET /readyz` tells that it listens. Run with the port and the milliseconds between two events.
"""

from __future__ import annotations

import asyncio
import sys
from time import monotonic_ns
from typing import Final, cast

import uvloop

SLOT_MS: Final = 5
HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_READY: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def event(number: int, at: int) -> bytes:
    """One event, as a chunk. `at`: nanoseconds."""
    text = b'id: %d\ndata: {"n":%d,"at":%d,"of":"weather"}\n\n' % (number, number, at)
    return b"%x\r\n%b\r\n" % (len(text), text)


class Wheel:
    """Who is sent an event in which slot. A new stream goes to the slot that has the fewest."""

    def __init__(self, slots: int) -> None:
        self.slots: list[set[Stream]] = [set() for _ in range(slots)]

    def add(self, stream: Stream) -> int:
        number = min(range(len(self.slots)), key=lambda slot: len(self.slots[slot]))
        self.slots[number].add(stream)
        return number

    async def turn(self) -> None:
        """Send for ever. A turn that comes late is made up for: the rate is kept."""
        loop = asyncio.get_running_loop()
        begun, turns = loop.time(), 0
        while True:
            turns += 1
            await asyncio.sleep(max(0.0, begun + turns * SLOT_MS / 1000 - loop.time()))
            for stream in list(self.slots[turns % len(self.slots)]):
                stream.send()


class Stream(asyncio.Protocol):
    """One connection, with one stream on it."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._slot: int | None = None
        self._asked = b""
        self._sent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._slot is not None:
            return
        self._asked += data
        if not self._asked.endswith(b"\r\n\r\n"):
            return
        if self._asked.startswith(b"GET /readyz "):
            self._transport.write(_READY)
            self._transport.close()
            return
        self._asked = b""
        self._slot = self._wheel.add(self)
        self._transport.write(HEAD + self._next())

    def send(self) -> None:
        self._transport.write(self._next())

    def _next(self) -> bytes:
        self._sent += 1
        return event(self._sent, monotonic_ns())

    def connection_lost(self, exc: Exception | None) -> None:
        if self._slot is not None:
            self._wheel.slots[self._slot].discard(self)


async def _serve(port: int, every_ms: int) -> None:
    wheel = Wheel(max(1, every_ms // SLOT_MS))
    server = await asyncio.get_running_loop().create_server(
        lambda: Stream(wheel), "127.0.0.1", port, backlog=4096
    )
    async with server, asyncio.TaskGroup() as tasks:
        tasks.create_task(wheel.turn())
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
