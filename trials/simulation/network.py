"""Who listens where, how connections come to be, and what the kernel of the pod knows of them.

Hosts have names, addresses and moods: a name may not be known, a lookup may hang, an address may refuse, or never answer.
The pod's own ports belong to whichever process of the sidecar is alive.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiohappyeyeballs import AddrInfoType

from proxy.core.reasons import Reason
from proxy.core.units import MILLISECOND, SECOND
from proxy.net.errors import DialError
from proxy.net.peer import PeerSockets
from proxy.net.resolver import _addr_info, _literal
from trials.simulation.clock import Clock
from trials.simulation.draws import Draws
from trials.simulation.loop import Loop
from trials.simulation.pipes import DISTANCES, Connection, End
from trials.simulation.trace import Trace
from trials.simulation.transport import Socket, Transport

POD: Final = "127.0.0.1"
_FIRST_DESCRIPTOR: Final = 1 << 22  # no number that this process could have open
_SYN_TIME: Final = 127 * SECOND
LOOKUP_TIME: Final = 12 * SECOND
"""How long a lookup that nobody answers lasts, as with c-ares."""


class Host(Protocol):
    """Something outside of the sidecar that can be connected to."""

    name: str
    address: str
    distance: str

    def answers(self) -> str:
        """Return what becomes of a connection that is opened now: `open`, `refuse`, `hang`."""

    def accept(self, end: End) -> None:
        """Take the other end of a connection."""


class Listening:
    """A port that a process has opened, as `loop.create_server` returns it."""

    def __init__(
        self, network: Network, loop: Loop, factory: Callable[[], Any], port: int, number: int
    ) -> None:
        """Begin to listen."""
        self._network = network
        self.loop = loop
        self.factory = factory
        self.port = port
        sock = Socket(number)
        sock.local = (POD, port)
        self.sockets = (sock,)

    def close(self) -> None:
        """Take no more connections."""
        self._network.close_port(self)

    async def wait_closed(self) -> None:
        """Return at once."""


class Network:
    """All connections of one run."""

    def __init__(self, clock: Clock, draws: Draws, trace: Trace) -> None:
        """Begin with nobody there."""
        self.clock = clock
        self.draws = draws
        self.trace = trace
        self.signals: dict[int, Callable[[], object]] = {}
        self.hosts: dict[str, Host] = {}
        self.lookups_hang = False
        self.wire: Callable[[End, bytes], None] | None = None
        self._ports: dict[int, Listening] = {}
        self._numbers = itertools.count(_FIRST_DESCRIPTOR)
        self._sources = itertools.count(20_000)
        self.sockets: dict[int, Socket] = {}  # open ones, by their numbers
        self.by_source: dict[
            int, tuple[End, End]
        ] = {}  # the pod's own connections: the client's end, the sidecar's

    def add(self, host: Host) -> None:
        """Let a host be there, under its name and its address."""
        self.hosts[host.name] = self.hosts[host.address] = host

    # -- the sidecar's side ------------------------------------------------------------------------------------------

    def socket(self, info: object = None) -> Socket:
        """Return a new socket."""
        sock = Socket(next(self._numbers))
        self.sockets[sock.number] = sock
        sock.on_close = lambda: self.sockets.pop(sock.number, None)
        return sock

    def listen(self, loop: Loop, factory: Callable[[], Any], port: int) -> Listening:
        """Open a port for a process."""
        listening = Listening(self, loop, factory, port, next(self._numbers))
        self._ports[port] = listening
        return listening

    def close_port(self, listening: Listening) -> None:
        """Close a port."""
        if self._ports.get(listening.port) is listening:
            del self._ports[listening.port]

    async def connect(self, loop: Loop, sock: Socket, address: tuple[str, int]) -> None:
        """Connect a socket to a host. Raises OSError."""
        host = self.hosts.get(address[0])
        if host is None:
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        least, most = DISTANCES[host.distance]
        place: asyncio.Future[None] = loop.create_future()
        answers = host.answers()
        wait = _SYN_TIME if answers == "hang" else 2 * self.draws.span(least, most)
        self.clock.after(wait, self._connected, loop, sock, address, host, answers, place)
        await place

    def _connected(
        self,
        loop: Loop,
        sock: Socket,
        address: tuple[str, int],
        host: Host,
        answers: str,
        place: asyncio.Future[None],
    ) -> None:
        if place.done() or not loop.alive or sock.closed:
            return
        if answers == "open":
            source = next(self._sources)
            conn = Connection(self.clock, self.draws, self.trace, f"{source} to {host.name}", host.distance)
            sock.end, sock.local, sock.peer = conn.a, ("10.0.0.1", source), address
            self.trace.note(self.clock.now, conn.who, "opened")
            host.accept(conn.b)
            loop.event(lambda: _settle(place))
        else:
            number = errno.ECONNREFUSED if answers == "refuse" else errno.ETIMEDOUT
            error = OSError(number, os.strerror(number))
            loop.event(lambda: _settle(place, error))

    async def attach(self, loop: Loop, sock: Socket, factory: Callable[[], Any]) -> tuple[Transport, Any]:
        """Put a protocol on a connected socket."""
        protocol = factory()
        transport = Transport(loop, sock, protocol)
        place: asyncio.Future[None] = loop.create_future()
        loop.call_soon(protocol.connection_made, transport)
        loop.call_soon(transport.start)
        loop.call_soon(_settle, place)
        try:
            await place
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    # -- the pod's clients -------------------------------------------------------------------------------------------

    def dial(
        self,
        port: int,
        opened: Callable[[End | None], None],
        who: str,
        original: tuple[str, int] | None = None,
    ) -> None:
        """Connect a client to a port of the sidecar. `opened` is told of its end, or None when nobody listens.

        `original`: where it was going when it was redirected.
        """
        wait = self.draws.span(*DISTANCES["same host"])
        self.clock.after(wait, self._arrives, port, opened, who, original)

    def _arrives(
        self,
        port: int,
        opened: Callable[[End | None], None],
        who: str,
        original: tuple[str, int] | None,
    ) -> None:
        listening = self._ports.get(port)
        if listening is None:
            opened(None)
            return
        loop, source = listening.loop, next(self._sources)
        conn = Connection(self.clock, self.draws, self.trace, f"{source} from {who}", "same host")
        self.trace.note(self.clock.now, conn.who, "opened")
        sock = self.socket()
        sock.end, sock.local, sock.peer = conn.b, (POD, port), (POD, source)
        sock.original = original
        self.by_source[source] = conn.a, conn.b
        loop.event(lambda: self._accept(loop, listening, sock))
        opened(conn.a)

    @staticmethod
    def _accept(loop: Loop, listening: Listening, sock: Socket) -> None:
        protocol = listening.factory()
        transport = Transport(loop, sock, protocol)
        protocol.connection_made(transport)
        loop.call_soon(transport.start)

    # -- the end of a process ----------------------------------------------------------------------------------------

    def exit(self, loop: Loop) -> None:
        """Do what a kernel does when a process is gone: close its ports and its connections."""
        for listening in list(self._ports.values()):
            if listening.loop is loop:
                self.close_port(listening)
        for sock in list(self.sockets.values()):
            sock.close()
        for sock in list(self.sockets.values()):
            if sock.end is not None:
                sock.end.close()


class Resolver:
    """Looks names up in the simulated network, in place of `proxy.net.resolver.Resolver`."""

    def __init__(self, network: Network, loop: Loop) -> None:
        """Open nothing."""
        self._network = network
        self._loop = loop

    async def lookup(self, host: str, port: int) -> list[AddrInfoType]:
        """Return where a host may be reached. Raises DialError."""
        known = _literal(host)
        if known is not None:
            return [_addr_info(family, address, port) for family, address in known]
        network, draws = self._network, self._network.draws
        place: asyncio.Future[None] = self._loop.create_future()
        if not network.lookups_hang:
            wait = draws.span(MILLISECOND // 10, 20 * MILLISECOND)
            network.clock.after(wait, self._answer, place)
        else:
            error = DialError(Reason.DNS_ERROR, f"The name server does not answer for {host}.")
            network.clock.after(LOOKUP_TIME, self._answer, place, error)
        await place
        found = network.hosts.get(host)
        if found is None:
            raise DialError(Reason.DNS_ERROR, f"No address is known for {host}.")
        addresses = [found.address]
        if draws.happens(0.1):
            addresses.insert(0, "10.9.9.9")  # of a node that is gone
        return [_addr_info(_family(address), address, port) for address in addresses]

    async def close(self) -> None:
        """Nothing is open."""

    def _answer(self, place: asyncio.Future[None], error: Exception | None = None) -> None:
        if self._loop.alive:
            self._loop.event(lambda: _settle(place, error))


def _settle(place: asyncio.Future[None], error: Exception | None = None) -> None:
    """Tell who waits, if somebody still does."""
    if place.done():
        return
    if error is None:
        place.set_result(None)
    else:
        place.set_exception(error)


def _family(address: str) -> Any:
    """Return the family of an address."""
    known = _literal(address)
    assert known is not None
    return known[0][0]


class Kernel(PeerSockets):
    """What the kernel of the pod knows of the other ends of local connections. `silent`: it does not tell."""

    def __init__(self, network: Network, *, silent: bool) -> None:
        """Know what the network knows."""
        super().__init__()
        self._network = network
        self._silent = silent

    def has_left(self, local: Any, peer: Any, original: tuple[str, int] | None = None) -> bool | None:
        """Say whether nobody has the other end open any more."""
        if self._silent:
            return None
        ends = self._network.by_source.get(int(peer[1]))
        return None if ends is None else ends[0].closed

    def is_own(self, peer: Any, original: tuple[str, int]) -> bool | None:
        """Nothing was redirected here."""
        return False
