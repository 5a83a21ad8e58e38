"""Where the records of writes are: with the running sidecar, or in the journal that one has left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from proxy.cli.control import ControlApi, Document, NoAnswer, Refusal
from proxy.cli.output import fail
from proxy.core.policy import Policy

if TYPE_CHECKING:
    from proxy.core.writes import WriteRecord
    from proxy.store.offline import OfflineJournal


class Listed(NamedTuple):
    """Records, the oldest first, and how many there are in all."""

    records: list[Document]
    total: int


class Records(Protocol):
    """The records of writes, each as `admin.views.write_view` shows it."""

    def uncertain(self, state: str | None) -> Listed:
        """Return the writes in a state, or every one."""

    def one(self, id: str) -> Document:
        """Return one record."""

    def resolve(self, id: str, applied: bool) -> Document:
        """Settle one record, and return it."""

    def dead_letters(self, state: str | None) -> Listed:
        """Return the dead letters in a state, or every one."""

    def dead_letter(self, id: str) -> Document:
        """Return one dead letter."""

    def release(self, id: str) -> Document:
        """Let a dead letter be attempted again, and return it."""

    def discard(self, id: str) -> Document:
        """Have a dead letter never sent again, and return it."""


@contextmanager
def records_of(policy: Policy) -> Iterator[Records]:
    """Give the running sidecar's records, or the journal's where no sidecar runs; end with status 1 when neither can be had."""
    from proxy.app import journal_path
    from proxy.observe.walltime import unix_ms
    from proxy.store.errors import JournalError, JournalInUse
    from proxy.store.offline import OfflineJournal

    api = ControlApi(policy.listen.control)
    try:
        if api.answers():
            yield _Running(api)
            return
        with OfflineJournal(journal_path(policy), unix_ms()) as journal:
            yield _Left(journal)
    except JournalInUse as error:
        fail(
            f"A sidecar holds {error.path}, but none answers at {policy.listen.control}: name its policy with -c FILE."
        )
    except (NoAnswer, Refusal, JournalError) as error:
        fail(str(error))


class _Running:
    """The records of a running sidecar."""

    def __init__(self, api: ControlApi) -> None:
        self._api = api

    def uncertain(self, state: str | None) -> Listed:
        found = self._api.get("uncertain", **_in(state))
        return Listed(found["writes"], found["total"])

    def one(self, id: str) -> Document:
        return self._api.get("uncertain", id)

    def resolve(self, id: str, applied: bool) -> Document:
        return self._api.post("uncertain", id, "resolve", body={"applied": applied})

    def dead_letters(self, state: str | None) -> Listed:
        found = self._api.get("dead-letters", **_in(state))
        return Listed(found["dead_letters"], found["total"])

    def dead_letter(self, id: str) -> Document:
        return self._api.get("dead-letters", id)

    def release(self, id: str) -> Document:
        return self._api.post("dead-letters", id, "release")

    def discard(self, id: str) -> Document:
        return self._api.post("dead-letters", id, "discard")


class _Left:
    """The records in a journal that no sidecar holds."""

    def __init__(self, journal: OfflineJournal) -> None:
        self._journal = journal

    def uncertain(self, state: str | None) -> Listed:
        return _listed([each for each in self._journal.listed() if state in (None, each.state)])

    def one(self, id: str) -> Document:
        return _view(self._found(id))

    def resolve(self, id: str, applied: bool) -> Document:
        from proxy.core.writes import WriteEvent, WrongTransition

        event = WriteEvent.FOUND_APPLIED if applied else WriteEvent.FOUND_ABSENT
        self._found(id)
        try:
            return _view(_there(id, self._journal.resolve(id, event, "operator")))
        except WrongTransition as error:
            fail(f"Record {id} is {error.state} already; it cannot be resolved again.")

    def dead_letters(self, state: str | None) -> Listed:
        from proxy.admin.endpoints import DEAD_LETTERS

        dead = [each for each in self._journal.listed() if each.state in DEAD_LETTERS]
        return _listed([each for each in dead if state in (None, each.state)])

    def dead_letter(self, id: str) -> Document:
        return _view(self._dead(id))

    def release(self, id: str) -> Document:
        from proxy.core.writes import WrongTransition

        self._dead(id)
        try:
            return _view(_there(id, self._journal.release(id)))
        except WrongTransition as error:
            fail(f"Record {id} is {error.state} already; it cannot be released.")

    def discard(self, id: str) -> Document:
        from proxy.core.writes import WrongTransition

        self._dead(id)
        try:
            return _view(_there(id, self._journal.discard(id)))
        except WrongTransition as error:
            fail(f"Record {id} is {error.state} already; it cannot be discarded.")

    def _found(self, id: str) -> WriteRecord:
        return _there(id, self._journal.get(id))

    def _dead(self, id: str) -> WriteRecord:
        from proxy.admin.endpoints import DEAD_LETTERS

        record = self._found(id)
        if record.state not in DEAD_LETTERS:
            fail(
                f"Record {id} is no dead letter: it is {record.state}. `waterclock uncertain show {id}` shows it."
            )
        return record


def _in(state: str | None) -> dict[str, str]:
    return {} if state is None else {"state": state}


def _listed(records: list[WriteRecord]) -> Listed:
    return Listed([_view(record) for record in records], len(records))


def _there(id: str, record: WriteRecord | None) -> WriteRecord:
    if record is None:
        fail(f"There is no record {id}; `waterclock uncertain list --all` shows what there is.")
    return record


def _view(record: WriteRecord) -> Document:
    from proxy.admin.views import write_view

    return write_view(record, time.time_ns() // 1_000_000)  # noqa: TID251 - ages of records are of the time of day
