"""`python -m trials fuzz`: the command."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from bench.report import as_text
from trials.fuzz import growing, guided, report, workers
from trials.fuzz.corpus import RESULTS
from trials.fuzz.engine import Report, bounded
from trials.fuzz.registry import NAMES, load
from trials.span import span

_SHORT: Final = 15.0
_LONG: Final = 300.0


@click.command(name="fuzz")
@click.argument("targets", nargs=-1, metavar="[TARGET]...", type=click.Choice(NAMES))
@click.option("--for", "seconds", type=span(), help="How long all of it takes, such as 60s.  [default: 5m]")
@click.option(
    "--runs", type=click.IntRange(0, 10**9), help="How many new inputs each target gets, instead of a time."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 2),
    default=0,
    show_default=True,
    help="Where all chance comes from.",
)
@click.option("--short", is_flag=True, help="Every kept input, then 15 s over all targets: what CI runs.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="How many targets at a time."
)
@click.option(
    "--engine",
    type=click.Choice(["own", "atheris"]),
    default="own",
    show_default=True,
    help="What chooses inputs.",
)
@click.option(
    "--keep", is_flag=True, help="Keep the inputs that show what no kept one shows, in trials/fuzz/corpus."
)
@click.option(
    "--input",
    "again",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Try one input of one TARGET.",
)
@click.option("--list", "listed", is_flag=True, help="Name the targets, and what each holds.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=RESULTS / "fuzz.json",
    help="Where the figures go.",
)
def main(
    targets: tuple[str, ...],
    seconds: float | None,
    runs: int | None,
    seed: int,
    short: bool,
    jobs: int,
    engine: str,
    keep: bool,
    again: Path | None,
    listed: bool,
    json_file: Path,
) -> None:
    """Give random and mutated input to what reads from outside, and see that it keeps its promises.

    Status 0: nothing was found. 1: something was, and the output says what repeats it. 2: it could not be run.
    """
    chosen = list(dict.fromkeys(targets)) or list(NAMES)
    if listed:
        for name in chosen:
            click.echo(f"{name:<12} {load(name).about}")
        return
    if again is not None:
        _try_again(chosen, again)
        return
    if runs is not None and seconds is not None:
        raise click.UsageError("--for and --runs each say when to stop; give one of them.")
    if engine == "atheris" and (why := guided.missing()):
        click.echo(f"It cannot be run: {why}.", err=True)
        raise SystemExit(2)
    total = seconds if seconds is not None else _SHORT if short else _LONG
    width = 1 if engine == "atheris" else min(jobs, len(chosen))
    plan = workers.Plan(seed, runs, None if runs is not None else total * width / len(chosen))
    loaded = [load(name) for name in chosen]
    reports = (
        guided.run_guided(loaded, plan, _told)
        if engine == "atheris"
        else workers.run_all(loaded, plan, width, _told)
    )
    if keep:
        for target, each in zip(loaded, reports, strict=True):
            click.echo(f"{target.name}: {growing.grow(target, each)} inputs are kept", err=True)
    click.echo(as_text(report.table(reports)))
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(report.as_json(reports, seed), encoding="utf-8")
    if said := report.failures(reports):
        click.echo(f"\n{said}")
        raise SystemExit(1)


def _told(each: Report) -> None:
    """Say on stderr that a target is through."""
    click.echo(f"{each.target}: {each.inputs} inputs, {len(each.failures)} failures", err=True)


def _try_again(chosen: list[str], path: Path) -> None:
    if len(chosen) != 1:
        raise click.UsageError(
            "--input is read by one target; name it: python -m trials fuzz TARGET --input FILE"
        )
    with bounded():
        seen = load(chosen[0]).check(path.read_bytes())
    for word in sorted(seen):
        click.echo(word)
