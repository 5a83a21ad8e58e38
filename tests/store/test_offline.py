"""The journal for the command line, when no sidecar runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from proxy.core.policy import JournalSync
from proxy.core.units import HOUR
from proxy.core.writes import WriteEvent, WriteState, WrongTransition
from proxy.store.database import Database
from proxy.store.errors import JournalError, JournalInUse, JournalMissing
from proxy.store.journal import Journal
from proxy.store.offline import OfflineJournal
from tests.store.samples import HOUR_MS, NOW_MS, found, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal that a dead sidecar has left."""
    path = tmp_path / "journal.db"
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    database.apply(
        {
            "intent": write("intent"),
            "old": write("old", WriteState.UNCERTAIN, NOW_MS - 1000 * HOUR_MS, reason="cut"),
            "seen": write("seen", WriteState.APPLIED, NOW_MS - 1, resolved_by="ops"),
            "dead": write("dead", WriteState.DEAD_LETTERED, NOW_MS + 1, reason="max_attempts", attempts=3),
        }
    )
    database.close()
    return path


def test_it_lists_what_a_sidecar_would_find_and_deletes_nothing(path: Path) -> None:
    with OfflineJournal(path) as journal:
        listed = [(record.id, record.state, record.reason) for record in journal.listed()]
        assert listed == [
            ("old", WriteState.UNCERTAIN, "cut"),
            ("seen", WriteState.APPLIED, ""),
            ("intent", WriteState.UNCERTAIN, "recovered"),
            ("dead", WriteState.DEAD_LETTERED, "max_attempts"),
        ]
        assert journal.get("none") is None
        found_one = journal.get("seen")
        assert found_one is not None
        assert found_one.resolved_by == "ops"


@pytest.mark.parametrize(
    ("event", "state"),
    [(WriteEvent.FOUND_APPLIED, WriteState.APPLIED), (WriteEvent.FOUND_ABSENT, WriteState.NOT_APPLIED)],
)
def test_it_resolves_a_write_and_the_next_sidecar_knows(
    path: Path, event: WriteEvent, state: WriteState
) -> None:
    with OfflineJournal(path) as journal:
        settled = journal.resolve("intent", event, "kim")
        assert settled is not None
        assert (settled.state, settled.resolved_by) == (state, "kim")
        assert journal.get("intent") == settled
    assert found(path)["intent"] == settled


def test_a_write_is_resolved_once(path: Path) -> None:
    with OfflineJournal(path) as journal:
        assert journal.resolve("none", WriteEvent.FOUND_APPLIED, "kim") is None
        with pytest.raises(WrongTransition):
            journal.resolve("seen", WriteEvent.FOUND_ABSENT, "kim")
    assert found(path)["seen"].state is WriteState.APPLIED


@pytest.mark.parametrize("state", [WriteState.RELEASED, WriteState.DISCARDED])
def test_it_decides_on_a_dead_letter_and_the_next_sidecar_knows(path: Path, state: WriteState) -> None:
    with OfflineJournal(path) as journal:
        decide = journal.release if state is WriteState.RELEASED else journal.discard
        decided = decide("dead", "kim")
        assert decided is not None
        assert (decided.state, decided.resolved_by, decided.attempts) == (state, "kim", 3)
        assert journal.get("dead") == decided
    assert found(path)["dead"] == decided


def test_what_is_known_of_a_dead_letter_settles_it(path: Path) -> None:
    with OfflineJournal(path) as journal:
        settled = journal.resolve("dead", WriteEvent.FOUND_ABSENT, "kim")
        assert settled is not None
        assert settled.state is WriteState.NOT_APPLIED


def test_only_a_dead_letter_is_decided_on_and_once(path: Path) -> None:
    with OfflineJournal(path) as journal:
        assert journal.release("none") is None
        assert journal.discard("none") is None
        for id in ("intent", "seen"):
            with pytest.raises(WrongTransition):
                journal.release(id)
            with pytest.raises(WrongTransition):
                journal.discard(id)
        discarded = journal.discard("dead")
        assert discarded is not None
        assert discarded.resolved_by == "operator"
        with pytest.raises(WrongTransition):
            journal.release("dead")
        with pytest.raises(WrongTransition):
            journal.resolve("dead", WriteEvent.FOUND_ABSENT, "kim")
    states = {id: record.state for id, record in found(path).items()}
    assert states == {
        "intent": WriteState.UNCERTAIN,
        "seen": WriteState.APPLIED,
        "dead": WriteState.DISCARDED,
    }


def test_it_is_told_plainly_when_a_sidecar_runs(path: Path) -> None:
    sidecar = Journal(path, JournalSync.NORMAL, 24 * HOUR)
    sidecar.open(NOW_MS)
    with pytest.raises(JournalInUse) as caught, OfflineJournal(path):
        pass
    assert "is using it" in caught.value.problem
    assert "control API" in caught.value.remedy
    sidecar.close()
    with OfflineJournal(path), pytest.raises(JournalInUse):
        sidecar.open(NOW_MS)


def test_where_there_is_no_journal_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(JournalMissing), OfflineJournal(tmp_path / "no" / "journal.db"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_text("hello\n" * 500)
    with pytest.raises(JournalError, match="no journal"), OfflineJournal(path):
        pass


def test_a_decision_that_cannot_be_written_is_not_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with OfflineJournal(path) as journal:
        monkeypatch.setattr(Database, "apply", fails)
        with pytest.raises(JournalError):
            journal.resolve("intent", WriteEvent.FOUND_APPLIED, "kim")
        with pytest.raises(JournalError):
            journal.release("dead", "kim")
        states = {record.id: record.state for record in journal.listed()}
    assert states["intent"] is WriteState.UNCERTAIN
    assert states["dead"] is WriteState.DEAD_LETTERED
