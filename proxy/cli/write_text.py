"""Writes as text for people: a table of many, all that is known of one."""

from __future__ import annotations

import click

from proxy.cli.control import Document
from proxy.cli.output import ago, console, harmless, tame
from proxy.cli.records import Listed


def print_writes(listed: Listed) -> None:
    """Print what tells one write from another; the rest is for `show`. What does not fit goes on in the next line."""
    records = tame(listed.records)
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("record", "state", "age", "reason"):
        table.add_column(column, no_wrap=True)
    table.add_column("write", overflow="fold")
    for each in records:
        call = f"{each['method']} {each['target']}"
        table.add_row(each["id"], each["state"], ago(each["age_ms"]), each["reason"], call)
    console().print(table)
    more = listed.total - len(listed.records)
    if more > 0:
        click.echo(f"{more} more are on record; the oldest {len(listed.records)} are shown.")


def print_write(record: Document) -> None:
    """Print one write, with its late answer if there is one."""
    known = dict(record)
    answer = known.pop("answer")
    for name, value in known.items():
        click.echo(f"{harmless(name) + ':':<17} {'-' if value in (None, '') else harmless(value)}")
    if answer is not None:
        click.echo("answer:")
        answered = dict(answer)
        headers = answered.pop("headers")
        for name, value in answered.items():
            click.echo(f"  {harmless(name) + ':':<15} {harmless(value)}")
        for name, value in headers:
            click.echo(f"  header:         {harmless(name)}: {harmless(value)}")
