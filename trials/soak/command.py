"""`python -m trials soak`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from bench import report as tables
from bench.builds import COMPILED, PURE
from bench.machine import machine, warnings
from bench.plots.paper import save
from bench.procs import Cores, Failed, Missing, file_limit, progress
from trials.soak import figure, report
from trials.soak.length import HOUR, SHORT, Length
from trials.soak.run import soak

RESULTS: Final = Path(__file__).parent.parent / "results" / "soak.json"


class _Span(click.ParamType[Length]):
    name = "SPAN"

    def convert(
        self, value: str | Length, param: click.Parameter | None, ctx: click.Context | None
    ) -> Length:
        if isinstance(value, Length):
            return value
        try:
            return Length.read(value)
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


def _end(number: int, frame: object) -> NoReturn:
    """An ordinary exit, so that every process and folder is cleared away on the way out."""
    sys.exit(128 + number)


@click.command()
@click.option(
    "--for", "length", type=_Span(), default=Length(HOUR), help="How long: 90s, 20m, 1h. [default: 1h]"
)
@click.option("--short", is_flag=True, help="Half a minute: what grows fast.")
@click.option("--seed", type=int, default=1, show_default=True, help="What comes when is drawn from it.")
@click.option("--compiled", is_flag=True, help="The wheel of `make compiled` instead of the checkout.")
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=RESULTS,
    help="Where every sample goes. [default: trials/results/soak.json]",
)
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the series there, as SVG."
)
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    length: Length, short: bool, seed: int, compiled: bool, file: Path, plot: Path | None, markdown: bool
) -> None:
    """Half load for an hour: memory, descriptors, tasks and ledger level off.

    Ends with status 1 when a series grows, and names it, or when an answer was wrong.
    """
    signal.signal(signal.SIGTERM, _end)
    length = Length(SHORT) if short else length
    file_limit()
    cores = Cores.choose()
    about = machine(cores)
    for warning in warnings(cores):
        progress(f"note: {warning}")
    try:
        result = soak(length, COMPILED if compiled else PURE, seed, cores)
    except (Missing, Failed, OSError) as fault:
        progress(f"stopped: {fault}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    found = report.judged(result)
    whole = report.whole(result, found, about)
    tables.tell([report.table(result, found)], markdown=markdown)
    tables.keep(file, whole, "every sample; python -m bench plots draws them")
    if plot is not None:
        try:
            save(figure.figures(whole)["soak"], plot)
        except Missing as fault:
            progress(f"not drawn: {fault}")
    for complaint in report.complaints(result, found):
        click.echo(complaint)
    sys.exit(0 if report.holds(result, found) else 1)
