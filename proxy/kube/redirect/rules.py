"""The rules of the redirect mode as iptables-restore reads them (iptables-restore(8), iptables-extensions(8)).

Outbound, everything that the pod opens is led to the sidecar, but for what stays within the pod, what the sidecar
itself opens, DNS over TCP, and what the pod excludes. Inbound, only the app's own port is led to it, when one is named.

Each family is one transaction: the text is put in force whole or not at all. A chain that the text declares is emptied
first, so a second run leaves what it asks for, whatever the first one asked for.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxy.core.pod import PortRange
from proxy.kube.names import INBOUND_PORT_NUMBER, OUTBOUND_PORT, USER_ID

OUTPUT: Final = "WATERCLOCK_OUTPUT"
PREROUTING: Final = "WATERCLOCK_PREROUTING"
DNS: Final[PortRange] = (53, 53)

_JUMPS: Final = {
    OUTPUT: f"OUTPUT -p tcp -j {OUTPUT}",
    PREROUTING: f"PREROUTING -p tcp -j {PREROUTING}",
}
"""Each chain of ours, and the one rule in a chain of the kernel's that leads there."""


class Family(StrEnum):
    """The two families of addresses, as people call them."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


_LOOPBACK: Final = {Family.IPV4: "127.0.0.0/8", Family.IPV6: "::1/128"}


@dataclass(frozen=True, slots=True)
class Redirect:
    """What is wanted. `app_port`: the app's port that the inbound side stands in front of, None for no inbound side.

    Ports are 1 to 65535, ranges of them include both ends. `user_id`: whom the sidecar runs as.
    """

    app_port: int | None = None
    exclude_ports: tuple[PortRange, ...] = ()
    exclude_ipv4: tuple[ipaddress.IPv4Network, ...] = ()
    exclude_ipv6: tuple[ipaddress.IPv6Network, ...] = ()
    outbound_port: int = OUTBOUND_PORT
    inbound_port: int = INBOUND_PORT_NUMBER
    user_id: int = USER_ID

    @classmethod
    def excluding(
        cls, ports: tuple[PortRange, ...], cidrs: Iterable[str], app_port: int | None = None
    ) -> Redirect:
        """Return what a pod asks for, its networks split by family. Raises ValueError for a text that is no network."""
        networks = [ipaddress.ip_network(cidr) for cidr in cidrs]
        return cls(
            app_port,
            ports,
            tuple(network for network in networks if isinstance(network, ipaddress.IPv4Network)),
            tuple(network for network in networks if isinstance(network, ipaddress.IPv6Network)),
        )


@dataclass(frozen=True, slots=True)
class Present:
    """What of ours stands in the table. `jumps`: rules that lead to our chains, without their `-A`, in their order."""

    chains: frozenset[str] = frozenset()
    jumps: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Say whether anything does."""
        return bool(self.chains or self.jumps)


NOTHING: Final = Present()
ALL: Final = Present(frozenset(_JUMPS), tuple(_JUMPS.values()))


def present(saved: str) -> Present:
    """Return what of ours is in the table `nat`, from what iptables-save prints of all tables."""
    chains, jumps, table = set(), [], ""
    for line in saved.splitlines():
        words = line.split()
        if line.startswith("*"):
            table = line[1:].strip()
        elif table != "nat":
            continue
        elif line.startswith(":") and words[0][1:] in _JUMPS:
            chains.add(words[0][1:])
        elif line.startswith("-A ") and _target(words) in _JUMPS:
            jumps.append(line.removeprefix("-A ").strip())
    return Present(frozenset(chains), tuple(jumps))


def rules(wanted: Redirect, family: Family, there: Present = NOTHING) -> str:
    """Return the text that puts what is wanted in the place of what is there."""
    return _transaction({OUTPUT: _outbound(wanted, family), PREROUTING: _inbound(wanted)}, there)


def removal(there: Present) -> str:
    """Return the text that takes away what is there."""
    return _transaction({OUTPUT: [], PREROUTING: []}, there)


def _outbound(wanted: Redirect, family: Family) -> list[str]:
    networks = wanted.exclude_ipv4 if family is Family.IPV4 else wanted.exclude_ipv6
    return [
        "-o lo -j RETURN",
        f"-d {_LOOPBACK[family]} -j RETURN",
        f"-m owner --uid-owner {wanted.user_id} -j RETURN",
        *(f"-p tcp -m tcp --dport {_ports(each)} -j RETURN" for each in (DNS, *wanted.exclude_ports)),
        *(f"-d {network} -j RETURN" for network in networks),
        f"-p tcp -j REDIRECT --to-ports {wanted.outbound_port}",
    ]


def _inbound(wanted: Redirect) -> list[str]:
    if wanted.app_port is None:
        return []
    return [
        "-i lo -j RETURN",
        f"-p tcp -m tcp --dport {wanted.app_port} -j REDIRECT --to-ports {wanted.inbound_port}",
    ]


def _ports(ports: PortRange) -> str:
    first, last = ports
    return str(first) if first == last else f"{first}:{last}"


def _transaction(chains: dict[str, list[str]], there: Present) -> str:
    """Return the text that gives our chains these rules. A chain without any goes, and with it what leads there."""
    declared, commands = [], []
    for chain, body in chains.items():
        if not body and chain not in there.chains:
            continue
        declared.append(f":{chain} - [0:0]")
        led = [jump for jump in there.jumps if _target(jump.split()) == chain]
        kept = led.index(_JUMPS[chain]) if body and _JUMPS[chain] in led else None
        commands += [f"-D {jump}" for index, jump in enumerate(led) if index != kept]
        commands += [f"-A {chain} {rule}" for rule in body]
        if not body:
            commands.append(f"-X {chain}")
        elif kept is None:
            commands.append(f"-A {_JUMPS[chain]}")
    return "\n".join(["*nat", *declared, *commands, "COMMIT", ""])


def _target(words: list[str]) -> str | None:
    """Return where a rule leads to."""
    return words[-1] if len(words) > 1 and words[-2] in ("-j", "-g") else None
