"""The records of jobs, as the control API of a running sidecar shows them: the same steps as in its log, of its last jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from proxy.core.policy import BudgetDefaults
from proxy.tuning.faults import Untunable
from proxy.tuning.jobs import Jobs
from proxy.tuning.measured import claimed
from proxy.tuning.seen import Unreadable, seen
from proxy.tuning.words import many

Document = dict[str, Any]
MOST: Final = 500
"""How many jobs are asked for, the most that the API lists."""
_SHORTEST: Final = 1.0  # of milliseconds by which a share may differ, being rounded down


def read_records(
    listed: Document, record_of: Callable[[str], Document | None], budget: BudgetDefaults, jobs: Jobs
) -> tuple[str, ...]:
    """Hand on the steps of the jobs that are over, and return what is to be said about them. Raises Untunable.

    `listed`: the answer to `GET /budgets?state=all`; `record_of` asks for one of them, None for one that was forgotten
    meanwhile. The API is of the sidecar's own version, or what answers is no such API.
    """
    try:
        over = [each["id"] for each in listed["budgets"] if each["state"] != "open"]
        more = max(0, listed["known"] - len(listed["budgets"]))
        return _read(over, more, record_of, budget, jobs)
    except (KeyError, TypeError, AttributeError, Unreadable):
        problem = "what answers there speaks of budgets in another way than this version of waterclock"
        raise Untunable(problem, "use the waterclock of the same version as the sidecar") from None


def _read(
    over: Sequence[str],
    more: int,
    record_of: Callable[[str], Document | None],
    budget: BudgetDefaults,
    jobs: Jobs,
) -> tuple[str, ...]:
    dropped = others = found = 0
    for id in over:
        record = record_of(id)
        if record is None or not record["steps"]:
            continue
        found += 1
        dropped += bool(record["steps_dropped"])
        others += not _same_shares(record, budget)
        for each in record["steps"]:
            step = seen(each)
            if step is not None:
                jobs.add(step._replace(process="", budget_id=id))
    notes = []
    if not found:
        notes.append("The sidecar knows of no job that is over; it forgets them after ledger.retention.")
    if more:
        known = many(more, "further job is", "further jobs are")
        notes.append(f"{known} known there and not listed; the step log has all of them.")
    if dropped:
        slimmed = many(dropped, "job", "jobs")
        notes.append(f"Of {slimmed} only the first steps are kept there; more may have been used.")
    if others:
        notes.append(
            f"In {others} of {many(found, 'job', 'jobs')} the stages had other shares than this policy gives them: it was "
            "changed, or is another one."
        )
    return tuple(notes)


def _same_shares(record: Document, budget: BudgetDefaults) -> bool:
    """Say whether the stages of a job were those of this policy."""
    whole = budget.default / record["total_ms"] if record["total_ms"] else 0
    had = {each["stage"]: each["share_ms"] * whole for each in record["stages"]}
    meant = {share.stage: share.span for share in claimed(budget)}
    tolerance = _SHORTEST * whole
    return had.keys() == meant.keys() and all(abs(had[name] - meant[name]) <= tolerance for name in meant)
