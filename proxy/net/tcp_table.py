"""The TCP sockets of this network namespace (this pod), as the kernel lists them: /proc/net/tcp and tcp6, proc(5).

Addresses stay as the kernel writes them, words of four bytes in the machine's order as hexadecimal digits, until
somebody wants to see one: with thousands of sockets, that is what a look at them costs.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

ESTABLISHED: Final = b"01"  # include/net/tcp_states.h
LISTEN: Final = b"0A"

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_PIECE: Final = 64 * 1024


def _hex(address: str) -> bytes:
    """Return an address as the kernel writes it."""
    packed = ipaddress.ip_address(address).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return b"".join(b"%08X" % word for word in words)


# A dual-stack socket shows an IPv4 address as ::ffff:192.0.2.1: its last word is what an IPv4 socket shows.
_MAPPED: Final = _hex("::ffff:0:0").removesuffix(b"00000000")
_ADDRESS: Final = rb"(?:%b)?([0-9A-F]{32}|[0-9A-F]{8}):([0-9A-F]{4})" % _MAPPED
_LINE: Final = re.compile(
    rb"^ *\d+: %b %b (%b|%b) \S+ \S+ \S+ +(\d+) +\d+ +(\d+)" % (_ADDRESS, _ADDRESS, ESTABLISHED, LISTEN),
    re.MULTILINE,
)
_LOOPBACK6: Final = _hex("::1")
_LOOPBACK4: Final = slice(6, 8) if sys.byteorder == "little" else slice(0, 2)


class Socket(NamedTuple):
    """A socket that is established or listens, in the kernel's own spelling. `user` and `inode` are decimal digits."""

    local: bytes
    port: bytes
    remote: bytes
    remote_port: bytes
    state: bytes
    user: bytes
    inode: bytes


def sockets(text: bytes) -> list[Socket]:
    """Return the sockets in some lines of a table. What is no such line is passed over."""
    return [Socket._make(found) for found in _LINE.findall(text)]


def read() -> list[Socket] | None:
    """Return the sockets of this namespace, or None where the kernel does not list them (it is no Linux).

    No snapshot: the kernel walks its table, and what opens meanwhile may be seen at one end only. Takes some 5 ms a
    thousand sockets; the interpreter is free for other threads in between.
    """
    found: list[Socket] = []
    try:
        for table in _TABLES:
            with table.open("rb", buffering=0) as file:
                rest = b""
                while piece := file.read(_PIECE):
                    whole, end, rest = (rest + piece).rpartition(b"\n")
                    found += sockets(whole + end)
    except FileNotFoundError:
        return found or None
    return found


def port_of(number: int) -> bytes:
    """Return a port as the kernel writes it."""
    return b"%04X" % number


def number_of(port: bytes) -> int:
    """Return the number of a port."""
    return int(port, 16)


def address_of(address: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address that the kernel has written."""
    words = (int(address[at : at + 8], 16) for at in range(0, len(address), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return ipaddress.IPv4Address(packed) if len(packed) == 4 else ipaddress.IPv6Address(packed)


def is_loopback(address: bytes) -> bool:
    """Say whether an address is ::1 or in 127.0.0.0/8."""
    return address == _LOOPBACK6 or (len(address) == 8 and address[_LOOPBACK4] == b"7F")
