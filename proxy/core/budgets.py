"""The budgets of this process: found by what a call says of itself, opened once, shared by their calls.

A budget stays known for a while after its end, so that a late call under its id is refused rather than given a
fresh start. The table is bounded: past `capacity` the ones that ended first are forgotten first, and when all of them
are open no further one is opened: to forget an open budget would be to let it grow.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from proxy.core.budget import Budget
from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults, Correlation, OnMissing
from proxy.core.units import MINUTE


class Found(NamedTuple):
    """The budget of a call. `extended`: the call tried to lengthen it, which was ignored. `crowded`: there is none because
    as many as can be kept are open.
    """

    budget: Budget | None
    extended: bool = False
    crowded: bool = False


NO_BUDGET = Found(None)
CROWDED = Found(None, crowded=True)


class Budgets:
    """The table of open and lately ended budgets. `now` is always an argument, in nanoseconds."""

    def __init__(self, *, retention: int = 15 * MINUTE, capacity: int = 20_000) -> None:
        """Keep at most `capacity` budgets, each until `retention` nanoseconds after its end."""
        self._retention = retention
        self._capacity = capacity
        self._shared: dict[str, Budget] = {}
        self._ends: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._shared)

    def open_at(self, now: int) -> int:
        """Return how many shared budgets have not ended."""
        return sum(budget.deadline > now for budget in self._shared.values())

    def get(self, id: str) -> Budget | None:
        """Return the budget with this id, if it is known."""
        return self._shared.get(id)

    def find(self, limits: Limits, defaults: BudgetDefaults, arrival: int, fresh_id: str) -> Found:
        """Return the budget that a call belongs to, opened or shortened by what the call states.

        `fresh_id` names a budget that nobody named. The result's budget is None when the call has none: with
        `on_missing: refuse` or `pass` it is for the caller to say what that means.
        """
        id, stated = _identity(limits, defaults.correlate)
        if stated is not None:
            stated = min(stated, defaults.max) - defaults.transit_allowance
        self._forget_ended_before(arrival - self._retention)
        budget = self._shared.get(id) if id is not None else None
        if budget is None:
            if stated is None and defaults.on_missing is not OnMissing.DEFAULT:
                return NO_BUDGET
            if id is not None and not self._has_room(arrival):
                return CROWDED
            budget = self._open(id or fresh_id, stated, limits, defaults, arrival)
            if id is None:
                return Found(budget)
            self._keep(budget)
        elif limits.remaining is not None and stated is not None:
            return Found(budget, budget.restate(arrival, stated))
        return Found(budget)

    @staticmethod
    def _open(id: str, stated: int | None, limits: Limits, defaults: BudgetDefaults, arrival: int) -> Budget:
        total = stated if stated is not None else defaults.default
        return Budget(id, arrival, total, limits.reserve if limits.reserve is not None else defaults.reserve)

    def _keep(self, budget: Budget) -> None:
        self._shared[budget.id] = budget
        heapq.heappush(self._ends, (budget.deadline, budget.id))

    def _has_room(self, now: int) -> bool:
        """Make room for one more by forgetting what ended first; an open budget is never forgotten."""
        if len(self._ends) >= self._capacity and self._ends[0][0] < now:
            self._forget_first()
        return len(self._ends) < self._capacity

    def _forget_ended_before(self, time: int) -> None:
        while self._ends and self._ends[0][0] < time:
            self._forget_first()

    def _forget_first(self) -> None:
        """Forget the budget that ends first, by the end it was opened with."""
        del self._shared[heapq.heappop(self._ends)[1]]


def _identity(limits: Limits, correlate: tuple[Correlation, ...]) -> tuple[str | None, int | None]:
    """Return the id by which a call's budget is known, and what the call states of it."""
    for by in correlate:
        if by is Correlation.BUDGET_ID and limits.budget_id is not None:
            return limits.budget_id, limits.remaining
        if by is Correlation.PROXY_USER and limits.proxy_user is not None:
            stated = limits.remaining if limits.remaining is not None else limits.proxy_remaining
            return limits.proxy_user, stated
        if by is Correlation.TRACEPARENT and limits.trace_id is not None:
            return limits.trace_id, limits.remaining
    return None, limits.remaining
