"""The command line: one small file a command, each importing what it needs only when it is called.

`waterclock run` shares its process with every pod, so nothing here may cost it memory: what is only for people
(tables, colours) is imported inside the other commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from proxy import __version__

__all__ = ["main"]

_COMMANDS: Final = {
    "run": "run",
    "check": "check",
    "explain": "explain",
    "simulate": "simulate",
    "budgets": "budgets",
    "timeline": "timeline",
    "close": "budgets",
    "tune": "tune",
    "uncertain": "uncertain",
    "dead-letters": "dead_letters",
    "demo": "demo",
    "demo-degrade": "demo",
    "redirect": "redirect",
    "wait": "wait",
    "inject": "inject",
    "injector": "injector",
    "cache": "cache",
}
"""Each command, and the file that it is in: imported when the command, or the list of all, is asked for."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        file = _COMMANDS.get(cmd_name)
        if file is None:
            return None
        found: click.Command = getattr(import_module(f"proxy.cli.{file}"), cmd_name.replace("-", "_"))
        return found


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
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
    from proxy.cli.output import show_signs

    show_signs()
