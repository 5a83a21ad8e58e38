"""`waterclock demo` and `waterclock demo-degrade`: see it work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, NoReturn

import click

INTERRUPTED: Final = 130


@click.command(short_help="See it work, in a third of a minute.")
@click.option("--keep", is_flag=True, help="Keep the folder of the run: its policy, step log and journal.")
def demo(keep: bool) -> None:
    """See it work: one job under one budget, six times, and one write in doubt, in a third of a minute.

    It starts a real sidecar and a small tool server, on free ports of the loopback and in a folder of its own, and runs
    the same job of three calls six times: too much work for its budget, just enough, with time lost between the calls,
    with a call that is not worth starting, with each call claiming the whole budget anew, and with a fresh limit for each
    call. Then it sends a write that is committed and answered too late, and tries to send it twice.

    The figures are those of the sidecar's own step log, the verdicts those of its ledger. All of them are checked: it
    ends with status 0 when everything is as promised, 1 when something is off, and names it, 2 when it could not be
    played. Without --keep, nothing of it is left behind.

    \b
    Examples:
      waterclock demo
      waterclock demo --keep
    """
    from proxy.demo.story import play

    _end_with(play, keep=keep)


@click.command(short_help="See it answer with less when time runs short.")
@click.option("--keep", is_flag=True, help="Keep the folder of the run: its policy, step log and journal.")
def demo_degrade(keep: bool) -> None:
    """See what a ladder does: a chat with retrieval that has less and less time, in a third of a minute.

    It starts a real sidecar, `waterclock cache`, and servers that speak as a language model and a retrieval do, on free
    ports of the loopback and in a folder of its own. The same question is put with five budgets, and answered by five
    rungs: the large model, a fast one, a small one elsewhere, the cache, an apology. A stream that is too long is read with
    the SDK that OpenAI publishes, and the question is put again in other words.

    What was sent, what came back, the step log, the ledger and the metrics are checked against each other: it ends with
    status 0 when everything is as promised, 1 when something is off, and names it, 2 when it could not be played. Without
    --keep, nothing of it is left behind.

    It needs the package openai, and for the cache what `waterclock cache` needs; `make demo-degrade` installs both.

    \b
    Examples:
      waterclock demo-degrade
      waterclock demo-degrade --keep
    """
    from proxy.demo.degrade.story import play

    _end_with(play, keep=keep)


def _end_with(play: Callable[..., int], *, keep: bool) -> NoReturn:
    from asyncio import CancelledError

    try:
        sys.exit(play(keep=keep))
    except (KeyboardInterrupt, CancelledError):
        click.echo("Stopped. Nothing of it is left running.", err=True)
        sys.exit(INTERRUPTED)
