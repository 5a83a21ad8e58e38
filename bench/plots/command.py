"""`python -m bench plots`: the plots of the docs, drawn again from what was measured last. Nothing is measured.

Each result that has plots is a file of JSON, and a module whose `figures` makes them of it: named here, and imported only when
its file is there, so that a plot of one harness needs nothing of another's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from bench.plots.paper import Figure, save
from bench.procs import Missing, progress

_ROOT: Final = Path(__file__).parent.parent.parent
PLOTS: Final = _ROOT / "docs" / "plots"
SOURCES: Final = (
    ("bench/results/growth.json", "bench.growth.figures", "python -m bench growth"),
    ("trials/results/soak.json", "trials.soak.figure", "python -m trials soak"),
)
"""Result, module, and the command that makes the result."""

Figures = Callable[[Mapping[str, Any]], dict[str, Figure]]


def figures(root: Path) -> Iterator[tuple[str, Figure]]:
    """Return each plot with the name of its file. Raises ValueError for a result that is not what its module makes plots of."""
    for file, module, command in SOURCES:
        path = root / file
        if not path.is_file():
            progress(f"left out: there is no {file}; {command} makes it")
            continue
        make = cast(Figures, import_module(module).figures)
        try:
            yield from make(json.loads(path.read_text())).items()
        except (KeyError, TypeError, ValueError) as fault:
            raise ValueError(
                f"{file} is no result of this version ({fault!r}); {command} makes it anew"
            ) from None


def redraw(root: Path, folder: Path) -> list[Path]:
    """Draw all plots whose results are there into a folder; return their files."""
    drawn = []
    for name, figure in figures(root):
        path = folder / f"{name}.svg"
        save(figure, path)
        progress(f"drawn: {path}")
        drawn.append(path)
    return drawn


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench plots", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--into", type=Path, default=PLOTS, metavar="FOLDER", help="default: docs/plots")
    arguments = parser.parse_args(argv)
    try:
        drawn = redraw(_ROOT, arguments.into)
    except (Missing, ValueError, OSError) as fault:
        progress(f"stopped: {fault}")
        return 2
    return 0 if drawn else 2
