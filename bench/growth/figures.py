"""What growth is reckoned from: a point for each proxy and number of connections, a table, what must be reached, two plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.memory import BUSY, IDLE, UNFAILED, in_mib
from bench.plots.paper import Figure, Line, Panel, note
from bench.report import MIB, NONE, Table, mib, table_of
from bench.targets import Verdict, judge

DIRECT: Final = "direct"
AT: Final = 1_000
"""The number of connections at which memory under load is judged."""


@dataclass(frozen=True)
class Point:
    """One proxy with so many connections, all of them busy for `seconds`.

    `cpu_us`: user and system time for a request; `busy`: as a share of one core. `peak_bytes`: the most that was resident
    while the load lasted. The row `direct` is the load without a proxy, and has none of these. `fault`: why there is no more
    of this point.
    """

    name: str
    connections: int
    seconds: float = 0.0
    requests: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    refused: int = 0
    broken: int = 0
    cpu_us: float | None = None
    busy: float | None = None
    idle_bytes: int | None = None
    peak_bytes: int | None = None
    fault: str | None = None

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def errors(self) -> int:
        """Answers of 400 and up, and socket errors."""
        return self.refused + self.broken


_COLUMNS: Final[dict[str, Callable[[Point], str]]] = {
    "connections": lambda point: f"{point.connections:,}",
    "": lambda point: point.name,
    "requests/s": lambda point: f"{point.rate:,.0f}",
    "p50 ms": lambda point: f"{point.p50_ms:,.2f}",
    "p99 ms": lambda point: f"{point.p99_ms:,.2f}",
    "CPU µs/request": lambda point: NONE if point.cpu_us is None else f"{point.cpu_us:.1f}",
    "core": lambda point: NONE if point.busy is None else f"{point.busy:.0%}",
    "idle MiB": lambda point: mib(point.idle_bytes),
    "loaded MiB": lambda point: mib(point.peak_bytes),
    "failed": lambda point: f"{point.errors:,}",
}


def table(points: Sequence[Point], notes: Sequence[str] = ()) -> Table:
    """Return all points, by connections."""
    ordered = sorted((point for point in points if point.fault is None), key=lambda point: point.connections)
    faults = [
        f"{point.name}, {point.connections:,} connections: {point.fault}." for point in points if point.fault
    ]
    title = "Kept connections, all of them busy with small GET requests"
    return table_of(title, _COLUMNS, ordered, [*notes, *faults])


def promises(points: Sequence[Point]) -> list[Verdict]:
    """Judge one sidecar by its points. Memory under load is judged where there is a point at 1,000 connections."""
    idle = [point.idle_bytes for point in points if point.idle_bytes is not None]
    found = [judge(IDLE, in_mib(max(idle)) if idle else None)]
    at = [point.peak_bytes for point in points if point.connections == AT and point.peak_bytes is not None]
    if at:
        found.append(judge(BUSY, in_mib(max(at))))
    faults = sum(point.fault is not None for point in points)
    said = f"{faults} points could not be measured" if faults else ""
    failed = sum(point.errors for point in points) + faults
    return [*found, judge(UNFAILED, failed if points else None, said)]


# -- plots ---------------------------------------------------------------------------------------------------------


def figures(whole: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the plots of a result, by the names of their files."""
    points = [Point(**point) for point in whole["points"]]
    own = set(whole["sidecars"])
    where = note(whole["machine"], whole["day"])
    counts = sorted({point.connections for point in points})
    names = list(dict.fromkeys(point.name for point in points))

    def lines(value: Callable[[Point], float | None]) -> list[Line]:
        found = []
        for name in names:
            mine = [(point, value(point)) for point in points if point.name == name and point.fault is None]
            drawn = sorted((float(point.connections), y) for point, y in mine if y is not None)
            if drawn:
                found.append(Line(name, drawn, own=name in own))
        return found

    def figure(title: str, unit: str, lines: Sequence[Line], border: tuple[float, str] | None) -> Figure:
        axes = Panel("", "client connections, all busy", unit, lines, log_x=True, border=border, ticks=counts)
        return Figure(title, [axes], where, names=names)

    return {
        "growth-requests": figure("Requests a second, on one core", "requests/s", lines(_rate), None),
        "growth-memory": figure("Memory under load", "resident, MiB", lines(_memory), None),
    }


def _rate(point: Point) -> float | None:
    return point.rate


def _memory(point: Point) -> float | None:
    return point.peak_bytes / MIB if point.peak_bytes is not None else None
