"""What the streams are reckoned from: one row for a proxy and a kind of stream, and what must be reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bench.memory import IDLE, STREAMS, UNBROKEN, in_mib
from bench.percentile import percentile
from bench.report import NONE, Table, mib, table_of
from bench.targets import Verdict, judge

STEP: Final = "step"
SUBSCRIPTION: Final = "subscription"
MANY: Final = 5_000  # from so many streams on, a row is about many of them


@dataclass
class Row:
    """One proxy with `asked` streams, of which `opened` had a first event. Times are milliseconds, but for `seconds`.

    `kind`: what they are to a sidecar. `cpu_us`: user and system time for an event; `busy`: as a share of one core.
    `broke`: why, and how many streams.
    """

    name: str
    kind: str
    asked: int
    opened: int
    seconds: float
    idle_bytes: int
    open_bytes: int
    closed_bytes: int
    cpu_us: float | None
    busy: float
    firsts: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    broke: dict[str, int] = field(default_factory=dict)

    @property
    def broken(self) -> int:
        return sum(self.broke.values())

    @property
    def rate(self) -> float:
        """Events a second."""
        return len(self.delays) / self.seconds if self.seconds else 0.0

    @property
    def each_kib(self) -> float | None:
        """What one open stream holds in memory."""
        return (self.open_bytes - self.idle_bytes) / 1024 / self.opened if self.opened else None

    def summary(self) -> dict[str, Any]:
        """All but the single times, of which there are too many: their shares instead."""
        whole = {name: value for name, value in asdict(self).items() if name not in ("firsts", "delays")}
        shares = {
            what: {str(share): round(percentile(values, share), 3) for share in (0.5, 0.9, 0.99, 0.999, 1)}
            for what, values in (("first_ms", self.firsts), ("delay_ms", self.delays))
            if values
        }
        return whole | shares | {"events": len(self.delays), "broken": self.broken}


def _at(values: Sequence[float], share: float) -> str:
    return f"{percentile(values, share):,.2f}" if values else NONE


_COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "": lambda row: row.name,
    "as": lambda row: row.kind or NONE,
    "streams": lambda row: f"{row.opened:,}",
    "broke": lambda row: f"{row.broken:,}",
    "first event ms p50": lambda row: _at(row.firsts, 0.5),
    "p99": lambda row: _at(row.firsts, 0.99),
    "events/s": lambda row: f"{row.rate:,.0f}",
    "delay ms p50": lambda row: _at(row.delays, 0.5),
    "p99 ": lambda row: _at(row.delays, 0.99),
    "p99.9": lambda row: _at(row.delays, 0.999),
    "CPU µs/event": lambda row: NONE if row.cpu_us is None else f"{row.cpu_us:.1f}",
    "core": lambda row: f"{row.busy:.0%}",
    "idle MiB": lambda row: mib(row.idle_bytes),
    "open MiB": lambda row: mib(row.open_bytes),
    "closed MiB": lambda row: mib(row.closed_bytes),
    "KiB/stream": lambda row: NONE if row.each_kib is None else f"{row.each_kib:.1f}",
}


def table(rows: Sequence[Row], every_ms: int, notes: Sequence[str] = ()) -> Table:
    """Return the streams of all proxies, and why some broke."""
    title = f"Event streams, an event of each every {every_ms:,} ms: when they come, and what they cost"
    broke = [
        f"{row.name}{f' ({row.kind})' if row.kind else ''}, {row.asked:,} streams: {count:,} {why}."
        for row in rows
        for why, count in sorted(row.broke.items())
    ]
    return table_of(title, _COLUMNS, rows, [*notes, *broke])


def promises(rows: Sequence[Row]) -> list[Verdict]:
    """Judge one sidecar by its rows. A figure that was not measured is not judged, but for the streams themselves."""
    steps = [row for row in rows if row.kind == STEP]
    many = max(steps, key=lambda row: row.opened, default=None)
    found = [judge(UNBROKEN, sum(row.broken for row in rows) if rows else None)]
    if rows:
        found.append(judge(IDLE, in_mib(max(row.idle_bytes for row in rows))))
    if many is not None and many.asked >= MANY:
        fits = (
            "" if many.opened >= 10_000 else f"{many.opened:,} streams: as many as there are descriptors for"
        )
        found.append(judge(STREAMS, in_mib(many.open_bytes), fits))
    return found
