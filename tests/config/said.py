"""What the reader says of a text, in the short form that tables of tests hold."""

from __future__ import annotations

from proxy.config import ConfigError, Fault, parse


def faults(text: str) -> list[Fault]:
    """Every fault of a text; none when it is a policy."""
    try:
        parse(text)
    except ConfigError as error:
        return error.faults
    return []


def places(text: str) -> list[tuple[int | None, str]]:
    """The line and the key of every fault."""
    return [(fault.line, fault.key) for fault in faults(text)]
