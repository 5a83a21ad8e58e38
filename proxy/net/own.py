"""Which addresses are the sidecar's own: a call that leads back to them would go round until something breaks."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

_ANY_PORT = 9  # a UDP socket may be connected to a port nobody listens on; nothing is sent


class OwnPorts:
    """The ports that this sidecar listens on."""

    def __init__(self, ports: Iterable[int] = ()) -> None:
        """Take the ports known already."""
        self._ports = set(ports)

    def add(self, port: int) -> None:
        """Take one more, known only once it has been bound."""
        self._ports.add(port)

    def leads_back(self, address: str, port: int) -> bool:
        """Say whether a connection to this IP address and port would arrive at the sidecar itself."""
        return port in self._ports and is_local(address)


def is_local(address: str) -> bool:
    """Say whether an IP address is one of this host (this pod): loopback, unspecified, or of an interface.

    The kernel is asked for the way there; for an address of its own it answers with the address itself. Nothing is
    sent. Not cached: it takes some 20 µs, is asked for few connections, and addresses come and go. A text that is no IP
    address is not local; a link-local one of IPv6 is known by its interface only (`fe80::1%eth0`, `fe80::1%2`).
    """
    host, _, zone = address.partition("%")
    try:
        known = ipaddress.ip_address(unmapped(host))
    except ValueError:
        return False
    if known.is_loopback or known.is_unspecified:
        return True
    family = socket.AF_INET if known.version == 4 else socket.AF_INET6
    try:
        place = (str(known), _ANY_PORT) if known.version == 4 else (str(known), _ANY_PORT, 0, _scope(zone))
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == known
    except OSError:
        return False


def _scope(zone: str) -> int:
    """Return the number of an interface; 0 for any. Raises OSError."""
    if not zone:
        return 0
    return int(zone) if zone.isdecimal() else socket.if_nametoindex(zone)


def unmapped(address: str) -> str:
    """Return the IPv4 address that a dual-stack socket shows as `::ffff:192.0.2.1`, or the address as it is."""
    if not address.startswith("::ffff:"):
        return address
    mapped = ipaddress.IPv6Address(address).ipv4_mapped
    return address if mapped is None else str(mapped)
