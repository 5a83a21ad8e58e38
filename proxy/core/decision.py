"""The decision on one call: start it with this allowance, or refuse it for this reason. A value; nothing is applied.

Made once, when the head has arrived, from the route, the budget and what the call states. `mode: observe` makes the
same decision and then does not act on it; `waterclock explain` makes it without a call.
"""

from __future__ import annotations

from typing import ClassVar, Final

from proxy.core.budget import BY_REQUEST, UNLIMITED, Allowance, Budget, CallPhase, Limit, allowance
from proxy.core.limits import Limits
from proxy.core.policy import SLACK, Policy, Route
from proxy.core.reasons import Reason
from proxy.core.units import exact_ms
from proxy.values import Value


class Decision(Value):
    """What to do with a call. `refusal` None: start it. Spans are nanoseconds.

    `remaining`: what was left of the budget when the decision was made; None without a budget. `detail`: the
    sentence that explains a refusal. `carried`: how much of the allowance earlier stages had left unused.
    """

    _fields: ClassVar[tuple[str, ...]] = ("allowance", "remaining", "refusal", "detail", "carried")
    __slots__ = _fields

    def __init__(
        self,
        allowance: Allowance,
        remaining: int | None,
        refusal: Reason | None = None,
        detail: str = "",
        carried: int = 0,
    ) -> None:
        """Take what is known."""
        self.allowance: Final = allowance
        self.remaining: Final = remaining
        self.refusal: Final = refusal
        self.detail: Final = detail
        self.carried: Final = carried


UNLIMITED_STEP = Decision(UNLIMITED, None)


def decide(policy: Policy, route: Route, limits: Limits, budget: Budget | None, arrival: int) -> Decision:
    """Decide on a call that arrived at `arrival`. A call without a budget is held to its other limits only.

    On a route with retries the cap is the most of each attempt (`attempt_ns`), and not of the step.
    """
    timer = limits.client_timer
    if timer is not None:
        timer -= policy.budget.client_timer_margin
    stage = limits.stage or route.stage
    remaining, stages, share = None, None, None
    if budget is not None:
        remaining = budget.remaining(arrival, limits.phase)
        stages = budget.stages
        share = budget.stage(stage, limits.phase) if stages is not None else None
    allowed = allowance(
        remaining=remaining,
        cap=route.cap if route.retries is None else None,
        stage_left=stages.left(share, arrival) if stages is not None and share is not None else None,
        client_timer=timer,
        foreign=limits.foreign,
    )
    refused = _refused_in_any_case(policy, limits, budget)
    if refused is not None:
        return refused._replace(allowance=allowed, remaining=remaining)
    if allowed.ns is None:
        return Decision(allowed, remaining)
    if allowed.ns <= 0:
        reserve_left = budget is not None and budget.remaining(arrival, CallPhase.CLEANUP) > 0
        detail = _why_spent(allowed.bound, stage, reserve_left=reserve_left)
        return Decision(allowed, remaining, Reason.BUDGET_EXHAUSTED, detail)
    if allowed.ns < route.min_start and not route.ladder:  # it counts as what the rungs need
        left, needed = exact_ms(allowed.ns), exact_ms(route.min_start)
        detail = f"Only {left:g} ms may be used, and route {route.name!r} is not started with less than {needed:g} ms."
        return Decision(allowed, remaining, Reason.BELOW_MIN_START, detail)
    if stages is None or share is None:
        return Decision(allowed, remaining)
    return Decision(allowed, remaining, carried=stages.carried(share, allowed.ns, arrival))


def attempt_ns(route: Route, left: int | None) -> int | None:
    """Return what one attempt may take, of what is left for all of them (nanoseconds; None: no limit)."""
    if route.cap is None or left is None:
        return route.cap if left is None else left
    return min(route.cap, left)


def _refused_in_any_case(policy: Policy, limits: Limits, budget: Budget | None) -> Decision | None:
    """Return the refusal of a call that no amount of time would let start, or None."""
    if limits.stage == SLACK and policy.budget.stages:
        return Decision(UNLIMITED, None, Reason.MALFORMED, _SLACK_CLAIMED)
    if budget is not None and budget.closed_by == BY_REQUEST:
        return Decision(UNLIMITED, None, Reason.BUDGET_EXHAUSTED, _CLOSED)
    return too_deep(policy, limits)


def too_deep(policy: Policy, limits: Limits) -> Decision | None:
    """Return the refusal of a call that has been delegated too often, or None."""
    most = policy.budget.depth
    if most is None or limits.depth <= most:
        return None
    detail = f"This call is {limits.depth} delegations deep, and no more than {most} are allowed."
    return Decision(UNLIMITED, None, Reason.DEPTH_EXCEEDED, detail)


_SLACK_CLAIMED: Final = f"The header Budget-Stage: {SLACK} is the share that no call may claim."
_CLOSED: Final = "This budget was closed: its job has said that it is done."
_SPENT: Final = {
    Limit.BUDGET: "Nothing is left of the budget.",
    Limit.CLIENT_TIMER: "The caller's own timer would fire before an answer could leave.",
    Limit.FOREIGN: "The limit that the request states is spent.",
}


def _why_spent(bound: Limit, stage: str | None, *, reserve_left: bool) -> str:
    if bound is Limit.STAGE:
        return f"Nothing is left of the share of stage {stage!r}."
    if bound is Limit.BUDGET and reserve_left:
        return "Nothing is left of the budget but the reserve, which is for cleanup (Budget-Phase: cleanup)."
    return _SPENT.get(bound, "The allowance of this call is spent.")
