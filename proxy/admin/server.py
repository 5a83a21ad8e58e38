"""Listening on an admin port, with a bound on what strangers can make it cost."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Final, Protocol, cast

from proxy.core.policy import Address
from proxy.net.families import hosts

_MOST_CONNECTIONS: Final = 128

_REMEDIES: Final = {
    errno.EADDRINUSE: "End what listens there, or set {key} to a free port",
    errno.EACCES: "Set {key} to a port above 1023",
    errno.EADDRNOTAVAIL: "Set {key} to an address that this machine has, such as 127.0.0.1 or 0.0.0.0",
}
_REMEDY: Final = "Set {key} to an address and port that can be listened on"


class ListenFailed(Exception):
    """A port that cannot be listened on: which key of the configuration names it, why not, and what helps."""

    def __init__(self, key: str, address: Address, error: OSError) -> None:
        """Say it in words."""
        self.key = key
        self.address = address
        self.problem = _reason(error)
        self.remedy = _REMEDIES.get(error.errno or 0, _REMEDY).format(key=key)
        super().__init__(f"{key}: cannot listen on {address}: {self.problem}. {self.remedy}.")


def _reason(error: OSError) -> str:
    """Return the system's own words, since asyncio wraps them in its own; a failed lookup has only those."""
    if error.errno is None or error.errno <= 0:
        return str(error).lower()
    return os.strerror(error.errno).lower()


def _hosts(address: Address) -> list[str]:
    """Return where to listen. What the kubelet and Prometheus ask for is asked for in the pod's family of addresses."""
    return hosts(address.host) if address.port and address.host == "0.0.0.0" else [address.host]  # noqa: S104


class Site(Protocol):
    """What is served on a port."""

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""

    async def close(self) -> None:
        """Let requests under way end, for a moment."""


class Listening:
    """A site that is being served."""

    def __init__(self, site: Site) -> None:
        """Made by `listen`."""
        self._site = site
        self._server: asyncio.Server | None = None
        self._open: list[asyncio.Transport] = []
        self.address = Address("", 0)

    async def start(self, address: Address) -> None:
        """Listen. `self.address` is then the address really listened on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Door(self), _hosts(address), address.port)
        self.address = Address(address.host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, let requests under way end, for a moment, and close the rest."""
        if self._server is not None:
            self._server.close()
        await self._site.close()
        for transport in self._open:
            transport.abort()

    def admit(self, transport: asyncio.Transport) -> asyncio.Protocol:
        """Take a new connection. Past the bound the oldest one goes, not the newest: a probe must always get in."""
        self._open = [each for each in self._open if not each.is_closing()]
        if len(self._open) >= _MOST_CONNECTIONS:
            self._open.pop(0).abort()
        self._open.append(transport)
        return self._site.accept()


class _Door(asyncio.Protocol):
    """Hands a new connection to the one who serves it."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast(asyncio.Transport, transport)
        protocol = self._listening.admit(opened)
        opened.set_protocol(protocol)
        protocol.connection_made(opened)


async def listen(site: Site, address: Address, key: str) -> Listening:
    """Serve a site. `key` is where the configuration names the address. Raises ListenFailed."""
    listening = Listening(site)
    try:
        await listening.start(address)
    except OSError as error:
        raise ListenFailed(key, address, error) from error
    return listening
