"""The life of a write's record, and the book that answers: was this sent before, and is it settled?"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.core.policy import Guard
from proxy.core.writes import (
    TRANSITIONS,
    WriteBook,
    WriteEvent,
    WriteRecord,
    WriteState,
    WrongTransition,
    repetition,
)

ORIGIN = "https://api.example.com:443"
ELSEWHERE = "https://api.example.org:443"


STANDING = {WriteState.UNCERTAIN, WriteState.REPORTED, WriteState.APPLIED}


def record(
    id: str = "w-1",
    state: WriteState = WriteState.UNCERTAIN,
    *,
    key: str | None = None,
    fingerprint: str = "f1",
    origin: str = ORIGIN,
    opened_at: int = 1_000,
) -> WriteRecord:
    """A write of which the test names what matters to it."""
    return WriteRecord(
        id, state, opened_at, origin, "POST", f"{origin}/v1/orders", "orders", "run-42", 1, key, fingerprint
    )


def blocked_by(
    book: WriteBook,
    *,
    guard: Guard = Guard.FINGERPRINT,
    origin: str = ORIGIN,
    key: str | None = None,
    fingerprint: str = "f1",
    honoured: bool = False,
    since: int = 0,
) -> str | None:
    """The id of the record that holds a write back."""
    found = book.blocking(guard, origin, key, fingerprint, key_honoured=honoured, since=since)
    return None if found is None else found.id


# -- one record --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "event"), [*itertools.product(WriteState, WriteEvent)])
def test_every_event_in_every_state(state: WriteState, event: WriteEvent) -> None:
    """It is in the table, or it is a WrongTransition that names both; there is nothing in between."""
    before = record(state=state)
    if (state, event) in TRANSITIONS:
        assert before.after(event) == replace(before, state=TRANSITIONS[state, event])
    else:
        with pytest.raises(WrongTransition, match=f"{state} .* {event}") as caught:
            before.after(event)
        assert (caught.value.state, caught.value.event) == (state, event)


def test_the_table_is_the_story_that_is_told() -> None:
    """An intent is answered, withdrawn or lost; what was lost may be answered late, or settled by someone's look."""
    leads: dict[WriteState, set[WriteState]] = {state: set() for state in WriteState}
    for (state, _), after in TRANSITIONS.items():
        leads[state].add(after)
    assert leads[WriteState.INTENT] == {WriteState.REPORTED, WriteState.WITHDRAWN, WriteState.UNCERTAIN}
    assert leads[WriteState.UNCERTAIN] == {WriteState.REPORTED, WriteState.APPLIED, WriteState.NOT_APPLIED}
    assert leads[WriteState.REPORTED] == {WriteState.NOT_APPLIED}
    for settled in (WriteState.WITHDRAWN, WriteState.APPLIED, WriteState.NOT_APPLIED):
        assert leads[settled] == set()


@pytest.mark.parametrize("state", sorted({*STANDING, WriteState.INTENT}))
def test_each_repetition_is_told_what_is_known(state: WriteState) -> None:
    """The sentence names the record and the age, and says no more than is known."""
    said = repetition(record(state=state), 3_500)
    assert "(record w-1)" in said
    assert ("may have happened" in said) is (state is WriteState.UNCERTAIN)


def test_a_settled_record_stays_settled() -> None:
    """Two people who look at once cannot both decide; the second is told."""
    settled = record().after(WriteEvent.FOUND_ABSENT)
    with pytest.raises(WrongTransition):
        settled.after(WriteEvent.FOUND_APPLIED)


def test_a_unit_is_known_by_its_key_where_it_has_one() -> None:
    """Else by its fingerprint."""
    assert record(key="k-1").unit == "k-1"
    assert record().unit == "f1"


# -- what blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", WriteState)
def test_what_may_have_happened_or_has_blocks_the_same_work(state: WriteState) -> None:
    """What was withdrawn or found absent is over. An intent is in flight: two equal calls at once may be meant."""
    blocks = state in STANDING
    assert blocked_by(WriteBook([record(state=state)])) == ("w-1" if blocks else None)


@pytest.mark.parametrize("state", WriteState)
def test_an_uncertain_record_and_one_in_flight_block_their_key(state: WriteState) -> None:
    """A second call under the key of one in flight is a repetition, whatever its body."""
    blocks = state in {*STANDING, WriteState.INTENT}
    book = WriteBook([record(state=state, key="k-1")])
    assert blocked_by(book, key="k-1", fingerprint="f2") == ("w-1" if blocks else None)


BOOK = [record("keyed", key="k-1", fingerprint="f1"), record("plain", fingerprint="f2")]


@pytest.mark.parametrize(
    ("guard", "key", "fingerprint", "honoured", "blocker"),
    [
        # the same work under a new key is the same work (`replanned-duplicate`)
        (Guard.FINGERPRINT, "k-2", "f1", False, "keyed"),
        (Guard.FINGERPRINT, None, "f1", False, "keyed"),
        (Guard.FINGERPRINT, "k-2", "f2", False, "plain"),
        (Guard.FINGERPRINT, "k-2", "f3", False, None),
        # the same key is a repetition even with another body
        (Guard.FINGERPRINT, "k-1", "f3", False, "keyed"),
        # by key alone
        (Guard.KEY, "k-1", "f3", False, "keyed"),
        (Guard.KEY, "k-2", "f1", False, None),
        (Guard.KEY, None, "f1", False, None),
        # not at all
        (Guard.NONE, "k-1", "f1", False, None),
        # a key that the other side honours: a repetition under it is left to the other side, other repetitions not
        (Guard.FINGERPRINT, "k-1", "f1", True, None),
        (Guard.KEY, "k-1", "f1", True, None),
        (Guard.FINGERPRINT, "k-2", "f1", True, "keyed"),
        (Guard.FINGERPRINT, "k-1", "f2", True, "plain"),
        # honoured keys are of no help to a call without one
        (Guard.FINGERPRINT, None, "f2", True, "plain"),
    ],
)
def test_guards(guard: Guard, key: str | None, fingerprint: str, honoured: bool, blocker: str | None) -> None:
    """By key, by what the call says, or not at all; and what a key that is honoured changes."""
    assert (
        blocked_by(WriteBook(BOOK), guard=guard, key=key, fingerprint=fingerprint, honoured=honoured)
        == blocker
    )


def test_a_key_in_flight_that_is_honoured_does_not_block() -> None:
    """The other side sorts two calls under one key by itself."""
    book = WriteBook([record(state=WriteState.INTENT, key="k-1")])
    assert blocked_by(book, key="k-1", honoured=True) is None


def test_origins_do_not_meet() -> None:
    """A key and a body mean something to one origin only."""
    book = WriteBook([record(key="k-1")])
    assert blocked_by(book, key="k-1", origin=ELSEWHERE) is None


@pytest.mark.parametrize(("since", "blocks"), [(999, True), (1_000, True), (1_001, False)])
def test_a_record_blocks_for_its_hold(since: int, blocks: bool) -> None:
    """What was opened before `since` is still kept and shown, but holds nothing back."""
    book = WriteBook([record(key="k-1", opened_at=1_000)])
    assert (blocked_by(book, since=since) is not None) is blocks
    assert (blocked_by(book, key="k-1", fingerprint="f2", since=since) is not None) is blocks
    assert book.pending() == 1


def test_a_key_in_flight_blocks_however_long_it_takes() -> None:
    """It is not a memory but a call that runs."""
    book = WriteBook([record(state=WriteState.INTENT, key="k-1")])
    assert blocked_by(book, key="k-1", since=10**15) == "w-1"


def test_the_first_of_several_is_named() -> None:
    """The refusal carries the record of the first, whichever came into the book first."""
    first, second, third = (record(id, opened_at=at) for id, at in (("w-9", 1), ("w-1", 2), ("w-2", 2)))
    for order in itertools.permutations([first, second, third]):
        book = WriteBook(order)
        assert blocked_by(book) == "w-9"
        assert blocked_by(book, since=2) == "w-1"
        assert [kept.id for kept in book.listed()] == ["w-9", "w-1", "w-2"]


def test_a_body_that_is_still_passing_has_no_fingerprint() -> None:
    """Nothing is found by the empty one, and what is added later counts from then on."""
    book = WriteBook([record(fingerprint="")])
    assert blocked_by(book, fingerprint="") is None
    book.put(record(fingerprint="f1"))
    assert blocked_by(book) == "w-1"


def test_intents_are_not_listed() -> None:
    """They are calls in flight; what is shown is what someone may have to look at, and what became of it."""
    book = WriteBook([record("a", WriteState.INTENT), record("b"), record("c", WriteState.APPLIED)])
    assert [kept.id for kept in book.listed()] == ["b", "c"]
    assert book.pending() == 1


# -- the book against a list -------------------------------------------------------------------------------------

IDS = st.sampled_from(["w-1", "w-2", "w-3", "w-4"])
KEYS = st.sampled_from([None, "k-1", "k-2"])
FINGERPRINTS = st.sampled_from(["", "f1", "f2"])
ORIGINS = st.sampled_from([ORIGIN, ELSEWHERE])
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
        new = record(id, state, key=key, fingerprint=fingerprint, origin=origin, opened_at=at)
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
            self.book.put(replace(before, fingerprint=fingerprint))
            self.records[id] = replace(before, fingerprint=fingerprint)

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
        holding = [
            kept
            for kept in self.records.values()
            if holds_back(kept, guard, origin, key, print_, honoured=honoured, since=at)
        ]
        oldest = min(holding, key=lambda kept: (kept.opened_at, kept.id), default=None)
        assert self.book.blocking(guard, origin, key, print_, key_honoured=honoured, since=at) == oldest

    @invariant()
    def the_same_is_kept(self) -> None:
        assert len(self.book) == len(self.records)
        assert {id: self.book.get(id) for id in self.records} == self.records
        uncertain = [kept for kept in self.records.values() if kept.state is WriteState.UNCERTAIN]
        assert self.book.pending() == len(uncertain)
        assert {kept.id for kept in self.book.listed()} == {
            kept.id for kept in self.records.values() if kept.state is not WriteState.INTENT
        }


def holds_back(
    kept: WriteRecord,
    guard: Guard,
    origin: str,
    key: str | None,
    fingerprint: str,
    *,
    honoured: bool,
    since: int,
) -> bool:
    """The rules as they would be told of one record."""
    if guard is Guard.NONE or kept.origin != origin:
        return False
    unresolved = kept.state in STANDING and kept.opened_at >= since
    if key is not None and kept.key == key:
        if honoured:
            return False
        if unresolved or kept.state is WriteState.INTENT:
            return True
    return guard is Guard.FINGERPRINT and unresolved and fingerprint != "" and kept.fingerprint == fingerprint


TestBook = BookMachine.TestCase
