"""`waterclock timeline`: one job as a waterfall in the terminal."""

from __future__ import annotations

from pathlib import Path

import click

from proxy.cli.control import running
from proxy.cli.output import console, json_option, print_json, tame
from proxy.cli.policy_file import config_option, load_or_exit


@click.command()
@config_option
@json_option
@click.option("--fit", is_flag=True, help="Scale to the time that was used, not to the whole budget.")
@click.argument("id")
def timeline(config: Path | None, as_json: bool, fit: bool, id: str) -> None:
    """Draw the job ID: a row for each step, to scale.

    It shows when each step waited for its turn, ran and was cut, against the end of the budget.

    Asked of the running sidecar through its control API (listen.control). A job that has ended is known for
    ledger.retention. With --json: the events of admission, in milliseconds since the budget's opening.

    \b
    Examples:
      waterclock timeline run-42
      watch -n 0.5 waterclock timeline run-42
    """
    with running(load_or_exit(config)) as api:
        events = api.get("budgets", id, "timeline")
        if as_json:
            print_json(events)
            return
        record = api.get("budgets", id)
    from proxy.cli.budget_text import heading
    from proxy.cli.waterfall import ASCII, UNICODE, waterfall

    record, events = tame(record), tame(events)
    out = console()
    marks = ASCII if out.options.ascii_only else UNICODE
    for line in [heading(record), *waterfall(record, events, width=out.width, marks=marks, fit=fit)]:
        out.print(line, soft_wrap=True)
