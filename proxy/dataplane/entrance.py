"""What a new connection is, and whether it may stay, before a byte of it has been read."""

from __future__ import annotations

import asyncio
from typing import cast

from proxy.dataplane.client import Client
from proxy.dataplane.door import Door
from proxy.dataplane.entry import Entry
from proxy.dataplane.plane import Plane
from proxy.dataplane.redirected import Redirected
from proxy.net.original import original_destination


class Entrance(asyncio.Protocol):
    """Asks whether the connection comes from this pod, and whether iptables sent it here; hands it to who serves its kind."""

    def __init__(self, plane: Plane, door: Door) -> None:
        """Wait for a transport."""
        self._plane = plane
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection on. Many may come in one turn of the loop, and what is due does not wait for all of them."""
        self._plane.alarms.look()
        opened = cast(asyncio.Transport, transport)
        if not self._door.opens_to_pod(opened):
            return
        original = original_destination(opened.get_extra_info("socket"))
        protocol = Client(self._plane) if original is None else Redirected(self._plane, original)
        opened.set_protocol(cast(asyncio.Protocol, protocol))
        protocol.connection_made(opened)


class InboundEntrance(asyncio.Protocol):
    """The same on the inbound port, in front of the agent's own: whoever comes in there has an entry request."""

    def __init__(self, plane: Plane, door: Door) -> None:
        """Wait for a transport."""
        self._plane = plane
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection on."""
        self._plane.alarms.look()
        opened = cast(asyncio.Transport, transport)
        if self._door.opens_to_anybody(opened):
            protocol = Client(self._plane, serves=Entry)
            opened.set_protocol(cast(asyncio.Protocol, protocol))
            protocol.connection_made(opened)
