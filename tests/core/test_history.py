"""The history of a job: what is counted always, what is kept within bounds, and the units of its work."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.calls import Effect, Kind, Outcome
from proxy.core.degrading import Degraded
from proxy.core.history import (
    DEGRADED_BYTES,
    EVENT_BYTES,
    MOST_EVENTS,
    MOST_STEPS,
    Archive,
    Counts,
    Event,
    Happening,
    History,
    step_bytes,
    unit_bytes,
)
from proxy.core.step import StepRecord
from tests.observe.records import LESS, degrees, plain

CUT = {"outcome": Outcome.DEADLINE_EXCEEDED, "effect": Effect.NONE}
DOUBTFUL = {"outcome": Outcome.DEADLINE_EXCEEDED, "effect": Effect.UNCERTAIN}


def history_of(*records: StepRecord) -> History:
    """The history of a job with these steps."""
    history = History()
    for record in records:
        history.add(record)
    return history


def recount(history: History) -> int:
    """What a history takes, by a look at all that it holds."""
    steps = sum(step_bytes(record) for record in history.steps)
    events = sum(EVENT_BYTES + len(event.detail) for event in history.events)
    units = sum(map(unit_bytes, [*history.undone, *history.uncertain.values()]))
    return steps + events + units


# -- counts ------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from(Outcome), st.booleans(), st.none() | degrees()), max_size=30),
    st.integers(0, 5),
)
def test_the_counts_are_those_of_the_records(
    steps: list[tuple[Outcome, bool, Degraded | None]], in_flight: int
) -> None:
    """Promise 11, as far as a history goes: each record is counted once, whatever is kept of it."""
    history = History()
    for number, (outcome, doubtful, less) in enumerate(steps):
        effect = Effect.UNCERTAIN if doubtful else Effect.NONE
        record = plain(record=f"r{number}", unit=None, outcome=outcome, effect=effect, degraded=less)
        history.add(record, late=number % 5 == 1)
        if number % 7 == 3:
            history.slim(units=number % 2 == 0)
    outcomes = Counter(outcome for outcome, _, _ in steps)
    assert history.counts(in_flight) == Counts(
        total=len(steps) + in_flight,
        uncertain=sum(doubtful for _, doubtful, _ in steps),
        in_flight=in_flight,
        degraded=sum(less is not None for _, _, less in steps),
        **{outcome.value: outcomes[outcome] for outcome in Outcome},
    )


def test_attempts_and_units_are_counted_as_the_records_say() -> None:
    """How often work was attempted, beside how much work there was: what retries, here and elsewhere, have cost."""
    history = history_of(
        plain(tries=3, fresh=1), plain(tries=1, fresh=0), plain(tries=0, fresh=0, outcome=Outcome.REFUSED)
    )
    assert (history.attempts, history.units) == (4, 1)


def test_what_was_less_stays_said_when_the_details_are_given_up() -> None:
    """A record with it takes more room, and is given up like any other."""
    history = history_of(plain(), plain(degraded=LESS), plain(degraded=LESS))
    assert history.bytes == recount(history) == 3 * step_bytes(plain()) + 2 * DEGRADED_BYTES
    history.slim(units=True)
    assert (history.bytes, history.counts(0).degraded, history.overflowed) == (0, 2, False)


# -- units of work -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "undone"),
    [
        ([plain(unit="u")], set()),
        ([plain(unit="u", **CUT)], {"u"}),
        ([plain(unit="u", **CUT), plain(unit="u")], set()),
        ([plain(unit="u"), plain(unit="u", **CUT)], {"u"}),
        ([plain(unit="u", **CUT), plain(unit="v")], {"u"}),
        ([plain(unit="u", outcome=Outcome.SHED), plain(unit="u")], set()),
        ([plain(unit="u", outcome=Outcome.REFUSED)], {"u"}),
        ([plain(unit=None, record="r1", **CUT), plain(unit=None, record="r2")], {"r1"}),
        ([plain(unit="u", partial=True)], {"u"}),
        ([plain(unit="u", partial=True), plain(unit="u")], set()),
    ],
)
def test_what_was_cut_and_then_succeeded_is_done(records: list[StepRecord], undone: set[str]) -> None:
    """A step that failed says little by itself; without a known unit it is one of its own."""
    assert history_of(*records).undone == undone


def test_a_write_is_in_doubt_until_it_is_settled() -> None:
    """If it has happened its unit is done; if it has not, the doubt is gone and the work is not done."""
    for happened in (True, False):
        history = history_of(plain(record="w", unit="u", kind=Kind.WRITE, **DOUBTFUL))
        history.settled("another", happened=True)
        assert (history.counts(0).uncertain, history.undone) == (1, {"u"})
        history.settled("w", happened=happened)
        assert (history.counts(0).uncertain, history.undone) == (0, set() if happened else {"u"})
        assert history.bytes == recount(history)


def test_repeating_an_idempotent_write_leaves_no_doubt_and_repeating_another_does() -> None:
    """PUT and DELETE are in no journal, so nobody would ever settle them; a second POST may have been one too many."""
    for kind, uncertain in ((Kind.IDEMPOTENT, 0), (Kind.WRITE, 1)):
        cut = plain(record="w", unit="u", kind=kind, **DOUBTFUL)
        again = plain(record="x", unit="u", kind=kind, effect=Effect.REPORTED)
        other = plain(record="y", unit="v", kind=kind, effect=Effect.REPORTED)
        history = history_of(cut, other)
        assert history.counts(0).uncertain == 1
        history.add(again)
        assert (history.counts(0).uncertain, history.undone) == (uncertain, set())
        assert history.bytes == recount(history)


# -- bounds ------------------------------------------------------------------------------------------------------


def test_past_its_bounds_a_history_counts_and_keeps_no_more() -> None:
    """The first ones are kept: they tell how it began."""
    history = History()
    for number in range(MOST_STEPS + 2):
        history.add(plain(record=f"r{number}", unit="u"))
    for number in range(MOST_EVENTS + 3):
        history.note(Event(number, Happening.GRANTED, 1, "r", detail="d"))
    assert (len(history.steps), history.steps_dropped) == (MOST_STEPS, 2)
    assert (len(history.events), history.events_dropped) == (MOST_EVENTS, 3)
    assert history.counts(0).completed == MOST_STEPS + 2
    assert history.bytes == recount(history)
    assert not history.overflowed


def test_more_undone_units_than_can_be_followed() -> None:
    """Only a further one is too much: one that is followed already may fail as often as it likes."""
    history = History()
    for number in range(MOST_STEPS):
        history.add(plain(record=f"r{number}", unit=f"u{number}", **DOUBTFUL))
    history.add(plain(record="again", unit="u0", **CUT))
    assert (len(history.undone), history.overflowed) == (MOST_STEPS, False)
    history.add(plain(record="one more", unit="one more", **DOUBTFUL))
    assert (len(history.undone), history.overflowed) == (MOST_STEPS, True)
    assert (len(history.uncertain), history.counts(0).uncertain) == (MOST_STEPS, MOST_STEPS + 1)
    assert history.bytes == recount(history)


def test_what_is_given_up() -> None:
    """First the details, which nothing is judged by; then the units, after which nothing can be judged complete."""
    history = history_of(plain(unit="u", record="w", **DOUBTFUL), plain(unit="v"))
    history.note(Event(0, Happening.GRANTED, 1, "w"))
    history.slim()
    assert (history.steps, history.events, history.steps_dropped, history.events_dropped) == ([], [], 2, 1)
    assert (history.undone, history.overflowed, history.bytes) == ({"u"}, False, recount(history))
    history.slim(units=True)
    assert (history.undone, history.overflowed, history.bytes) == (set(), True, 0)
    assert history.counts(0) == Counts(total=2, completed=1, deadline_exceeded=1, uncertain=1)


def test_giving_up_nothing_is_no_loss() -> None:
    """A job of which all is done stays a job of which all is done."""
    history = history_of(plain(unit="u", **CUT), plain(unit="u"))
    history.slim(units=True)
    assert not history.overflowed


# -- what they take together ---------------------------------------------------------------------------------------


def test_all_details_go_before_any_unit() -> None:
    """A verdict that can still change is worth more than the steps of a job, be it open."""
    archive, histories = Archive(), [history_of(plain(unit="u", **CUT)), history_of(plain(unit="v", **CUT))]
    for number, history in enumerate(histories):
        archive.weigh(str(number), history, 10**9, finished=number == 0)
    archive.weigh("1", histories[1], 2 * unit_bytes("u") + 100, finished=False)
    assert [(history.steps, history.undone) for history in histories] == [([], {"u"}), ([], {"v"})]
    archive.weigh("1", histories[1], unit_bytes("u") + 100, finished=False)
    assert [history.undone for history in histories] == [set(), {"v"}]


RECORDS = st.builds(
    plain,
    record=st.sampled_from(["r1", "r2", "r3"]),
    unit=st.sampled_from([None, "u", "v" * 100]),
    target=st.sampled_from(["", "http://x/" + 500 * "y"]),
    kind=st.sampled_from(Kind),
    outcome=st.sampled_from(Outcome),
    effect=st.sampled_from(Effect),
    partial=st.booleans(),
    degraded=st.none() | degrees(),
)
IDS = st.sampled_from(["a", "b", "c"])
HAPPENED = st.one_of(
    RECORDS,
    st.builds(Event, st.just(0), st.just(Happening.GRANTED), st.just(1), st.just("r1"), detail=st.text()),
    st.tuples(st.sampled_from(["r1", "r2", "r3"]), st.booleans()),
    st.sampled_from(["finished", "open", "dropped"]),
)


@given(st.lists(st.tuples(IDS, HAPPENED), max_size=60), st.sampled_from([0, 500, 4_000, 10**9]))
def test_what_is_counted_never_drifts_from_what_is_held(
    happenings: list[tuple[str, StepRecord | Event | tuple[str, bool] | str]], most: int
) -> None:
    """Whatever is added, settled, given up and forgotten, in whatever order, and never more than is allowed."""
    archive, kept = Archive(), dict[str, History]()
    finished = dict.fromkeys(["a", "b", "c"], False)
    for id, what in happenings:
        history = kept.setdefault(id, History())
        if isinstance(what, str):
            finished[id] = what == "finished"
            archive.shelve(id, history, finished=finished[id])
            if what == "dropped":
                archive.drop(id, kept.pop(id))
        else:
            if isinstance(what, StepRecord):
                history.add(what)
            elif isinstance(what, Event):
                history.note(what)
            else:
                history.settled(what[0], happened=what[1])
            archive.weigh(id, history, most, finished=finished[id])
        assert archive.bytes == sum(map(recount, kept.values()))
        assert archive.bytes <= most
        assert all(history.bytes == recount(history) for history in kept.values())
