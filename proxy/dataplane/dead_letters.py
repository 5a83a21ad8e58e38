"""Units that are attempted no more: when one becomes a dead letter, and what is kept of it.

Two ways lead there: the attempts of a unit are used up (`max_attempts`, whoever made them), or nobody has found out
within `writes.hold` whether an uncertain write happened. A dead letter is in the journal, and stays until somebody
releases or discards it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.history import Event, Happening
from proxy.core.policy import Guard, Policy
from proxy.core.units import MILLISECOND
from proxy.core.writes import WriteEvent, WriteRecord, WriteState

if TYPE_CHECKING:
    from proxy.dataplane.plane import Plane
    from proxy.dataplane.step import Step

MAX_ATTEMPTS: Final = "max_attempts"
HOLD_OVER: Final = "hold_over"


def dead_letter_of(step: Step) -> WriteRecord | None:
    """Return the dead letter of a call's unit, or None."""
    book = step.plane.book
    if not len(book) or step.unit is None:
        return None
    case = step.case
    key = case.limits.key
    return book.dead_letter(case.route.guard, str(case.target.origin), key, step.fingerprint)


def exhausted(step: Step, now: int) -> WriteRecord:
    """Make a dead letter of a call's unit: it has used up its attempts. If its write is on record, that becomes one."""
    plane, case = step.plane, step.case
    record = plane.book.get(step.record_id)
    attempts = step.made(now)
    if record is not None and record.state is WriteState.UNCERTAIN:
        record = record.after(WriteEvent.GIVEN_UP, reason=MAX_ATTEMPTS, attempts=attempts)
    else:
        budget = case.budget
        record = WriteRecord(
            id=step.record_id,
            state=WriteState.DEAD_LETTERED,
            opened_at=plane.wall_ms(),
            origin=str(case.target.origin),
            method=step.head.method,
            target=case.target.shown,
            route=case.route.name,
            budget_id=budget.id if budget is not None else "",
            step=step.number,
            key=case.limits.key,
            fingerprint=step.fingerprint,
            phase=step.phase,
            reason=MAX_ATTEMPTS,
            attempts=attempts,
        )
    plane.keep(record)
    step.note(Happening.DEAD_LETTERED, now, MAX_ATTEMPTS)
    return record


def outlived(plane: Plane, record: WriteRecord) -> WriteRecord:
    """Make a dead letter of a write that nobody has found out about in time."""
    dead = record.after(WriteEvent.GIVEN_UP, reason=HOLD_OVER)
    plane.keep(dead)
    budget = plane.budgets.get(record.budget_id)
    if budget is not None and not budget.lone:
        event = Event(plane.clock(), Happening.DEAD_LETTERED, record.step, record.id, None, HOLD_OVER)
        plane.budgets.note(budget, event)
    return dead


def give_up_overdue(plane: Plane) -> None:
    """Make dead letters of the writes that have outlived their hold. Called every now and then."""
    since = held_since(plane, plane.policy)
    for record in plane.book.overdue(since):
        if guards(guard_of(plane.policy, record.route), record.key):
            outlived(plane, record)


def guards(guard: Guard, key: str | None) -> bool:
    """Say whether a write with this key blocks its repetition at all, and so becomes a dead letter when nobody finds out."""
    return guard is Guard.FINGERPRINT or (guard is Guard.KEY and key is not None)


def held_since(plane: Plane, policy: Policy) -> int:
    """Return the Unix time in milliseconds before which a write has outlived its hold."""
    return plane.wall_ms() - policy.writes.hold // MILLISECOND


def guard_of(policy: Policy, route_name: str) -> Guard:
    """Return how the route of a record knows repeats, by the policy in force."""
    for route in policy.routes:
        if route.name == route_name:
            return route.guard
    return policy.fallback.guard
