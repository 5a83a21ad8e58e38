"""What the slow-down did to the jobs, and how long an exact hit takes: as tables, and beside what is promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from bench.builds import COMPILED, PURE
from bench.degrade.jobs import APOLOGY, FULL, LATE, NOTHING, Asked, Load, of
from bench.percentile import percentile
from bench.report import Table
from bench.targets import Floor

WITHOUT: Final = "no ladder"
WRITTEN: Final = "ladder, needs as written"
AUTO: Final = "ladder, needs: auto"
VARIANTS: Final = (WITHOUT, WRITTEN, AUTO)
ANSWERS: Final = (FULL, "fast", "minimal", "cached", APOLOGY, LATE, NOTHING)
USEFUL_WHEN_SLOW: Final = 0.8
USEFUL_AS_USUAL: Final = 0.99
HIT_P99_MS: Final = 2.0
NGINX: Final = "nginx"
_QUIET_P99_MS: Final = 1.0
_NONE: Final = "–"


@dataclass
class Hits:
    """How long one server took for the same answer, in milliseconds, call after call on one connection, block after block."""

    name: str
    blocks: list[list[float]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def cpu_us(self) -> float:
        """Processor time of the server for one answer: what else the machine does hardly shows in it."""
        return self.cpu_seconds * 1e6 / max(1, self.count)

    @property
    def count(self) -> int:
        return sum(map(len, self.blocks))

    def percentile(self, share: float) -> float:
        """The median over the blocks: what else the machine does comes in bursts."""
        return median(percentile(block, share) for block in self.blocks)

    @property
    def longest(self) -> float:
        return max(map(max, self.blocks))


@dataclass
class Found:
    """What was measured; None is a part that did not run."""

    load: Load
    jobs: list[Asked] | None = None
    hits: list[Hits] | None = None
    answer_bytes: int = 0


def useful(jobs: Sequence[Asked]) -> float:
    """The share of jobs that have some text to show by their deadline."""
    return sum(job.useful for job in jobs) / max(1, len(jobs))


def tables(found: Found) -> Iterator[Table]:
    if found.jobs is not None:
        yield _slow_down(found.load, found.jobs)
    if found.hits is not None:
        yield _hits(found.hits, found.answer_bytes)


def _slow_down(load: Load, jobs: Sequence[Asked]) -> Table:
    title = (
        f"{load.rate} jobs a second with {load.budget} ms each; after {load.seconds} s the model takes "
        f"{load.factor:g} times as long, for another {load.seconds} s"
    )
    columns = ["", "model", "jobs", "useful, on time", *ANSWERS, "p50 ms", "p99 ms"]
    rows = []
    for variant in VARIANTS:
        for slow in (False, True):
            mine = of(jobs, variant, slow=slow)
            if mine:
                rows.append([variant, f"× {load.factor:g}" if slow else "as usual", *_cells(mine)])
    return Table(title, columns, rows)


def _cells(jobs: Sequence[Asked]) -> list[str]:
    counts = Counter(job.answer for job in jobs)
    times = [job.took_ms for job in jobs]
    spans = [f"{median(times):,.0f}", f"{percentile(times, 0.99):,.0f}"]
    shares = [f"{counts[answer] / len(jobs):.0%}" if counts[answer] else _NONE for answer in ANSWERS]
    return [f"{len(jobs):,}", f"{useful(jobs):.1%}", *shares, *spans]


def _hits(hits: Sequence[Hits], size: int) -> Table:
    title = (
        f"The same question again, an answer of {size:,} bytes, one connection: ms to its first byte, "
        f"median of {len(hits[0].blocks)} blocks"
    )
    rows = [
        [
            each.name,
            f"{each.count:,}",
            f"{each.cpu_us:.0f}",
            *(f"{each.percentile(share):.2f}" for share in (0.5, 0.99)),
            f"{each.longest:.1f}",
        ]
        for each in hits
    ]
    columns = ["", "answers", "CPU µs/answer", "p50", "p99", "longest of all"]
    return Table(title, columns, rows, list(_noise(hits)))


def _noise(hits: Sequence[Hits]) -> Iterator[str]:
    """What would make the figures doubtful: a server that has nothing to do but to hand out bytes waits for its core."""
    for each in hits:
        if each.name == NGINX and each.percentile(0.99) > _QUIET_P99_MS:
            late = f"{each.percentile(0.99):.2f} ms"
            yield f"{NGINX} itself took {late} at p99: something else runs here, and all of these figures are noisy."


def floors(found: Found) -> Iterator[Floor]:
    """What is promised of a ladder, beside what it did. A part that did not run is not judged."""
    if found.jobs is not None:
        yield from _of_ladders(found.jobs)
    if found.hits is not None:
        names = {each.name for each in found.hits}
        name = COMPILED if COMPILED in names else PURE
        mine = next((each for each in found.hits if each.name == name), None)
        p99 = mine.percentile(0.99) if mine else None
        promise = f"99% of exact hits within {HIT_P99_MS:g} ms ({name})"
        yield Floor(
            promise, f"{p99:.2f} ms" if p99 is not None else None, p99 is not None and p99 < HIT_P99_MS
        )


def _of_ladders(jobs: Sequence[Asked]) -> Iterator[Floor]:
    before = useful(of(jobs, WITHOUT, slow=False))
    without = useful(of(jobs, WITHOUT, slow=True))
    mine = {slow: of(jobs, AUTO, slow=slow) for slow in (False, True)}
    usual, slowed = useful(mine[False]), useful(mine[True])
    promise = "as long as the model is as usual, a ladder takes nothing away"
    least = min(before, USEFUL_AS_USUAL)
    yield Floor(promise, f"{usual:.1%}, and {before:.1%} without", bool(mine[False]) and usual >= least)
    promise = f"when it is slow, {USEFUL_WHEN_SLOW:.0%} of the jobs still have a useful answer on time"
    yield Floor(promise, f"{slowed:.1%}, and {without:.1%} without", slowed >= max(USEFUL_WHEN_SLOW, without))


def summary(found: Found) -> dict[str, Any]:
    """Every job and every hit, for those who want other statistics of them."""
    return {
        "jobs": [vars(job) | {"useful": job.useful} for job in found.jobs or []],
        "hits": {each.name: each.blocks for each in found.hits or []},
        "answer_bytes": found.answer_bytes,
    }
