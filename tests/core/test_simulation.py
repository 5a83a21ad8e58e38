"""The job on paper: the worked examples of the contract as they stand there, and what holds for any plan at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import Limit
from proxy.core.calls import Outcome
from proxy.core.policy import Share
from proxy.core.reasons import Reason
from proxy.core.simulation import Job, Plan, Ran, Work, simulate
from proxy.core.units import MILLISECOND, SECOND

COMPLETED = "completed"
CUT = "deadline_exceeded"
REFUSED = "refused"
SHED = "shed"


def works(*needs: float) -> list[Work]:
    """Steps A, B, C and so on, that need so many seconds each."""
    return [Work(name, ns(each)) for name, each in zip("ABCDEFGH", needs, strict=False)]


def ns(seconds: float) -> int:
    """Nanoseconds."""
    return round(seconds * SECOND)


def plan(*groups: Work | Iterable[Work], **others: object) -> Plan:
    """The plan of the worked examples: total 10 s, reserve 1 s, cap 4 s, and a cleanup call of 1 s."""
    given = {"total": ns(10), "reserve": ns(1), "cap": ns(4), "cleanup": ns(1)} | others
    together = tuple((each,) if isinstance(each, Work) else tuple(each) for each in groups)
    return Plan(groups=together, **given)  # type: ignore[arg-type]


Told = tuple[float | None, float, float, str, str | None]


def told(ran: Ran) -> Told:
    """Start, allowance, end, outcome and reason of a step, in seconds."""
    started = None if ran.started is None else ran.started / SECOND
    return started, ran.allowed / SECOND, ran.ended / SECOND, ran.outcome, ran.reason


def verdicts(job: Job) -> tuple[bool | None, bool | None]:
    """Whether it is complete, and whether it is on time."""
    return job.verdict.complete, job.verdict.on_time


A, B, C = works(4, 4, 4)
EXAMPLES: dict[str, tuple[Plan, Told, int, bool]] = {
    "4, 4, 4": (plan(A, B, C), (8, 1, 9, CUT, "budget_remaining"), 10, False),
    "2, 3, 4": (plan(*works(2, 3, 4)), (5, 4, 9, COMPLETED, None), 10, True),
    "2, 3, +0.5 transit, 4": (
        plan(*works(2, 3), Work("C", ns(4), after=ns(0.5))),
        (5.5, 3.5, 9, CUT, "budget_remaining"),
        10,
        False,
    ),
    "4, 4, 4 with min_start 4 on C": (
        plan(A, B, Work("C", ns(4), min_start=ns(4))),
        (None, 1, 8, REFUSED, "below_min_start"),
        9,
        False,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name: str) -> None:
    """What the contract's table says of C, of the cleanup call's end and of the job. All of them are closed in time."""
    planned, third, closed, complete = EXAMPLES[name]
    job = simulate(planned)
    assert told(job.steps[2]) == third
    assert job.ended == ns(closed)
    assert job.late == 0
    assert verdicts(job) == (complete, True)


def test_a_fresh_limit_each_step() -> None:
    """4, 4, 4 again, and nothing is shared: C is allowed 4 at 8, and 13 pass in all. The promise is broken."""
    job = simulate(plan(A, B, C), fresh=True)
    assert told(job.steps[2]) == (8, 4, 12, COMPLETED, None)
    assert (job.ended, job.late) == (ns(13), ns(3))
    assert verdicts(job) == (True, False)


def test_a_fresh_limit_without_a_cap_is_the_total() -> None:
    """Whoever sets no limit for each step gives it the whole time; reserve and stages mean nothing then."""
    planned = plan(
        Work("A", ns(12)),
        Work("B", ns(2), stage="llm"),
        cap=None,
        stages=(Share("llm", ns(1)),),
        cleanup=None,
    )
    first, second = simulate(planned, fresh=True).steps
    assert told(first) == (0, 10, 10, CUT, "budget_remaining")
    assert told(second) == (10, 10, 12, COMPLETED, None)


def test_each_limit_is_named() -> None:
    """The cap of a step goes before that of the plan; the smallest limit is the bound."""
    planned = plan(
        Work("A", ns(3), cap=ns(2)),
        Work("B", ns(5)),
        Work("C", ns(2), stage="llm"),
        stages=(Share("llm", ns(1)),),
    )
    first, second, third = simulate(planned).steps
    assert (first.bound, first.reason, first.ended) == (Limit.ROUTE_CAP, Limit.ROUTE_CAP, ns(2))
    assert (second.allowed, second.bound) == (ns(4), Limit.ROUTE_CAP)
    assert (third.allowed, third.bound, third.reason) == (ns(1), Limit.STAGE, Limit.STAGE)


def test_time_on_the_way() -> None:
    """It is lost before each step but the first, and before the cleanup call."""
    job = simulate(plan(*works(1, 1), transit=ns(0.25)))
    assert job.cleanup is not None
    assert [each.started for each in (*job.steps, job.cleanup)] == [0, ns(1.25), ns(2.5)]
    assert job.ended == ns(3.5)


def test_a_group_starts_together() -> None:
    """Side by side, two steps of 4 take 4; the next one starts when the longer of them has ended."""
    job = simulate(plan(works(3, 4), Work("C", ns(1))))
    assert [each.started for each in job.steps] == [0, 0, ns(4)]
    assert verdicts(job) == (True, True)


def test_those_that_wait_go_in_the_order_of_their_deadlines() -> None:
    """With one slot, the step that must end first is started before one that was listed first."""
    group = [Work("A", ns(1)), Work("B", ns(1)), Work("C", ns(1), cap=ns(3))]
    first, second, third = simulate(plan(group, width=1)).steps
    assert (first.started, third.started, second.started) == (0, ns(1), ns(2))
    assert (first.waited, third.waited, second.waited) == (0, ns(1), ns(2))


def test_waiting_counts() -> None:
    """A step that has waited 3 of its 4 has one left; one whose time runs out before its turn is never started."""
    group = [Work("A", ns(3)), Work("B", ns(2)), Work("C", ns(1), cap=ns(2))]
    _, second, third = simulate(plan(group, width=1)).steps
    assert told(second) == (3, 4, 4, CUT, "route_cap")
    assert told(third) == (None, 2, 2, SHED, "queue_deadline")


def test_a_slot_that_comes_too_late_by_nothing() -> None:
    """A slot that becomes free at the very end of an allowance does not start the step."""
    group = [Work("A", ns(2)), Work("B", ns(1), cap=ns(2))]
    _, second = simulate(plan(group, width=1)).steps
    assert told(second) == (None, 2, 2, SHED, "queue_deadline")


def test_a_turn_that_would_not_be_worth_starting() -> None:
    """A step waits for as long as enough would be left to start it, and no longer; the next one gets the slot."""
    group = [Work("A", ns(3)), Work("B", ns(2), min_start=ns(2)), Work("C", ns(0.5))]
    _, second, third = simulate(plan(group, width=1)).steps
    assert told(second) == (None, 4, 2, SHED, "queue_deadline")
    assert second.waited == ns(2)
    assert third.started == ns(3)


def test_no_wait_for_a_turn_that_comes_too_late() -> None:
    """A step that needs all of its allowance to be worth starting does not wait at all."""
    group = [Work("A", ns(3)), Work("B", ns(2), min_start=ns(4))]
    _, second = simulate(plan(group, width=1)).steps
    assert told(second) == (None, 4, 0, SHED, "queue_deadline")


def test_a_fresh_limit_counts_from_the_start() -> None:
    """With fresh limits waiting costs a step nothing: in the order of arrival, each has its whole cap when its turn comes."""
    group = [Work("A", ns(3)), Work("B", ns(4)), Work("C", ns(1), cap=ns(2))]
    first, second, third = simulate(plan(group, width=1), fresh=True).steps
    assert [each.outcome for each in (first, second, third)] == [Outcome.COMPLETED] * 3
    assert (second.started, third.started, third.ended) == (ns(3), ns(7), ns(8))


def test_a_stage_is_used_once_by_steps_side_by_side() -> None:
    """Two steps of 2 at once use 2 of a share of 3; what comes later may take the third."""
    stages = (Share("llm", ns(3)),)
    group = [Work("A", ns(2), stage="llm"), Work("B", ns(2), stage="llm")]
    job = simulate(plan(group, Work("C", ns(2), stage="llm"), Work("D", ns(1), stage="llm"), stages=stages))
    assert told(job.steps[2]) == (2, 1, 3, CUT, "stage_share")
    assert told(job.steps[3]) == (None, 0, 3, REFUSED, "budget_exhausted")


def test_with_carry_a_stage_leaves_what_it_has_no_use_for() -> None:
    """Search needs 1 of its 3: the model may take 4, which is 2 more than its share. Without carry it is cut at 2."""
    stages = (Share("search", ns(3)), Share("llm", ns(2)), Share("slack", ns(1)))
    planned = plan(Work("A", ns(1), stage="search"), Work("B", ns(4), stage="llm"), stages=stages)
    assert told(simulate(planned).steps[1]) == (1, 2, 3, CUT, "stage_share")
    carrying = simulate(replace(planned, carry=True))
    assert told(carrying.steps[1]) == (1, 4, 5, COMPLETED, None)
    assert verdicts(carrying) == (True, True)


def test_a_job_whose_cleanup_was_cut_is_not_complete() -> None:
    """Whatever it was that the cleanup call had to put right, it did not."""
    job = simulate(plan(*works(4), cleanup=ns(12), cap=None))
    assert job.cleanup is not None
    assert told(job.cleanup) == (4, 6, 10, CUT, "budget_remaining")
    assert verdicts(job) == (False, True)


def test_a_pause_can_outlast_the_budget() -> None:
    """Nobody can cut a pause. What comes after it is not started, and the job is late by the pause alone."""
    job = simulate(plan(A, Work("B", ns(1), after=ns(20))))
    assert told(job.steps[1])[3:] == (REFUSED, "budget_exhausted")
    assert (job.ended, job.late) == (ns(24), ns(14))
    assert verdicts(job) == (False, False)


# -- any plan ----------------------------------------------------------------------------------------------------------

spans = st.one_of(
    st.integers(0, 5 * SECOND), st.sampled_from([0, 1, SECOND, 2 * SECOND, 4 * SECOND, 60 * SECOND])
)
longer = spans.map(lambda span: max(span, MILLISECOND))


def any_work(pauses: st.SearchStrategy[int]) -> st.SearchStrategy[Work]:
    """Any step."""
    stages = st.none() | st.sampled_from(["llm", "retrieval"])
    return st.builds(Work, st.just("step"), spans, st.none() | longer, spans, stages, pauses)


def any_plan(pauses: st.SearchStrategy[int] = spans) -> st.SearchStrategy[Plan]:
    """Any plan, with a reserve that is less than the total."""
    groups = st.lists(st.lists(any_work(pauses), min_size=1, max_size=5).map(tuple), min_size=1, max_size=4)
    return st.builds(
        lambda total, reserve, **rest: Plan(total=total, reserve=min(reserve, total - 1), **rest),
        total=longer,
        reserve=spans,
        groups=groups.map(tuple),
        cap=st.none() | longer,
        transit=pauses,
        width=st.none() | st.integers(1, 3),
        stages=st.builds(lambda llm, other: (Share("llm", llm), Share("retrieval", other)), longer, longer)
        | st.just(()),
        cleanup=st.none() | spans,
    )


def all_of(job: Job) -> list[Ran]:
    """The steps and the cleanup call."""
    return [*job.steps, *([] if job.cleanup is None else [job.cleanup])]


@given(any_plan(), st.booleans())
def test_nothing_starts_with_nothing_left(planned: Plan, fresh: bool) -> None:
    """Promise 2: a step that was started had time left then, and no less than its `min_start`."""
    job = simulate(planned, fresh=fresh)
    for work, ran in zip([each for group in planned.groups for each in group], job.steps, strict=True):
        if ran.started is None:
            assert ran.outcome in (Outcome.REFUSED, Outcome.SHED)
            continue
        left = ran.allowed - (0 if fresh else ran.waited)
        assert left > 0
        assert left >= work.min_start
        assert ran.ended == ran.started + min(ran.needs, left)
        assert (ran.outcome is Outcome.COMPLETED) == (ran.needs <= left)
        assert ran.reason == (None if ran.outcome is Outcome.COMPLETED else ran.bound)


@given(any_plan())
def test_ordinary_steps_leave_the_reserve(planned: Plan) -> None:
    """No step that was started or waited ends after the total less the reserve, and no cleanup call after the total."""
    job = simulate(planned)
    work_end = planned.total - planned.reserve
    for ran in job.steps:
        assert ran.ended <= work_end or (ran.started is None and ran.ended == ran.arrived)
    if job.cleanup is not None and job.cleanup.started is not None:
        assert job.cleanup.ended <= planned.total


@given(any_plan(), st.booleans())
def test_no_more_at_once_than_the_width(planned: Plan, fresh: bool) -> None:
    """When a step starts, fewer than `width` others are under way."""
    ran = [each for each in simulate(planned, fresh=fresh).steps if each.started is not None]
    for one in ran:
        at_once = [
            each
            for each in ran
            if each.started is not None and each.started <= (one.started or 0) < each.ended
        ]
        assert len(at_once) <= (planned.width or len(ran))


@given(any_plan(st.just(0)))
def test_the_shared_budget_is_never_late(planned: Plan) -> None:
    """Whatever the steps need, the job is closed in time: nothing but a pause can make it late."""
    job = simulate(planned)
    assert (job.late, job.verdict.on_time) == (0, True)


@given(any_plan())
def test_only_pauses_make_it_late(planned: Plan) -> None:
    """A job that is late has started nothing since its end, and what it waited for was a pause of its own."""
    job = simulate(planned)
    if job.verdict.on_time:
        return
    beyond = [each for each in all_of(job) if each.ended > planned.total]
    assert beyond
    assert all(each.started is None and each.waited == 0 and each.allowed <= 0 for each in beyond)
    assert {each.reason for each in beyond} == {Reason.BUDGET_EXHAUSTED}


@given(any_plan())
def test_no_stage_uses_more_than_its_share(planned: Plan) -> None:
    """The spans in which steps of a stage are there, taken together, are no longer than its share."""
    job = simulate(planned)
    shares = {share.stage: share.span for share in planned.stages}
    every = zip([each for group in planned.groups for each in group], job.steps, strict=True)
    spent: dict[str, list[tuple[int, int]]] = {}
    for work, ran in every:
        if work.stage in shares:
            spent.setdefault(work.stage, []).append((ran.arrived, ran.ended))
    for stage, taken in spent.items():
        used = reached = 0
        for arrived, ended in sorted(taken):
            used += max(0, ended - max(arrived, reached))
            reached = max(reached, ended)
        assert used <= shares[stage]


@given(any_plan())
def test_the_steps_keep_their_order(planned: Plan) -> None:
    """Every step is there once, and a group arrives only when all of the one before it has ended."""
    job = simulate(planned)
    rest, before = list(job.steps), 0
    for group in planned.groups:
        mine, rest = rest[: len(group)], rest[len(group) :]
        assert all(each.arrived >= before for each in mine)
        before = max(each.ended for each in mine)
    assert rest == []
    assert job.ended >= before
