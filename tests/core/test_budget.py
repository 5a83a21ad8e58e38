"""The arithmetic of one budget: what is left, what a step may take of it, what the next hop is told."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import (
    BY_REQUEST,
    UNLIMITED,
    Allowance,
    Budget,
    CallPhase,
    Limit,
    allowance,
    sent_on,
)
from proxy.core.stages import Stage, Stages
from proxy.core.units import MILLISECOND, SECOND, exact_ms, whole_ms

TIME = st.integers(-(10**18), 10**18)
SPAN = st.integers(0, 10**16)


def test_work_may_not_use_the_reserve_and_cleanup_may() -> None:
    """`work_end = deadline - reserve`; a cleanup call has until the deadline."""
    budget = Budget("job", opened=100 * SECOND, total=10 * SECOND, reserve=SECOND)
    assert budget.remaining(103 * SECOND) == 6 * SECOND
    assert budget.remaining(103 * SECOND, CallPhase.CLEANUP) == 7 * SECOND
    assert budget.end(CallPhase.WORK) == 109 * SECOND
    assert budget.end(CallPhase.CLEANUP) == 110 * SECOND


def test_a_budget_as_it_is_opened() -> None:
    """Anchored once, on the clock of this process; nothing has happened yet."""
    budget = Budget("job", opened=100 * SECOND, total=10 * SECOND, reserve=SECOND)
    assert (budget.id, budget.opened, budget.deadline, budget.reserve) == (
        "job",
        100 * SECOND,
        110 * SECOND,
        SECOND,
    )
    assert (budget.steps, budget.extensions_ignored) == (0, 0)
    assert (budget.closed_at, budget.busy, budget.history) == (None, False, None)


def test_an_overdrawn_budget_says_by_how_much() -> None:
    """`remaining` goes below zero: what a record says of a late call is not clipped."""
    assert Budget("job", 0, SECOND, 0).remaining(3 * SECOND) == -2 * SECOND


def test_a_reserve_larger_than_the_budget_leaves_nothing_for_work() -> None:
    """All of a short budget is for cleanup then; work is refused, not given a share that nobody promised."""
    budget = Budget("job", 0, total=SECOND, reserve=2 * SECOND)
    assert budget.remaining(0) < 0
    assert budget.remaining(0, CallPhase.CLEANUP) == SECOND


@given(opened=TIME, total=SPAN, reserve=SPAN, restated=st.lists(st.tuples(TIME, SPAN), max_size=20))
def test_a_budget_never_grows(opened: int, total: int, reserve: int, restated: list[tuple[int, int]]) -> None:
    """Promise 1: each statement shortens the budget or is counted as an attempt to lengthen it, and nothing else."""
    budget = Budget("job", opened, total, reserve)
    for arrival, stated in restated:
        before, ignored = budget.deadline, budget.extensions_ignored
        budget.restate(arrival, stated)
        assert budget.deadline == min(before, arrival + stated)
        assert budget.extensions_ignored - ignored == (arrival + stated > before)
        assert budget.reserve == reserve
    assert budget.deadline == min([opened + total, *(arrival + stated for arrival, stated in restated)])


def test_closing_settles_whether_the_job_was_in_time() -> None:
    """A statement that comes later, and may be about a moment before the closing, does not make it late."""
    budget = Budget("job", 0, 10 * SECOND, 0)
    budget.close(9 * SECOND, BY_REQUEST)
    budget.restate(9 * SECOND, -SECOND)
    assert (budget.deadline, budget.closed_at, budget.on_time) == (8 * SECOND, 9 * SECOND, True)
    budget.reopen()
    assert (budget.closed_at, budget.closed_by, budget.on_time) == (None, None, None)
    budget.close(9 * SECOND, BY_REQUEST)
    assert budget.on_time is False


def test_the_last_moment_is_in_time() -> None:
    """`on time` means by the deadline."""
    for late in (0, 1):
        budget = Budget("job", 0, SECOND, 0)
        budget.close(SECOND + late, BY_REQUEST)
        assert budget.on_time is not bool(late)


def test_the_reserve_and_so_a_cleanup_call_belong_to_no_stage() -> None:
    """Nor does a call that names none, or one that the budget has no share for."""
    budget = Budget("job", 0, SECOND, 0)
    assert budget.stage("llm", CallPhase.WORK) is None
    budget.stages = Stages([Stage(SECOND, "llm")])
    assert budget.stage("llm", CallPhase.WORK) is budget.stages.get("llm")
    assert budget.stage("llm", CallPhase.CLEANUP) is None
    assert budget.stage("search", CallPhase.WORK) is None
    assert budget.stage(None, CallPhase.WORK) is None


def test_steps_are_numbered_from_one() -> None:
    """The records of a budget count its calls."""
    budget = Budget("job", 0, SECOND, 0)
    assert [budget.next_step() for _ in range(3)] == [1, 2, 3]
    assert budget.steps == 3


LIMITS = {
    "remaining": Limit.BUDGET,
    "stage_left": Limit.STAGE,
    "cap": Limit.ROUTE_CAP,
    "client_timer": Limit.CLIENT_TIMER,
    "foreign": Limit.FOREIGN,
}


def test_no_limit_at_all() -> None:
    """A call that nothing limits has an allowance without end, and says so."""
    assert allowance() == UNLIMITED == Allowance(None, Limit.NONE)


@pytest.mark.parametrize("name", LIMITS)
def test_the_smallest_limit_wins_and_is_named(name: str) -> None:
    """Each limit, when it is the smallest, is the allowance and the reason that a cut would name."""
    others = {other: 7 * SECOND for other in LIMITS if other != name}
    assert allowance(**others, **{name: SECOND}) == Allowance(SECOND, LIMITS[name])


@pytest.mark.parametrize(("wider", "narrower"), [*itertools.combinations(LIMITS, 2)])
def test_a_tie_names_the_wider_promise(wider: str, narrower: str) -> None:
    """The budget before the stage, the route before what the caller sent."""
    assert allowance(**{wider: SECOND, narrower: SECOND}).bound is LIMITS[wider]


@given(st.dictionaries(st.sampled_from([*LIMITS]), st.integers(-(10**12), 10**12)))
def test_the_allowance_is_the_minimum_of_what_is_stated(stated: dict[str, int]) -> None:
    """No limit is forgotten, and none is invented: zero and less are limits too."""
    allowed = allowance(**stated)
    assert allowed.ns == min(stated.values(), default=None)
    assert allowed.bound in {LIMITS[name] for name in stated} or allowed == UNLIMITED


@given(allowed=st.integers(-(10**12), 10**12), spent=SPAN, hop=SPAN)
def test_the_next_hop_is_never_told_of_more_than_is_left(allowed: int, spent: int, hop: int) -> None:
    """Promise 2, one hop further: not even by the rounding to milliseconds."""
    told = sent_on(allowed, spent, hop)
    assert 0 <= told <= max(0, allowed - spent)
    assert whole_ms(told) * MILLISECOND <= told


@given(allowed=SPAN, spent=st.lists(SPAN, min_size=2), hop=SPAN)
def test_what_is_sent_on_falls_with_each_attempt(allowed: int, spent: list[int], hop: int) -> None:
    """A retry does not compute its limit anew (`retry-recomputes`): later attempts are told of less, never of more."""
    told = [sent_on(allowed, at, hop) for at in sorted(spent)]
    assert told == sorted(told, reverse=True)


def test_the_third_attempt_of_a_capped_call_is_told_the_rest() -> None:
    """Budget 250 ms, cap 100 ms: an allowance is fixed when the step starts, and attempts share it."""
    allowed = allowance(remaining=250 * MILLISECOND, cap=100 * MILLISECOND).ns
    assert allowed is not None
    assert [whole_ms(sent_on(allowed, spent * MILLISECOND, 0)) for spent in (0, 40, 80, 120)] == [
        100,
        60,
        20,
        0,
    ]


@pytest.mark.parametrize(
    ("nanoseconds", "whole", "exact"),
    [
        (0, 0, 0.0),
        (1, 0, 0.0),
        (999_999, 0, 0.999),
        (1_000_000, 1, 1.0),
        (1_999_999, 1, 1.999),
        (-1, 0, -0.001),
        (-5_000_000, 0, -5.0),
    ],
)
def test_milliseconds_are_rounded_down(nanoseconds: int, whole: int, exact: float) -> None:
    """`whole_ms` promises, so it never says more than there is, nor less than nothing; `exact_ms` measures."""
    assert whole_ms(nanoseconds) == whole
    assert exact_ms(nanoseconds) == exact
