"""The two verdicts on a job, always apart: did its work complete, and was it closed in time.

    Budget-Steps: total=3, completed=2, deadline_exceeded=1, uncertain=0     (an RFC 9651 dictionary)
    Budget-Verdict: incomplete; on_time                                      (an RFC 9651 item)
    Budget-Verdict: complete; on_time; degraded=1

So a job that ran out of time and said so in time is told from one that finished late, and an incomplete result cannot
pass for a success; nor can one that was made of less than was asked for pass for a whole one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from proxy.core.attempts import asks_again
from proxy.core.budget import Budget
from proxy.core.calls import Effect, Outcome
from proxy.core.history import Counts, History
from proxy.core.step import StepRecord

_ALWAYS = ("total", "completed", "deadline_exceeded", "uncertain")


ONE_COMPLETED: Final = Counts(total=1, completed=1)
ONE_DEGRADED: Final = Counts(total=1, completed=1, degraded=1)


class Verdict(NamedTuple):
    """What is to be said of a job. None: nobody can say yet (`complete`), or ever (`on_time`: nobody said it was done).

    `degraded`: how many of its steps were answered with less than they had asked for, so far. That is said in any case:
    it is true of a job under way too, and only ever grows.
    """

    complete: bool | None
    on_time: bool | None
    degraded: int = 0

    def field(self) -> str:
        """Return the value of `Budget-Verdict`: a token, then parameters (RFC 9651 §3.1.2), a bare one where it is true."""
        complete = {True: "complete", False: "incomplete", None: "in_progress"}[self.complete]
        timely = {True: "; on_time", False: "; late", None: ""}[self.on_time]
        less = f"; degraded={self.degraded}" if self.degraded else ""
        return complete + timely + less


DONE: Final = Verdict(True, True)


def verdict_of(budget: Budget, now: int) -> Verdict:
    """Return the verdicts on a budget as of now.

    Complete: nothing is under way, and each unit of its work has in the end been done, with a known effect. While the
    job is open that can still change, so it is not said; once it is closed, only what becomes known of writes in doubt
    changes it. On time: somebody said that it is done, by its deadline. Steps with less count whenever they were made.
    """
    if budget.closed_at is None and now < budget.deadline:
        return Verdict(None, None, degraded(budget))
    return Verdict(complete(budget), budget.on_time, degraded(budget))


def complete(budget: Budget) -> bool:
    """Say whether all that the job has begun is done by now."""
    history = budget.history
    if budget.unfinished:
        return False
    if history is None:
        return not budget.in_flight
    return not (budget.in_flight or history.undone or history.uncertain or history.overflowed)


def degraded(budget: Budget) -> int:
    """Return how many steps of the job were answered with less than they had asked for, by now."""
    history = budget.history
    return history.degraded if history is not None else 0


def of_one_call(record: StepRecord, *, on_time: bool | None) -> tuple[Verdict, Counts]:
    """Return the verdicts and the counts of a job that was one call."""
    if record.outcome == Outcome.COMPLETED and record.effect != Effect.UNCERTAIN:
        done = not (record.partial or asks_again(record.status))
        if record.degraded is not None:
            return Verdict(done, on_time, 1), ONE_DEGRADED
        return (DONE if done and on_time else Verdict(done, on_time)), ONE_COMPLETED
    history = History()
    history.add(record)
    return Verdict(False, on_time, history.degraded), history.counts(0)


def counts_of(budget: Budget) -> Counts:
    """Return the counts of a budget's steps as of now."""
    history = budget.history
    if history is None:
        return Counts(total=budget.in_flight, in_flight=budget.in_flight)
    return history.counts(budget.in_flight)


def steps_field(counts: Counts) -> str:
    """Return the value of `Budget-Steps`: what is always said, and of the rest what there is."""
    said = counts._asdict()
    others = [name for name, count in said.items() if count and name not in _ALWAYS]
    shown = [*_ALWAYS[:3], *others, _ALWAYS[3]]
    return ", ".join(f"{name}={said[name]}" for name in shown)
