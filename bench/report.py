"""Tables, for people and as Markdown, and the file that has every figure. What stands in a table is each part's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.procs import progress
from bench.targets import Floor, Verdict

MIB: Final = 1024 * 1024
RESULTS: Final = Path(__file__).parent / "results"
NONE: Final = "–"
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
    rows = [["met" if each.met else "MISSED", each.promise, each.measured or NONE] for each in found]
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


def must_reach(title: str, found: Sequence[Verdict]) -> Table:
    """Return what must be reached, the least and the aim, beside what was measured."""
    columns = ["", "figure", "least", "aim", "measured", ""]
    return Table(title, columns, [_reached(each) for each in found])


def _reached(verdict: Verdict) -> list[str]:
    target = verdict.target
    word = verdict.reached if verdict.met else verdict.reached.upper()
    measured = NONE if verdict.measured is None else told(verdict.measured, target.unit)
    return [
        word,
        target.figure,
        told(target.least, target.unit),
        told(target.aim, target.unit),
        measured,
        verdict.note,
    ]


def told(value: float, unit: str) -> str:
    """A figure to three digits or so, with its unit."""
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    text = f"{value:,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {unit}".rstrip()


def table_of(
    title: str,
    columns: Mapping[str, Callable[[_Item], str]],
    items: Sequence[_Item],
    notes: Iterable[str] = (),
) -> Table:
    """Return a table with a row for each item. `columns`: what stands on top, and how a cell is made of an item."""
    rows = [[cell(item) for cell in columns.values()] for item in items]
    return Table(title, list(columns), rows, list(notes))


def mib(size: float | None) -> str:
    """Bytes as MiB."""
    return NONE if size is None else f"{size / MIB:.1f}"


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
