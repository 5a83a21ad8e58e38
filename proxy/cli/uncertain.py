"""`waterclock uncertain`: the writes of unknown effect, of a running sidecar or of the journal that one has left."""

from __future__ import annotations

from pathlib import Path

import click

from proxy.cli.output import json_option, one_line, print_json
from proxy.cli.policy_file import config_option, load_or_exit
from proxy.cli.records import records_of
from proxy.cli.write_text import print_write, print_writes


@click.group()
def uncertain() -> None:
    """Writes whose effect is unknown: list, show, resolve.

    Each was sent and never answered, so it may have happened. Its repetition is refused until somebody finds that it did
    not (resolve). With nobody to find out within writes.hold, it becomes a dead letter.

    Asked of the running sidecar through its control API (listen.control); of the journal itself while none runs.

    \b
    Examples:
      waterclock uncertain list
      waterclock uncertain show RECORD
      waterclock uncertain resolve RECORD --not-applied
    """


@uncertain.command("list")
@config_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Resolved and answered ones too.")
def list_(config: Path | None, as_json: bool, everything: bool) -> None:
    """List the writes whose effect is unknown, the oldest first."""
    with records_of(load_or_exit(config)) as records:
        found = records.uncertain(None if everything else "uncertain")
    if as_json:
        print_json(found.records)
    elif not found.records:
        click.echo("No write is uncertain." if not everything else "No write is on record.")
    else:
        print_writes(found)


@uncertain.command()
@config_option
@json_option
@click.argument("id")
def show(config: Path | None, as_json: bool, id: str) -> None:
    """Show the record ID, with the late answer if one came."""
    with records_of(load_or_exit(config)) as records:
        record = records.one(id)
    print_json(record) if as_json else print_write(record)


@uncertain.command()
@config_option
@json_option
@click.argument("id")
@click.option(
    "--applied/--not-applied",
    "applied",
    required=True,
    default=None,
    help="What you found on the other side.",
)
def resolve(config: Path | None, as_json: bool, id: str, applied: bool) -> None:
    """Settle the record ID with what you found out.

    After --not-applied the same write may be sent again; after --applied nothing is left to do.
    """
    with records_of(load_or_exit(config)) as records:
        record = records.resolve(id, applied)
    if as_json:
        print_json(record)
    else:
        click.echo(one_line(f"{record['id']}: {record['state']}. {record['next']}"))
