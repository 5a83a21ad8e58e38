"""A step that was none after all: the way for others, as a tunnel is for the HTTP that comes through it."""

from __future__ import annotations

from proxy.core.budget import Budget, CallPhase
from proxy.core.ledger import Ledger
from proxy.core.limits import NOTHING_STATED, Limits
from proxy.core.policy import BudgetDefaults, Share
from proxy.core.units import SECOND
from tests.observe.records import plain

WORK = CallPhase.WORK
DEFAULTS = BudgetDefaults(default=10 * SECOND, reserve=0, stages=(Share("llm", 5 * SECOND),))


def begun(ledger: Ledger, limits: Limits, at: int = 0, stage: str | None = None) -> Budget:
    """The budget of a step that has begun."""
    budget = ledger.find(limits, DEFAULTS, at, f"fresh-{at}").budget
    assert budget is not None
    budget.next_step()
    ledger.begin(budget, stage, WORK, at)
    return budget


def test_a_budget_that_only_it_had_goes_with_it() -> None:
    ledger = Ledger()
    budget = begun(ledger, NOTHING_STATED)
    assert ledger.get(budget.id) is budget
    ledger.withdraw(budget, None, WORK, SECOND)
    assert (ledger.get(budget.id), list(ledger.listed())) == (None, [])


def test_a_named_budget_stays_and_has_no_step_of_it() -> None:
    ledger = Ledger()
    budget = begun(ledger, Limits(budget_id="a"))
    ledger.withdraw(budget, None, WORK, SECOND)
    assert (ledger.get("a"), budget.in_flight, budget.history) == (budget, 0, None)
    assert (budget.closed_at, ledger.open) == (None, 1)


def test_what_others_have_of_a_budget_is_not_forgotten() -> None:
    """Whoever is told the id of one that nobody named finds it spent, and not as new."""
    ledger = Ledger()
    budget = begun(ledger, NOTHING_STATED)
    ledger.finish(budget, None, WORK, plain(), SECOND)
    late = begun(ledger, Limits(budget_id=budget.id), at=20 * SECOND)
    assert late is budget
    ledger.withdraw(budget, None, WORK, 21 * SECOND)
    assert ledger.get(budget.id) is budget
    shared = begun(ledger, NOTHING_STATED, at=30 * SECOND)
    assert begun(ledger, Limits(budget_id=shared.id), at=31 * SECOND) is shared
    ledger.withdraw(shared, None, WORK, 32 * SECOND)
    assert (ledger.get(shared.id), shared.in_flight) == (shared, 1)


def test_its_stage_has_paid_for_the_time() -> None:
    """The way took its time."""
    ledger = Ledger()
    budget = begun(ledger, Limits(budget_id="a"), stage="llm")
    ledger.withdraw(budget, "llm", WORK, SECOND)
    share = budget.stage("llm", WORK)
    assert share is not None
    assert share.left(9 * SECOND) == 4 * SECOND
