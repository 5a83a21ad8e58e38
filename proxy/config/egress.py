"""The reader of `egress.deny`: networks, addresses, host globs, and the one word that stands for several of them.

An entry that can be read in two ways, or that would never fit anything, is refused: whoever writes a list of what is denied
relies on it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from proxy.config.faults import Refusal, quoted
from proxy.config.globs import host_regex
from proxy.config.reading import ListOf, Section, scalar
from proxy.config.shape import Shape
from proxy.core.egress import Denied, Egress, carried, literals

METADATA: Final = "metadata"
METADATA_NETWORKS: Final = (
    "169.254.0.0/16",
    "fe80::/10",
    "fd00:ec2::254/128",
    "fd00:ec2::23/128",
    "fd20:ce::254/128",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.192/32",
)
METADATA_HOSTS: Final = (
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
)

_LONGEST: Final = 255
_NUMBERS: Final = re.compile(r"(?=.*[0-9])[0-9*.]+")
_ANY: Final = re.compile(r"(?:[A-Za-z0-9_*.-]+|[\[\]]*[0-9A-Fa-f:.]+(?:/[0-9]+)?[\[\]]*)\Z")


def _denied(text: str) -> Denied:
    if not text.strip("[]. "):
        remedy = "write a host, an address, a network or metadata, or take the entry out"
        raise Refusal(f"{quoted(text)} names nothing", remedy)
    if text == METADATA:
        networks = tuple(map(ipaddress.ip_network, METADATA_NETWORKS))
        return Denied(METADATA, networks, tuple(map(host_regex, METADATA_HOSTS)))
    bare = text.strip("[]")
    if "%" in text:
        remedy = f"write {bare.partition('%')[0]}: it is denied on every interface"
        raise Refusal(f"{quoted(text)} has a zone", remedy)
    if "/" in text:
        return _network(bare)
    if ":" in text or literals(bare.rstrip(".")):
        return _address(bare.rstrip("."))
    host = text.rstrip(".").lower()
    if _NUMBERS.fullmatch(host):
        # It would fit only those who write the address just so, and no name that stands for it.
        remedy = "write an address like 10.0.0.1 or a network like 10.0.0.0/8"
        raise Refusal(f"{quoted(text)} is not an address, and no host has such a name", remedy)
    return Denied(host, hosts=(host_regex(host),))


def _network(text: str) -> Denied:
    shown, example = quoted(text), "write one like 10.0.0.0/8 or fd00::/8"
    if not re.fullmatch(r"[^/]+/[0-9]{1,3}", text):
        raise Refusal(f"{shown} is not a network", example)
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        if "host bits" in str(error):
            around = ipaddress.ip_network(text, strict=False)
            raise Refusal(f"{shown} is an address within a network", f"write {around}") from None
        raise Refusal(f"{shown} is not a network", example) from None
    inner = network.network_address
    if isinstance(inner, ipaddress.IPv6Address) and inner.ipv4_mapped is not None and network.prefixlen >= 96:
        right = f"{inner.ipv4_mapped}/{network.prefixlen - 96}"
        raise Refusal(
            f"{shown} is a network of IPv4 in the form of IPv6", f"write {right}, which holds for both"
        )
    whole = str(inner) if network.prefixlen == network.max_prefixlen else str(network)
    return Denied(whole, (network,))


def _address(text: str) -> Denied:
    shown = quoted(text)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        known = literals(text)
        remedy = f"write {known[0]}" if known else "write one like 10.0.0.1, 10.0.0.0/8 or fd00::1"
        raise Refusal(f"{shown} is not an address as it is usually written", remedy) from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        right = address.ipv4_mapped
        raise Refusal(f"{shown} is {right} in the form of IPv6", f"write {right}, which holds for both")
    if address.is_unspecified:
        meant = ", ".join(map(str, carried(address)))
        raise Refusal(f"{shown} leads to this host itself", f"write {meant}, or 127.0.0.0/8 and ::1")
    return Denied(str(address), (ipaddress.ip_network(address),))


denied: Final = scalar(_denied, Shape(pattern=_ANY, longest=_LONGEST))

EGRESS: Final = Section(Egress, {"deny": (ListOf(denied), "deny")})
