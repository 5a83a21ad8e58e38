"""A job on paper: what would become of its steps under one shared budget, or with a fresh limit for each of them.

Only time is made up here. What a step may take, what is left of its stage, whose turn it is and how a job is judged are
asked of `budget`, `stages`, `admission` and `verdict`, as for a real call:

    arrives     when the group before it has ended, after the transit and its own pause
    is allowed  the smallest of its limits then; refused when that is nothing, or less than its `min_start`
    waits       while `width` steps of its group are under way, in the order of deadlines; its allowance runs on, and when
                too little of it is left to start, the step is shed
    ends        when it has had what it needs, or its allowance is over

With fresh limits the same steps wait for the same slots, but each gets its cap anew when it starts, and nothing is shared.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.core.admission import Lease, Scheduler, Shed, Task
from proxy.core.budget import Allowance, Budget, CallPhase, Limit, allowance
from proxy.core.calls import Kind, Outcome
from proxy.core.policy import BudgetDefaults, Policy, Route, Share
from proxy.core.reasons import Reason
from proxy.core.stages import shares
from proxy.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Work:
    """One step as it is planned. Spans are nanoseconds; `after` is a pause before it."""

    name: str
    needs: int
    cap: int | None = None
    min_start: int = 0
    stage: str | None = None
    after: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A job as it is planned: groups one after the other, the steps of each side by side. Spans are nanoseconds.

    `cap` is that of steps without one of their own; `transit` is lost on the way to every group but the first;
    `carry`: what a stage leaves unused goes to those after it. `cleanup` is what the call needs that ends the job, None
    where there is none.
    """

    total: int
    groups: tuple[tuple[Work, ...], ...]
    reserve: int = 0
    cap: int | None = None
    transit: int = 0
    width: int | None = None
    stages: tuple[Share, ...] = ()
    carry: bool = False
    cleanup: int | None = None


class Ran(NamedTuple):
    """How one step went. Times are nanoseconds from the opening of the job; `started` None: it never was.

    The allowance counts from the arrival under a shared budget, from the start with fresh limits. `bound` is the limit
    that made it so.
    """

    name: str
    needs: int
    arrived: int
    started: int | None
    ended: int
    allowed: int
    bound: Limit
    outcome: Outcome
    reason: Reason | Limit | None

    @property
    def waited(self) -> int:
        """How long it waited for its turn."""
        return (self.ended if self.started is None else self.started) - self.arrived


class Job(NamedTuple):
    """A job that is over. `ended` and `late` are nanoseconds."""

    steps: tuple[Ran, ...]
    cleanup: Ran | None
    ended: int
    late: int
    verdict: Verdict


def simulate(plan: Plan, *, fresh: bool = False) -> Job:
    """Return how the job would go: under one shared budget, or (`fresh`) with a limit of its own for each step."""
    limits = _Limits(plan, fresh=fresh)
    steps: list[Ran] = []
    now = 0
    for index, works in enumerate(plan.groups):
        arrival = now + plan.transit if index else now
        ran = _Group(limits, works, CallPhase.WORK, arrival).play()
        now = max([arrival, *(each.ended for each in ran)])
        steps += ran
    cleanup = None
    if plan.cleanup is not None:
        work = Work("cleanup", plan.cleanup)
        [cleanup] = _Group(limits, (work,), CallPhase.CLEANUP, now + plan.transit).play()
        now = cleanup.ended
    done = all(each.outcome is Outcome.COMPLETED for each in (*steps, *([cleanup] if cleanup else [])))
    return Job(tuple(steps), cleanup, now, max(0, now - plan.total), Verdict(done, now <= plan.total))


_ANY: Final = 1_000_000  # of steps that wait; a plan does not limit them


class _Limits:
    """Where the steps of a job get their allowances and their turns from."""

    def __init__(self, plan: Plan, *, fresh: bool) -> None:
        self.plan = plan
        self.fresh = fresh
        defaults = BudgetDefaults(default=plan.total, width=plan.width, stages=plan.stages, carry=plan.carry)
        self.scheduler = Scheduler(Policy(budget=defaults))
        self._shared = Budget("job", 0, plan.total, plan.reserve)
        if not fresh:
            self._shared.stages = shares(defaults, plan.total)

    def allowance(self, work: Work, phase: CallPhase, now: int) -> Allowance:
        """Return what a step that arrives now may take."""
        budget = Budget("step", now, self.plan.total, 0) if self.fresh else self._shared
        stages, stage = budget.stages, budget.stage(work.stage, phase)
        return allowance(
            remaining=budget.remaining(now, phase),
            cap=self.plan.cap if work.cap is None else work.cap,
            stage_left=None if stages is None or stage is None else stages.left(stage, now),
        )

    def task(self, which: int, work: Work, deadline: int) -> Task:
        """Return what a step asks admission for. With a fresh limit its time is not running yet: no deadline."""
        route = Route(work.name, min_start=work.min_start, queue=_ANY)
        return self.scheduler.task(
            str(which), route, Kind.READ, self._shared, None if self.fresh else deadline
        )

    def begin(self, work: Work, phase: CallPhase, now: int, allowed: int) -> None:
        """Take note that a step is under way, if only waiting."""
        stage = self._shared.stage(work.stage, phase)
        if stage is not None:
            stage.begin(now, allowed)

    def end(self, work: Work, phase: CallPhase, now: int) -> None:
        """Take note that it no longer is."""
        stage = self._shared.stage(work.stage, phase)
        if stage is not None:
            stage.end(now)


# What happens, in this order when it happens at once: a slot that comes free is of no use to a step whose time is over,
# and goes to one that waits before one that arrives.
_EXPIRES: Final = 0
_ENDS: Final = 1
_ARRIVES: Final = 2


class _Group:
    """The steps that go side by side, one event after the other."""

    def __init__(self, limits: _Limits, works: tuple[Work, ...], phase: CallPhase, ready: int) -> None:
        self._limits = limits
        self._works = works
        self._phase = phase
        self._arrived = [ready + work.after for work in works]
        self._allowed: dict[int, Allowance] = {}
        self._tasks: dict[int, Task] = {}
        self._leases: dict[int, Lease] = {}
        self._ran: dict[int, Ran] = {}
        self._events = [(arrived, _ARRIVES, which) for which, arrived in enumerate(self._arrived)]
        heapq.heapify(self._events)

    def play(self) -> list[Ran]:
        """Return how each of the steps went."""
        while self._events:
            now, what, which = heapq.heappop(self._events)
            if what == _ARRIVES:
                self._arrive(which, now)
            elif what == _ENDS:
                self._limits.end(self._works[which], self._phase, now)
                for lease in self._limits.scheduler.release(self._leases.pop(which), now):
                    self._start(int(lease.task.id), lease, now)
            elif self._tasks[which].waits:
                shed = self._limits.scheduler.late(self._tasks[which])
                self._leave(which, now, Outcome.SHED, shed.reason)
        return [self._ran[which] for which in range(len(self._works))]

    def _arrive(self, which: int, now: int) -> None:
        work = self._works[which]
        allowed = self._limits.allowance(work, self._phase, now)
        assert allowed.ns is not None
        self._allowed[which] = allowed
        self._limits.begin(work, self._phase, now, allowed.ns)
        if allowed.ns <= 0 or allowed.ns < work.min_start:
            reason = Reason.BUDGET_EXHAUSTED if allowed.ns <= 0 else Reason.BELOW_MIN_START
            self._leave(which, now, Outcome.REFUSED, reason)
            return
        task = self._tasks[which] = self._limits.task(which, work, now + allowed.ns)
        answer = self._limits.scheduler.ask(task, now)
        if isinstance(answer, Lease):
            self._start(which, answer, now)
        elif isinstance(answer, Shed):
            self._leave(which, now, Outcome.SHED, answer.reason)
        elif task.deadline is not None:
            heapq.heappush(self._events, (task.deadline - work.min_start, _EXPIRES, which))

    def _start(self, which: int, lease: Lease, now: int) -> None:
        work, allowed = self._works[which], self._allowed[which]
        assert allowed.ns is not None
        left = allowed.ns if lease.slice is None else lease.slice
        self._leases[which] = lease
        ended = now + min(work.needs, left)
        heapq.heappush(self._events, (ended, _ENDS, which))
        if work.needs <= left:
            self._note(which, now, ended, Outcome.COMPLETED, None)
        else:
            self._note(which, now, ended, Outcome.DEADLINE_EXCEEDED, allowed.bound)

    def _leave(self, which: int, now: int, outcome: Outcome, reason: Reason) -> None:
        """End a step that was never started."""
        self._limits.end(self._works[which], self._phase, now)
        self._note(which, None, now, outcome, reason)

    def _note(
        self, which: int, started: int | None, ended: int, outcome: Outcome, reason: Reason | Limit | None
    ) -> None:
        work, allowed = self._works[which], self._allowed[which]
        assert allowed.ns is not None
        self._ran[which] = Ran(
            work.name,
            work.needs,
            self._arrived[which],
            started,
            ended,
            allowed.ns,
            allowed.bound,
            outcome,
            reason,
        )
