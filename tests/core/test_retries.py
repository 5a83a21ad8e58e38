"""When the sidecar tries again by itself: only what fits, never more than was asked for, and within the retry budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from proxy.core.calls import Outcome
from proxy.core.policy import Retries
from proxy.core.retries import (
    NO_TIME,
    NOT_ASKED,
    NOT_SAFE,
    USED_UP,
    WINDOW,
    WITHHELD,
    Again,
    Failure,
    RetryBudget,
    again,
    asked,
)
from proxy.core.units import HOUR, MILLISECOND, SECOND

REFUSED = Failure(Outcome.CONNECT_FAILED)
BUSY = Failure(Outcome.COMPLETED, 503)
RETRIES = Retries(statuses=frozenset({503}))
LONGEST = 2400 * HOUR
SPANS = st.integers(0, LONGEST) | st.integers(0, 3 * SECOND)
JITTERS = st.floats(0, 1, exclude_max=True)
POLICIES = st.builds(
    Retries,
    max=st.integers(1, 100),
    statuses=st.just(frozenset({503})),
    base=SPANS,
    cap=SPANS,
)


def decided(retries: Retries | None = RETRIES, failure: Failure = REFUSED, **given: Any) -> Again:
    """A decision on a retry that nothing stands against but what the test gives."""
    plain: dict[str, Any] = {
        "made": 1,
        "repeatable": True,
        "left": None,
        "min_start": 0,
        "jitter": 0.5,
        "granted": True,
    }
    return again(retries, failure, **(plain | given))


# -- whether -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "asks"),
    [
        (REFUSED, True),
        (BUSY, True),
        (Failure(Outcome.COMPLETED, 500), False),
        (Failure(Outcome.UPSTREAM_FAILED), False),
        (Failure(Outcome.DEADLINE_EXCEEDED), False),
        (Failure(Outcome.CONNECT_FAILED), True),
    ],
)
def test_a_route_asks_by_outcome_and_by_status(failure: Failure, asks: bool) -> None:
    """What it does not list is never tried again."""
    assert asked(RETRIES, failure) is asks
    assert (decided(failure=failure) is NOT_ASKED) is not asks


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"retries": None}, NOT_ASKED),
        ({"repeatable": False}, NOT_SAFE),
        ({"made": 3}, USED_UP),
        ({"left": 0}, NO_TIME),
        ({"granted": False}, WITHHELD),
        # the first that applies is told; what the budget withholds is only what would have been made
        ({"repeatable": False, "made": 3, "left": 0, "granted": False}, NOT_SAFE),
        ({"made": 3, "left": 0, "granted": False}, USED_UP),
        ({"left": 0, "granted": False}, NO_TIME),
    ],
)
def test_what_stands_against_a_retry_is_told(given: dict[str, Any], answer: Again) -> None:
    """In one word, for the metrics."""
    assert decided(**given) is answer
    assert answer.after is None
    assert answer.why


@given(POLICIES, st.integers(1, 200))
def test_there_are_never_more_than_max(retries: Retries, made: int) -> None:
    """The first attempt is none: `max` retries make `max + 1` attempts."""
    assert (decided(retries, made=made) is USED_UP) is (made > retries.max)


# -- when --------------------------------------------------------------------------------------------------------


@given(POLICIES, st.integers(1, 100), JITTERS)
def test_the_backoff_is_drawn_from_nothing_to_its_bound(retries: Retries, made: int, jitter: float) -> None:
    """Doubling from the base up to the cap, and never the bound itself."""
    bound = min(retries.cap, retries.base * 2 ** (made - 1))
    after = decided(replace(retries, max=100), made=made, jitter=jitter).after
    assert after is not None
    assert 0 <= after < max(1, bound)


@given(POLICIES, st.integers(1, 100))
def test_the_whole_of_the_range_is_drawn_from(retries: Retries, made: int) -> None:
    """Nothing at the one end, all but the bound at the other; else callers would come back together."""
    retries = replace(retries, max=100)
    bound = min(retries.cap, retries.base * 2 ** (made - 1))
    assert decided(retries, made=made, jitter=0.0).after == 0
    last = decided(retries, made=made, jitter=1 - 2**-53).after
    assert last is not None
    assert last >= bound - 2


def test_the_bound_doubles_with_each_retry() -> None:
    """From the built-in values: 50, 100, 200, 400, 800 ms, then the cap."""
    retries = Retries(max=10)
    waits = [decided(retries, made=made, jitter=0.5).after for made in range(1, 8)]
    assert waits == [ms * MILLISECOND for ms in (25, 50, 100, 200, 400, 500, 500)]


@given(POLICIES, JITTERS, SPANS, SPANS | st.none(), SPANS)
def test_a_retry_that_is_started_has_time_left(
    retries: Retries, jitter: float, min_start: int, left: int | None, asks_for: int
) -> None:
    """When its wait is over there is something left, and no less than `min_start`. What fits is never given up."""
    without = decided(retries, jitter=jitter)
    for failure in (BUSY, replaced(BUSY, asks_for)):
        wait = max(without.after or 0, failure.retry_after or 0)
        decision = decided(retries, failure, jitter=jitter, left=left, min_start=min_start)
        if decision.after is not None:
            assert left is None or left - decision.after >= max(1, min_start)
            assert decision.after == wait
        else:
            assert decision is NO_TIME
            assert left is not None
            assert left - wait < max(1, min_start)


@given(POLICIES, JITTERS, SPANS, SPANS | st.none())
def test_what_the_other_side_asks_for_is_obeyed_or_given_up(
    retries: Retries, jitter: float, asks_for: int, left: int | None
) -> None:
    """It is never asked again sooner, and nobody waits for what cannot be waited for."""
    decision = decided(retries, replaced(BUSY, asks_for), jitter=jitter, left=left)
    assert decision is NO_TIME or (decision.after is not None and decision.after >= asks_for)


def replaced(failure: Failure, retry_after: int) -> Failure:
    return failure._replace(retry_after=retry_after)


# -- the retry budget --------------------------------------------------------------------------------------------


def test_the_floor_is_there_without_a_call() -> None:
    """A quiet route may try again too: so many a second, all of a window's at once if need be."""
    budget, retries = RetryBudget(), Retries(ratio=0, floor=2)
    made = 0
    while budget.allows(retries, 0):
        budget.spend(0)
        made += 1
    assert made == 20
    assert not budget.allows(retries, WINDOW)
    assert budget.allows(retries, WINDOW + SECOND)


def test_the_share_is_of_the_calls_of_the_window() -> None:
    """Rounded down: not one retry before the calls have earned it, and none for calls of long ago."""
    budget, retries = RetryBudget(), Retries(ratio=20, floor=0)
    for _ in range(4):
        budget.call(0)
    assert not budget.allows(retries, 0)
    budget.call(0)
    assert budget.allows(retries, 0)
    assert budget.allows(retries, WINDOW - 1)
    assert not budget.allows(retries, WINDOW)


@pytest.mark.parametrize("retries", [Retries(ratio=0, floor=0), Retries(ratio=100, floor=0)])
def test_nothing_is_allowed_where_nothing_is_earned(retries: Retries) -> None:
    """`0` is none."""
    assert not RetryBudget().allows(retries, 123 * SECOND)


def test_a_day_of_calls_takes_no_more_room_than_a_window() -> None:
    """However many there are, and however long it was quiet in between."""
    budget = RetryBudget()
    for second in range(0, 24 * 3600, 7):
        for _ in range(3):
            budget.call(second * SECOND)
            budget.spend(second * SECOND)
    for ms in range(0, 20_000, 10):
        budget.call(25 * HOUR + ms * MILLISECOND)
    assert len(budget._slices) <= 11
    budget.call(HOUR * 10**6)
    assert len(budget._slices) == 1


class RetryBudgetMachine(RuleBasedStateMachine):
    """A retry is allowed only where, in the ten seconds that end with it, there are no more than the calls and the floor allow.

    And it is allowed where there are fewer even if everything near the edge of the window is counted against it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.budget = RetryBudget()
        self.retries = Retries()
        self.now = 0
        self.calls: list[int] = []
        self.made: list[int] = []

    @initialize(ratio=st.integers(0, 100), floor=st.integers(0, 2), now=st.integers(0, 10**18))
    def begin(self, ratio: int, floor: int, now: int) -> None:
        self.retries = Retries(ratio=ratio, floor=floor)
        self.now = now

    @rule(
        span=st.integers(0, 2 * SECOND)
        | st.sampled_from([1, SECOND, WINDOW - 1, WINDOW, WINDOW + SECOND, 1000 * HOUR])
    )
    def time_passes(self, span: int) -> None:
        self.now += span

    @rule(count=st.integers(1, 40))
    def call(self, count: int) -> None:
        for _ in range(count):
            self.budget.call(self.now)
            self.calls.append(self.now)

    @rule(most=st.integers(1, 30))
    def retry(self, most: int) -> None:
        for _ in range(most):
            careful = self.room(calls_within=WINDOW - SECOND, retries_within=WINDOW + SECOND)
            allowed = self.budget.allows(self.retries, self.now)
            if not allowed:
                assert careful <= 0
                return
            self.budget.spend(self.now)
            self.made.append(self.now)
            assert self.room(calls_within=WINDOW, retries_within=WINDOW) >= 0

    def room(self, *, calls_within: int, retries_within: int) -> int:
        """How many retries more the calls of the one span allow, beside the retries of the other."""
        calls = sum(at > self.now - calls_within for at in self.calls)
        made = sum(at >= self.now - retries_within for at in self.made)
        return self.retries.ratio * calls // 100 + self.retries.floor * 10 - made

    @invariant()
    def it_stays_small(self) -> None:
        assert len(self.budget._slices) <= 11


TestRetryBudget = RetryBudgetMachine.TestCase
