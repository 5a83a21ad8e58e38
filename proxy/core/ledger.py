"""The ledger: every budget of this process, found by what a call says of itself, opened once, shared by its calls.

    open        by the first call or entry request that names it; what it states, or the default, anchors it
    shared      by all that name it later; they can shorten it, never lengthen it
    finished    closed by whoever says that the job is done, or run out of time

A finished budget stays known for a while after its time, so that a late call under its id is refused and a further entry
request finds the old clock, rather than either being given a fresh start. What is kept is bounded, in number and in
bytes: the oldest finished ones go first. When all are open no further one is opened: to forget an open budget would be to
let it grow. Nor is one forgotten, finished or not, while a call or an entry request of it is under way. A budget of one
call that nobody named is known while that call is under way, and then among the last `LONE` of its kind.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Final

from proxy.core.budget import BY_CALL, BY_ENTRY, Budget, CallPhase
from proxy.core.found import CROWDED, NO_BUDGET, Found
from proxy.core.history import Archive, Event
from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults, Correlation, LedgerBounds, OnMissing
from proxy.core.stages import shares
from proxy.core.step import StepRecord
from proxy.core.traces import Traces
from proxy.core.units import MILLISECOND

LONE: Final = 500
"""How many finished budgets of one call are kept."""
_STALE_ALARMS: Final = 1000  # may lie in the heap, beside two for each budget, before it is made anew


class Ledger:
    """The table of budgets. `now` is always an argument, in nanoseconds on one monotonic clock.

    That a budget is finished is told once: when `finish`, `leave` or, in time, `close` returns True, else by `run_out`.
    One that opens again, as `find` and `enter` say, is told of again.
    """

    def __init__(self, bounds: LedgerBounds = LedgerBounds()) -> None:  # noqa: B008 - a frozen value
        """Start empty."""
        self._bounds = bounds
        self._now: int | None = None  # the latest time that was heard of
        self._shared: dict[str, Budget] = {}
        # Not a dict: to find its first key takes the longer, the more have been deleted before that one.
        self._finished: OrderedDict[str, Budget] = OrderedDict()  # shared ones, in the order of finishing
        self._alarms: list[tuple[int, str]] = []  # a heap; what is out of date in it is passed over
        self._alone: dict[str, Budget] = {}  # of one call, under way
        self._lone: OrderedDict[str, Budget] = OrderedDict()  # of one call, over
        self.others = 0  # entry requests that have no budget: beside one of them, no other is the sole one
        self._entries: dict[str, Budget] = {}
        self._traces = Traces()
        self._untold: list[Budget] = []
        self._archive = Archive()

    def __len__(self) -> int:
        return len(self._shared)

    @property
    def bounds(self) -> LedgerBounds:
        """What is kept, and for how long."""
        return self._bounds

    @bounds.setter
    def bounds(self, bounds: LedgerBounds) -> None:
        self._bounds = bounds
        if self._now is not None:
            for budget in self._shared.values():
                budget.alarm = self._next_look(budget, self._now)
            self._renew_alarms()

    # -- finding ---------------------------------------------------------------------------------------------------

    def get(self, id: str) -> Budget | None:
        """Return the budget with this id, if it is known."""
        for table in (self._shared, self._alone, self._lone):
            if (budget := table.get(id)) is not None:
                return budget
        return None

    def by_trace(self, trace_id: str) -> Budget | None:
        """Return the budget that a trace belongs to, if it is known."""
        return self._shared.get(self._traces.id_of(trace_id))

    def find(
        self,
        limits: Limits,
        defaults: BudgetDefaults,
        arrival: int,
        fresh_id: str,
        *,
        entry: bool = False,
        transit: int = 0,
    ) -> Found:
        """Return the budget that a call belongs to, opened or shortened by what the call states.

        `fresh_id` names a budget that nobody named. The result's budget is None when the call has none: with
        `on_missing: refuse` or `pass` it is for the caller to say what that means. An `entry` request never joins the
        sole one that is open, and is kept under its fresh id; `transit` is what it took to arrive, as far as measured.
        """
        self.sweep(arrival)
        nameless = limits.budget_id is None and limits.proxy_user is None and limits.trace_id is None
        if nameless and not self._entries:
            budget, id, stated = None, None, limits.remaining
        else:
            budget, id, stated = self._named(limits, defaults.correlate, entry=entry)
        if stated is not None:
            stated = min(stated, defaults.max) - defaults.transit_allowance - transit
        if budget is None and id is not None:
            budget = self.get(id)
        if budget is not None:
            # What the password of a proxy URL states counts only when a budget is opened: it is the same in every call.
            return self._joined(budget, stated if limits.remaining is not None else None, arrival)
        if stated is None and defaults.on_missing is not OnMissing.DEFAULT:
            return NO_BUDGET
        if id is None and entry:
            id = fresh_id
        if id is not None and not self._has_room():
            return CROWDED
        total = stated if stated is not None else defaults.default
        reserve = limits.reserve if limits.reserve is not None else defaults.reserve
        budget = Budget(id or fresh_id, arrival, total, reserve)
        if defaults.stages:
            budget.stages = shares(defaults, total)
        if id is None:
            budget.lone = True
        else:
            self._keep(budget)
        return Found(budget, opened=True)

    def _named(
        self, limits: Limits, correlate: tuple[Correlation, ...], *, entry: bool
    ) -> tuple[Budget | None, str | None, int | None]:
        """Return a call's budget or the id by which it is known, and what the call states of it.

        A trace that is not known yet names a new budget only when nothing else finds one: a client that begins a trace
        of its own for each call would otherwise never be found to belong to the entry request that is open.
        """
        unknown_trace: str | None = None
        for by in correlate:
            if by is Correlation.BUDGET_ID and limits.budget_id is not None:
                return None, limits.budget_id, limits.remaining
            if by is Correlation.PROXY_USER and limits.proxy_user is not None:
                stated = limits.remaining if limits.remaining is not None else limits.proxy_remaining
                return None, limits.proxy_user, stated
            if by is Correlation.TRACEPARENT and limits.trace_id is not None:
                known = self.by_trace(limits.trace_id)
                if known is not None:
                    return known, known.id, limits.remaining
                unknown_trace = limits.trace_id
            if by is Correlation.SOLE and len(self._entries) == 1 and not (entry or self.others):
                (sole,) = self._entries.values()
                return sole, sole.id, limits.remaining
        return None, unknown_trace, limits.remaining

    def _joined(self, budget: Budget, stated: int | None, arrival: int) -> Found:
        """Return a known budget, shortened by what a call states of it. What is left of a lone one is shared from now on."""
        opened = False
        if budget.lone and budget.deadline > arrival:
            if not self._has_room():
                return CROWDED
            for table in (self._alone, self._lone):
                table.pop(budget.id, None)
            budget.lone = False
            if budget.closed_by == BY_CALL:
                opened = budget.reopen()
            self._keep(budget)
        extended = stated is not None and budget.restate(arrival, stated)
        if budget.deadline < budget.alarm - 1 and not budget.lone:
            self._arm(budget, budget.deadline + 1)
        return Found(budget, extended, opened=opened)

    # -- the life of a budget ----------------------------------------------------------------------------------------

    def enter(self, budget: Budget, limits: Limits) -> bool:
        """Take note of an entry request; return whether a closed budget opens again with it: it does while it has time."""
        budget.entries += 1
        budget.depth = max(budget.depth, limits.depth)
        self._entries[budget.id] = budget
        if not self._keeps(budget):
            return False
        if limits.trace_id is not None:
            self._traces.lead(limits.trace_id, budget)
        if budget.closed_at is None or (self._now is not None and budget.deadline <= self._now):
            return False
        del self._finished[budget.id]
        self._archive.shelve(budget.id, budget.history, finished=False)
        return budget.reopen()

    def leave(self, budget: Budget, now: int) -> bool:
        """Take note of an entry request's end; return whether that closed its budget: it was the last one."""
        budget.entries -= 1
        if budget.entries:
            return False
        self._entries.pop(budget.id, None)
        return self._close(budget, now, BY_ENTRY) and budget.tell()

    def close(self, budget: Budget, now: int, by: str) -> bool:
        """Take note that a job is done; return False if it was said before. One that is late is told of by `run_out`."""
        closes = self._close(budget, now, by)
        if closes and budget.on_time:
            budget.tell()
        return closes

    def begin(
        self, budget: Budget, stage: str | None, phase: CallPhase, arrival: int, allowed: int | None = None
    ) -> None:
        """Take note that a step of a budget has begun, which may take so many nanoseconds."""
        budget.in_flight += 1
        if budget.stages is not None and (share := budget.stage(stage, phase)) is not None:
            share.begin(arrival, allowed)
        if budget.lone:
            if budget.steps > 1:
                self._lone.pop(budget.id, None)
            self._alone[budget.id] = budget

    def finish(
        self, budget: Budget, stage: str | None, phase: CallPhase, record: StepRecord, now: int
    ) -> bool:
        """Take note that a step has ended; return whether that finished its budget: the step was all of its job."""
        budget.in_flight -= 1
        if budget.stages is not None and (share := budget.stage(stage, phase)) is not None:
            share.end(now)
        if budget.lone and budget.steps == 1 and budget.kept is None and not budget.entries:
            budget.only = record
            return self._end_lone(budget, now)
        closed = budget.closed_at
        late = closed is not None and budget.opened + int(record.started_ms * MILLISECOND) > closed
        budget.begun_history().add(record, late=late)
        self._weigh(budget)
        if not budget.lone or budget.in_flight:
            return False
        return self._end_lone(budget, now)

    def withdraw(self, budget: Budget, stage: str | None, phase: CallPhase, now: int) -> None:
        """Take note that a step was none after all. A budget that only it had is forgotten with it."""
        budget.in_flight -= 1
        if budget.stages is not None and (share := budget.stage(stage, phase)) is not None:
            share.end(now)
        if budget.lone and self._alone.pop(budget.id, None) is not None and budget.history is not None:
            self._lone[budget.id] = budget

    def _end_lone(self, budget: Budget, now: int) -> bool:
        """Close the budget of one call with it, and keep it among the last of its kind."""
        self._alone.pop(budget.id, None)
        self._lone[budget.id] = budget
        if len(self._lone) > LONE:
            self._lone.popitem(last=False)
        if budget.closed_at is None:
            budget.close(now, BY_CALL)
        return budget.tell()

    def worked_on(self, budget: Budget, unit: str, *, done: bool) -> None:
        """Take note of whether the app has done what an entry request asked for: that is a unit of the job's work too."""
        if not done or budget.history is not None:
            budget.begun_history().follow(unit, done=done)
            self._weigh(budget)

    def note(self, budget: Budget, event: Event) -> None:
        """Add an event to a budget's timeline."""
        budget.begun_history().note(event)
        self._weigh(budget)

    def settled(self, budget_id: str, record_id: str, *, happened: bool = False) -> None:
        """Take note that the effect of a write is known by now, and whether it has happened."""
        budget = self.get(budget_id)
        if budget is not None and budget.history is not None:
            budget.history.settled(record_id, happened=happened)
            self._weigh(budget)

    def sweep(self, now: int) -> None:
        """Take note of what has run out of time, and forget what was finished long ago."""
        self._now = now if self._now is None else max(now, self._now)
        while self._alarms and self._alarms[0][0] <= self._now:
            at, id = heapq.heappop(self._alarms)
            budget = self._shared.get(id)
            if budget is not None and budget.alarm == at:
                self._look(budget, self._now)

    def run_out(self) -> list[Budget]:
        """Return the budgets that have run out of time without having been closed by then, each once.

        One that still has calls or entry requests has to wait: what there is to say of it can change.
        """
        ended = [budget for budget in self._untold if not budget.busy and budget.tell()]
        self._untold = [budget for budget in self._untold if not budget.told]
        return ended

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def open(self) -> int:
        """How many shared budgets are neither closed nor out of time, as of the last sweep."""
        return len(self._shared) - len(self._finished)

    @property
    def bytes(self) -> int:
        """About how much memory the histories of the shared budgets take."""
        return self._archive.bytes

    def listed(self) -> Iterator[Budget]:
        """Return all budgets that are known: the shared ones in order of opening, then those of one call."""
        return chain(self._shared.values(), self._lone.values(), self._alone.values())

    # -- inside ----------------------------------------------------------------------------------------------------

    def _keeps(self, budget: Budget) -> bool:
        """Say whether a budget is in the table of shared ones: not one that is lone, or was forgotten."""
        return self._shared.get(budget.id) is budget

    def _keep(self, budget: Budget) -> None:
        self._shared[budget.id] = budget
        self._arm(budget, budget.deadline + 1)
        if budget.closed_at is not None:
            self._finish(budget)
        self._weigh(budget)

    def _has_room(self) -> bool:
        """Make room for one more by forgetting what finished first; an open budget is never forgotten."""
        while len(self._shared) >= self._bounds.budgets:
            for budget in self._finished.values():
                if not budget.busy:
                    break
            else:
                return False
            self._forget(budget)
        return True

    def _close(self, budget: Budget, now: int, by: str) -> bool:
        self.sweep(now)
        if budget.closed_at is not None:
            return False
        budget.close(now, by)
        if self._keeps(budget):
            self._finish(budget)
        return True

    def _forget(self, budget: Budget) -> None:
        del self._finished[budget.id]
        del self._shared[budget.id]
        if budget.history is not None:
            self._archive.drop(budget.id, budget.history)
        self._traces.forget(budget)

    def _finish(self, budget: Budget) -> None:
        """Count a budget among the finished, if it is not there."""
        if budget.id not in self._finished:
            self._finished[budget.id] = budget
            self._archive.shelve(budget.id, budget.history, finished=True)

    def _weigh(self, budget: Budget) -> None:
        """Take note of what a history takes by now."""
        if budget.history is not None and self._keeps(budget):
            finished = budget.id in self._finished
            self._archive.weigh(budget.id, budget.history, self._bounds.bytes, finished=finished)

    def _look(self, budget: Budget, now: int) -> None:
        """Look at a budget whose alarm has come: its time is over, or it has been kept for long enough."""
        if budget.id not in self._finished:
            self._finish(budget)
            self._untold.append(budget)
        at = self._next_look(budget, now)
        if at <= now and budget.busy:
            at = now + self._bounds.retention + 1
        if at > now:
            self._arm(budget, at)
        else:
            self._forget(budget)

    def _next_look(self, budget: Budget, now: int) -> int:
        """Return when a budget is to be looked at: at its end, and when it has been kept for the retention."""
        return (budget.deadline if budget.deadline >= now else budget.last_end + self._bounds.retention) + 1

    def _arm(self, budget: Budget, at: int) -> None:
        budget.alarm = at
        heapq.heappush(self._alarms, (at, budget.id))
        if len(self._alarms) > 2 * len(self._shared) + _STALE_ALARMS:
            self._renew_alarms()

    def _renew_alarms(self) -> None:
        self._alarms = [(budget.alarm, id) for id, budget in self._shared.items()]
        heapq.heapify(self._alarms)
