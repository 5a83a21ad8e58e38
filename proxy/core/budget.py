"""One budget: a promise of time for a whole job, and the arithmetic of what a step may take of it.

    deadline   = min(deadline so far, arrival + stated remaining - transit allowance)
    work_end   = deadline - reserve          (a cleanup call uses the deadline)
    remaining  = work_end - now
    allowance  = min(route cap, what is left of the stage, remaining, caller's timer - margin, foreign limits)

A budget is anchored once, at the arrival of the request that opened it, on this process's own monotonic clock.
After that it can only shrink (promise 1): there is no method that moves the deadline back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from proxy.core.history import History
from proxy.core.step import StepRecord
from proxy.values import Value

if TYPE_CHECKING:
    from proxy.core.admission import Gate
    from proxy.core.stages import Stage, Stages


class CallPhase(StrEnum):
    """Which part of the job a call belongs to: ordinary work, or the cleanup that may use the reserve."""

    WORK = "work"
    CLEANUP = "cleanup"


class Limit(StrEnum):
    """Which of its limits was the smallest when a step started: the reason that a cut names."""

    NONE = "no_limit"
    ROUTE_CAP = "route_cap"
    STAGE = "stage_share"
    BUDGET = "budget_remaining"
    CLIENT_TIMER = "client_timer"
    FOREIGN = "foreign_limit"


WORDS: Final[dict[Limit, str]] = {
    Limit.NONE: "no limit",
    Limit.ROUTE_CAP: "the cap of its route",
    Limit.STAGE: "what was left of its stage",
    Limit.BUDGET: "what was left of the budget",
    Limit.CLIENT_TIMER: "the caller's own timer, less a margin",
    Limit.FOREIGN: "a limit that the request states",
}
"""What each of them is called in a sentence."""

BY_ENTRY: Final = "entry"
BY_REQUEST: Final = "request"
BY_CALL: Final = "call"
"""By what a budget is closed: its last entry request has ended, somebody said so, its only call has ended."""


class Budget:
    """The state of one budget. All times are nanoseconds on the owner's monotonic clock.

    `total` is what it was opened with; `depth` how many delegations deep its job is; `in_flight` counts its calls under
    way; `entries` its open entry requests; `lone`: it is that of one call, which nobody named. `closed_at`: when its job
    was said to be done, by `closed_by`, and `on_time` whether that was before its end. `stages` and `gate` (its width) are
    there where the policy gives some; `history` once there is something to tell. `traces`, `alarm` and `told` are the
    ledger's: what leads to the budget besides its id, when it is looked at again, whether it was told that it is finished.
    """

    __slots__ = (
        "alarm",
        "closed_at",
        "closed_by",
        "deadline",
        "depth",
        "entries",
        "extensions_ignored",
        "gate",
        "id",
        "in_flight",
        "kept",
        "lone",
        "on_time",
        "only",
        "opened",
        "reserve",
        "stages",
        "steps",
        "told",
        "total",
        "traces",
        "unfinished",
    )

    def __init__(self, id: str, opened: int, total: int, reserve: int) -> None:
        """Open a budget of `total` nanoseconds at `opened`, the last `reserve` of which are for cleanup."""
        self.id = id
        self.opened = opened
        self.total = total
        self.deadline = opened + total
        self.reserve = reserve
        self.extensions_ignored = 0
        self.steps = 0
        self.depth = 0
        self.in_flight = 0
        self.entries = 0
        self.lone = False
        self.closed_at: int | None = None
        self.closed_by: str | None = None
        self.on_time: bool | None = None
        self.unfinished = False
        self.alarm = self.deadline
        self.told = False
        self.traces: tuple[str, ...] = ()
        self.stages: Stages | None = None
        self.gate: Gate | None = None
        self.kept: History | None = None
        self.only: StepRecord | None = None

    @property
    def history(self) -> History | None:
        """What its job has done so far; None while there is nothing to tell."""
        if self.only is not None:
            self.kept, only, self.only = History(), self.only, None
            self.kept.add(only)
        return self.kept

    def begun_history(self) -> History:
        """Return its history, begun if there is none."""
        history = self.history
        if history is None:
            history = self.kept = History()
        return history

    def restate(self, arrival: int, stated: int) -> bool:
        """Take a later statement of what is left: a smaller one shortens; return whether a larger one was ignored."""
        deadline = arrival + stated
        if deadline <= self.deadline:
            self.deadline = deadline
            return False
        self.extensions_ignored += 1
        return True

    def close(self, now: int, by: str) -> None:
        """Take note that the job is done. Whether that was in time is settled now: a later statement changes it no more."""
        self.closed_at = now
        self.closed_by = by
        self.on_time = now <= self.deadline
        self.unfinished = self.in_flight > 0

    def reopen(self) -> bool:
        """Take note that the job goes on, under the same clock; return whether it was told that it is finished."""
        self.closed_at = self.closed_by = self.on_time = None
        self.unfinished = False
        told, self.told = self.told, False
        return told

    def tell(self) -> bool:
        """Take note that it is being told that the budget is finished; return False if it was told before."""
        first, self.told = not self.told, True
        return first

    @property
    def last_end(self) -> int:
        """When it was closed, or the end it was opened with, if that is later: its id stands for that promise even when
        it was shortened, or closed before.
        """
        end = self.opened + self.total
        return end if self.closed_at is None else max(end, self.closed_at)

    @property
    def busy(self) -> bool:
        """Whether a call or an entry request is under way."""
        return self.in_flight > 0 or self.entries > 0

    def next_step(self) -> int:
        """Number the next step of this budget, from 1."""
        self.steps += 1
        return self.steps

    def stage(self, name: str | None, phase: CallPhase) -> Stage | None:
        """Return the stage that a call uses, if it has a share. The reserve, and so a cleanup call, belongs to none."""
        if self.stages is None or name is None or phase is CallPhase.CLEANUP:
            return None
        return self.stages.get(name)

    def end(self, phase: CallPhase) -> int:
        """Return when calls of this phase must be over: the deadline, less the reserve for ordinary work."""
        return self.deadline if phase is CallPhase.CLEANUP else self.deadline - self.reserve

    def remaining(self, now: int, phase: CallPhase = CallPhase.WORK) -> int:
        """Return what is left for calls of this phase; zero or negative when it is spent."""
        return self.end(phase) - now


class Allowance(Value):
    """What one step may take, fixed at its start, and which limit made it so. `ns` None: no limit at all."""

    _fields: ClassVar[tuple[str, ...]] = ("ns", "bound")
    __slots__ = _fields

    def __init__(
        self,
        ns: int | None,
        bound: Limit,
    ) -> None:
        """Take what is known."""
        self.ns: Final = ns
        self.bound: Final = bound


UNLIMITED = Allowance(None, Limit.NONE)


def allowance(
    *,
    remaining: int | None = None,
    cap: int | None = None,
    stage_left: int | None = None,
    client_timer: int | None = None,
    foreign: int | None = None,
) -> Allowance:
    """Return the smallest of the limits that are stated, in nanoseconds, with its name.

    On a tie the budget is named before the route, and the route before what the caller sent: the wider promise
    is the better explanation. `client_timer` is given with its margin already taken off.
    """
    ns, bound = remaining, Limit.BUDGET if remaining is not None else Limit.NONE
    if stage_left is not None and (ns is None or stage_left < ns):
        ns, bound = stage_left, Limit.STAGE
    if cap is not None and (ns is None or cap < ns):
        ns, bound = cap, Limit.ROUTE_CAP
    if client_timer is not None and (ns is None or client_timer < ns):
        ns, bound = client_timer, Limit.CLIENT_TIMER
    if foreign is not None and (ns is None or foreign < ns):
        ns, bound = foreign, Limit.FOREIGN
    return Allowance(ns, bound)


def sent_on(allowed: int, spent: int, hop_allowance: int) -> int:
    """Return what the next hop is told is left (nanoseconds): never more than is left here, never negative."""
    return max(0, allowed - spent - hop_allowance)
