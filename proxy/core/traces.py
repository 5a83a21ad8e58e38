"""Which trace leads to which budget: the calls of a job carry the trace of its entry request (W3C Trace Context)."""

from __future__ import annotations

from typing import Final

from proxy.core.budget import Budget

MOST_TRACES: Final = 8
"""How many traces one budget is known by: the last ones of its entry requests."""


class Traces:
    """The traces of the budgets that are kept."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        """Know of none."""
        self._ids: dict[str, str] = {}

    def id_of(self, trace: str) -> str:
        """Return the id of the budget that a trace leads to; of one that is not known, it is the trace's own."""
        return self._ids.get(trace, trace)

    def lead(self, trace: str, budget: Budget) -> None:
        """Let a trace lead to a budget."""
        budget.traces = (*(known for known in budget.traces if known != trace), trace)
        self._ids[trace] = budget.id
        if len(budget.traces) > MOST_TRACES:
            self._lose_oldest(budget)

    def forget(self, budget: Budget) -> None:
        """Let nothing lead to a budget any more."""
        while budget.traces:
            self._lose_oldest(budget)

    def _lose_oldest(self, budget: Budget) -> None:
        """Let the oldest of a budget's traces lead to it no more, if it did not come to lead elsewhere."""
        trace, budget.traces = budget.traces[0], budget.traces[1:]
        if self._ids.get(trace) == budget.id:
            del self._ids[trace]
