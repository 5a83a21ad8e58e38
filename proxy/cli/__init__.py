"""The command line: one small file a command, each importing what it needs only when it is called.

`waterclock run` shares its process with every pod, so nothing here may cost it memory: what is only for people
(tables, colours) is imported inside the other commands.
"""

from __future__ import annotations

import click

from proxy import __version__
from proxy.cli.budgets import budgets, close
from proxy.cli.cache import cache
from proxy.cli.check import check
from proxy.cli.dead_letters import dead_letters
from proxy.cli.demo import demo, demo_degrade
from proxy.cli.explain import explain
from proxy.cli.inject import inject
from proxy.cli.injector import injector
from proxy.cli.output import show_signs
from proxy.cli.redirect import redirect
from proxy.cli.run import run
from proxy.cli.simulate import simulate
from proxy.cli.timeline import timeline
from proxy.cli.tune import tune
from proxy.cli.uncertain import uncertain
from proxy.cli.wait import wait

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="waterclock")
def main() -> None:
    """Hold a whole agent job to one time budget.

    \b
    Start the sidecar, and send a tool call through it:
      waterclock run
      curl -x http://127.0.0.1:10800 -H 'Budget-Remaining-Ms: 2000' http://tool.example/search

    The answer says what was allowed and how it ended (Budget-Allowed-Ms, Budget-Outcome). Calls under one Budget-Id
    share one budget; when nothing is left of it, nothing is started. A write that was cut is listed by
    `waterclock uncertain list`, and its blind repetition is refused. `waterclock budgets` lists the jobs,
    `waterclock timeline ID` draws one.

    \b
    See it all at once:
      waterclock demo
    """
    show_signs()


for command in (
    run,
    check,
    explain,
    simulate,
    budgets,
    timeline,
    close,
    tune,
    uncertain,
    dead_letters,
    demo,
    demo_degrade,
    redirect,
    wait,
    inject,
    injector,
    cache,
):
    main.add_command(command)
