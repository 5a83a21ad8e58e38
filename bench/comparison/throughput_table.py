"""The table of one scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from bench.comparison.throughput import DIRECT, Comparison, Row
from bench.report import NONE, Table, mib, table_of

_NOISE: Final = 0.05


def _ms(row: Row, microseconds: Callable[[Row], list[int]]) -> str:
    return f"{median(microseconds(row)) / 1000:.2f}"


def _by_envoy(ratio: float | None) -> str:
    return f"{ratio:.2f}" if ratio else NONE


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "": lambda row: row.name,
    "requests/s": lambda row: f"{row.rate:,.0f}",
    "× Envoy": lambda row: _by_envoy(row.ratio),
    "p50 ms": lambda row: _ms(row, lambda row: [each.burst.p50_us for each in row.rounds]),
    "p99 ms": lambda row: _ms(row, lambda row: [each.burst.p99_us for each in row.rounds]),
    "p99.9 ms": lambda row: _ms(row, lambda row: [each.burst.p999_us for each in row.rounds]),
    "CPU µs/request": lambda row: f"{row.cpu_us:.1f}" if row.ready_ms else NONE,
    "× Envoy in CPU": lambda row: _by_envoy(row.cpu_ratio),
    "core busy": lambda row: f"{median(each.busy for each in row.rounds):.0%}" if row.ready_ms else NONE,
    "idle MiB": lambda row: mib(row.idle_bytes),
    "loaded MiB": lambda row: mib(row.loaded_bytes),
    "ready ms": lambda row: f"{row.ready_ms:.0f}" if row.ready_ms else NONE,
}


def table(comparison: Comparison) -> Table:
    """Return all rows of a scenario, with what is to be known of them."""
    spent = comparison.spent
    title = f"{comparison.scenario.what}: median of {spent.count} rounds of {spent.seconds} s"
    return table_of(title, COLUMNS, comparison.rows, _notes(comparison))


def _notes(comparison: Comparison) -> Iterator[str]:
    yield from comparison.gaps
    for row in comparison.rows:
        if row.errors:
            yield f"{row.name}: {row.errors} requests failed, so its rate counts for nothing."
        if row.name != DIRECT and not any(each.log_bytes for each in row.rounds):
            yield f"{row.name}: wrote no log."
        others = max(each.others for each in row.rounds)
        if others > _NOISE and row.name != DIRECT:
            yield f"{row.name}: up to {others:.0%} of the proxy's core went to other work during a round."
