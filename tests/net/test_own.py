"""The sidecar knows its own ports, by whatever local address they are reached."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from proxy.net.own import OwnPorts, is_local, unmapped


def an_address_of_this_host() -> str | None:
    """An address that is not loopback, where there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return address


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.8.9.10", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"]
)
def test_loopback_and_unspecified_addresses_are_local(address: str) -> None:
    assert is_local(address)


@pytest.mark.parametrize(
    "address", ["192.0.2.77", "2001:db8::77", "255.255.255.255", "tool.test", "", "fe80::1%lo"]
)
def test_others_are_not(address: str) -> None:
    assert not is_local(address)


def test_an_address_of_an_interface_is_local() -> None:
    address = an_address_of_this_host()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    assert is_local(address)
    assert is_local(f"::ffff:{address}")


def a_link_local_address() -> tuple[str, str, int] | None:
    """One of IPv6, with the name and the number of its interface, where there is one."""
    table = Path("/proc/net/if_inet6")
    for line in table.read_text().splitlines() if table.exists() else []:
        packed, number, _, scope, _, name = line.split()
        if scope == "20":
            return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(packed)), name, int(number, 16)
    return None


def test_a_link_local_address_is_known_by_its_interface() -> None:
    """By name or by number; without one it is nobody's."""
    found = a_link_local_address()
    if found is None:
        pytest.skip("this machine has no link-local address")
    address, name, number = found
    assert is_local(f"{address}%{name}")
    assert is_local(f"{address}%{number}")
    assert not is_local(f"{address}%none")
    assert not is_local(f"fe80::dead%{name}")


def test_only_own_ports_lead_back() -> None:
    own = OwnPorts([10800])
    own.add(10801)
    assert own.leads_back("127.0.0.1", 10800)
    assert own.leads_back("::1", 10801)
    assert not own.leads_back("127.0.0.1", 8080)
    assert not own.leads_back("192.0.2.77", 10800)


def test_mapped_addresses_are_shown_plain() -> None:
    assert unmapped("::ffff:192.0.2.1") == "192.0.2.1"
    assert unmapped("::ffff:c000:201") == "192.0.2.1"
    assert unmapped("2001:db8::1") == "2001:db8::1"
    assert unmapped("192.0.2.1") == "192.0.2.1"
