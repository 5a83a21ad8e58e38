"""From a host to the addresses to try, without a thread pool: c-ares asks the name servers, many names at a time.

A lookup that never answers holds a place among the pending ones, and nothing else: no thread, no other lookup. Names
resolve as everywhere else in the pod: /etc/hosts first, then the servers, search list and `ndots` of resolv.conf.
c-ares keeps an answer for its TTL, an hour at most, and orders addresses by RFC 6724.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import aiodns
import pycares
from aiohappyeyeballs import AddrInfoType

from proxy.core.reasons import Reason
from proxy.net.errors import DialError, translated

_Address: TypeAlias = tuple[socket.AddressFamily, str]

MAX_ADDRESSES: Final = 32
"""How many addresses of one name are tried at most."""
MAX_PENDING: Final = 2048
"""How many different names may be asked for at a time. One that nobody waits for any more still counts until c-ares
gives it up, after some 12 seconds with the default `timeout` and `attempts` of resolv.conf."""

MOST_REMEMBERED: Final = 4096
"""How many lookups one channel makes. c-ares keeps every answer until its TTL is over, and has no bound for that, so the
channel is exchanged for one that knows nothing yet."""

_NAME: Final = re.compile(r"[!-~]{1,253}")
_LOOPBACK: Final[tuple[_Address, ...]] = ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))


class Resolver:
    """Looks names up on one event loop. The channel to the name servers is opened by the first lookup.

    `nameservers`: addresses (`10.0.0.10`, `10.0.0.10:5353`) instead of those of resolv.conf.
    """

    def __init__(self, nameservers: Sequence[str] = (), *, max_pending: int = MAX_PENDING) -> None:
        """Open nothing yet."""
        self._nameservers = nameservers
        self._max_pending = max_pending
        self._channel: aiodns.DNSResolver | None = None
        self._asked = 0  # of that channel
        self._former: weakref.WeakSet[aiodns.DNSResolver] = weakref.WeakSet()  # kept by their last questions
        self._pending: dict[str, asyncio.Future[pycares.AddrInfoResult]] = {}
        self._closed = False

    async def lookup(self, host: str, port: int) -> list[AddrInfoType]:
        """Return where `host` may be reached, in the order to try, as `aiohappyeyeballs` takes it. Never empty.

        IP literals and `localhost` need no lookup. Raises DialError. Being cancelled harms nobody who waits for the
        same name.
        """
        addresses = _literal(host)
        if addresses is None:
            addresses = await self._ask(host)
        return [_addr_info(family, address, port) for family, address in addresses]

    async def close(self) -> None:
        """Give up what is pending, and let go of the channel. Lookups fail from now on."""
        self._closed = True
        self._exchange()
        for channel in list(self._former):
            await channel.close()

    async def _ask(self, host: str) -> tuple[_Address, ...]:
        query = self._pending.get(host)
        if query is None:
            query = self._begin(host)
        try:
            result = await asyncio.shield(query)
        except aiodns.error.DNSError as exc:
            raise translated(exc, host) from exc
        addresses = tuple((socket.AddressFamily(node.family), _text(node.addr[0])) for node in result.nodes)
        if not addresses:
            raise translated(aiodns.error.DNSError(aiodns.error.ARES_ENODATA), host)
        return addresses[:MAX_ADDRESSES]

    def _begin(self, host: str) -> asyncio.Future[pycares.AddrInfoResult]:
        """Ask, and let everybody who wants this name wait for the same answer."""
        if self._closed:
            raise translated(aiodns.error.DNSError(aiodns.error.ARES_EDESTRUCTION), host)
        if not _NAME.fullmatch(host):
            raise translated(aiodns.error.DNSError(aiodns.error.ARES_EBADNAME), repr(host))
        if len(self._pending) >= self._max_pending:
            raise DialError(
                Reason.DNS_ERROR,
                f"{host} is not looked up, since {len(self._pending)} names wait for the name server already; "
                "check the cluster's DNS.",
            )
        if self._asked >= MOST_REMEMBERED:
            self._exchange()
        channel = self._channel
        if channel is None:
            channel = self._channel = self._open()
        self._asked += 1
        query = channel.getaddrinfo(host, type=socket.SOCK_STREAM)
        self._pending[host] = query
        query.add_done_callback(lambda done: self._end(host, done, channel))
        return query

    def _exchange(self) -> None:
        """Ask no more by the present channel. It is closed when the last of its questions has been answered."""
        if self._channel is not None:
            self._former.add(self._channel)
        self._channel, self._asked = None, 0

    def _end(
        self, host: str, query: asyncio.Future[pycares.AddrInfoResult], channel: aiodns.DNSResolver
    ) -> None:
        del self._pending[host]
        if not query.cancelled():
            query.exception()  # when all have left, nobody else looks at it

    def _open(self) -> aiodns.DNSResolver:
        return aiodns.DNSResolver(nameservers=self._nameservers or None, loop=asyncio.get_running_loop())


@lru_cache(maxsize=1024)
def _literal(host: str) -> tuple[_Address, ...] | None:
    """Return the addresses of a host that needs no lookup, or None. RFC 6761 §6.3: localhost is never asked for."""
    if host == "localhost" or host.endswith(".localhost"):
        return _LOOPBACK
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return ((socket.AF_INET, host),)
    if address.ipv4_mapped is not None:
        return ((socket.AF_INET, str(address.ipv4_mapped)),)
    return ((socket.AF_INET6, host),)


def _addr_info(family: socket.AddressFamily, address: str, port: int) -> AddrInfoType:
    # No flow label and no scope: the loops read host and port only, and take a zone (`fe80::1%2`) from the host.
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def _text(address: str | bytes) -> str:
    return address.decode("ascii") if isinstance(address, bytes) else address
