"""The worked examples of the contract: three steps of a job under one budget of ten seconds, told by a virtual clock.

The total is 10 s, the reserve 1 s, and the route caps a call at 4 s. After the steps the job cleans up, which takes a
second. Two verdicts are kept apart: `complete` (did all the work finish?) and `on_time` (was it closed in time?).
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import Budget, CallPhase
from proxy.core.calls import Outcome
from proxy.core.decision import decide
from proxy.core.limits import Limits
from proxy.core.policy import Policy, Route
from proxy.core.reasons import Reason
from proxy.core.units import MILLISECOND, SECOND

TOTAL, RESERVE, CAP, CLEANUP = 10 * SECOND, 1 * SECOND, 4 * SECOND, 1 * SECOND


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
    """A job that is over: its steps, its cleanup, and the two verdicts."""

    steps: list[Ran]
    cleanup: Ran
    complete: bool
    on_time: bool


def run(steps: list[Work], *, fresh_limit_each_step: bool = False, opened: int = 0) -> Job:
    """Run a job of steps one after the other, each under what the budget allows it."""
    budget = Budget("job", opened, TOTAL, RESERVE)

    def call(work: Work, phase: CallPhase, now: int) -> Ran:
        holds = Budget("step", now, TOTAL, RESERVE) if fresh_limit_each_step else budget
        route = Route("tool", cap=CAP, min_start=work.min_start)
        decision = decide(Policy(), route, Limits(phase=phase), holds, now)
        allowed = decision.allowance.ns
        assert allowed is not None
        if decision.refusal is not None:
            return Ran(now, allowed, now, Outcome.REFUSED, decision.refusal)
        outcome = Outcome.COMPLETED if work.need <= allowed else Outcome.DEADLINE_EXCEEDED
        return Ran(now, allowed, now + min(work.need, allowed), outcome)

    now, ran = opened, list[Ran]()
    for work in steps:
        ran.append(call(work, CallPhase.WORK, now + work.transit))
        now = ran[-1].ended
    cleanup = call(Work(CLEANUP), CallPhase.CLEANUP, now)
    complete = all(step.outcome is Outcome.COMPLETED for step in ran)
    return Job(ran, cleanup, complete, on_time=cleanup.ended <= opened + TOTAL)


def works(*seconds: int) -> list[Work]:
    """Steps that need so many seconds each."""
    return [Work(second * SECOND) for second in seconds]


def test_the_third_step_gets_only_what_is_left() -> None:
    """4, 4, 4: C starts at 8, is allowed 1 and cut at 9; cleanup ends at 10. Incomplete, and closed in time."""
    job = run(works(4, 4, 4))
    assert job.steps[2] == Ran(8 * SECOND, 1 * SECOND, 9 * SECOND, Outcome.DEADLINE_EXCEEDED)
    assert job.cleanup.ended == 10 * SECOND
    assert (job.complete, job.on_time) == (False, True)


def test_steps_that_fit_all_complete() -> None:
    """2, 3, 4: C starts at 5 and is allowed its whole cap; all is done at 9, cleanup ends at 10."""
    job = run(works(2, 3, 4))
    assert job.steps[2] == Ran(5 * SECOND, 4 * SECOND, 9 * SECOND, Outcome.COMPLETED)
    assert job.cleanup.ended == 10 * SECOND
    assert (job.complete, job.on_time) == (True, True)


def test_time_on_the_way_counts() -> None:
    """2, 3, half a second of transit, 4: C starts at 5.5, is allowed 3.5, and is cut."""
    a, b, c = works(2, 3, 4)
    job = run([a, b, c._replace(transit=500 * MILLISECOND)])
    assert job.steps[2] == Ran(
        5_500 * MILLISECOND, 3_500 * MILLISECOND, 9 * SECOND, Outcome.DEADLINE_EXCEEDED
    )
    assert (job.complete, job.on_time) == (False, True)


def test_a_step_that_cannot_finish_is_not_started() -> None:
    """4, 4, 4 with `min_start` 4 on C: C is refused and never sent, so the rest is left for the result."""
    a, b, c = works(4, 4, 4)
    job = run([a, b, c._replace(min_start=4 * SECOND)])
    assert job.steps[2] == Ran(8 * SECOND, 1 * SECOND, 8 * SECOND, Outcome.REFUSED, Reason.BELOW_MIN_START)
    assert job.cleanup == Ran(8 * SECOND, 2 * SECOND, 9 * SECOND, Outcome.COMPLETED)
    assert (job.complete, job.on_time) == (False, True)


def test_a_fresh_limit_each_step_breaks_the_promise() -> None:
    """4, 4, 4 with a fresh limit each step: C is allowed 4 at 8, and 13 pass in all. This is what is to be stopped."""
    job = run(works(4, 4, 4), fresh_limit_each_step=True)
    assert job.steps[2] == Ran(8 * SECOND, 4 * SECOND, 12 * SECOND, Outcome.COMPLETED)
    assert job.cleanup.ended == 13 * SECOND
    assert (job.complete, job.on_time) == (True, False)


WORK = st.builds(Work, st.integers(0, 6 * SECOND), transit=st.just(0), min_start=st.integers(0, 4 * SECOND))


@given(st.lists(WORK, max_size=8), st.integers(-(10**18), 10**18))
def test_one_budget_closes_any_job_in_time(steps: list[Work], opened: int) -> None:
    """Whatever the steps need, the work ends before the reserve, and cleanup within the total."""
    job = run(steps, opened=opened)
    assert all(step.ended <= opened + TOTAL - RESERVE for step in job.steps)
    assert job.cleanup.outcome is Outcome.COMPLETED
    assert job.on_time


@pytest.mark.parametrize("opened", [0, 1, -(10**15), 10**18])
def test_the_examples_do_not_depend_on_the_clock(opened: int) -> None:
    """A monotonic clock starts anywhere; the story is the same."""
    job = run(works(4, 4, 4), opened=opened)
    assert job.steps[2].started - opened == 8 * SECOND
    assert job.steps[2].allowed == 1 * SECOND
