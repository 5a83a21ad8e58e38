"""The worked examples of the contract: three steps of a job under one budget of ten seconds, told by a virtual clock.

The total is 10 s, the reserve 1 s, and the route caps a call at 4 s. After the steps the job cleans up, which takes a
second. Two verdicts are kept apart: `complete` (did all the work finish?) and `on_time` (was it closed in time?).

Each is told twice: with a budget that is handed on, and with the ledger keeping the clock for calls that know nothing of
one another, and of which each states the whole total again. Such a claim is ignored, and counted.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import BY_REQUEST, Budget, CallPhase
from proxy.core.calls import Outcome
from proxy.core.decision import decide
from proxy.core.ledger import Ledger
from proxy.core.limits import Limits
from proxy.core.policy import Policy, Route
from proxy.core.reasons import Reason
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.verdict import Verdict, counts_of, verdict_of
from tests.observe.records import plain

TOTAL, RESERVE, CAP, CLEANUP = 10 * SECOND, 1 * SECOND, 4 * SECOND, 1 * SECOND


class Clock(Enum):
    """Who keeps the time of a job."""

    ONE_BUDGET = auto()
    """A budget that is handed on from call to call."""
    LEDGER = auto()
    """The ledger, though each call claims a fresh one under the same id."""
    FRESH = auto()
    """Nobody: each call gets a fresh limit."""


class Work(NamedTuple):
    """What one step would need, in nanoseconds; `transit` is time that passes on the way to it."""

    need: int
    transit: int = 0
    min_start: int = 0


class Ran(NamedTuple):
    """How one step went. Times count from the opening of the job."""

    started: int
    allowed: int
    ended: int
    outcome: Outcome
    reason: Reason | None = None


class Job(NamedTuple):
    """A job that is over: its steps, its cleanup, and the two verdicts. `claims`: how often it tried to have more time."""

    steps: list[Ran]
    cleanup: Ran
    complete: bool
    on_time: bool
    claims: int


def run(steps: list[Work], clock: Clock = Clock.ONE_BUDGET, *, opened: int = 0) -> Job:
    """Run a job of steps one after the other, each under what it is allowed."""
    ledger, budget = Ledger(), Budget("job", opened, TOTAL, RESERVE)

    def budget_of(phase: CallPhase, now: int) -> Budget:
        nonlocal budget
        if clock is Clock.FRESH:
            return Budget("step", now, TOTAL, RESERVE)
        if clock is Clock.LEDGER:
            limits = Limits(budget_id="job", remaining=TOTAL, reserve=RESERVE, phase=phase)
            found = ledger.find(limits, Policy().budget, now, "fresh").budget
            assert found is not None
            budget = found
        return budget

    def call(work: Work, phase: CallPhase, now: int) -> Ran:
        holds = budget_of(phase, now)
        route = Route("tool", cap=CAP, min_start=work.min_start)
        decision = decide(Policy(), route, Limits(phase=phase), holds, now)
        allowed = decision.allowance.ns
        assert allowed is not None
        ledger.begin(holds, None, phase, now)
        if decision.refusal is not None:
            ran = Ran(now, allowed, now, Outcome.REFUSED, decision.refusal)
        else:
            outcome = Outcome.COMPLETED if work.need <= allowed else Outcome.DEADLINE_EXCEEDED
            ran = Ran(now, allowed, now + min(work.need, allowed), outcome)
        number = holds.next_step()
        record = plain(record=f"r{number}", outcome=ran.outcome, target=f"http://tool/{number}")
        ledger.finish(holds, None, phase, record, ran.ended)
        return ran

    now, ran = opened, list[Ran]()
    for work in steps:
        ran.append(call(work, CallPhase.WORK, now + work.transit))
        now = ran[-1].ended
    cleanup = call(Work(CLEANUP), CallPhase.CLEANUP, now)
    complete = all(step.outcome is Outcome.COMPLETED for step in ran)
    on_time = cleanup.ended <= opened + TOTAL
    if clock is Clock.LEDGER:
        assert ledger.close(budget, cleanup.ended, BY_REQUEST)
        assert verdict_of(budget, cleanup.ended) == Verdict(complete, on_time)
        assert counts_of(budget).total == len(steps) + 1
    return Job(ran, cleanup, complete, on_time, budget.extensions_ignored)


EITHER_WAY = pytest.mark.parametrize("clock", [Clock.ONE_BUDGET, Clock.LEDGER])


def works(*seconds: int) -> list[Work]:
    """Steps that need so many seconds each."""
    return [Work(second * SECOND) for second in seconds]


@EITHER_WAY
def test_the_third_step_gets_only_what_is_left(clock: Clock) -> None:
    """4, 4, 4: C starts at 8, is allowed 1 and cut at 9; cleanup ends at 10. Incomplete, and closed in time."""
    job = run(works(4, 4, 4), clock)
    assert job.steps[2] == Ran(8 * SECOND, 1 * SECOND, 9 * SECOND, Outcome.DEADLINE_EXCEEDED)
    assert job.cleanup.ended == 10 * SECOND
    assert (job.complete, job.on_time) == (False, True)


@EITHER_WAY
def test_steps_that_fit_all_complete(clock: Clock) -> None:
    """2, 3, 4: C starts at 5 and is allowed its whole cap; all is done at 9, cleanup ends at 10."""
    job = run(works(2, 3, 4), clock)
    assert job.steps[2] == Ran(5 * SECOND, 4 * SECOND, 9 * SECOND, Outcome.COMPLETED)
    assert job.cleanup.ended == 10 * SECOND
    assert (job.complete, job.on_time) == (True, True)


@EITHER_WAY
def test_time_on_the_way_counts(clock: Clock) -> None:
    """2, 3, half a second of transit, 4: C starts at 5.5, is allowed 3.5, and is cut."""
    a, b, c = works(2, 3, 4)
    job = run([a, b, c._replace(transit=500 * MILLISECOND)], clock)
    assert job.steps[2] == Ran(
        5_500 * MILLISECOND, 3_500 * MILLISECOND, 9 * SECOND, Outcome.DEADLINE_EXCEEDED
    )
    assert (job.complete, job.on_time) == (False, True)


@EITHER_WAY
def test_a_step_that_cannot_finish_is_not_started(clock: Clock) -> None:
    """4, 4, 4 with `min_start` 4 on C: C is refused and never sent, so the rest is left for the result."""
    a, b, c = works(4, 4, 4)
    job = run([a, b, c._replace(min_start=4 * SECOND)], clock)
    assert job.steps[2] == Ran(8 * SECOND, 1 * SECOND, 8 * SECOND, Outcome.REFUSED, Reason.BELOW_MIN_START)
    assert job.cleanup == Ran(8 * SECOND, 2 * SECOND, 9 * SECOND, Outcome.COMPLETED)
    assert (job.complete, job.on_time) == (False, True)


def test_a_fresh_limit_each_step_breaks_the_promise() -> None:
    """4, 4, 4 with a fresh limit each step: C is allowed 4 at 8, and 13 pass in all. This is what is to be stopped."""
    job = run(works(4, 4, 4), Clock.FRESH)
    assert job.steps[2] == Ran(8 * SECOND, 4 * SECOND, 12 * SECOND, Outcome.COMPLETED)
    assert job.cleanup.ended == 13 * SECOND
    assert (job.complete, job.on_time) == (True, False)


def test_each_claim_of_a_fresh_budget_is_ignored_and_counted() -> None:
    """Each call after the first asks for ten seconds: two steps and the cleanup. Without a claim none is counted."""
    assert run(works(4, 4, 4), Clock.LEDGER).claims == 3
    assert run(works(4, 4, 4), Clock.ONE_BUDGET).claims == 0


WORK = st.builds(Work, st.integers(0, 6 * SECOND), transit=st.just(0), min_start=st.integers(0, 4 * SECOND))


@given(
    st.lists(WORK, max_size=8),
    st.integers(-(10**18), 10**18),
    st.sampled_from([Clock.ONE_BUDGET, Clock.LEDGER]),
)
def test_one_budget_closes_any_job_in_time(steps: list[Work], opened: int, clock: Clock) -> None:
    """Whatever the steps need, the work ends before the reserve, and cleanup within the total."""
    job = run(steps, clock, opened=opened)
    assert all(step.ended <= opened + TOTAL - RESERVE for step in job.steps)
    assert job.cleanup.outcome is Outcome.COMPLETED
    assert job.on_time


@EITHER_WAY
@pytest.mark.parametrize("opened", [0, 1, -(10**15), 10**18])
def test_the_examples_do_not_depend_on_the_clock(opened: int, clock: Clock) -> None:
    """A monotonic clock starts anywhere; the story is the same."""
    job = run(works(4, 4, 4), clock, opened=opened)
    assert job.steps[2].started - opened == 8 * SECOND
    assert job.steps[2].allowed == 1 * SECOND
