"""The book of writes against a list: whatever was put, changed and dropped, it says what a look at every record would."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.core.policy import Guard
from proxy.core.writes import DEAD, TRANSITIONS, WriteBook, WriteEvent, WriteRecord, WriteState

HAPPENED = {WriteState.REPORTED, WriteState.APPLIED}
IDS = st.sampled_from(["w-1", "w-2", "w-3", "w-4"])
KEYS = st.sampled_from([None, "k-1", "k-2"])
FINGERPRINTS = st.sampled_from(["", "f1", "f2"])
ORIGINS = st.sampled_from(["https://api.example.com:443", "https://api.example.org:443"])
TIMES = st.integers(0, 5)


class BookMachine(RuleBasedStateMachine):
    """The book says what a look at every record would say, whatever was put, changed and dropped before."""

    def __init__(self) -> None:
        super().__init__()
        self.book = WriteBook()
        self.records: dict[str, WriteRecord] = {}

    @rule(
        id=IDS,
        key=KEYS,
        fingerprint=FINGERPRINTS,
        origin=ORIGINS,
        at=TIMES,
        state=st.sampled_from(WriteState),
    )
    def put(
        self, id: str, key: str | None, fingerprint: str, origin: str, at: int, state: WriteState
    ) -> None:
        new = WriteRecord(id, state, at, origin, "POST", "/", "orders", "run-42", 1, key, fingerprint)
        self.book.put(new)
        self.records[id] = new

    @rule(id=IDS, event=st.sampled_from(WriteEvent))
    def happen(self, id: str, event: WriteEvent) -> None:
        before = self.book.get(id)
        if before is not None and (before.state, event) in TRANSITIONS:
            self.book.put(before.after(event))
            self.records[id] = before.after(event)

    @rule(id=IDS, fingerprint=FINGERPRINTS)
    def identify(self, id: str, fingerprint: str) -> None:
        before = self.book.get(id)
        if before is not None:
            self.book.put(before._replace(fingerprint=fingerprint))
            self.records[id] = before._replace(fingerprint=fingerprint)

    @rule(id=IDS)
    def drop(self, id: str) -> None:
        self.book.drop(id)
        self.records.pop(id, None)

    @rule(
        guard=st.sampled_from(Guard),
        origin=ORIGINS,
        key=KEYS,
        print_=FINGERPRINTS,
        honoured=st.booleans(),
        at=TIMES,
    )
    def ask(self, guard: Guard, origin: str, key: str | None, print_: str, honoured: bool, at: int) -> None:
        there = [kept for kept in self.records.values() if kept.origin == origin]
        dead = oldest(kept for kept in there if given_up(kept, guard, key, print_))
        holding = oldest(
            kept for kept in there if holds_back(kept, guard, key, print_, honoured=honoured, since=at)
        )
        assert self.book.dead_letter(guard, origin, key, print_) == dead
        found = self.book.blocking(guard, origin, key, print_, key_honoured=honoured, since=at)
        assert found == (dead or holding)

    @rule(at=TIMES)
    def ask_what_is_overdue(self, at: int) -> None:
        found = self.book.overdue(at)
        assert [kept.opened_at for kept in found] == sorted(kept.opened_at for kept in found)
        assert {kept.id: kept for kept in found} == {
            kept.id: kept
            for kept in self.records.values()
            if kept.state is WriteState.UNCERTAIN and kept.opened_at < at
        }
        assert len(found) == len({kept.id for kept in found})

    @invariant()
    def the_same_is_kept(self) -> None:
        assert len(self.book) == len(self.records)
        assert {id: self.book.get(id) for id in self.records} == self.records
        states = [kept.state for kept in self.records.values()]
        assert self.book.pending() == states.count(WriteState.UNCERTAIN)
        assert self.book.dead() == states.count(WriteState.DEAD_LETTERED)
        assert {kept.id for kept in self.book.listed()} == {
            kept.id for kept in self.records.values() if kept.state is not WriteState.INTENT
        }


def oldest(records: Iterable[WriteRecord]) -> WriteRecord | None:
    return min(records, key=lambda kept: (kept.opened_at, len(kept.id), kept.id), default=None)


def given_up(kept: WriteRecord, guard: Guard, key: str | None, fingerprint: str) -> bool:
    """The rules of dead letters as they would be told of one."""
    same_work = fingerprint != "" and kept.fingerprint == fingerprint
    by_work = guard is Guard.FINGERPRINT or (key is None and kept.key is None)
    return kept.state in DEAD and ((key is not None and kept.key == key) or (same_work and by_work))


def holds_back(
    kept: WriteRecord, guard: Guard, key: str | None, fingerprint: str, *, honoured: bool, since: int
) -> bool:
    """The rules of all other records as they would be told of one."""
    if guard is Guard.NONE:
        return False
    unresolved = kept.state is WriteState.UNCERTAIN or (kept.state in HAPPENED and kept.opened_at >= since)
    if key is not None and kept.key == key:
        if honoured:
            return False
        if unresolved or kept.state is WriteState.INTENT:
            return True
    return guard is Guard.FINGERPRINT and unresolved and fingerprint != "" and kept.fingerprint == fingerprint


TestBook = BookMachine.TestCase
