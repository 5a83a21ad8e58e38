"""A server that is loaded when somebody first connects, for a port that in most pods nobody ever calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from proxy.admin.aside import aside
from proxy.admin.problems import log

_HELD: Final = 64 * 1024


class Runner(Protocol):
    """A server that runs: `aiohttp.web.AppRunner`, as far as it matters here."""

    @property
    def server(self) -> Callable[[], asyncio.Protocol] | None:
        """What makes the protocol of a connection."""

    async def cleanup(self) -> None:
        """End all that was begun."""


Start = Callable[[], Awaitable[Runner]]


class DeferredSite:
    """Serves what `load` returns the start of. Connections that come before it runs wait for it."""

    def __init__(self, load: Callable[[], Start]) -> None:
        """`load` is called once, on a thread, and its result on the loop."""
        self._load = load
        self._waiting: list[_Arrival] = []
        self._starting: asyncio.Task[None] | None = None
        self._runner: Runner | None = None

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        if self._runner is not None and self._runner.server is not None:
            return self._runner.server()
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        arrival = _Arrival()
        self._waiting.append(arrival)
        return arrival

    async def close(self) -> None:
        """Let requests under way end, for a moment."""
        if self._starting is not None:
            self._starting.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _start(self) -> None:
        try:
            start = await aside(self._load)
            self._runner = await start()
            assert self._runner.server is not None
        except Exception:  # noqa: BLE001 - reported; the next connection tries again
            log.exception("this port cannot be served")
            self._starting = None
            for arrival in self._waiting:
                arrival.refuse()
        else:
            for arrival in self._waiting:
                arrival.hand_over(self._runner.server())
        self._waiting = []


class _Arrival(asyncio.Protocol):
    """A connection before there is a server: what it says is kept for later, up to a bound."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._said += data
        if len(self._said) > _HELD and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Let the server take the connection, as if it had just come."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._said:
            protocol.data_received(self._said)
        if not transport.is_reading() and not transport.is_closing():
            transport.resume_reading()

    def refuse(self) -> None:
        """Close it: there is no server."""
        if self._transport is not None:
            self._transport.abort()
