"""The table `nat` as iptables-restore --noflush changes it: as much as is needed to judge a text (iptables-restore(8))."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import NamedTuple

_BUILT_IN = ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING")


class Packet(NamedTuple):
    """The first packet of a TCP connection."""

    destination: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    interface: str
    user: int


@dataclass
class Kernel:
    """One family's table: its chains, and their rules."""

    chains: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _BUILT_IN})

    @classmethod
    def with_others(cls) -> Kernel:
        """A table in which somebody else has been."""
        kernel = cls()
        kernel.chains["MESH"] = ["-p udp -j ACCEPT"]
        kernel.chains["OUTPUT"] = ["-p udp -j MESH", '-m comment --comment "to WATERCLOCK_OUTPUT" -j ACCEPT']
        kernel.chains["PREROUTING"] = ["-p udp -j MESH"]
        return kernel

    def save(self) -> str:
        """What iptables-save prints."""
        declared = [f":{name} {'ACCEPT' if name in _BUILT_IN else '-'} [0:0]" for name in sorted(self.chains)]
        rules = [f"-A {name} {rule}" for name in sorted(self.chains) for rule in self.chains[name]]
        return "\n".join(["*nat", *declared, *rules, "COMMIT", ""])

    def restore(self, text: str) -> None:
        """Apply a text. What the kernel would refuse fails the test."""
        first, *lines, last = text.strip().splitlines()
        assert (first, last) == ("*nat", "COMMIT")
        for line in lines:
            command, _, rest = line.partition(" ")
            if line.startswith(":"):
                assert command[1:] not in _BUILT_IN, "to declare one of these would empty it"
                self.chains[command[1:]] = []
                continue
            chain, _, rule = rest.partition(" ")
            match command:
                case "-A":
                    target = rule.split()[-1] if " -j " in f" {rule}" and "REDIRECT" not in rule else "RETURN"
                    assert target in self.chains or target in ("RETURN", "ACCEPT"), f"{target} is not there"
                    self.chains[chain].append(rule)
                case "-D":
                    self.chains[chain].remove(rule)
                case "-X":
                    assert not self.chains[chain], f"{chain} is not empty"
                    led = [
                        rule
                        for rules in self.chains.values()
                        for rule in rules
                        if rule.endswith(f"-j {chain}")
                    ]
                    assert not led, f"{led} leads to {chain}"
                    del self.chains[chain]
                case _:
                    raise AssertionError(f"nobody expected {line}")

    def led_to(self, chain: str, packet: Packet) -> int | None:
        """The port that a packet is redirected to, None when it goes its own way."""
        for rule in self.chains[chain]:
            words = rule.split()
            conditions, (target, *more) = words[: words.index("-j")], words[words.index("-j") + 1 :]
            if not _matches(conditions, packet):
                continue
            match target:
                case "RETURN":
                    return None
                case "REDIRECT":
                    assert more[0] == "--to-ports"
                    return int(more[1])
                case _:
                    found = self.led_to(target, packet)
                    if found is not None:
                        return found
        return None


def _matches(conditions: list[str], packet: Packet) -> bool:
    for name, value in zip(conditions[::2], conditions[1::2], strict=True):
        match name:
            case "-p" | "-m":
                holds = value in ("tcp", "owner")
            case "-o" | "-i":
                holds = value == packet.interface
            case "-d":
                holds = packet.destination in ipaddress.ip_network(value)
            case "--uid-owner":
                holds = packet.user == int(value)
            case "--dport":
                first, _, last = value.partition(":")
                holds = int(first) <= packet.port <= int(last or first)
            case _:
                raise AssertionError(f"nobody expected {name}")
        if not holds:
            return False
    return True
