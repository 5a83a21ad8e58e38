"""Tunnels, as a caller that speaks raw bytes has them, and what may stand at their other end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tests.support.callers import Address, Answer, Caller, Headers, render
from tests.support.upstream import Wire
from tests.support.waiting import PATIENCE, now_ms


class Tunnel(Caller):
    """A connection on which a CONNECT was sent. `opened` is what came of it; after a 200 the bytes are the test's own."""

    def __init__(
        self,
        to: Address | tuple[str, int],
        authority: str,
        headers: Headers | None = None,
        *,
        first: bytes = b"",
        timeout: float = PATIENCE,
    ) -> None:
        """`first`: bytes that are sent together with the request."""
        super().__init__(to, timeout=timeout)
        stated: dict[str, Any] = {"Host": authority, **(headers or {})}
        self.asked = now_ms()
        self.send(render("CONNECT", authority, stated) + first)
        self.opened = self._read_opening()

    def __enter__(self) -> Tunnel:
        return self

    @property
    def status(self) -> int:
        """What the sidecar said."""
        return self.opened.status

    def rest(self) -> bytes:
        """Everything until the other side ends, however much it is."""
        data = bytearray()
        while more := self.receive(1_000_000):
            data += more
        return bytes(data)

    def until_ended(self) -> tuple[bytes, float]:
        """What comes until the other side ends, and how long after the CONNECT that was (milliseconds)."""
        data = self.rest()
        return data, now_ms() - self.asked

    def _read_opening(self) -> Answer:
        head = self.until(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 2"):
            self._rest = head + self._rest
            return self.answer("CONNECT")
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        fields = [(name.lower(), value) for name, value in pairs]
        return Answer(int(first.split()[1]), fields, b"", "message", [], self._since(), self._since())


async def echo(wire: Wire) -> None:
    """Send back what comes, until the peer ends its side."""
    while data := await wire.receive():
        await wire.send(data)


async def silence(wire: Wire) -> None:
    """Take what comes and say nothing, until the peer ends its side."""
    await wire.until_left()


async def chatter(wire: Wire) -> None:
    """Say something every 20 ms, until the peer ends its side."""
    while True:
        await wire.send(b"still here\n")
        await wire.sleep(0.02)


async def monologue(wire: Wire) -> None:
    """Say something every 10 ms, whether or not the peer has anything more to say."""
    while True:
        await wire.send(b"still here\n")
        await asyncio.sleep(0.01)


async def flood(wire: Wire) -> None:
    """Send as fast as it is taken."""
    while True:
        await wire.send(b"x" * 65_536)


async def report(wire: Wire) -> None:
    """Take everything until the peer ends its side, then say how much it was."""
    size = 0
    while data := await wire.receive():
        size += len(data)
    await wire.send(b"%d" % size)


async def farewell(wire: Wire) -> None:
    """Speak first, and leave."""
    await wire.send(b"it is noon\r\n")


async def reset_when_spoken_to(wire: Wire) -> None:
    """Break off the connection at the first word."""
    await wire.receive()
    wire.reset()


async def stop_talking_first(wire: Wire) -> None:
    """End this side after the first word, and go on reading until the peer has ended too."""
    await wire.receive()
    wire.half_close()
    with contextlib.suppress(asyncio.CancelledError):
        while await wire.receive():
            pass
