"""What the ledger keeps and for how long, what it forgets to stay in bounds, and that each end is told of once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import BY_REQUEST, Budget, CallPhase
from proxy.core.found import CROWDED, Found
from proxy.core.history import EVENT_BYTES, MOST_STEPS, Event, Happening, step_bytes
from proxy.core.ledger import LONE, Ledger
from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults, LedgerBounds
from proxy.core.units import MILLISECOND, MINUTE, SECOND
from tests.observe.records import plain

DEFAULTS = BudgetDefaults(default=10 * SECOND, reserve=SECOND, max=60 * SECOND)


def bounded(**bounds: int) -> Ledger:
    """A ledger with these bounds, and else the built-in ones."""
    return Ledger(LedgerBounds(**bounds))


def find(ledger: Ledger, id: str | None, at: int = 0, *, remaining: int | None = None) -> Budget:
    """The budget of a call that has one."""
    budget = ledger.find(Limits(budget_id=id, remaining=remaining), DEFAULTS, at, f"fresh-{at}").budget
    assert budget is not None
    return budget


def call(ledger: Ledger, budget: Budget, begun: int = 0, ended: int = 0, **changes: Any) -> bool:
    """Have a step of a budget happen; return whether it finished that."""
    ledger.begin(budget, None, CallPhase.WORK, begun)
    return ledger.finish(budget, None, CallPhase.WORK, plain(**changes), ended)


# -- for how long ------------------------------------------------------------------------------------------------


def test_a_late_call_gets_no_fresh_start() -> None:
    """An ended budget stays known, so that a call under its id is refused, whatever it states."""
    ledger = bounded(retention=5 * MINUTE)
    budget = find(ledger, "a", remaining=SECOND)
    assert find(ledger, "a", 4 * MINUTE, remaining=9 * SECOND) is budget
    assert (budget.deadline, budget.extensions_ignored) == (SECOND, 1)


@pytest.mark.parametrize("retention", [0, 1, 5 * MINUTE])
@pytest.mark.parametrize("others", [[], [SECOND], [SECOND - 1, SECOND]])
def test_an_id_is_free_again_after_its_retention(retention: int, others: list[int]) -> None:
    """Until then it is known, and the moment does not depend on what other jobs do."""
    ledger = bounded(retention=retention)
    budget = find(ledger, "a", remaining=SECOND)
    for at in others:
        find(ledger, "b", at)
    assert find(ledger, "a", SECOND + retention) is budget
    assert find(ledger, "a", SECOND + retention + 1) is not budget


@pytest.mark.parametrize("ending", ["shortened", "closed"])
def test_ending_a_budget_early_does_not_free_its_id_early(ending: str) -> None:
    """A statement of zero ends it at once, a closing too; its id is kept as long as if neither had been."""
    ledger = bounded(retention=0)
    budget = find(ledger, "a", remaining=10 * SECOND)
    if ending == "closed":
        assert ledger.close(budget, SECOND, BY_REQUEST)
    else:
        find(ledger, "a", SECOND, remaining=0)
    assert find(ledger, "a", 10 * SECOND) is budget
    assert find(ledger, "a", 10 * SECOND + 1) is not budget


def test_a_budget_that_is_closed_late_is_kept_from_then_on() -> None:
    """Its record is of interest after the job has ended."""
    ledger = bounded(retention=MINUTE)
    budget = find(ledger, "a", remaining=SECOND)
    assert ledger.close(budget, MINUTE, BY_REQUEST)
    ledger.sweep(2 * MINUTE)
    assert ledger.get("a") is budget
    ledger.sweep(2 * MINUTE + 1)
    assert ledger.get("a") is None


def test_another_retention_holds_for_what_is_known_already() -> None:
    """A new policy may keep them longer, or less long."""
    ledger = bounded(retention=MINUTE)
    budget = find(ledger, "a", remaining=SECOND)
    ledger.bounds = replace(ledger.bounds, retention=5 * MINUTE)
    ledger.sweep(4 * MINUTE)
    assert ledger.get("a") is budget
    ledger.bounds = replace(ledger.bounds, retention=MINUTE)
    ledger.sweep(4 * MINUTE)
    assert ledger.get("a") is None


def test_memory_does_not_grow_with_the_number_of_jobs() -> None:
    """Jobs come and go for a day; what is kept is what ended within the retention."""
    ledger = bounded(retention=MINUTE)
    for number in range(24 * 60):
        call(ledger, find(ledger, f"run-{number}", number * MINUTE, remaining=SECOND))
        assert len(ledger) <= 3
        assert ledger.bytes <= 3 * step_bytes(plain())


def test_statements_do_not_pile_up() -> None:
    """Each call of a job states a little less; what the ledger keeps of that is bounded."""
    ledger = bounded()
    for number in range(10_000):
        find(ledger, "a", number, remaining=SECOND - 2 * number)
    assert len(ledger._alarms) < 2_000


# -- how many ----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1000), st.integers(0, 400)), max_size=80),
    st.integers(1, 8),
)
def test_the_table_is_bounded_and_forgets_no_open_budget(
    calls: list[tuple[int, int, int]], capacity: int
) -> None:
    """However many ids come, no more than that are kept, and one that is open is never opened anew (promise 1)."""
    ledger = bounded(retention=10**9, budgets=capacity)
    now, opened = 0, dict[str, Budget]()
    for number, stated, passed in calls:
        now += passed * MILLISECOND
        id = f"run-{number}"
        found = ledger.find(Limits(budget_id=id, remaining=stated * MILLISECOND), DEFAULTS, now, "fresh")
        assert len(ledger) <= capacity
        before = opened.get(id)
        if before is not None and before.deadline >= now:
            assert found.budget is before
        if found.budget is not None:
            opened[id] = found.budget
        else:
            assert found.crowded
            assert len(ledger) == capacity


def test_a_full_table_is_full() -> None:
    """Three budgets are kept, not one less; the next makes room by what has ended first, and by no other."""
    ledger = bounded(budgets=3)
    for number in (5, 7, 6):
        find(ledger, f"ends-at-{number}", remaining=number * SECOND)
    another = Limits(budget_id="ends-at-9", remaining=9 * SECOND)
    assert ledger.find(another, DEFAULTS, 5 * SECOND, "fresh") == CROWDED
    assert ledger.find(another, DEFAULTS, 5 * SECOND + 1, "fresh").opened
    assert len(ledger) == 3
    assert ledger.get("ends-at-5") is None


def test_a_budget_that_was_shortened_makes_room_at_its_new_end() -> None:
    """Not at the one that it was opened with."""
    ledger = bounded(budgets=1)
    find(ledger, "a", remaining=10 * SECOND)
    find(ledger, "a", SECOND, remaining=SECOND)
    assert ledger.find(Limits(budget_id="b"), DEFAULTS, 2 * SECOND, "fresh") == CROWDED
    assert ledger.find(Limits(budget_id="b"), DEFAULTS, 2 * SECOND + 1, "fresh").opened


def test_a_smaller_table_is_reached_at_once() -> None:
    """A new policy allows less: what is finished goes, what is open stays, and no further one is opened."""
    ledger = bounded()
    for number in range(10):
        find(ledger, f"run-{number}", remaining=(10 if number < 3 else 1) * SECOND)
    ledger.bounds = replace(ledger.bounds, budgets=3)
    assert ledger.find(Limits(budget_id="more"), DEFAULTS, 2 * SECOND, "fresh") == CROWDED
    assert [budget.id for budget in ledger.listed()] == ["run-0", "run-1", "run-2"]


def test_open_budgets_are_those_that_have_not_ended() -> None:
    """For the gauge: what is only kept to refuse late calls does not count."""
    ledger = bounded()
    for number in (1, 2, 3):
        find(ledger, f"run-{number}", remaining=number * SECOND)
    ledger.close(find(ledger, "run-3"), 0, BY_REQUEST)
    for at, still_open in enumerate([2, 1, 0, 0]):
        ledger.sweep(at * SECOND + 1)
        assert (ledger.open, len(ledger)) == (still_open, 3)


# -- how much ----------------------------------------------------------------------------------------------------


def test_the_oldest_finished_give_up_their_details_first_and_open_ones_last() -> None:
    """By the order in which they were finished, not opened; what is counted stays."""
    ledger = bounded(bytes=16 * step_bytes(plain()))
    budgets = [find(ledger, f"run-{number}") for number in range(4)]
    for budget in 5 * budgets[:3]:
        call(ledger, budget)
    for number in (2, 1):
        ledger.close(budgets[number], 0, BY_REQUEST)
    seen = [[5, 5, 5]]
    for _ in range(16):
        call(ledger, budgets[3])
        kept = [len(budget.history.steps) for budget in budgets[:3] if budget.history]
        if kept != seen[-1]:
            seen.append(kept)
    assert seen == [[5, 5, 5], [5, 5, 0], [5, 0, 0], [0, 0, 0]]
    assert [budget.history.counts(0).total for budget in budgets if budget.history] == [5, 5, 5, 16]


def test_with_no_memory_at_all_everything_is_counted_and_nothing_kept() -> None:
    """Not even the units; so a job that has left one undone can no longer be found complete."""
    ledger = bounded(bytes=0)
    budget = find(ledger, "a")
    call(ledger, budget, unit="u", outcome="deadline_exceeded", effect="uncertain", record="w")
    ledger.note(budget, Event(0, Happening.GRANTED, 1, "w"))
    call(ledger, budget, unit="u")
    assert ledger.bytes == 0
    assert budget.history is not None
    assert budget.history.overflowed
    counts = budget.history.counts(0)
    assert (counts.total, counts.completed, counts.uncertain) == (2, 1, 1)


def test_what_is_not_kept_is_not_counted() -> None:
    """Past the bound of one history its size stands still, and goes when the budget is forgotten."""
    ledger = bounded(retention=0)
    budget = find(ledger, "a", remaining=SECOND)
    for number in range(MOST_STEPS + 10):
        call(ledger, budget, record=str(number))
    assert ledger.bytes == MOST_STEPS * step_bytes(plain())
    ledger.note(budget, Event(0, Happening.GRANTED, 1, "w", detail="abc"))
    assert ledger.bytes == MOST_STEPS * step_bytes(plain()) + EVENT_BYTES + 3
    ledger.sweep(SECOND + 1)
    assert (len(ledger), ledger.bytes) == (0, 0)


def test_what_ends_after_its_budget_was_forgotten_counts_nowhere() -> None:
    """Whoever holds it may still write to it and close it, without a trace in the table."""
    ledger = bounded(retention=0)
    budget = find(ledger, "a", remaining=SECOND)
    ledger.sweep(SECOND + 1)
    successor = find(ledger, "a", 2 * SECOND)
    call(ledger, budget)
    ledger.note(budget, Event(0, Happening.GRANTED, 1, "w"))
    assert ledger.close(budget, 2 * SECOND, BY_REQUEST)
    assert (ledger.bytes, ledger.open, successor.closed_at) == (0, 1, None)
    ledger.sweep(MINUTE)
    assert len(ledger) == 0


# -- budgets of one call -----------------------------------------------------------------------------------------


def test_a_budget_of_one_call_is_closed_with_it() -> None:
    """Nobody else will say that its job is done."""
    ledger = bounded()
    budget = find(ledger, None)
    ledger.begin(budget, None, CallPhase.WORK, 0)
    assert ledger.get(budget.id) is budget
    assert ledger.finish(budget, None, CallPhase.WORK, plain(), SECOND)
    assert (budget.closed_at, budget.closed_by, budget.on_time) == (SECOND, "call", True)
    assert [*ledger.listed()] == [budget]
    assert (len(ledger), ledger.open, ledger.bytes) == (0, 0, 0)


def test_the_last_budgets_of_one_call_are_kept() -> None:
    """In a ring."""
    ledger = bounded()
    budgets = [find(ledger, None, number) for number in range(LONE + 10)]
    for budget in budgets:
        call(ledger, budget)
    assert [*ledger.listed()] == budgets[10:]


@pytest.mark.parametrize("over", [False, True])
def test_who_is_told_its_id_shares_its_clock(over: bool) -> None:
    """The answer says under which id a call went: naming it gives no fresh start, while the call runs or later."""
    ledger = bounded()
    budget = find(ledger, None)
    ledger.begin(budget, None, CallPhase.WORK, 0)
    if over:
        assert ledger.finish(budget, None, CallPhase.WORK, plain(), SECOND)
    found = ledger.find(Limits(budget_id=budget.id, remaining=50 * SECOND), DEFAULTS, 2 * SECOND, "fresh")
    assert found == Found(budget, extended=True, opened=over)
    assert (budget.deadline, budget.lone, budget.closed_at, ledger.open) == (10 * SECOND, False, None, 1)
    assert [*ledger.listed()] == [budget]
    if not over:
        assert not ledger.finish(budget, None, CallPhase.WORK, plain(), SECOND)
    assert ledger.bytes == step_bytes(plain())
    ledger.sweep(10 * SECOND + 1)
    assert ledger.run_out() == [budget]


def test_who_is_told_its_id_too_late_finds_it_spent() -> None:
    """It is no job of its own then."""
    ledger = bounded()
    budget = find(ledger, None)
    call(ledger, budget)
    assert find(ledger, budget.id, 10 * SECOND) is budget
    assert not call(ledger, budget, 10 * SECOND, 10 * SECOND)
    assert (budget.lone, len(ledger), ledger.get(budget.id)) == (True, 0, budget)


def test_it_is_closed_with_the_last_of_its_calls() -> None:
    """Somebody has joined it too late to share anything."""
    ledger = bounded()
    budget = find(ledger, None)
    ledger.begin(budget, None, CallPhase.WORK, 0)
    ledger.begin(find(ledger, budget.id, 10 * SECOND), None, CallPhase.WORK, 10 * SECOND)
    assert not ledger.finish(budget, None, CallPhase.WORK, plain(), 11 * SECOND)
    assert ledger.finish(budget, None, CallPhase.WORK, plain(), 12 * SECOND)
    assert budget.closed_at == 12 * SECOND


def test_sharing_it_needs_room() -> None:
    """When all that can be kept are open it stays what it is: one that nobody named needs none."""
    ledger = bounded(budgets=1)
    find(ledger, "a")
    budget = find(ledger, None)
    call(ledger, budget)
    assert ledger.find(Limits(budget_id=budget.id), DEFAULTS, SECOND, "fresh") == CROWDED
    assert (ledger.get(budget.id), budget.lone) == (budget, True)


def test_one_that_was_closed_on_request_stays_closed() -> None:
    """Its call was still under way when somebody said that all is done."""
    ledger = bounded()
    budget = find(ledger, None)
    ledger.begin(budget, None, CallPhase.WORK, 0)
    assert ledger.close(budget, SECOND, BY_REQUEST)
    assert not ledger.finish(budget, None, CallPhase.WORK, plain(), 2 * SECOND)
    assert ledger.find(Limits(budget_id=budget.id), DEFAULTS, 2 * SECOND, "fresh") == Found(budget)
    assert (budget.closed_at, budget.closed_by, ledger.open, len(ledger)) == (SECOND, BY_REQUEST, 0, 1)


# -- each end is told of once --------------------------------------------------------------------------------------


def test_a_budget_that_runs_out_is_told_of_once() -> None:
    """When its time is over, and not before."""
    ledger = bounded()
    budget = find(ledger, "a", remaining=SECOND)
    ledger.sweep(SECOND)
    assert ledger.run_out() == []
    ledger.sweep(SECOND + 1)
    assert [ledger.run_out(), ledger.run_out()] == [[budget], []]


def test_one_that_still_has_calls_is_told_of_when_they_have_ended() -> None:
    """What is said of it then is final."""
    ledger = bounded()
    budget = find(ledger, "a", remaining=SECOND)
    ledger.begin(budget, None, CallPhase.WORK, 0)
    ledger.sweep(2 * SECOND)
    assert ledger.run_out() == []
    ledger.finish(budget, None, CallPhase.WORK, plain(), 2 * SECOND)
    assert ledger.run_out() == [budget]


def test_one_that_was_closed_is_not_told_of_again() -> None:
    """Nor is a second closing a closing."""
    ledger = bounded()
    budget = find(ledger, "a", remaining=SECOND)
    assert [ledger.close(budget, 0, BY_REQUEST), ledger.close(budget, 1, BY_REQUEST)] == [True, False]
    ledger.sweep(2 * SECOND)
    assert ledger.run_out() == []
    assert budget.closed_at == 0


def test_one_that_is_closed_late_on_request_is_told_of_as_run_out() -> None:
    """That it is done and late is known all the same."""
    ledger = bounded()
    budget = find(ledger, "a", remaining=SECOND)
    assert ledger.close(budget, 2 * SECOND, BY_REQUEST)
    assert budget.on_time is False
    assert [ledger.run_out(), ledger.run_out()] == [[budget], []]


def test_a_late_entry_request_tells_of_its_end_itself() -> None:
    """Unless it came when that had been told."""
    ledger = bounded()
    budget = find(ledger, "a", remaining=SECOND)
    ledger.enter(budget, Limits())
    ledger.sweep(2 * SECOND)
    assert ledger.run_out() == []
    assert ledger.leave(budget, 2 * SECOND)
    assert ledger.run_out() == []
    other = find(ledger, "b", 2 * SECOND, remaining=SECOND)
    ledger.sweep(4 * SECOND)
    assert ledger.run_out() == [other]
    ledger.enter(other, Limits())
    assert not ledger.leave(other, 5 * SECOND)
    assert other.on_time is False


def test_one_that_is_forgotten_before_anybody_asks_is_told_of() -> None:
    """With a retention of nothing at all its time is over and it is gone in the same moment."""
    ledger = bounded(retention=0)
    budget = find(ledger, "a", remaining=SECOND)
    ledger.sweep(MINUTE)
    assert (ledger.get("a"), ledger.run_out()) == (None, [budget])
