"""Where a redirected connection was going before iptables sent it here (`REDIRECT`, SO_ORIGINAL_DST)."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Any, Final, Protocol

from proxy.net.own import unmapped
from proxy.net.reset import GONE

_ORIGINAL_DST: Final = (
    80  # SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST: linux/netfilter_ipv4.h, netfilter_ipv6/ip6_tables.h
)
_SOL_IP: Final = 0
_SOL_IPV6: Final = 41
_SOCKADDR_IN: Final = struct.Struct("!2xH4s8x")
_SOCKADDR_IN6: Final = struct.Struct("!2xH4x16s4s")


class SocketLike(Protocol):
    """What is needed of a socket. The one that a transport shows (`get_extra_info("socket")`) will do, on any loop."""

    def getsockname(self) -> Any:
        """Return the address of this end."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Read an option of `size` bytes."""


def original_destination(sock: SocketLike) -> tuple[str, int] | None:
    """Return the address and port that the other side connected to, or None when it connected to this socket itself.

    None as well where the kernel cannot tell: no connection tracking, not Linux, or the connection has gone already.
    """
    if sys.platform != "linux":
        return None
    try:
        name: tuple[str, int] = sock.getsockname()[:2]
        own = (unmapped(name[0]).partition("%")[0], name[1])
        there, zone = _ipv6(sock) if ":" in own[0] else _ipv4(sock)
    except (*GONE, struct.error):
        return None
    if there == own:
        return None
    # The zone is the number of an interface; only a link-local address needs one (RFC 4007).
    return (f"{there[0]}%{zone}", there[1]) if zone else there


def _ipv4(sock: SocketLike) -> tuple[tuple[str, int], int]:
    data = sock.getsockopt(_SOL_IP, _ORIGINAL_DST, _SOCKADDR_IN.size)
    port, address = _SOCKADDR_IN.unpack(data)
    return (socket.inet_ntop(socket.AF_INET, address), port), 0


def _ipv6(sock: SocketLike) -> tuple[tuple[str, int], int]:
    data = sock.getsockopt(_SOL_IPV6, _ORIGINAL_DST, _SOCKADDR_IN6.size)
    port, address, zone = _SOCKADDR_IN6.unpack(data)
    return (socket.inet_ntop(socket.AF_INET6, address), port), int.from_bytes(zone, sys.byteorder)
