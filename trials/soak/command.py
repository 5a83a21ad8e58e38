"""`python -m trials soak`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from bench import part
from bench import report as tables
from bench.builds import COMPILED, PURE
from bench.plots.paper import save
from bench.procs import Missing, file_limit, progress
from trials.soak import figure, report
from trials.soak.length import HOUR, SHORT, SHORTEST, Length
from trials.soak.run import soak
from trials.span import span

RESULTS: Final = Path(__file__).parent.parent / "results" / "soak.json"


@click.command()
@click.option(
    "--for", "seconds", type=span(SHORTEST), default=HOUR, help="How long: 90s, 20m, 1h. [default: 1h]"
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
    seconds: float, short: bool, seed: int, compiled: bool, file: Path, plot: Path | None, markdown: bool
) -> None:
    """Half load for an hour: memory, descriptors, tasks and ledger level off.

    Ends with status 1 when a series grows, and names it, or when an answer was wrong.
    """
    part.end_in_order()
    length = Length(SHORT if short else int(seconds))
    file_limit()
    cores, about = part.surroundings()
    with part.measuring():
        result = soak(length, COMPILED if compiled else PURE, seed, cores)
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
