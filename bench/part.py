"""What the commands of all parts have in common: the machine they measure on, where the figures go, and how they end.

Status 0: measured; 1: with `--check`, something that is promised was missed; 2: it could not be measured; 130: interrupted.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench import report
from bench.builds import BUILDS, COMPILED, PURE
from bench.machine import machine, warnings
from bench.procs import Cores, Failed, Missing, progress
from bench.report import Table
from bench.targets import Verdict


def add_output(parser: argparse.ArgumentParser, results: Path, check: str = "a promise is missed") -> None:
    """Add the options of what becomes of the figures. `check`: when `--check` ends with status 1."""
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    default = f"default: bench/results/{results.name}"
    parser.add_argument("--json", type=Path, default=results, metavar="FILE", help=default)
    parser.add_argument("--check", action="store_true", help=f"end with status 1 when {check}")


def end_in_order() -> None:
    """Make an ordinary exit of SIGTERM, so that every process and folder is cleared away on the way out."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def surroundings() -> tuple[Cores, dict[str, Any]]:
    """Return the cores to measure on, and what is to be known of the machine; warn of what makes the figures say less."""
    cores = Cores.choose()
    about = machine(cores)
    for warning in warnings(cores):
        progress(f"note: {warning}")
    return cores, about


@contextmanager
def measuring() -> Iterator[None]:
    """End the command, and say why, when what is inside cannot be measured or is interrupted."""
    try:
        yield
    except (Missing, Failed, OSError, subprocess.TimeoutExpired) as fault:
        progress(f"stopped: {fault}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


class _Named(Protocol):
    """A row of a table, by whose it is."""

    @property
    def name(self) -> str: ...


_Row = TypeVar("_Row", bound=_Named)


def judged(
    rows: Sequence[_Row], names: Collection[str], verdicts: Callable[[list[_Row]], list[Verdict]]
) -> tuple[list[Verdict], list[Table]]:
    """Return what a build of the sidecar must reach, and the table of it: the compiled one where it was measured.

    Neither where none of `names` is a build.
    """
    if not set(names) & set(BUILDS):
        return [], []
    build = COMPILED if any(row.name == COMPILED for row in rows) else PURE
    found = verdicts([row for row in rows if row.name == build])
    return found, [report.must_reach(f"What {build} must reach", found)]


def concluded(
    arguments: argparse.Namespace, shown: Iterable[Table], whole: Mapping[str, Any], what: str, *, kept: bool
) -> int:
    """Print the tables and keep everything, as `add_output`'s options say; return the status. `what`: as `report.keep` has it.

    `kept`: whether everything that is promised was reached.
    """
    report.tell(shown, markdown=arguments.markdown)
    report.keep(arguments.json, whole, what)
    return 1 if arguments.check and not kept else 0
