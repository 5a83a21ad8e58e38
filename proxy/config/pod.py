"""How what a pod says is written, in its annotations as in the options of `waterclock run`: ports, networks, a span."""

from __future__ import annotations

import ipaddress
from typing import Final

from proxy.config.faults import Refusal, quoted
from proxy.config.scalars import SPANS
from proxy.core.pod import PortRange

_PORTS: Final = range(1, 65536)


def port(text: str) -> int:
    """Return the port that a text states, 1 to 65535. Raises Refusal."""
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) in _PORTS:
        return int(text)
    raise Refusal(f"{quoted(text)} is no port", "write 1 to 65535")


def port_ranges(text: str) -> tuple[PortRange, ...]:
    """Return ports and ranges of them, separated by commas: `25,9000-9100`. Raises Refusal."""
    found = []
    for part in _parts(text):
        first, dash, last = part.partition("-")
        try:
            low, high = port(first.strip()), port(last.strip() if dash else first.strip())
        except Refusal:
            raise Refusal(
                f"{quoted(part)} is no port", "write 1 to 65535, or a range like 9000-9100"
            ) from None
        if low > high:
            raise Refusal(f"{quoted(part)} ends before it begins", f"write {high}-{low}")
        found.append((low, high))
    return tuple(found)


def networks(text: str) -> tuple[str, ...]:
    """Return networks, separated by commas: `10.0.0.0/8,fd00::/8`. Raises Refusal."""
    found = []
    for part in _parts(text):
        try:
            found.append(str(ipaddress.ip_network(part, strict=False)))
        except ValueError:
            problem = f"{quoted(part)} is no network"
            raise Refusal(problem, "write one like 10.0.0.0/8 or fd00::/8") from None
    return tuple(found)


def longest_budget(text: str) -> int:
    """Return a span of time, in nanoseconds, more than 0: `30s`. Raises Refusal."""
    span = SPANS.amount(text)
    if span <= 0:
        raise Refusal(f"{quoted(text)} is no time at all", "write one like 30s")
    return span


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
