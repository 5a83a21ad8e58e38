"""Where no call may lead, whichever way it came: the names and the addresses that `egress.deny` lists.

A name is judged before it is looked up, an address before it is connected to, and a literal in whatever spelling that
some resolver would take for it. An address that carries another one (IPv4 within IPv6) is denied with that one, since what
translates between the two may stand anywhere on the way.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import unquote

from proxy.core.target import Origin

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Denied:
    """One entry of the list. `text`: as people know it. Of the other two at least one is given; what fits either is denied.

    `hosts`: what the whole of a host's name matches, without case and without a dot at its end.
    """

    text: str
    networks: tuple[Network, ...] = ()
    hosts: tuple[re.Pattern[str], ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Egress:
    """The list. It is empty by default: nothing is denied."""

    deny: tuple[Denied, ...] = ()

    def denies_host(self, host: str) -> str:
        """Return the sentence that says why nothing is sent to this host; empty if that is not known from its name.

        `host`: a name, or an address as `literals` reads it.
        """
        if not self.deny:
            return ""
        name, addresses = _read(host)
        for address in addresses:
            if denied := self.denies_address(address):
                return denied
        for entry in self.deny:
            if any(pattern.fullmatch(name) for pattern in entry.hosts):
                return f"Calls to {host} are denied by the policy's egress.deny ({entry.text})."
        return ""

    def denies_address(self, address: Address | str) -> str:
        """Return the sentence that says why nothing is sent to this IP address; empty if it may be connected to."""
        if not self.deny:
            return ""
        known = ipaddress.ip_address(address.partition("%")[0]) if isinstance(address, str) else address
        for reading in (known, *carried(known)):
            for entry in self.deny:
                if any(
                    reading.version == network.version and reading in network for network in entry.networks
                ):
                    return f"Calls to {_shown(known, reading)} are denied by the policy's egress.deny ({entry.text})."
        return ""

    def denies(self, origin: Origin) -> str:
        """Return the sentence that says why nothing is sent to this origin, as far as it can be said without a lookup."""
        if not self.deny or origin.inward:
            return ""
        if denied := self.denies_host(origin.host):
            return denied
        return self.denies_address(origin.address) if origin.address is not None else ""


NOTHING_DENIED: Final = Egress()


# -- how an address may be written ---------------------------------------------------------------------------------------

_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]{0,64}|[0-9]{1,64}")
_MOST_PARTS: Final = 4


def literals(host: str) -> tuple[Address, ...]:
    """Return the addresses that a host may be read as, mostly one; none for a name.

    Beside the usual forms, those that getaddrinfo takes for IPv4 (inet_aton(3)): one to four numbers, decimal, octal or
    hexadecimal, the last of which fills what is left: `2852039166`, `0xa9.254.43518`, `127.1`. A number that begins with 0
    is octal to some, and decimal to others.
    """
    try:
        return (ipaddress.ip_address(host),)
    except ValueError:
        pass
    parts = host.split(".")
    if len(parts) > _MOST_PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return ()
    readings = (_joined(parts, octal) for octal in (True, False))
    return tuple(dict.fromkeys(one for one in readings if one is not None))


def _joined(parts: list[str], octal: bool) -> ipaddress.IPv4Address | None:
    try:
        *firsts, last = (_number(part, octal) for part in parts)
    except ValueError:  # 08 is no octal number
        return None
    room = 8 * (_MOST_PARTS - len(firsts))
    if any(first > 0xFF for first in firsts) or last >> room:
        return None
    high = sum(first << 8 * (3 - place) for place, first in enumerate(firsts))
    return ipaddress.IPv4Address(high | last)


def _number(text: str, octal: bool) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if octal and text.startswith("0") else 10)


@lru_cache(maxsize=1024)
def _read(host: str) -> tuple[str, tuple[Address, ...]]:
    """Return a host as the next one to read it may: escapes undone, signs of other widths as those that they stand for."""
    name = host
    if "%" in name or not name.isascii():
        name = unicodedata.normalize("NFKC", unquote(name)).replace("\u3002", ".")
    name = name.strip("[]").partition("%")[0].lower().rstrip(".")
    return name, literals(name)


# -- one address within another ------------------------------------------------------------------------------------------

_IN_THE_LAST_BITS: Final = (
    ipaddress.IPv6Network("64:ff9b::/96"),  # NAT64: RFC 6052 §2.1
    ipaddress.IPv6Network("::/96"),  # RFC 4291 §2.5.5.1
    ipaddress.IPv6Network("::ffff:0:0:0/96"),  # RFC 2765 §2.1
)
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215
_ISATAP: Final = 0x00005EFE  # RFC 5214 §6.1, but for the bit that says "universal"
_LOCAL_PREFIXES: Final = (48, 56, 64, 96)
_HERE: Final = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))


def carried(address: Address) -> tuple[Address, ...]:
    """Return what a connection to an address may come to besides: the addresses within it, this host's for an unspecified one."""
    if address.is_unspecified:
        return _HERE
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = list(_carried(address))
    return (*found, *(_HERE if any(each.is_unspecified for each in found) else ()))


def _carried(address: ipaddress.IPv6Address) -> Iterator[Address]:
    number = int(address)
    low = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:  # RFC 3056
        yield address.sixtofour
    elif address.teredo is not None:  # RFC 4380
        yield from address.teredo
    elif any(address in network for network in _IN_THE_LAST_BITS) and number > 1:
        yield low
    elif address in _LOCAL_NAT64:
        yield from (_embedded(number, length) for length in _LOCAL_PREFIXES)
    if number >> 32 & 0xFFFFFFFF & ~0x02000000 == _ISATAP:
        yield low


def _embedded(number: int, length: int) -> ipaddress.IPv4Address:
    """Return the IPv4 address behind a prefix of this length; bits 64 to 71 are left out (RFC 6052 §2.2)."""
    octets = number.to_bytes(16, "big")
    if length == 96:
        return ipaddress.IPv4Address(octets[12:])
    without = octets[:8] + octets[9:]
    begin = length // 8
    return ipaddress.IPv4Address(without[begin : begin + 4])


def _shown(address: Address, reading: Address) -> str:
    return str(address) if address == reading else f"{address}, which is {reading},"
