"""The JSON forms of budgets: a line of the list, the whole record of a job, the timeline of its admission.

Times of day are RFC 3339, reckoned back from the moment of the answer; all other times are milliseconds since the
budget's opening. What is left is rounded down, what was measured keeps its microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from proxy.admin.views import rfc3339, write_view
from proxy.core.budget import Budget, CallPhase
from proxy.core.history import Event, History
from proxy.core.stages import Stages
from proxy.core.step import StepRecord
from proxy.core.units import MILLISECOND, exact_ms, whole_ms
from proxy.core.verdict import Verdict, counts_of, verdict_of
from proxy.core.writes import WriteRecord

MOST_WRITES: Final = 500
"""How many writes a budget's record shows."""


class State(StrEnum):
    """Where a budget stands: nobody has said that its job is done, somebody has, or its time ran out before."""

    OPEN = "open"
    CLOSED = "closed"
    EXPIRED = "expired"


class Moment(NamedTuple):
    """When something is shown, on both clocks: the ledger's (nanoseconds), and Unix time in milliseconds."""

    now: int
    wall_ms: int

    def time_of_day(self, at: int) -> str:
        """Return the time of day of a time on the ledger's clock."""
        return rfc3339(self.wall_ms - self.now // MILLISECOND + at // MILLISECOND)


def state_of(budget: Budget, now: int) -> State:
    """Return where a budget stands."""
    if budget.closed_at is not None:
        return State.CLOSED
    return State.OPEN if now < budget.deadline else State.EXPIRED


def finished_at(budget: Budget) -> int:
    """Return when a budget was closed or, if it was not, when its time runs out."""
    return budget.closed_at if budget.closed_at is not None else budget.deadline


def budget_view(budget: Budget, moment: Moment) -> dict[str, Any]:
    """Return a budget as JSON values, without the details of its job."""
    now = moment.now
    state = state_of(budget, now)
    verdict = verdict_of(budget, now)
    history = budget.history or _NOTHING
    end = now if state is State.OPEN else finished_at(budget)
    return {
        "id": budget.id,
        "state": state.value,
        "opened_at": moment.time_of_day(budget.opened),
        "total_ms": _ms(budget.total),
        "reserve_ms": _ms(budget.reserve),
        "spent_ms": _ms(end - budget.opened),
        "remaining_ms": whole_ms(budget.remaining(now)),
        "entries": budget.entries,
        "in_flight": budget.in_flight,
        "counts": counts_of(budget)._asdict(),
        "complete": verdict.complete,
        "on_time": verdict.on_time,
        "extensions_ignored": budget.extensions_ignored,
        "attempts": history.attempts,
        "units": history.units,
        "amplification": round(history.attempts / history.units, 3) if history.units else None,
        "one_call": budget.lone,
    }


def record_view(budget: Budget, writes: Iterable[WriteRecord], moment: Moment) -> dict[str, Any]:
    """Return all that is known of a job as JSON values. `writes`: those of this budget that are or were uncertain."""
    now = moment.now
    history = budget.history or _NOTHING
    verdict = verdict_of(budget, now)
    known = list(writes)
    closed = budget.closed_at
    stages = budget.stages or _UNDIVIDED
    return budget_view(budget, moment) | {
        "deadline": moment.time_of_day(budget.deadline),
        "deadline_ms": _ms(budget.deadline - budget.opened),
        "cleanup_remaining_ms": whole_ms(budget.remaining(now, CallPhase.CLEANUP)),
        "closed_at": moment.time_of_day(closed) if closed is not None else None,
        "closed_by": budget.closed_by,
        "depth": budget.depth,
        "verdict": verdict.field(),
        "verdicts": {
            "complete": _on_completeness(budget, verdict),
            "on_time": _on_timeliness(budget, verdict, now),
        },
        "stages": [
            {
                "stage": stage.name,
                "share_ms": _ms(stage.share),
                "used_ms": _ms(stage.used(now)),
                "carried_in_ms": _ms(stages.carried_in(stage, now)),
                "left_ms": whole_ms(stages.left(stage, now)),
            }
            for stage in stages
        ],
        "steps": [_step(step) for step in history.steps],
        "steps_dropped": history.steps_dropped,
        "writes": [write_view(each, moment.wall_ms, body=False) for each in known[:MOST_WRITES]],
        "writes_dropped": max(0, len(known) - MOST_WRITES),
    }


def _step(record: StepRecord) -> dict[str, Any]:
    """Return a step as JSON values: as the log's line has it."""
    shown = record._asdict()
    if record.degraded is not None:
        level, rung, why, stage = record.degraded
        shown["degraded"] = {"level": level, "rung": rung, "reason": why, "stage": stage}
    return shown


def timeline_view(budget: Budget, moment: Moment) -> dict[str, Any]:
    """Return what admission did for a job, in order, as JSON values."""
    history = budget.history or _NOTHING
    return {
        "id": budget.id,
        "state": state_of(budget, moment.now).value,
        "opened_at": moment.time_of_day(budget.opened),
        "total_ms": _ms(budget.total),
        "reserve_ms": _ms(budget.reserve),
        "deadline_ms": _ms(budget.deadline - budget.opened),
        "now_ms": _ms(moment.now - budget.opened),
        "events": [_event(event, budget.opened) for event in history.events],
        "events_dropped": history.events_dropped,
    }


def _event(event: Event, opened: int) -> dict[str, Any]:
    return {
        "at_ms": _ms(event.at - opened),
        "event": event.what.value,
        "step": event.step,
        "record": event.record,
        "slot": event.slot,
        "detail": event.detail,
    }


# ------------------------------------------------------------------------------------------------- verdicts

_NOTHING: Final = History()  # of a budget that has none; nobody adds to it
_UNDIVIDED: Final = Stages(())
_BY: Final = {
    "entry": "with its last entry request",
    "request": "on request",
    "call": "with its only call",
}


def _on_completeness(budget: Budget, verdict: Verdict) -> str:
    """Say in a sentence whether the work is complete, and if not, what is missing."""
    lacking, less = ", ".join(_lacking(budget)), _less(verdict.degraded)
    if verdict.complete is None:
        so_far = f"so far {lacking}" if lacking else "all that was begun so far is done"
        return f"Still open: {so_far}{less}."
    if not verdict.complete:
        return f"Incomplete: {lacking}{less}."
    if not counts_of(budget).total:
        return "Complete: nothing was begun, so nothing is undone."
    return f"Complete: all that was begun is done, and every effect is known{less}."


def _less(degraded: int) -> str:
    """Say of how many calls the answer was less than asked, after what else there is to say."""
    if not degraded:
        return ""
    return f"; {_many(degraded, 'call was answered with less than it', 'calls were answered with less than they')} asked for"


def _lacking(budget: Budget) -> Iterable[str]:
    history = budget.history or _NOTHING
    if budget.in_flight:
        yield _many(budget.in_flight, "call is under way", "calls are under way")
    if history.undone:
        yield _many(len(history.undone), "unit of work is not done", "units of work are not done")
    if history.uncertain:
        yield _many(len(history.uncertain), "write is of unknown effect", "writes are of unknown effect")
    if history.overflowed:
        yield "more is undone than can be followed"


def _on_timeliness(budget: Budget, verdict: Verdict, now: int) -> str:
    """Say in a sentence whether the job was closed in time."""
    closed = budget.closed_at
    if closed is None and now < budget.deadline:
        left = whole_ms(budget.deadline - now)
        return f"Still open: {left} ms are left, the reserve included."
    if closed is None:
        return "Not known: its time ran out, and nobody has said that the job is done."
    by = _BY.get(budget.closed_by or "", f"by {budget.closed_by}")
    off = _ms(abs(budget.deadline - closed))
    side = "before" if verdict.on_time else "after"
    word = "On time" if verdict.on_time else "Late"
    return f"{word}: closed {by}, {off} ms {side} its end."


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _ms(nanoseconds: int) -> int | float:
    """Return a span in milliseconds with microseconds kept, as a whole number where it is one."""
    whole, rest = divmod(nanoseconds, MILLISECOND)
    return exact_ms(nanoseconds) if rest else whole
