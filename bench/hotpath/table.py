"""The table of one call in Python alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.hotpath.counts import HotPath
from bench.report import Table, table_of

COLUMNS: Final[dict[str, Callable[[HotPath], str]]] = {
    "": lambda found: found.name,
    "call": lambda found: found.kind.upper(),
    "compiled modules": lambda found: str(found.compiled_modules),
    "CPU µs (best)": lambda found: f"{found.best:.1f}",
    "median": lambda found: f"{found.typical:.1f}",
    "interpreted functions": lambda found: f"{found.functions:,}",
    "instructions": lambda found: f"{found.instructions:,}",
    "peak bytes": lambda found: f"{found.peak_bytes:,}",
    "left to the collector": lambda found: f"{found.garbage:.1f}",
    "leaked blocks": lambda found: f"{abs(found.leaked):.1f}",
}


def table(found: Sequence[HotPath]) -> Table:
    """Return what each kind of call takes on each build."""
    return table_of("One call in Python alone, on transports that lead nowhere", COLUMNS, found)
