"""From steps to what their jobs used of each stage: step after step, in a bounded space, whatever order they come in.

A job is one budget of one sidecar. What it used of a stage is the union of its steps' spans, as the sidecar counts it; a
budget of another length counts in proportion, as shares do. Where a step would have gone on, had there been more time for
its stage, the job's use of that stage is a sample that was cut.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from proxy.core.budget import Limit
from proxy.core.calls import Outcome, Would
from proxy.core.degrading import Why
from proxy.core.policy import Policy
from proxy.core.reasons import Reason
from proxy.core.units import MILLISECOND, SECOND
from proxy.tuning.measured import Measured, Use, claimed
from proxy.tuning.rungs import RungTimes
from proxy.tuning.seen import Seen
from proxy.tuning.sketched import Sketched
from proxy.tuning.union import Union
from proxy.tuning.words import many

MOST: Final = 10_000
"""How many jobs are followed at once; the one that was silent for longest is then taken as finished."""
_MOST_NAMES: Final = 20
_SAME: Final = (
    5 * SECOND
)  # two openings of one budget that lie no further apart are one, seen by clocks that are set
_OTHER_PHASE: Final = (
    MILLISECOND  # by so much more than before is left only to a cleanup call, which may use the reserve
)

_OUT_OF_TIME: Final = frozenset({Limit.STAGE, Limit.BUDGET})
_TURNED_AWAY: Final = frozenset({Reason.BUDGET_EXHAUSTED, Reason.BELOW_MIN_START, Reason.QUEUE_DEADLINE})
_FOR_TIME: Final = frozenset({Why.TIME, Why.SLOW})
_WOULD_END: Final = frozenset({Would.CUT, Would.REFUSE})


class _Stage:
    """What one job has used of one stage so far."""

    __slots__ = ("censored", "cut", "short", "spans", "would")

    def __init__(self) -> None:
        self.spans = Union()
        self.cut = self.censored = self.short = self.would = False

    def add(self, step: Seen) -> None:
        """Add a step."""
        self.spans.add(step.started, step.started + step.elapsed)
        self.cut |= _by_share(step)
        self.short |= step.why in _FOR_TIME
        self.censored |= self.cut or self.short or _unfinished(step)
        self.would |= step.would in _WOULD_END


class _Job:
    """One job so far. `whole`: its time without the reserve."""

    __slots__ = ("begun", "opened", "stages", "whole")

    def __init__(self, opened: int | None) -> None:
        self.opened = opened
        self.begun = False
        self.whole: int | None = None
        self.stages: dict[str, _Stage] = {}


class Jobs:
    """Takes steps, and tells what was measured when there are no more."""

    def __init__(self, policy: Policy, *, most: int = MOST) -> None:
        """Follow at most so many jobs at once."""
        self._budget = policy.budget
        self._shares = {share.stage: share.span for share in claimed(policy.budget)}
        self._most = most
        self._open: OrderedDict[tuple[str, str], _Job] = OrderedDict()
        self._needs = {stage: Sketched(span) for stage, span in self._shares.items()}
        self._cut = dict.fromkeys(self._shares, 0)
        self._short = dict.fromkeys(self._shares, 0)
        self._rungs = RungTimes(policy)
        self._unknown: dict[str, int] = {}
        self._headless = 0
        self.steps = 0

    def add(self, step: Seen, at: int | None = None) -> None:
        """Take a step that has ended, at this time (Unix nanoseconds) if that is known."""
        self.steps += 1
        self._rungs.add(step)
        job = self._job(step, None if at is None else at - step.elapsed - step.started)
        job.begun |= step.number <= 1
        whole = step.started + step.remaining
        if job.whole is not None and whole > job.whole + _OTHER_PHASE and self._budget.reserve:
            return  # a cleanup call belongs to no stage
        job.whole = max(whole, job.whole or 0)
        if step.stage is None:
            return
        if step.stage not in self._shares:
            if step.stage in self._unknown or len(self._unknown) < _MOST_NAMES:
                self._unknown[step.stage] = self._unknown.get(step.stage, 0) + 1
            return
        job.stages.setdefault(step.stage, _Stage()).add(step)

    def measured(self, notes: tuple[str, ...] = ()) -> Measured:
        """Finish all jobs, and return what was measured."""
        while self._open:
            self._finish(self._open.popitem(last=False)[1])
        stages = {
            stage: Use(needs, self._cut[stage], self._short[stage]) for stage, needs in self._needs.items()
        }
        return Measured(stages, self._rungs.measured(), (*notes, *self._notes(), *self._rungs.notes()))

    def _job(self, step: Seen, opened: int | None) -> _Job:
        """Return the job of a step. One whose budget was opened at another time is another job under the same id."""
        key = step.process, step.budget_id
        job = self._open.get(key)
        if job is not None and _apart(opened, job.opened):
            self._finish(self._open.pop(key))
            job = None
        if job is None:
            job = self._open[key] = _Job(opened)
            if len(self._open) > self._most:
                self._finish(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(key)
        return job

    def _finish(self, job: _Job) -> None:
        """Make samples of a job. One whose first step was not seen may have used more before."""
        if not job.begun:
            self._headless += bool(job.stages)
            return
        total = (job.whole or 0) + self._budget.reserve
        if total <= 0:
            return
        for name, stage in job.stages.items():
            used = stage.spans.length * self._budget.default // total
            self._needs[name].add(used, cut=stage.censored)
            over = stage.would and used > self._shares[name]
            self._cut[name] += stage.cut or over
            self._short[name] += stage.short

    def _notes(self) -> list[str]:
        notes = []
        if self._headless:
            left_out = many(self._headless, "job was left out: its", "jobs were left out: their")
            notes.append(f"{left_out} first steps are not there, so more may have been used before.")
        for stage, count in self._unknown.items():
            steps = many(count, "step is", "steps are")
            notes.append(f"{steps} of the stage {stage!r}, to which this policy gives no share.")
        if len(self._unknown) >= _MOST_NAMES:
            notes.append("There are further stages without a share.")
        return notes


def _apart(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and abs(one - other) > _SAME


def _by_share(step: Seen) -> bool:
    """Say whether the share of its stage ended a step, or kept it from starting."""
    if step.outcome == Outcome.DEADLINE_EXCEEDED:
        return step.reason == Limit.STAGE
    if step.outcome != Outcome.REFUSED or step.reason not in _TURNED_AWAY:
        return False
    return step.allowed is not None and step.allowed < step.remaining


def _unfinished(step: Seen) -> bool:
    """Say whether a step would have gone on, had its job had more time. What its own cap or its caller's timer cut would not."""
    if step.outcome == Outcome.DEADLINE_EXCEEDED:
        return step.reason in _OUT_OF_TIME
    if step.outcome in (Outcome.REFUSED, Outcome.SHED):
        return step.reason in _TURNED_AWAY
    return step.outcome == Outcome.CLIENT_GONE
