"""The life of a write's record, and the book that answers: was this sent before, and is it settled?"""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

from proxy.core.calls import Phase
from proxy.core.policy import Guard
from proxy.core.writes import (
    DEAD,
    NEXT_AFTER,
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
SOURCE = Path(__file__).parents[2] / "proxy" / "core" / "writes.py"

HAPPENED = {WriteState.REPORTED, WriteState.APPLIED}
STANDING = {WriteState.UNCERTAIN, *HAPPENED}
OVER = {WriteState.WITHDRAWN, WriteState.NOT_APPLIED, WriteState.RELEASED}


def record(
    id: str = "w-1",
    state: WriteState = WriteState.UNCERTAIN,
    *,
    key: str | None = None,
    fingerprint: str = "f1",
    origin: str = ORIGIN,
    opened_at: int = 1_000,
    method: str = "POST",
    phase: Phase = Phase.SENT,
    attempts: int = 1,
) -> WriteRecord:
    """A write of which the test names what matters to it."""
    return WriteRecord(
        id,
        state,
        opened_at,
        origin,
        method,
        f"{origin}/v1/orders",
        "orders",
        "run-42",
        1,
        key,
        fingerprint,
        phase=phase,
        attempts=attempts,
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
        assert before.after(event) == before._replace(state=TRANSITIONS[state, event])
    else:
        with pytest.raises(WrongTransition, match=f"{state} .* {event}") as caught:
            before.after(event)
        assert (caught.value.state, caught.value.event) == (state, event)


def test_the_table_is_the_story_that_is_told() -> None:
    """Each line of the module's docstring is a row of the table, and there is no other row."""
    told = ast.get_docstring(ast.parse(SOURCE.read_text(encoding="utf-8"))) or ""
    lines = re.findall(r"^ +(\w+) +-- (\w+) -+> (\w+)  ", told, re.MULTILINE)
    story = {(WriteState(state), WriteEvent(event)): WriteState(after) for state, event, after in lines}
    assert len(lines) == len(story)
    assert story == TRANSITIONS


def test_a_dead_letter_can_become_all_that_an_uncertain_write_can() -> None:
    """It is still not known whether it happened. Besides, someone may decide; and it is given up once."""
    of_both = {event for state, event in TRANSITIONS if state is WriteState.UNCERTAIN}
    of_dead = {event for state, event in TRANSITIONS if state is WriteState.DEAD_LETTERED}
    assert of_dead - of_both == {WriteEvent.RELEASED, WriteEvent.DISCARDED}
    assert of_both - of_dead == {WriteEvent.GIVEN_UP}


@pytest.mark.parametrize("state", [WriteState.APPLIED, WriteState.DISCARDED, *OVER])
def test_what_is_settled_is_settled(state: WriteState) -> None:
    """Nothing leads out of it."""
    assert [event for before, event in TRANSITIONS if before is state] == []


@pytest.mark.parametrize("state", sorted({*STANDING, *DEAD, WriteState.INTENT}))
def test_each_repetition_is_told_what_is_known(state: WriteState) -> None:
    """The sentence names the record, and says no more than is known."""
    said = repetition(record(state=state), 3_500)
    assert "(record w-1)" in said
    assert ("may have happened" in said) is (state in {WriteState.UNCERTAIN, *DEAD})
    assert ("2.5 s ago" in said) is (state not in DEAD)


@pytest.mark.parametrize(
    ("method", "phase", "known"),
    [
        ("POST", Phase.NOT_SENT, "did not succeed"),
        ("POST", Phase.SENDING, "may have happened"),
        ("POST", Phase.HEAD_RECEIVED, "may have happened"),
        ("POST", Phase.COMPLETE, "did not succeed"),
        ("GET", Phase.SENT, "did not succeed"),
    ],
)
def test_what_is_said_of_a_dead_letter_depends_on_what_was_sent(
    method: str, phase: Phase, known: str
) -> None:
    """Who is told that it did not succeed may do it in another way; so that is said only where it is known."""
    dead = record(state=WriteState.DEAD_LETTERED, method=method, phase=phase, attempts=3)
    assert f"attempted 3 times, {known}, and was given up" in repetition(dead, 0)
    said = repetition(dead._replace(state=WriteState.DISCARDED, attempts=1), 0)
    assert f"attempted once, {known}, and was discarded" in said
    assert "never sent again" in NEXT_AFTER[WriteState.DISCARDED]


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
    blocks = state in {*STANDING, *DEAD}
    assert blocked_by(WriteBook([record(state=state)])) == ("w-1" if blocks else None)


@pytest.mark.parametrize("state", WriteState)
def test_an_uncertain_record_and_one_in_flight_block_their_key(state: WriteState) -> None:
    """A second call under the key of one in flight is a repetition, whatever its body."""
    blocks = state in {*STANDING, *DEAD, WriteState.INTENT}
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


@pytest.mark.parametrize("state", sorted(HAPPENED))
@pytest.mark.parametrize(("since", "blocks"), [(999, True), (1_000, True), (1_001, False)])
def test_what_has_happened_blocks_for_its_hold(state: WriteState, since: int, blocks: bool) -> None:
    """What was opened before `since` is still kept and shown, but holds nothing back."""
    book = WriteBook([record(state=state, key="k-1", opened_at=1_000)])
    assert (blocked_by(book, since=since) is not None) is blocks
    assert (blocked_by(book, key="k-1", fingerprint="f2", since=since) is not None) is blocks
    assert len(book.listed()) == 1


@pytest.mark.parametrize("state", sorted({WriteState.UNCERTAIN, *DEAD}))
def test_what_may_have_happened_blocks_until_somebody_knows_or_decides(state: WriteState) -> None:
    """Promise 9: time alone does not tell whether it happened."""
    book = WriteBook([record(state=state, key="k-1")])
    assert blocked_by(book, since=10**15) == "w-1"
    assert blocked_by(book, key="k-1", fingerprint="f2", since=10**15) == "w-1"


def test_an_uncertain_write_that_outlives_its_hold_is_overdue() -> None:
    """The oldest first, each as long as it is uncertain; what is of another state is not asked about."""
    book = WriteBook(record(state, state, opened_at=1) for state in WriteState)
    for id, at in (("new", 9), ("old", 3), ("older", 2)):
        book.put(record(id, opened_at=at))
    assert [kept.id for kept in book.overdue(9)] == ["uncertain", "older", "old"]
    assert [kept.id for kept in book.overdue(2)] == ["uncertain"]
    book.drop("older")
    book.put(record("old", opened_at=3).after(WriteEvent.GIVEN_UP))
    book.put(record("uncertain", WriteState.REPORTED, opened_at=1))
    assert book.overdue(9) == []
    assert [kept.id for kept in book.overdue(10)] == ["new"]
    assert (book.pending(), book.dead()) == (1, 2)
    book.put(record("new", opened_at=20))
    assert book.overdue(10) == []
    assert [kept.id for kept in book.overdue(21)] == ["new"]


def test_a_key_in_flight_blocks_however_long_it_takes() -> None:
    """It is not a memory but a call that runs."""
    book = WriteBook([record(state=WriteState.INTENT, key="k-1")])
    assert blocked_by(book, key="k-1", since=10**15) == "w-1"


def test_the_first_of_several_is_named() -> None:
    """The refusal carries the record of the first, whichever came into the book first."""
    reported = WriteState.REPORTED
    ages = (("w-9", 1), ("w-1", 2), ("w-2", 2))
    first, second, third = (record(id, reported, opened_at=at) for id, at in ages)
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


# -- dead letters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(DEAD))
@pytest.mark.parametrize(
    ("guard", "of_letter", "of_call", "blocks"),
    [
        # the same key, whatever the body, under every guard
        *((guard, ("k-1", "f1"), ("k-1", "f2"), True) for guard in Guard),
        *((guard, ("k-1", "f1"), ("k-2", "f2"), False) for guard in Guard),
        # neither has a key: the same work, under every guard
        *((guard, (None, "f1"), (None, "f1"), True) for guard in Guard),
        *((guard, (None, "f1"), (None, "f2"), False) for guard in Guard),
        # the same work under another key, or with one and without: as the route knows repeats
        *((guard, ("k-1", "f1"), ("k-2", "f1"), guard is Guard.FINGERPRINT) for guard in Guard),
        *((guard, ("k-1", "f1"), (None, "f1"), guard is Guard.FINGERPRINT) for guard in Guard),
        *((guard, (None, "f1"), ("k-1", "f1"), guard is Guard.FINGERPRINT) for guard in Guard),
        # of a body that is still passing nothing is known
        *((guard, (None, ""), (None, ""), False) for guard in Guard),
    ],
)
def test_a_dead_letter_is_attempted_no_more(
    state: WriteState,
    guard: Guard,
    of_letter: tuple[str | None, str],
    of_call: tuple[str | None, str],
    blocks: bool,
) -> None:
    """Whatever the other side honours, and however old it is."""
    book = WriteBook([record(state=state, key=of_letter[0], fingerprint=of_letter[1])])
    key, fingerprint = of_call
    found = book.dead_letter(guard, ORIGIN, key, fingerprint)
    assert (found is not None) is blocks
    for honoured in (False, True):
        by = blocked_by(book, guard=guard, key=key, fingerprint=fingerprint, honoured=honoured, since=10**15)
        assert (by is not None) is blocks
    assert book.dead_letter(guard, ELSEWHERE, key, fingerprint) is None


def test_a_unit_of_which_nothing_is_uncertain_can_be_given_up() -> None:
    """Three refused connections, or a read that fails each time: the record begins as a dead letter."""
    book = WriteBook([record(state=WriteState.DEAD_LETTERED, method="GET", phase=Phase.NOT_SENT, attempts=3)])
    assert (book.pending(), book.dead(), len(book.listed())) == (0, 1, 1)
    assert book.overdue(10**15) == []
    assert [blocked_by(book, guard=guard) for guard in Guard] == ["w-1"] * 3


@pytest.mark.parametrize(
    ("event", "blocks"),
    [
        (WriteEvent.RELEASED, False),
        (WriteEvent.FOUND_ABSENT, False),
        (WriteEvent.DISCARDED, True),
        (WriteEvent.FOUND_APPLIED, True),
        (WriteEvent.ANSWERED, True),
    ],
)
def test_what_becomes_of_a_dead_letter(event: WriteEvent, blocks: bool) -> None:
    """A decision or a look sets its unit free or does not; a late answer says that it happened."""
    letter = record(state=WriteState.DEAD_LETTERED, key="k-1")
    book = WriteBook([letter.after(event)])
    assert (blocked_by(book) == "w-1") is blocks
    assert (blocked_by(book, key="k-1", fingerprint="f2") == "w-1") is blocks
    assert book.dead() == 0


def test_a_dead_letter_is_named_before_an_older_record() -> None:
    """The caller's word can settle another record, but not this one."""
    letter = record("w-2", WriteState.DISCARDED, opened_at=2)
    assert blocked_by(WriteBook([record(opened_at=1), letter])) == "w-2"
    older = record("w-0", WriteState.DEAD_LETTERED, opened_at=1)
    assert blocked_by(WriteBook([letter, older])) == "w-0"
