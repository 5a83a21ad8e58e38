"""`waterclock dead-letters`: the units that are attempted no more until someone decides."""

from __future__ import annotations

from pathlib import Path

import click

from proxy.cli.control import Document
from proxy.cli.output import json_option, one_line, print_json
from proxy.cli.policy_file import config_option, load_or_exit
from proxy.cli.records import records_of
from proxy.cli.write_text import print_write, print_writes


@click.group("dead-letters")
def dead_letters() -> None:
    """Calls that were given up: list, show, release, discard.

    A unit of work becomes a dead letter when it has used up the attempts of its route (max_attempts), or when nobody has
    found out within writes.hold whether a write has happened. Its repetition is refused until someone decides: release it,
    discard it, or resolve it (`waterclock uncertain resolve`) once it is known whether it happened.

    Asked of the running sidecar through its control API (listen.control); of the journal itself while none runs.

    \b
    Examples:
      waterclock dead-letters list
      waterclock dead-letters release RECORD
    """


@dead_letters.command("list")
@config_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Released and discarded ones too.")
def list_(config: Path | None, as_json: bool, everything: bool) -> None:
    """List the dead letters that wait for a decision, the oldest first."""
    with records_of(load_or_exit(config)) as records:
        found = records.dead_letters(None if everything else "dead_lettered")
    if as_json:
        print_json(found.records)
    elif not found.records:
        click.echo("No dead letter waits." if not everything else "No dead letter is on record.")
    else:
        print_writes(found)


@dead_letters.command()
@config_option
@json_option
@click.argument("id")
def show(config: Path | None, as_json: bool, id: str) -> None:
    """Show the dead letter ID."""
    with records_of(load_or_exit(config)) as records:
        record = records.dead_letter(id)
    print_json(record) if as_json else print_write(record)


@dead_letters.command()
@config_option
@json_option
@click.argument("id")
def release(config: Path | None, as_json: bool, id: str) -> None:
    """Let the dead letter ID be attempted again.

    Its attempts are counted anew. If it is a write that was sent (its phase says so), look first whether it has happened: it is not asked about any more.
    """
    with records_of(load_or_exit(config)) as records:
        record = records.release(id)
    _print_decision(record, as_json)


@dead_letters.command()
@config_option
@json_option
@click.argument("id")
def discard(config: Path | None, as_json: bool, id: str) -> None:
    """Have the dead letter ID never sent again.

    Its repetition stays refused for as long as the record is kept (journal.retention).
    """
    with records_of(load_or_exit(config)) as records:
        record = records.discard(id)
    _print_decision(record, as_json)


def _print_decision(record: Document, as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        click.echo(one_line(f"{record['id']}: {record['state']}. {record['next']}"))
