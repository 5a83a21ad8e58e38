"""Jobs as a ledger keeps them, for the tests: opened, with steps that have ended and some that have not."""

from __future__ import annotations

from typing import Any

from proxy.core.budget import Budget, CallPhase
from proxy.core.degrading import Degraded, Why
from proxy.core.history import Event, Happening
from proxy.core.ledger import Ledger
from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults, Share
from proxy.core.step import StepRecord
from proxy.core.units import MILLISECOND, SECOND
from tests.admin.writes import NOW

DEFAULTS = BudgetDefaults(default=10 * SECOND, reserve=SECOND, max=3600 * SECOND)
STAGED = BudgetDefaults(
    default=10 * SECOND, reserve=SECOND, stages=(Share("retrieval", 4 * SECOND), Share("llm", 5 * SECOND))
)


def opened(ledger: Ledger, id: str, ago_ms: int, *, total_ms: int = 10_000, staged: bool = False) -> Budget:
    """A budget that was opened a while ago."""
    limits = Limits(budget_id=id, remaining=total_ms * MILLISECOND)
    budget = ledger.find(limits, STAGED if staged else DEFAULTS, NOW - ago_ms * MILLISECOND, "fresh").budget
    assert budget is not None
    return budget


def one_call(ledger: Ledger, id: str, ago_ms: int) -> Budget:
    """A budget of a single call that nobody named, which took a millisecond."""
    at = NOW - ago_ms * MILLISECOND
    budget = ledger.find(Limits(), DEFAULTS, at, id).budget
    assert budget is not None
    ledger.begin(budget, None, CallPhase.WORK, at)
    ledger.finish(budget, None, CallPhase.WORK, step(budget.id, 1, 0, 1), at + MILLISECOND)
    return budget


def step(budget_id: str, number: int, started_ms: float, elapsed_ms: float, **more: Any) -> StepRecord:
    """The record of a step, of a read that went well unless something else is said."""
    plain: dict[str, Any] = {
        "record": f"{budget_id}-{number}",
        "budget_id": budget_id,
        "step": number,
        "stage": None,
        "route": "search",
        "method": "GET",
        "target": "http://search.internal/v1/find?q=…",
        "kind": "read",
        "unit": f"unit {number}",
        "attempt": 1,
        "depth": 0,
        "started_ms": float(started_ms),
        "remaining_ms": 9_000.0 - started_ms,
        "allowed_ms": min(4_000.0, 9_000.0 - started_ms),
        "waited_ms": 0.5,
        "elapsed_ms": float(elapsed_ms),
        "late_ms": None,
        "outcome": "completed",
        "effect": "none",
        "phase": "complete",
        "reason": None,
        "retry": "safe",
        "would": None,
        "status": 200,
        "bytes": 1024,
        "overhead_ms": 0.2,
    }
    return StepRecord(**(plain | more))


def ended(
    ledger: Ledger, budget: Budget, number: int, started_ms: float, elapsed_ms: float, **more: Any
) -> None:
    """Have a step of a budget happen, with the events of its admission."""
    record = step(budget.id, number, started_ms, elapsed_ms, **more)
    began = budget.opened + int(started_ms * MILLISECOND)
    end = began + int(elapsed_ms * MILLISECOND)
    ledger.begin(budget, record.stage, CallPhase.WORK, began)
    if record.queued_ms:
        note(ledger, budget, record, began, Happening.ENQUEUED)
    if record.tries:
        note(ledger, budget, record, began + int(record.queued_ms * MILLISECOND), Happening.GRANTED, slot=0)
        last = Happening.COMPLETED if record.outcome == "completed" else Happening.EXPIRED
        note(ledger, budget, record, end, last, slot=0)
        note(ledger, budget, record, end, Happening.RELEASED, slot=0)
    ledger.finish(budget, record.stage, CallPhase.WORK, record, end)


def begun(
    ledger: Ledger, budget: Budget, number: int, started_ms: float, *, granted_ms: float | None
) -> None:
    """Have a step begin that is still waiting, or has been granted its lease."""
    record = step(budget.id, number, started_ms, 0)
    began = budget.opened + int(started_ms * MILLISECOND)
    ledger.begin(budget, None, CallPhase.WORK, began)
    if granted_ms is None or granted_ms > started_ms:
        note(ledger, budget, record, began, Happening.ENQUEUED)
    if granted_ms is not None:
        at = budget.opened + int(granted_ms * MILLISECOND)
        note(ledger, budget, record, at, Happening.GRANTED, slot=1)


def note(
    ledger: Ledger, budget: Budget, record: StepRecord, at: int, what: Happening, slot: int | None = None
) -> None:
    ledger.note(budget, Event(at, what, record.step, record.record, slot))


CUT: dict[str, Any] = {
    "outcome": "deadline_exceeded",
    "phase": "sent",
    "status": 504,
    "late_ms": 0.3,
}
DOUBTFUL: dict[str, Any] = CUT | {
    "method": "POST",
    "target": "http://orders.internal/v1/orders",
    "route": "orders",
    "kind": "write",
    "effect": "uncertain",
    "retry": "verify",
    "status": 424,
}
REFUSED: dict[str, Any] = {
    "outcome": "refused",
    "phase": "not_sent",
    "reason": "below_min_start",
    "allowed_ms": 200.0,
    "retry": "never",
    "status": 403,
    "bytes": 0,
    "overhead_ms": None,
    "tries": 0,
    "fresh": 0,
}


def less(level: int, rung: str, why: Why, **more: Any) -> dict[str, Any]:
    """What the record of a call says that was answered by a lower rung."""
    answered = Degraded(level, rung, why, "llm")
    return {"route": "chat", "stage": "llm", "rung": rung, "degraded": answered} | more


def on_a_ladder(ledger: Ledger, id: str = "run-44") -> Budget:
    """A job of ten seconds, closed in time, whose calls were answered by ever lower rungs."""
    budget = opened(ledger, id, 12_000)
    ended(ledger, budget, 1, 0, 4_000, route="chat", stage="llm", rung="full", cache="miss")
    ended(ledger, budget, 2, 4_000, 3_000, **less(2, "minimal", Why.TIME, carried_ms=1_200.0))
    ended(ledger, budget, 3, 7_000, 10, **less(3, "cached", Why.FAILED, cache="semantic"))
    truncated = less(1, "fast", Why.TRUNCATED) | {"outcome": "deadline_exceeded", "reason": "stage_share"}
    ended(ledger, budget, 4, 7_100, 1_800, **truncated)
    ledger.close(budget, budget.opened + 9_000 * MILLISECOND, "entry")
    return budget


def worked_example(ledger: Ledger, id: str = "run-42", *, ago_ms: int = 12_000) -> Budget:
    """A job of ten seconds whose last call was cut by what was left, and that was closed in time."""
    budget = opened(ledger, id, ago_ms)
    ended(ledger, budget, 1, 0, 4_000)
    ended(ledger, budget, 2, 4_000, 4_000)
    ended(ledger, budget, 3, 8_000, 1_000.3, reason="budget_remaining", **CUT)
    ledger.close(budget, budget.opened + 9_900 * MILLISECOND, "entry")
    return budget


def tangled(ledger: Ledger, id: str = "run-43") -> Budget:
    """A job that has been open for 6.2 s, with a bit of everything."""
    budget = opened(ledger, id, 6_200, staged=True)
    ended(ledger, budget, 1, 0, 1_500, stage="retrieval", tries=2, attempt=2)
    ended(ledger, budget, 2, 0, 2_300, stage="retrieval", queued_ms=1_500.0, waited_ms=1_500.4)
    ended(ledger, budget, 3, 2_400, 2_000, stage="llm", reason="route_cap", **DOUBTFUL)
    ended(ledger, budget, 4, 4_500, 0, **REFUSED)
    begun(ledger, budget, 5, 4_600, granted_ms=4_600)
    begun(ledger, budget, 6, 5_000, granted_ms=None)
    budget.restate(NOW, 20 * SECOND)
    return budget
