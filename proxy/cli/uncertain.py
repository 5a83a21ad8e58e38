"""`waterclock uncertain`: the writes of unknown effect, of a running sidecar or of the journal that one has left."""

from __future__ import annotations

import http.client  # noqa: TID251 - a command may wait; no call passes through it
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import click

from proxy.cli.policy_file import config_option, load_or_exit
from proxy.core.policy import Address, Policy

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


class Records(Protocol):
    """Where the records are: behind the control API, or in the journal itself."""

    def all(self) -> list[dict[str, Any]]:
        """Return every record, the oldest first."""

    def one(self, id: str) -> dict[str, Any]:
        """Return one record."""

    def resolve(self, id: str, applied: bool) -> dict[str, Any]:
        """Settle one record, and return it."""


@click.group()
def uncertain() -> None:
    """Writes that were sent and never answered: list, show, resolve.

    Asked of the running sidecar through its control API (listen.control); of the journal itself while none runs.
    """


@uncertain.command("list")
@config_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Resolved and answered ones too.")
def list_(config: Path | None, as_json: bool, everything: bool) -> None:
    """List the writes whose effect is unknown, the oldest first."""
    with _records(load_or_exit(config)) as records:
        found = [each for each in records.all() if everything or each["state"] == "uncertain"]
    if as_json:
        _print_json(found)
    elif not found:
        click.echo("No write is uncertain." if not everything else "No write is on record.")
    else:
        _print_table(found)


@uncertain.command()
@config_option
@json_option
@click.argument("id")
def show(config: Path | None, as_json: bool, id: str) -> None:
    """Show the record ID, with the late answer if one came."""
    with _records(load_or_exit(config)) as records:
        record = records.one(id)
    _print_json(record) if as_json else _print_record(record)


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
    with _records(load_or_exit(config)) as records:
        record = records.resolve(id, applied)
    if as_json:
        _print_json(record)
    else:
        click.echo(f"{record['id']}: {record['state']}. {record['next']}")


# -- where the records are ---------------------------------------------------------------------------------------------


@contextmanager
def _records(policy: Policy) -> Iterator[Records]:
    """Give the running sidecar's records, or the journal's where no sidecar runs."""
    from proxy.app import journal_path
    from proxy.store.errors import JournalError, JournalInUse
    from proxy.store.offline import OfflineJournal

    api = _ControlApi(policy.listen.control)
    if api.answers():
        yield api
        return
    try:
        with OfflineJournal(journal_path(policy)) as journal:
            yield _Journal(journal)
    except JournalInUse as error:
        _fail(
            f"A sidecar holds {error.path}, but none answers at {policy.listen.control}: name its policy with -c FILE."
        )
    except JournalError as error:
        _fail(str(error))


class _ControlApi:
    """The control API of a running sidecar."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def answers(self) -> bool:
        """Say whether a sidecar is there."""
        try:
            return "endpoints" in self._ask("GET", "/")
        except (OSError, http.client.HTTPException, ValueError):  # noqa: TID251 - see the import
            return False

    def all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("GET", "/uncertain")["writes"]
        return found

    def one(self, id: str) -> dict[str, Any]:
        return self._ask("GET", f"/uncertain/{id}")

    def resolve(self, id: str, applied: bool) -> dict[str, Any]:
        return self._ask("POST", f"/uncertain/{id}/resolve", {"applied": applied})

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        host = "127.0.0.1" if self._address.host in ("0.0.0.0", "::") else self._address.host  # noqa: S104
        connection = http.client.HTTPConnection(host, self._address.port, timeout=10)  # noqa: TID251 - see the import
        try:
            connection.request(
                method,
                path,
                json.dumps(body) if body is not None else None,
                {"Content-Type": "application/json"} if body is not None else {},
            )
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status >= 400:
            _fail(f"{answer.get('title', response.reason)}: {answer.get('detail', '')}".rstrip(": "))
        return answer


class _Journal:
    """The journal that a sidecar has left."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal

    def all(self) -> list[dict[str, Any]]:
        return [self._view(record) for record in self._journal.listed()]

    def one(self, id: str) -> dict[str, Any]:
        return self._view(self._found(id))

    def resolve(self, id: str, applied: bool) -> dict[str, Any]:
        from proxy.core.writes import WriteEvent, WrongTransition

        event = WriteEvent.FOUND_APPLIED if applied else WriteEvent.FOUND_ABSENT
        try:
            return self._view(self._journal.resolve(self._found(id).id, event, "operator"))
        except WrongTransition as error:
            _fail(f"Record {id} is {error.state} already; it cannot be resolved again.")

    def _found(self, id: str) -> Any:
        record = self._journal.get(id)
        if record is None:
            _fail(f"There is no record {id}; `waterclock uncertain list --all` shows what there is.")
        return record

    @staticmethod
    def _view(record: Any) -> dict[str, Any]:
        from proxy.admin.views import write_view

        return write_view(record, time.time_ns() // 1_000_000)  # noqa: TID251 - ages of records are of the time of day


def _fail(message: str) -> NoReturn:
    click.echo(f"waterclock: {message}", err=True)
    sys.exit(1)


# -- for people --------------------------------------------------------------------------------------------------------


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def _print_table(records: list[dict[str, Any]]) -> None:
    """Print what tells one write from another; the rest is for `show`. What does not fit goes on in the next line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("record", "state", "age", "reason"):
        table.add_column(column, no_wrap=True)
    table.add_column("write", overflow="fold")
    for each in records:
        age = f"{each['age_ms'] / 1000:.0f} s"
        table.add_row(each["id"], each["state"], age, each["reason"], f"{each['method']} {each['target']}")
    Console(highlight=False, markup=False).print(table)


def _print_record(record: dict[str, Any]) -> None:
    answer = record.pop("answer")
    for name, value in record.items():
        click.echo(f"{name + ':':<17} {'-' if value in (None, '') else _harmless(value)}")
    if answer is not None:
        click.echo("answer:")
        headers = answer.pop("headers")
        for name, value in answer.items():
            click.echo(f"  {name + ':':<15} {_harmless(value)}")
        for name, value in headers:
            click.echo(f"  header:         {name}: {_harmless(value)}")


def _harmless(value: Any) -> str:
    """Return a value so that it can be shown: what another side has said may not speak to the terminal."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else f"\\x{ord(each):02x}" for each in str(value)
    )
