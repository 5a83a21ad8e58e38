"""What a storm did, reckoned from the agents' own observations and the tool's own counters, and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from bench.percentile import percentile
from bench.report import Table
from bench.storm.agents import Job, Orders
from bench.storm.tool import Counts
from bench.targets import Floor

NO_SIDECAR: Final = "no sidecar"
HOLDS: Final = "no sidecar, agents stop at their deadline"
BUDGET: Final = "sidecar, budget only"
ADMISSION: Final = "sidecar, admission"
RETRIES: Final = "sidecar, admission and its own retries"

ATTEMPTS_AT_MOST: Final = 1.05
_BUSY: Final = 0.7
_NONE: Final = "–"


@dataclass(frozen=True)
class Round:
    """One variant under one storm. `attempts`: how many the sidecar says that it made; None without one. `busy`: the
    processor time of each process, as a share of the time.
    """

    orders: Orders
    jobs: list[Job]
    counts: Counts
    attempts: int | None
    busy: dict[str, float]

    @property
    def useful(self) -> float:
        """Calls a second that were answered before the deadline of their job, while agents kept coming."""
        seconds = self.orders.seconds
        return sum(when < seconds for job in self.jobs for when in job.in_time) / seconds

    @property
    def complete(self) -> float:
        """The share of jobs of which every call was answered before the deadline."""
        return _share(self.jobs)

    @property
    def recovered(self) -> float:
        """The same of the jobs that began in the second half: whether the tool has got over the burst."""
        return _share([job for job in self.jobs if job.began >= self.orders.seconds / 2])

    @property
    def tries(self) -> float:
        """Tries of the callers for each call that they began."""
        return sum(job.tries for job in self.jobs) / max(1, sum(job.calls for job in self.jobs))

    @property
    def amplification(self) -> float:
        """Calls that reached the tool for each piece of work among them."""
        return self.counts.arrivals / max(1, self.counts.units)

    @property
    def wasted(self) -> float:
        """The share of the work that the tool has done whose answer nobody took."""
        return 1 - sum(job.taken_ms for job in self.jobs) / max(1, self.counts.worked_ms)

    def took(self, share: float) -> float | None:
        """How long the complete jobs took, in seconds."""
        times = [job.ended - job.began for job in self.jobs if job.complete and job.ended is not None]
        return percentile(times, share) if times else None

    @property
    def lost_after(self) -> float | None:
        """How long half of the other jobs went on at most, in seconds; what was never seen to end went on to the end."""
        end = self.orders.seconds + self.orders.deadline / 1000
        times = [
            (end if job.ended is None else job.ended) - job.began for job in self.jobs if not job.complete
        ]
        return median(times) if times else None

    @property
    def ends(self) -> Counter[str]:
        return sum((job.ends for job in self.jobs), Counter())

    @property
    def shed(self) -> int:
        """Answers that said: not now."""
        return sum(count for end, count in self.ends.items() if end.endswith("shed"))

    def summary(self) -> dict[str, Any]:
        """The figures, for those who want other statistics of them."""
        return {
            "seed": self.orders.seed,
            "jobs": len(self.jobs),
            "useful_per_second": self.useful,
            "complete": self.complete,
            "complete_second_half": self.recovered,
            "tries_per_call": self.tries,
            "attempts_per_unit_at_the_tool": self.amplification,
            "wasted": self.wasted,
            "job_p50_s": self.took(0.5),
            "job_p99_s": self.took(0.99),
            "lost_after_s": self.lost_after,
            "ends_of_tries": dict(self.ends),
            "tool": vars(self.counts),
            "attempts_by_the_sidecar": self.attempts,
            "busy": self.busy,
        }


def _share(jobs: Sequence[Job]) -> float:
    return sum(job.complete for job in jobs) / max(1, len(jobs))


@dataclass
class Row:
    name: str
    rounds: list[Round] = field(default_factory=list)

    def middle(self, of: Callable[[Round], float]) -> float:
        return median(map(of, self.rounds))

    def cell(self, of: Callable[[Round], float | None], shape: str) -> str:
        """The median, and the least and the most where they differ from it."""
        values = [value for value in map(of, self.rounds) if value is not None]
        if not values:
            return _NONE
        middle, least, most = (format(value, shape) for value in (median(values), min(values), max(values)))
        return middle if least == most else f"{middle} ({least}–{most})"


def table(rows: Sequence[Row]) -> Table:
    orders = rows[0].rounds[0].orders
    rounds = len(rows[0].rounds)
    what = f"median of {rounds} rounds (least–most)" if rounds > 1 else "one round"
    title = (
        f"{orders.agents} agents at once, then {orders.arrivals} a second for {orders.seconds} s; {orders.calls} calls each, "
        f"to be done in {orders.deadline / 1000:g} s: {what}"
    )
    cells = [[row.name, *(row.cell(of, shape) for of, shape in _COLUMNS.values())] for row in rows]
    return Table(title, ["", *_COLUMNS], cells, list(_notes(rows)))


_COLUMNS: Final[dict[str, tuple[Callable[[Round], float | None], str]]] = {
    "useful calls/s": (lambda found: found.useful, ".0f"),
    "jobs in time": (lambda found: found.complete, ".0%"),
    "second half": (lambda found: found.recovered, ".0%"),
    "tries/call": (lambda found: found.tries, ".2f"),
    "at the tool": (lambda found: found.amplification, ".2f"),
    "wasted work": (lambda found: max(0.0, found.wasted), ".0%"),
    "job p50 s": (lambda found: found.took(0.5), ".1f"),
    "p99": (lambda found: found.took(0.99), ".1f"),
    "lost after s": (lambda found: found.lost_after, ".1f"),
    "shed": (lambda found: found.shed, ",.0f"),
}


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """What would make the figures doubtful."""
    for row in rows:
        for number, each in enumerate(row.rounds, 1):
            for name, share in each.busy.items():
                if share > _BUSY:
                    yield f"{row.name}, round {number}: {name} had its core busy for {share:.0%} of the time."
            if each.attempts is not None and not each.counts.arrivals <= each.attempts:
                told = f"{each.attempts:,} attempts, the tool of {each.counts.arrivals:,}"
                yield f"{row.name}, round {number}: the metrics of the sidecar tell of {told}."


def floors(rows: Sequence[Row]) -> list[Floor]:
    """What admission is for, beside what it did. Judged against every variant without it that was played."""
    played = {row.name: row for row in rows}
    admission = played.get(ADMISSION)
    if admission is None:
        return []
    found: list[Floor] = []
    for name in (NO_SIDECAR, HOLDS, BUDGET):
        if name in played:
            found += _better(admission, played[name])
    reached = admission.middle(lambda each: each.amplification)
    promise = f"with admission, at most {ATTEMPTS_AT_MOST} attempts at the tool for a piece of work"
    return [*found, Floor(promise, f"{reached:.2f}", reached <= ATTEMPTS_AT_MOST)]


def _better(admission: Row, other: Row) -> Iterator[Floor]:
    mine, theirs = (row.middle(lambda each: each.useful) for row in (admission, other))
    promise = f"admission answers more calls in time than: {other.name}"
    yield Floor(promise, f"{mine:.0f} to {theirs:.0f} a second", mine > theirs)
    mine, theirs = (row.middle(lambda each: each.complete) for row in (admission, other))
    promise = f"admission completes more jobs in time than: {other.name}"
    yield Floor(promise, f"{mine:.0%} to {theirs:.0%}", mine > theirs)
