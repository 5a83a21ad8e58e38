"""How long a trial runs, as a command line says it."""

from __future__ import annotations

from typing import Final

from proxy.cli.said import Said
from proxy.config.faults import Refusal
from proxy.config.scalars import SPANS
from proxy.core.units import HOUR, SECOND

_DAY: Final = 24 * HOUR


def span(least: int = 1) -> Said:
    """Return the type of an option: a span such as 90s, 20m or 1h, in seconds, from so many of them to a day."""
    shortest = least * SECOND

    def read(text: str) -> float:
        found = SPANS.amount(text)
        if not shortest <= found <= _DAY:
            raise Refusal(
                f"{text} is too short or too long", f"write {SPANS.show(shortest)} to {SPANS.show(_DAY)}"
            )
        return found / SECOND

    return Said("span", read)
