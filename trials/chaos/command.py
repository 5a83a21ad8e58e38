"""`python -m trials chaos`."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import click

from bench.builds import COMPILED, PURE
from bench.procs import Failed, Missing, progress
from trials.chaos import report
from trials.chaos.extent import SHORT, long
from trials.chaos.story import Hung, Story

RESULTS: Final = Path(__file__).parent.parent / "results" / "chaos.json"


@click.command()
@click.option("--short", is_flag=True, help="Some 3,000 calls in two acts, as CI runs it.")
@click.option(
    "--seed", type=int, default=None, help="What everything is drawn from. Drawn itself without it, and told."
)
@click.option("--compiled", is_flag=True, help="The compiled build (make compiled) instead of the pure one.")
@click.option(
    "--acts", type=click.IntRange(1, 1000), default=24, show_default=True, help="How long the long form is."
)
@click.option(
    "--json", "file", type=click.Path(path_type=Path), default=RESULTS, metavar="FILE",
    help="Where the result is written (default: trials/results/chaos.json).",
)  # fmt: skip
def main(*, short: bool, seed: int | None, compiled: bool, acts: int, file: Path) -> None:
    """A real sidecar between an upstream that misbehaves on command and clients that leave.

    In the middle of it the sidecar is killed, drained, reloaded, and its disk is full. What the server itself knows
    is compared with every answer and every record.

    Ends with 0 when all held, 1 when something did not (it is told with what reproduces it), 2 when the run could not be
    made.
    """
    signal.signal(signal.SIGTERM, _interrupted)
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    build = COMPILED if compiled else PURE
    folder = Path(tempfile.mkdtemp(prefix="waterclock-chaos-"))
    progress(f"chaos: seed {seed}, {build}")
    status = 130
    try:
        with Story(seed, SHORT if short else long(seed, acts), build, folder) as story:
            hung = _play(story)
        click.echo(report.tables(story.outcome))
        _write(file, report.document(story, build, short=short))
        status = _verdict(story, hung, compiled=compiled, short=short)
    except (Missing, Failed, OSError, AssertionError) as problem:
        told = traceback.format_exc() if isinstance(problem, AssertionError) else str(problem)
        click.echo(f"the run could not be made: {told}", err=True)
        status = 2
    finally:
        if status in (0, 130) or not any(folder.glob("*.jsonl")):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            click.echo(f"what there is of it: {folder}", err=True)
    sys.exit(status)


def _play(story: Story) -> str | None:
    """Play it; return what it did not go on for, if it did not end."""
    try:
        story.play()
    except Hung as hung:
        return str(hung)
    finally:
        report.keep(story)
    return None


def _verdict(story: Story, hung: str | None, *, compiled: bool, short: bool) -> int:
    """Say what did not hold, and return the status."""
    outcome = story.outcome
    if hung is not None:
        click.echo(f"\nthe run did not end: {hung}", err=True)
    for told in report.violations(story):
        click.echo(f"\n{told}", err=True)
    if hung is not None or outcome.violations:
        again = f"python -m trials chaos --seed {story.seed}{' --short' * short}{' --compiled' * compiled}"
        click.echo(f"\nTo draw the same again: {again}", err=True)
        return 1
    for check in outcome.idle:
        click.echo(f"never had anything to look at: {check}", err=True)
    return 1 if outcome.idle else 0


def _write(file: Path, document: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")


def _interrupted(_: int, __: FrameType | None) -> NoReturn:
    """Leave through every `finally`, so that no process and no volume stays behind."""
    sys.exit(130)
