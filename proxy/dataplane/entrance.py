"""The door: what a new connection on the outbound port is, before a byte of it has been read."""

from __future__ import annotations

import asyncio
from typing import cast

from proxy.dataplane.client import Client
from proxy.dataplane.plane import Plane
from proxy.dataplane.redirected import Redirected
from proxy.net.original import original_destination


class Entrance(asyncio.Protocol):
    """Asks the kernel whether iptables sent the connection here, and hands it to the one who serves its kind."""

    def __init__(self, plane: Plane) -> None:
        """Wait for a transport."""
        self._plane = plane

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection on."""
        opened = cast(asyncio.Transport, transport)
        original = original_destination(opened.get_extra_info("socket"))
        protocol = Client(self._plane) if original is None else Redirected(self._plane, original)
        opened.set_protocol(protocol)
        protocol.connection_made(opened)
