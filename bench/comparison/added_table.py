"""The table of what a proxy adds at a steady rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from bench.comparison.added import SHARES, Added, Row
from bench.comparison.throughput import DIRECT
from bench.report import NONE, Table, table_of


def table(found: Added) -> Table:
    """Return all rows: what the callers saw, what of it the proxy added, and that by what Envoy added."""
    columns: dict[str, Callable[[Row], str]] = {"": lambda row: row.name}
    for share in SHARES:
        columns[f"p{share * 100:g} ms"] = lambda row, share=share: f"{median(row.at(share)):.2f}"  # type: ignore[misc]
    for share in SHARES:
        columns[f"p{share * 100:g} added"] = lambda row, share=share: _added(found, row, share)  # type: ignore[misc]
        columns[f"p{share * 100:g} × Envoy"] = lambda row, share=share: _ratio(found, row, share)  # type: ignore[misc]
    pace = found.pace
    turns = len(found.rows[0].blocks)
    title = (
        f"At {pace.rate:,} requests/s, {pace.connections} connections, from when each was due: "
        f"median of {turns} turns of {pace.seconds:g} s"
    )
    return table_of(title, columns, found.rows, _notes(found))


def _added(found: Added, row: Row, share: float) -> str:
    return NONE if row.name == DIRECT else f"{found.ms(row, share):.2f}"


def _ratio(found: Added, row: Row, share: float) -> str:
    ratio = found.ratio(row, share)
    return NONE if ratio is None else f"{ratio:.2f}"


def _notes(found: Added) -> Iterator[str]:
    yield from found.gaps
    for row in found.rows:
        if row.unanswered:
            yield f"{row.name}: did not keep up; {row.unanswered:,} requests had no answer when their turn ended."
        if row.failed:
            yield f"{row.name}: {row.failed:,} requests failed."
