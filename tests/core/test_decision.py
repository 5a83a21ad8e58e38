"""The decision on one call: start it with an allowance, or refuse it with a reason and a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import BY_ENTRY, BY_REQUEST, Allowance, Budget, CallPhase, Limit
from proxy.core.decision import Decision, attempt_ns, decide
from proxy.core.limits import NOTHING_STATED, Limits
from proxy.core.policy import BudgetDefaults, Policy, Retries, Route, Share
from proxy.core.reasons import Reason
from proxy.core.stages import Stage, Stages, shares
from proxy.core.units import MILLISECOND, SECOND

POLICY = Policy(budget=BudgetDefaults(client_timer_margin=50 * MILLISECOND, depth=4))
ROUTE = Route("orders", cap=4 * SECOND)
SPAN = st.integers(-(10**11), 10**11)
STATED = st.one_of(st.none(), st.integers(0, 10**11))


def decided(
    *,
    at: int = 0,
    limits: Limits = NOTHING_STATED,
    route: Route = ROUTE,
    total: int = 10 * SECOND,
    reserve: int = SECOND,
) -> Decision:
    """The decision on a call under a budget that opened at zero."""
    return decide(POLICY, route, limits, Budget("job", 0, total, reserve), at)


def test_a_call_is_started_with_the_smallest_of_its_limits() -> None:
    """What was left of the budget when it was decided is kept beside it, for the record."""
    decision = decided(at=8 * SECOND)
    assert decision.refusal is None
    assert decision.allowance == Allowance(SECOND, Limit.BUDGET)
    assert decision.remaining == SECOND


def test_the_callers_timer_counts_less_its_margin() -> None:
    """The answer must leave before that timer fires."""
    decision = decided(limits=Limits(client_timer=SECOND))
    assert decision.allowance == Allowance(950 * MILLISECOND, Limit.CLIENT_TIMER)


def test_without_any_limit_a_call_is_started() -> None:
    """`on_missing: pass` on a route without a cap: there is nothing to hold it to, whatever `min_start` says."""
    decision = decide(POLICY, Route("open", min_start=SECOND), Limits(), None, 0)
    assert decision == Decision(decision.allowance, None)
    assert decision.allowance.ns is None


def test_a_call_without_a_budget_is_held_to_its_other_limits() -> None:
    """A foreign limit is a limit, budget or not."""
    assert decide(POLICY, ROUTE, Limits(foreign=SECOND), None, 0).allowance == Allowance(
        SECOND, Limit.FOREIGN
    )
    assert decide(POLICY, ROUTE, Limits(foreign=0), None, 0).refusal is Reason.BUDGET_EXHAUSTED


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(client_timer=50 * MILLISECOND), "own timer"),
        (Limits(foreign=0), "limit that the request states"),
        (Limits(), "reserve"),
        (Limits(phase=CallPhase.CLEANUP), "Nothing is left of the budget."),
    ],
)
def test_a_refusal_says_what_is_spent(limits: Limits, says: str) -> None:
    """Promise 13: the sentence names the limit that it was, and points out a reserve that is still there."""
    at = 10 * SECOND if limits.phase is CallPhase.CLEANUP else 9 * SECOND if limits == Limits() else 0
    decision = decided(at=at, limits=limits)
    assert decision.refusal is Reason.BUDGET_EXHAUSTED
    assert says in decision.detail


def test_the_reserve_is_for_cleanup() -> None:
    """At nine of ten seconds work is over, and a cleanup call may have the last one."""
    assert decided(at=9 * SECOND).refusal is Reason.BUDGET_EXHAUSTED
    cleanup = decided(at=9 * SECOND, limits=Limits(phase=CallPhase.CLEANUP))
    assert (cleanup.refusal, cleanup.allowance.ns) == (None, SECOND)


@pytest.mark.parametrize(
    ("left", "refusal"), [(499, Reason.BELOW_MIN_START), (500, None), (0, Reason.BUDGET_EXHAUSTED)]
)
def test_min_start(left: int, refusal: Reason | None) -> None:
    """A route that needs half a second is not started with less; with nothing the budget is named, not the route."""
    decision = decided(total=left * MILLISECOND, reserve=0, route=replace(ROUTE, min_start=500 * MILLISECOND))
    assert decision.refusal is refusal
    if refusal is Reason.BELOW_MIN_START:
        assert "499 ms" in decision.detail
        assert "'orders'" in decision.detail
        assert "500 ms" in decision.detail


def test_a_nanosecond_is_not_nothing() -> None:
    """The border lies at zero, for work and for the reserve."""
    assert decided(total=1, reserve=0).refusal is None
    spent = decided(total=1, reserve=1)
    assert spent.refusal is Reason.BUDGET_EXHAUSTED
    assert "reserve" in spent.detail


# -- stages --------------------------------------------------------------------------------------------------------

STAGED = replace(
    POLICY,
    budget=replace(
        POLICY.budget,
        default=10 * SECOND,
        stages=(Share("search", 2 * SECOND), Share("llm", 3 * SECOND), Share("slack", SECOND)),
    ),
)


def staged(total: int = 10 * SECOND) -> Budget:
    """A budget that is divided."""
    budget = Budget("job", 0, total, SECOND)
    budget.stages = shares(STAGED.budget, total)
    return budget


def used(budget: Budget, stage: str, begun: int, ended: int) -> Budget:
    """The same, after a step of a stage."""
    share = budget.stage(stage, CallPhase.WORK)
    assert share is not None
    share.begin(begun)
    share.end(ended)
    return budget


def test_a_stage_is_a_limit_like_the_others() -> None:
    """By the name that the call states, else that of its route; a call of no stage is not held to any."""
    budget = used(staged(), "llm", 0, SECOND)
    llm = replace(ROUTE, stage="llm")
    assert decide(STAGED, llm, Limits(), budget, SECOND).allowance == Allowance(2 * SECOND, Limit.STAGE)
    assert decide(STAGED, ROUTE, Limits(stage="llm"), budget, SECOND).allowance == Allowance(
        2 * SECOND, Limit.STAGE
    )
    both = decide(STAGED, llm, Limits(stage="search"), used(budget, "search", 0, 5), SECOND)
    assert both.allowance == Allowance(2 * SECOND - 5, Limit.STAGE)
    for limits in (Limits(), Limits(stage="unheard-of")):
        assert decide(STAGED, ROUTE, limits, budget, SECOND).allowance == Allowance(
            4 * SECOND, Limit.ROUTE_CAP
        )


def test_a_stage_that_is_in_use_is_used_up_as_time_passes() -> None:
    """What is left is asked when the call arrives, with others under way."""
    budget = staged()
    share = budget.stage("llm", CallPhase.WORK)
    assert share is not None
    share.begin(SECOND)
    assert decide(STAGED, ROUTE, Limits(stage="llm"), budget, 3 * SECOND).allowance.ns == SECOND


@pytest.mark.parametrize("route", [ROUTE, replace(ROUTE, stage="llm")])
def test_a_spent_stage_is_named(route: Route) -> None:
    """The budget has time, and the refusal says what has not (promise 13)."""
    limits = Limits(stage=None if route.stage else "llm")
    decision = decide(STAGED, route, limits, used(staged(), "llm", 0, 3 * SECOND), 4 * SECOND)
    assert decision.refusal is Reason.BUDGET_EXHAUSTED
    assert decision.detail == "Nothing is left of the share of stage 'llm'."
    assert (decision.allowance, decision.remaining) == (Allowance(0, Limit.STAGE), 5 * SECOND)


def test_what_earlier_stages_leave_is_allowed_and_told() -> None:
    """With carry: search has taken 1 of its 2 s, so the model has 4; of what it is allowed, the part beyond 3 is not its own."""
    policy = replace(STAGED, budget=replace(STAGED.budget, carry=True))
    budget = staged()
    budget.stages = shares(policy.budget, budget.total)
    used(budget, "search", 0, SECOND)
    llm, open_route = Limits(stage="llm"), replace(ROUTE, cap=None)
    assert decide(policy, open_route, llm, budget, SECOND) == Decision(
        Allowance(4 * SECOND, Limit.STAGE), 8 * SECOND, carried=SECOND
    )
    capped = replace(ROUTE, cap=3 * SECOND)
    assert decide(policy, capped, llm, budget, SECOND).carried == 0
    assert decide(policy, open_route, Limits(stage="search"), budget, SECOND).carried == 0
    assert decide(policy, open_route, Limits(), budget, SECOND).carried == 0
    used(budget, "llm", SECOND, 5 * SECOND)
    assert decide(policy, open_route, llm, budget, 5 * SECOND).refusal is Reason.BUDGET_EXHAUSTED
    assert decide(policy, open_route, Limits(stage="search"), budget, 5 * SECOND).allowance.ns == 0


def test_cleanup_is_held_to_no_stage() -> None:
    """The reserve belongs to none."""
    limits = Limits(stage="llm", phase=CallPhase.CLEANUP)
    budget = used(staged(), "llm", 0, 3 * SECOND)
    assert decide(STAGED, ROUTE, limits, budget, 9 * SECOND).allowance == Allowance(SECOND, Limit.BUDGET)


def test_slack_is_claimed_by_no_call() -> None:
    """A call that does is malformed, where the policy has stages; else the name is a label like any other."""
    for budget in (staged(), None):
        decision = decide(STAGED, ROUTE, Limits(stage="slack"), budget, 0)
        assert decision.refusal is Reason.MALFORMED
        assert decision.detail == "The header Budget-Stage: slack is the share that no call may claim."
    assert decided(limits=Limits(stage="slack")).refusal is None


# -- a budget that was closed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", CallPhase)
@pytest.mark.parametrize(("by", "refusal"), [(BY_REQUEST, Reason.BUDGET_EXHAUSTED), (BY_ENTRY, None)])
def test_a_budget_that_was_closed_on_request_takes_no_calls(
    by: str, refusal: Reason | None, phase: CallPhase
) -> None:
    """Its job has said so itself. That an entry request has been answered is no such word."""
    budget = Budget("job", 0, 10 * SECOND, SECOND)
    budget.close(SECOND, by)
    decision = decide(POLICY, ROUTE, Limits(phase=phase), budget, 2 * SECOND)
    assert decision.refusal is refusal
    if refusal is not None:
        assert decision.detail == "This budget was closed: its job has said that it is done."
    budget.reopen()
    assert decide(POLICY, ROUTE, Limits(phase=phase), budget, 2 * SECOND).refusal is None


# -- attempts ------------------------------------------------------------------------------------------------------


def test_on_a_route_with_retries_the_cap_is_that_of_each_attempt() -> None:
    """The step may take what the budget allows, and each attempt no more than the cap of that."""
    route = replace(ROUTE, retries=Retries())
    assert decided(route=route).allowance == Allowance(9 * SECOND, Limit.BUDGET)
    assert [attempt_ns(route, left * SECOND) for left in (9, 4, 1, 0)] == [
        4 * SECOND,
        4 * SECOND,
        SECOND,
        0,
    ]


def test_an_attempt_without_limits() -> None:
    """Nothing limits it but what is there."""
    assert attempt_ns(Route("open"), None) is None
    assert attempt_ns(Route("open"), SECOND) == SECOND
    assert attempt_ns(ROUTE, None) == ROUTE.cap


# -- depth, and everything at once ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "refusal"), [(0, None), (4, None), (5, Reason.DEPTH_EXCEEDED)])
def test_depth(depth: int, refusal: Reason | None) -> None:
    """Delegation ends at the configured generation; the sentence says both numbers."""
    decision = decided(limits=Limits(depth=depth))
    assert decision.refusal is refusal
    if refusal is not None:
        assert "5 delegations" in decision.detail
        assert "4" in decision.detail


def test_depth_is_free_where_nothing_is_configured() -> None:
    """The built-in policy breaks nobody on its first day."""
    assert decide(Policy(), ROUTE, Limits(depth=9_999_999_999), None, 0).refusal is None


@given(
    total=SPAN,
    reserve=st.integers(0, 10**11),
    at=SPAN,
    timer=STATED,
    foreign=STATED,
    depth=st.integers(0, 9),
    phase=st.sampled_from(CallPhase),
    cap=STATED,
    min_start=st.integers(0, 10**10),
    has_budget=st.booleans(),
    share=STATED,
    retried=st.booleans(),
)
def test_nothing_starts_on_an_empty_budget(
    total: int,
    reserve: int,
    at: int,
    timer: int | None,
    foreign: int | None,
    depth: int,
    phase: CallPhase,
    cap: int | None,
    min_start: int,
    has_budget: bool,
    share: int | None,
    retried: bool,
) -> None:
    """Promise 2: whatever the figures, a call that starts has an allowance above zero, within each of its limits."""
    budget = Budget("job", 0, total, reserve) if has_budget else None
    stage = None
    if budget is not None and share is not None:
        budget.stages = Stages([Stage(share, "llm")])
        stage = budget.stage("llm", phase)
    limits = Limits(client_timer=timer, foreign=foreign, depth=depth, phase=phase, stage="llm")
    route = Route("tool", cap=cap, min_start=min_start, retries=Retries() if retried else None)
    decision = decide(POLICY, route, limits, budget, at)
    allowed = decision.allowance.ns
    if decision.refusal is not None:
        assert decision.detail.endswith((".", ")."))
        return
    assert depth <= 4
    if allowed is None:
        assert (budget, timer, foreign, None if retried else cap) == (None, None, None, None)
        return
    assert allowed > 0
    assert allowed >= min_start
    assert timer is None or allowed < timer
    assert cap is None or retried or allowed <= cap
    assert stage is None or allowed <= stage.left(at)
    assert foreign is None or allowed <= foreign
    assert budget is None or at + allowed <= budget.end(phase) <= budget.deadline
