"""Which of the pod's connections leave it without having passed through the sidecar: the silent leaks.

All is told from the kernel's list of sockets (`tcp_table`). A connection leaves the pod when its own port is none that
somebody listens on (what was accepted has its listener's port) and its other end is no address of the pod. It has
passed when it is the sidecar's own, or when iptables led it here: then it shows where it meant to go, while the sidecar
has an accepted connection whose other end is that socket.
"""

from __future__ import annotations

import functools
import ipaddress
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from proxy.core.pod import PortRange
from proxy.net.tcp_table import (
    ESTABLISHED,
    LISTEN,
    Socket,
    address_of,
    is_loopback,
    number_of,
    port_of,
    read,
)

SIDECAR_USER: Final = 2180
"""The user of a pod's sidecar and of nobody else there: the injector refuses a pod in which it is (DESIGN, section 10)."""

_DNS: Final = (53, 53)
_DESCRIPTORS: Final = Path("/proc/self/fd")
_SOCKET: Final = "socket:["


class Bypasses(NamedTuple):
    """Connections that go past the sidecar. `excluded` ones may: their port or network is on the pod's lists, or DNS."""

    unexpected: frozenset[Socket]
    excluded: int

    def remotes(self, most: int) -> list[str]:
        """Return where unexpected ones lead to, each place once, and no more than `most` of them."""
        return sorted({_shown(socket) for socket in self.unexpected})[:most]


def bypasses(
    sockets: Sequence[Socket],
    outbound: int,
    is_own: Callable[[Socket], bool],
    is_excluded: Callable[[Socket], bool],
) -> Bypasses:
    """Return what goes past the sidecar. `outbound`: the port that calls are sent or led to."""
    established = [socket for socket in sockets if socket.state == ESTABLISHED]
    door = port_of(outbound)
    led = Counter((socket.remote, socket.remote_port) for socket in established if socket.port == door)
    excluded, unexpected = 0, []
    for socket in _leaving(sockets, established):
        if is_own(socket):
            continue
        if is_excluded(socket):
            excluded += 1
        elif led[socket.local, socket.port]:
            led[socket.local, socket.port] -= 1
        else:
            unexpected.append(socket)
    return Bypasses(frozenset(_not_led(unexpected, led)), excluded)


def _leaving(sockets: Sequence[Socket], established: list[Socket]) -> Iterator[Socket]:
    """Return the connections that somebody here has opened to somebody outside of the pod."""
    listening = {socket.port for socket in sockets if socket.state == LISTEN}
    own = {socket.local for socket in established}
    for socket in established:
        if socket.port not in listening and socket.remote not in own and not is_loopback(socket.remote):
            yield socket


def _not_led(sockets: list[Socket], led: Counter[tuple[bytes, bytes]]) -> Iterator[Socket]:
    """Return those that have no counterpart at the sidecar. `led`: the other ends that nobody has been found for.

    Two connections to different places may have one address and port in common. Both led to one place, they may not,
    and the kernel shows the second one under another port there. Of such, the addresses can be matched, one for one.
    """
    spare: Counter[bytes] = Counter()
    for (address, _), count in led.items():
        spare[address] += count
    for socket in sockets:
        if spare[socket.local]:
            spare[socket.local] -= 1
        else:
            yield socket


class BypassWatch:
    """Looks at the pod's connections, whenever it is asked to."""

    def __init__(
        self,
        outbound: int,
        exclude_ports: Iterable[PortRange] = (),
        exclude_cidrs: Iterable[str] = (),
        table: Callable[[], list[Socket] | None] = read,
    ) -> None:
        """Take what is left alone on purpose. `outbound`: the port for calls. Raises ValueError for no network."""
        self._outbound = outbound
        self._ports = (_DNS, *exclude_ports)
        self._networks = [ipaddress.ip_network(cidr) for cidr in exclude_cidrs]
        self._table = table
        self._known: frozenset[Socket] = frozenset()
        self._in_networks = functools.lru_cache(maxsize=4096)(self._is_in_networks)

    def look(self) -> Bypasses | None:
        """Return what goes past the sidecar now, or None where that cannot be known (no Linux). Raises OSError.

        It takes milliseconds with many sockets, so call it on a thread of its own. What has not been seen before is
        looked at again: while the table was read, only one end of a connection may have been there.
        """
        found = self._look()
        if found is not None and not found.unexpected <= self._known:
            again = self._look()
            found = again and again._replace(unexpected=found.unexpected & again.unexpected)
        self._known = found.unexpected if found is not None else frozenset()
        return found

    def _look(self) -> Bypasses | None:
        table = self._table()
        if table is None:
            return None
        return bypasses(table, self._outbound, _own_by_user_or_inode(), self._is_excluded)

    def _is_excluded(self, socket: Socket) -> bool:
        port = number_of(socket.remote_port)
        if any(first <= port <= last for first, last in self._ports):
            return True
        return bool(self._networks) and self._in_networks(socket.remote)

    def _is_in_networks(self, remote: bytes) -> bool:
        address = address_of(remote)
        return any(address in network for network in self._networks)


def _own_by_user_or_inode() -> Callable[[Socket], bool]:
    """Return what tells this process's sockets: its user where nobody else has it, else the descriptors it has open."""
    user = b"%d" % os.geteuid()
    if os.geteuid() == SIDECAR_USER:
        return lambda socket: socket.user == user
    inodes = functools.cache(_own_inodes)
    return lambda socket: socket.user == user and socket.inode in inodes()


def _own_inodes() -> frozenset[bytes]:
    """Return the inodes of the sockets that this process has open."""
    found = set()
    for descriptor in _DESCRIPTORS.iterdir():
        try:
            name = str(descriptor.readlink())
        except FileNotFoundError:  # closed meanwhile
            continue
        if name.startswith(_SOCKET):
            found.add(name[len(_SOCKET) : -1].encode())
    return frozenset(found)


def _shown(socket: Socket) -> str:
    address, port = address_of(socket.remote), number_of(socket.remote_port)
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
