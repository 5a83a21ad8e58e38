"""The decision on one call: start it with an allowance, or refuse it with a reason and a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import Budget, CallPhase, Limit
from proxy.core.decision import Decision, decide
from proxy.core.limits import NOTHING_STATED, Limits
from proxy.core.policy import BudgetDefaults, Policy, Route
from proxy.core.reasons import Reason
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
    assert decision.allowance == (SECOND, Limit.BUDGET)
    assert decision.remaining == SECOND


def test_the_callers_timer_counts_less_its_margin() -> None:
    """The answer must leave before that timer fires."""
    decision = decided(limits=Limits(client_timer=SECOND))
    assert decision.allowance == (950 * MILLISECOND, Limit.CLIENT_TIMER)


def test_without_any_limit_a_call_is_started() -> None:
    """`on_missing: pass` on a route without a cap: there is nothing to hold it to, whatever `min_start` says."""
    decision = decide(POLICY, Route("open", min_start=SECOND), Limits(), None, 0)
    assert decision == Decision(decision.allowance, None)
    assert decision.allowance.ns is None


def test_a_call_without_a_budget_is_held_to_its_other_limits() -> None:
    """A foreign limit is a limit, budget or not."""
    assert decide(POLICY, ROUTE, Limits(foreign=SECOND), None, 0).allowance == (SECOND, Limit.FOREIGN)
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
) -> None:
    """Promise 2: whatever the figures, a call that starts has an allowance above zero, within each of its limits."""
    budget = Budget("job", 0, total, reserve) if has_budget else None
    limits = Limits(client_timer=timer, foreign=foreign, depth=depth, phase=phase)
    decision = decide(POLICY, Route("tool", cap=cap, min_start=min_start), limits, budget, at)
    allowed = decision.allowance.ns
    if decision.refusal is not None:
        assert decision.detail.endswith((".", ")."))
        return
    assert depth <= 4
    if allowed is None:
        assert (budget, timer, foreign, cap) == (None, None, None, None)
        return
    assert allowed > 0
    assert allowed >= min_start
    assert timer is None or allowed < timer
    assert cap is None or allowed <= cap
    assert foreign is None or allowed <= foreign
    assert budget is None or at + allowed <= budget.end(phase) <= budget.deadline
