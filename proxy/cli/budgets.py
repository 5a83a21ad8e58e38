"""`waterclock budgets` and `waterclock close`: the jobs of a running sidecar, the record of one, and its end."""

from __future__ import annotations

from pathlib import Path

import click

from proxy.cli.control import running
from proxy.cli.output import console, json_option, many, print_json, tame
from proxy.cli.policy_file import config_option, load_or_exit


@click.command()
@config_option
@json_option
@click.option("--all", "everything", is_flag=True, help="All that are known, those of single calls too.")
@click.argument("id", required=False)
def budgets(config: Path | None, as_json: bool, everything: bool, id: str | None) -> None:
    """List the jobs; with ID, show the record of one.

    Listed are the budgets that are open or have ended lately. The record of one says first whether the job is complete and whether it was closed in time, then how each step went, which
    decision made it wait or cut it, and which of its writes are in doubt.

    Asked of the running sidecar through its control API (listen.control), which keeps a job for ledger.retention after
    its end.

    \b
    Examples:
      waterclock budgets
      waterclock budgets run-42
      waterclock budgets run-42 --json | jq .verdicts
    """
    with running(load_or_exit(config)) as api:
        if id is not None:
            document = api.get("budgets", id)
        else:
            document = api.get("budgets", **({"state": "all", "limit": "500"} if everything else {}))
    if as_json:
        print_json(document)
        return
    from proxy.cli.budget_text import print_budgets, print_record

    document = tame(document)
    if id is not None:
        print_record(document, console())
        return
    listed = document["budgets"]
    if listed:
        print_budgets(listed, console())
    elif everything:
        click.echo("No budget has been opened here yet, or all of them are forgotten.")
    else:
        click.echo("No budget is open, and none has ended in the last minutes.")
    if document["total"] > len(listed):
        click.echo(f"The newest {len(listed)} of {document['total']} are shown.")
    more = document["known"] - document["total"]
    if more and not everything:
        click.echo(f"{many(more, 'more is', 'more are')} known, ended earlier or of one call each: --all")


@click.command()
@config_option
@json_option
@click.argument("id")
def close(config: Path | None, as_json: bool, id: str) -> None:
    """Say that the job ID is done, and print the verdict on it.

    For an agent that no entry request stands for: whether a job was closed in time can only be said when somebody says
    that it is done. A second time changes nothing.

    \b
    Example, at the end of an agent's script:
      waterclock close run-42
    """
    with running(load_or_exit(config)) as api:
        record = api.post("budgets", id, "close")
    if as_json:
        print_json(record)
        return
    from proxy.cli.budget_text import print_verdict

    print_verdict(tame(record), console())
