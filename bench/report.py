"""Results as tables for people, as Markdown, and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

from bench.cuts import ALLOWANCE_MS, CALLERS, Lateness, percentile
from bench.floors import MIB, Floor, Results, judged
from bench.hotpath import HotPath
from bench.load import CONNECTIONS
from bench.procs import progress
from bench.start import Starts
from bench.throughput import DIRECT, Comparison, Row

_NONE: Final = "–"
_NOISE: Final = 0.05
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    @property
    def by_column(self) -> list[tuple[str, ...]]:
        return list(zip(self.columns, *self.rows, strict=True))

    @property
    def figures(self) -> list[bool]:
        """Which columns hold figures: those stand to the right."""
        return [all(cell[:1].isdigit() or cell[:1] in "-–" for cell in cells) for _, *cells in self.by_column]


def promises(title: str, found: Sequence[Floor]) -> Table:
    """Return what is promised, and whether it is kept."""
    rows = [["met" if each.met else "MISSED", each.promise, each.measured or _NONE] for each in found]
    return Table(title, ["", "promise", "measured"], rows)


def tell(shown: Iterable[Table], *, markdown: bool) -> None:
    """Print tables, for people or as Markdown."""
    for each in shown:
        if markdown:
            print(as_markdown(each), end="\n\n")
        else:
            show(each)


def keep(path: Path, whole: Mapping[str, Any], what: str) -> None:
    """Write all that was measured to a file, and say so. `what`: what there is in it that no table has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")
    progress(f"{what}: {path}")


def tables(results: Results, found: Sequence[Floor]) -> Iterator[Table]:
    for each in results.throughput or []:
        what = f"{len(each.rows[0].rounds)} rounds of {each.seconds} s, {CONNECTIONS} connections"
        yield _table(f"{each.scenario.title}: median of {what}", _THROUGHPUT, each.rows, _load_notes(each))
    if results.cuts is not None:
        title = f"Cuts at {ALLOWANCE_MS} ms, {CALLERS} callers: ms late by the proxy's own log, and as seen by the callers"
        yield _table(title, _CUTS, results.cuts, _cuts_notes(results.cuts))
    if results.starts is not None:
        yield _table("From exec to readiness, and memory with nothing to do", _STARTS, results.starts)
    if results.hotpath is not None:
        yield _table("One call in Python alone, on transports that lead nowhere", _HOTPATH, results.hotpath)
    yield _table(f"What is promised of {judged(results)}", _FLOORS, found)


def _table(
    title: str,
    columns: Mapping[str, Callable[[_Item], str]],
    items: Sequence[_Item],
    notes: Iterable[str] = (),
) -> Table:
    return Table(
        title, list(columns), [[cell(item) for cell in columns.values()] for item in items], list(notes)
    )


def _mib(size: float | None) -> str:
    return _NONE if size is None else f"{size / MIB:.1f}"


def _late(values: Sequence[float], share: float) -> str:
    return f"{percentile(values, share):.2f}" if values else _NONE


_THROUGHPUT: Final[dict[str, Callable[[Row], str]]] = {
    "": lambda row: row.name,
    "requests/s": lambda row: f"{row.rate:,.0f}",
    "× Envoy": lambda row: f"{row.ratio:.2f}" if row.ratio else _NONE,
    "p50 ms": lambda row: f"{median(each.burst.p50_us for each in row.rounds) / 1000:.2f}",
    "p99 ms": lambda row: f"{median(each.burst.p99_us for each in row.rounds) / 1000:.2f}",
    "CPU µs/request": lambda row: f"{row.cpu_us:.1f}" if row.ready_ms else _NONE,
    "core busy": lambda row: f"{median(each.busy for each in row.rounds):.0%}" if row.ready_ms else _NONE,
    "idle MiB": lambda row: _mib(row.idle_bytes),
    "loaded MiB": lambda row: _mib(row.loaded_bytes),
    "ready ms": lambda row: f"{row.ready_ms:.0f}" if row.ready_ms else _NONE,
}

_CUTS: Final[dict[str, Callable[[Lateness], str]]] = {
    "": lambda found: found.name,
    "callers": lambda found: found.pattern,
    "cuts": lambda found: f"{len(found.client_ms):,}",
    "p50": lambda found: _late(found.own_ms, 0.5),
    "p99": lambda found: _late(found.own_ms, 0.99),
    "max": lambda found: _late(found.own_ms, 1),
    "early": lambda found: str(found.early),
    "p50 seen": lambda found: _late(found.client_ms, 0.5),
    "p99 seen": lambda found: _late(found.client_ms, 0.99),
    "max seen": lambda found: _late(found.client_ms, 1),
    "early seen": lambda found: str(found.early_seen),
}

_STARTS: Final[dict[str, Callable[[Starts], str]]] = {
    "": lambda found: found.name,
    "starts": lambda found: str(len(found.ready_ms)),
    "ready ms (median)": lambda found: f"{found.ready:.0f}",
    "fastest": lambda found: f"{min(found.ready_ms):.0f}",
    "slowest": lambda found: f"{max(found.ready_ms):.0f}",
    "idle MiB (median)": lambda found: _mib(found.idle),
}

_HOTPATH: Final[dict[str, Callable[[HotPath], str]]] = {
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

_FLOORS: Final[dict[str, Callable[[Floor], str]]] = {
    "": lambda floor: "met" if floor.met else "MISSED",
    "promise": lambda floor: floor.promise,
    "measured": lambda floor: floor.measured or "not measured",
}


def _load_notes(comparison: Comparison) -> Iterator[str]:
    for row in comparison.rows:
        if row.errors:
            yield f"{row.name}: {row.errors} requests failed, so its rate counts for nothing."
        if row.name != DIRECT and not any(each.log_bytes for each in row.rounds):
            yield f"{row.name}: wrote no log."
        others = max(each.others for each in row.rounds)
        if others > _NOISE and row.name != DIRECT:
            yield f"{row.name}: up to {others:.0%} of the proxy's core went to other work during a round."


def _cuts_notes(found: Sequence[Lateness]) -> Iterator[str]:
    for each in found:
        where = f"{each.name}, callers {each.pattern}"
        if each.other_answers:
            yield f"{where}: {each.other_answers} calls were answered with another status than 504."
        if len(each.own_ms) != len(each.client_ms):
            yield f"{where}: its log tells of {len(each.own_ms)} cuts."
        if each.own_ms and each.own_in_whole_ms:
            yield f"{where}: its log has whole milliseconds only."


def as_markdown(table: Table) -> str:
    ruler = _line(["--:" if right else ":--" for right in table.figures])
    lines = [f"**{table.title}**", "", _line(table.columns), ruler, *map(_line, table.rows)]
    return "\n".join([*lines, *(f"\n{note}" for note in table.notes)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def as_text(table: Table) -> str:
    widths = [max(map(len, column)) for column in table.by_column]
    lines = []
    for row in (table.columns, *table.rows):
        cells = zip(row, widths, table.figures, strict=True)
        lines.append(
            "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells)
        )
    return "\n".join([table.title, *(line.rstrip() for line in lines), *table.notes])


def show(table: Table) -> None:
    """With rich on a terminal where it is installed, plain otherwise."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
    except ImportError:
        print(as_text(table), end="\n\n")
        return
    if not sys.stdout.isatty():
        print(as_text(table), end="\n\n")
        return
    rich = RichTable(title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column, right in zip(table.by_column, table.figures, strict=True):
        longest = max(len(word) for cell in column for word in cell.split(" "))
        rich.add_column(column[0], justify="right" if right else "left", min_width=longest)
    for row in table.rows:
        rich.add_row(*row)
    console = Console()
    for part in (rich, *table.notes, ""):
        console.print(part)


def as_json(results: Results, found: Sequence[Floor], machine: dict[str, Any]) -> str:
    """Every round and every cut, so that other statistics can be made of them."""
    whole = {
        "machine": machine,
        "versions": results.versions,
        "throughput": [_comparison(each) for each in results.throughput or []],
        "cuts": [asdict(each) for each in results.cuts or []],
        "starts": [asdict(each) for each in results.starts or []],
        "hotpath": [asdict(each) for each in results.hotpath or []],
        "floors": [asdict(each) for each in found],
    }
    return json.dumps(whole, indent=1) + "\n"


def _comparison(comparison: Comparison) -> dict[str, Any]:
    rows = [
        {"rate": row.rate, "ratio_to_envoy": row.ratio, "cpu_us": row.cpu_us, **asdict(row)}
        for row in comparison.rows
    ]
    return {"scenario": asdict(comparison.scenario), "seconds": comparison.seconds, "rows": rows}
