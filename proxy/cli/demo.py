"""`waterclock demo`: see it work."""

from __future__ import annotations

import sys
from typing import Final

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
    from asyncio import CancelledError

    from proxy.demo.story import play

    try:
        sys.exit(play(keep=keep))
    except (KeyboardInterrupt, CancelledError):
        click.echo("Stopped. Nothing of it is left running.", err=True)
        sys.exit(INTERRUPTED)
