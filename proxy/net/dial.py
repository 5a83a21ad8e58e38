"""Opening one connection: look the name up, make sure it leads neither back here nor where none may, connect, and speak TLS.

A dial that fails, or is cancelled, leaves nothing behind: no socket, and no protocol that has heard of one. The
caller's protocol is made at the very end, when the connection stands; until then a stand-in holds its place. A dial
has no time of its own: whoever waits for it cuts it at the allowance by cancelling.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from aiohappyeyeballs import AddrInfoType, start_connection

from proxy.core.egress import NOTHING_DENIED, Egress
from proxy.core.policy import Connections
from proxy.core.reasons import Reason
from proxy.core.target import Origin, is_inside
from proxy.core.upstream import Upstream
from proxy.net.errors import DialError, translated
from proxy.net.own import OwnPorts, unmapped
from proxy.net.parent import ConnectExchange, uses_parent
from proxy.net.resolver import Resolver
from proxy.net.tls import ClientContexts


class Endpoint(Protocol):
    """What the loop calls: an `asyncio.Protocol`, whatever it derives from."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""

    def eof_received(self) -> bool | None:
        """Take the end of the other side; True: this side stays open."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the connection is closed."""


P = TypeVar("P", bound=Endpoint)

_HAPPY_EYEBALLS_DELAY: Final = 0.25
"""Seconds before the next address is tried beside one that has not answered (RFC 8305 §5)."""
_HANDSHAKE_SECONDS: Final = 24 * 3600.0
"""The loop's own limit on a TLS handshake, far beyond any allowance."""
_SHUTDOWN_SECONDS: Final = 5.0
"""How long a closed TLS connection waits for the other side's close_notify."""

# A connection that dies in silence (a node that is gone) is found out within 2 minutes instead of 2 hours.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


class Dialled(NamedTuple, Generic[P]):
    """An open connection.

    `peer`: the IP address it leads to. `inside`: the origin is of our own side (private, loopback, link-local), by
    its address, or by its name where only the parent proxy knows the address. `via_parent`: the other end is a parent
    proxy that expects requests in absolute form, with `parent.authorization` on each.
    """

    transport: asyncio.Transport
    protocol: P
    peer: str
    inside: bool
    via_parent: bool
    denied: bool = False


class Barrier(NamedTuple):
    """Where no connection may lead. Not `enforced`: it is let pass, and `Dialled.denied` says so."""

    egress: Egress = NOTHING_DENIED
    enforced: bool = True

    def lets_pass(self, denied: str) -> bool:
        """Return whether something is against a connection all the same. Raises DialError where that is enforced.

        `denied`: what there is to say against it; empty for nothing.
        """
        if denied and self.enforced:
            raise DialError(Reason.EGRESS_DENIED, denied)
        return bool(denied)


class Dialer:
    """Opens connections, one a call. `connections` and `barrier` are asked each time, so that a reload takes hold."""

    def __init__(
        self,
        resolver: Resolver,
        connections: Callable[[], Connections],
        own: OwnPorts,
        barrier: Callable[[], Barrier] = Barrier,
    ) -> None:
        """Open nothing yet."""
        self._resolver = resolver
        self._connections = connections
        self._own = own
        self._barrier = barrier
        self._contexts = ClientContexts()

    async def dial(self, origin: Origin, factory: Callable[[], P], *, tunnel: bool = False) -> Dialled[P]:
        """Open a connection to `origin`; with `https`, TLS is spoken on it.

        `tunnel`: the bytes to come are the caller's own, so no TLS is added whatever the scheme, and a parent proxy
        is asked for a tunnel. With `origin.address` that address is connected to, by no parent proxy, and the name
        only stands in TLS.

        `factory` is called, and its protocol told of the transport, in the same turn of the loop in which the dial
        succeeds; what had arrived by then follows at once. Raises DialError, whatever went wrong.
        """
        try:
            connections, barrier = self._connections(), self._barrier()
            denied = barrier.lets_pass(barrier.egress.denies(origin))
            if origin.address is None and uses_parent(connections, origin.host, origin.port):
                assert connections.proxy is not None
                dialled = await self._by_parent(origin, connections.proxy, factory, tunnel)
            else:
                dialled = await self._direct(origin, factory, tunnel)
            return dialled._replace(denied=True) if denied else dialled
        except Exception as exc:
            error = translated(exc, str(origin))
            if error is exc:
                raise
            raise error from exc

    async def _direct(self, origin: Origin, factory: Callable[[], P], tunnel: bool) -> Dialled[P]:
        place = str(origin)
        # Before anything is opened: a CA file that cannot be read is no reason to knock at the tool's door.
        context = None if tunnel else await self._context(origin.scheme, origin.host, origin.ca, place)
        host, barrier = origin.address or origin.host, Barrier() if origin.inward else self._barrier()
        sock, peer, denied = await self._connect(host, origin.port, place, barrier)
        stand_in = _StandIn(plain=context is None)
        await _attach(sock, stand_in, context, origin.host, place)
        protocol = _hand_over(stand_in, factory, place)
        return Dialled(stand_in.transport, protocol, peer, is_inside(peer), via_parent=False, denied=denied)

    async def _by_parent(
        self, origin: Origin, parent: Upstream, factory: Callable[[], P], tunnel: bool
    ) -> Dialled[P]:
        host = parent.host
        place = f"the parent proxy {host}:{parent.port}"
        forwards = origin.scheme == "http" and not tunnel
        inner = None if tunnel else await self._context(origin.scheme, origin.host, origin.ca, str(origin))
        outer = await self._context(parent.scheme, host, None, place)
        exchange = None if forwards else ConnectExchange(parent, origin.host, origin.port)
        # The policy names the parent itself; what is behind it is looked up there, and denied there or by its name.
        sock, peer, _ = await self._connect(host, parent.port, place, Barrier())
        stand_in = _StandIn(plain=inner is None and outer is None)
        if exchange is None:
            await _attach(sock, stand_in, outer, host, place)
        else:
            await _attach(sock, exchange, outer, host, place)
            await _pass_through(exchange, stand_in, inner, origin)
        protocol = _hand_over(stand_in, factory, place)
        return Dialled(stand_in.transport, protocol, peer, is_inside(origin.host), forwards)

    async def _context(self, scheme: str, host: str, ca: str | None, place: str) -> ssl.SSLContext | None:
        """Return the context for TLS with `host`, None for http. Raises DialError, also for a host TLS cannot ask for."""
        if scheme != "https":
            return None
        context = await self._contexts.get(ca)
        try:
            # Found out before the loop does: uvloop takes a handshake that cannot even begin for an open connection,
            # and closes its descriptor twice.
            context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=host)
        except ValueError as exc:
            raise translated(exc, place, tls=True) from exc
        return context

    async def _connect(
        self, host: str, port: int, place: str, barrier: Barrier
    ) -> tuple[socket.socket, str, bool]:
        """Return a connected, non-blocking socket, the IP address it leads to, and whether that is one to be denied.

        A name is refused for any one of its addresses: which of them would win is chance, and a name that leads to such a
        place at all was made to. Raises DialError or OSError.
        """
        addresses = await self._resolver.lookup(host, port)
        for info in addresses:
            if self._own.leads_back(info[4][0], port):
                raise DialError(
                    Reason.LOOP,
                    f"{place} leads back to the sidecar itself ({info[4][0]}, port {port}); "
                    "name the tool's own address and port.",
                )
        denied = barrier.lets_pass(_denied(barrier.egress, host, addresses))
        try:
            sock = await start_connection(
                addresses, happy_eyeballs_delay=_HAPPY_EYEBALLS_DELAY, interleave=1, socket_factory=_socket
            )
        except (OSError, RuntimeError) as exc:
            raise translated(exc, place) from exc
        try:
            name = sock.getpeername()
            if name == sock.getsockname():
                # Nobody listens, and the kernel happened to choose that very port for our end (RFC 9293 §3.5).
                raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        except OSError:
            sock.close()
            raise
        return sock, unmapped(name[0]), denied


def _denied(egress: Egress, host: str, addresses: list[AddrInfoType]) -> str:
    """Return the sentence that says why none of a host's addresses is connected to; empty if one may be."""
    for info in addresses:
        address = info[4][0]
        if said := egress.denies_address(address):
            return said if host == address else f"{host} is {address}. {said}"
    return ""


class _StandIn(asyncio.Protocol):
    """Holds the place of the caller's protocol, and what arrives before there is one."""

    transport: asyncio.Transport

    def __init__(self, *, plain: bool) -> None:
        """Wait for a transport. `plain`: bytes go over TCP as they are."""
        self.early = bytearray()
        self.ended = False
        self._plain = plain

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep a piece, and let the rest wait in the kernel."""
        self.early += data
        self.transport.pause_reading()

    def eof_received(self) -> bool:
        """Take the other side's end. Our half stays open, which TLS cannot do, until the caller has decided."""
        self.ended = True
        return self._plain


def _socket(info: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = info
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    except OSError:
        sock.close()
        raise
    return sock


def _tls(name: str) -> dict[str, Any]:
    return {
        "server_hostname": name,
        "ssl_handshake_timeout": _HANDSHAKE_SECONDS,
        "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
    }


async def _attach(
    sock: socket.socket,
    protocol: _StandIn | ConnectExchange,
    context: ssl.SSLContext | None,
    name: str,
    place: str,
) -> None:
    """Give a connected socket a transport and a protocol, after the TLS handshake with `name` if there is a context.

    The socket is closed when that fails or is cancelled. Raises DialError, or OSError.
    """
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {} if context is None else {"ssl": context, **_tls(name)}
    try:
        await loop.create_connection(lambda: protocol, sock=sock, **options)
    except BaseException as exc:
        # The loop has owned the descriptor from that call on, and closes it. A connection that already stands is
        # aborted here, since the loop would take its leave of it, which can take seconds.
        if (transport := getattr(protocol, "transport", None)) is not None:
            transport.abort()
        if context is not None and isinstance(exc, (OSError, ValueError)):
            raise translated(exc, place, tls=True) from exc
        raise


async def _pass_through(
    exchange: ConnectExchange, stand_in: _StandIn, context: ssl.SSLContext | None, origin: Origin
) -> None:
    """Wait for the parent's tunnel and put the stand-in at its end, with TLS to the origin if there is a context.

    The connection is dropped when that fails or is cancelled. Raises DialError.
    """
    transport = exchange.transport
    try:
        rest = await exchange.answered()
        if transport.is_closing():
            raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        if context is None:
            stand_in.transport = transport
            stand_in.early += rest
            transport.set_protocol(stand_in)
        else:
            loop = asyncio.get_running_loop()
            secured = await loop.start_tls(transport, stand_in, context, **_tls(origin.host))
            assert secured is not None
            stand_in.transport = secured
    except BaseException as exc:
        transport.abort()
        if isinstance(exc, (OSError, ValueError)):
            raise translated(exc, str(origin), tls=True) from exc
        raise


def _hand_over(stand_in: _StandIn, factory: Callable[[], P], place: str) -> P:
    """Put the caller's own protocol in the stand-in's place, and tell it what it has missed."""
    transport = stand_in.transport
    if transport.is_closing():
        raise translated(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)), place)
    try:
        protocol = factory()
    except BaseException:
        transport.abort()
        raise
    transport.set_protocol(cast(asyncio.Protocol, protocol))
    # Nothing is read before this turn of the loop is over, so the protocol may still pause it.
    transport.resume_reading()
    protocol.connection_made(transport)
    if stand_in.early:
        protocol.data_received(bytes(stand_in.early))
    if stand_in.ended and not protocol.eof_received():
        transport.close()
    return protocol
