"""The table of starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.comparison.start import Starts
from bench.report import Table, mib, table_of

COLUMNS: Final[dict[str, Callable[[Starts], str]]] = {
    "": lambda found: found.name,
    "starts": lambda found: str(len(found.ready_ms)),
    "ready ms (median)": lambda found: f"{found.ready:.0f}",
    "fastest": lambda found: f"{min(found.ready_ms):.0f}",
    "slowest": lambda found: f"{max(found.ready_ms):.0f}",
    "idle MiB (median)": lambda found: mib(found.idle),
}


def table(found: Sequence[Starts]) -> Table:
    """Return how long each took, and its memory."""
    return table_of("From exec to readiness, and memory with nothing to do", COLUMNS, found)
