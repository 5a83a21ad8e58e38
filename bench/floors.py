"""What is promised, beside what was measured. Only the parts that ran are judged, but those in full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bench.builds import COMPILED, PURE
from bench.cuts import Lateness, percentile
from bench.hotpath import HotPath
from bench.load import SMALL_GET
from bench.start import Starts
from bench.throughput import Comparison

RATIO_TO_ENVOY: Final = 1.5
IDLE_MIB: Final = 45
READY_MS: Final = 400
LATE_P99_MS: Final = 2.0
LEAKED_BLOCKS: Final = (
    0.5  # of one call, averaged over many: less than one is the loop's and the log's own coming and going
)
MIB: Final = 1024 * 1024

INSTRUCTIONS: Final = {PURE: {"get": 7_900, "post": 12_400}, COMPILED: {"get": 600, "post": 2_200}}
"""The most instructions of the interpreter that a call may take: a tenth or more above what it takes on CPython 3.11, with
admission, the ledger and the ladder on its way, of which a route that has no ladder pays a few hundred. More on the compiled
build means that a module on the way of every call is not compiled."""


@dataclass
class Results:
    """What each part found; `None` is a part that did not run."""

    throughput: list[Comparison] | None = None
    cuts: list[Lateness] | None = None
    starts: list[Starts] | None = None
    hotpath: list[HotPath] | None = None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Floor:
    """`measured` is None when there was nothing to measure, which is a miss too: a claim needs its figure."""

    promise: str
    measured: str | None
    met: bool


def judged(results: Results) -> str:
    """The build that the promises are about: the compiled one, which is what runs in production, where it is there."""
    names = {row.name for comparison in results.throughput or [] for row in comparison.rows}
    names |= {each.name for part in (results.cuts, results.starts, results.hotpath) for each in part or []}
    return COMPILED if COMPILED in names else PURE


def floors(results: Results) -> list[Floor]:
    found: list[Floor] = []
    sidecar = judged(results)
    if results.throughput is not None:
        found += _throughput(results.throughput, sidecar)
    if results.cuts is not None:
        found += _cuts(results.cuts, sidecar)
    if results.starts is not None:
        found += _starts(results.starts, sidecar)
    if results.hotpath is not None:
        found += _hotpath(results.hotpath, sidecar)
    return found


def _throughput(comparisons: list[Comparison], sidecar: str) -> Iterator[Floor]:
    rows = [comparison.row(sidecar) for comparison in comparisons]
    for comparison, row in zip(comparisons, rows, strict=True):
        if comparison.scenario is SMALL_GET:
            ratio = row.ratio if row else None
            promise = (
                f"at least {RATIO_TO_ENVOY} times Envoy's requests a second ({comparison.scenario.title})"
            )
            yield Floor(
                promise, f"{ratio:.2f} times" if ratio else None, bool(ratio and ratio >= RATIO_TO_ENVOY)
            )
    errors = sum(row.errors for row in rows if row) if all(rows) else None
    yield Floor("no request fails under load", None if errors is None else f"{errors} failed", errors == 0)


def _cuts(found: list[Lateness], sidecar: str) -> Iterator[Floor]:
    mine = [each for each in found if each.name == sidecar]
    for row in mine:
        yield from _cuts_under(row)
    if not mine:
        yield Floor("calls are cut on time", None, met=False)


def _cuts_under(row: Lateness) -> Iterator[Floor]:
    """Judged only when every call was cut and every cut is in the log: a missing one may be the late one."""
    where = f"callers {row.pattern}"
    if not len(row.own_ms) == len(row.client_ms) == row.expected:
        counts = f"{len(row.client_ms)} seen by the callers, {len(row.own_ms)} in the step log"
        yield Floor(f"{row.expected} calls, {row.expected} cuts ({where})", counts, met=False)
        return
    late = percentile(row.own_ms, 0.99)
    promise = f"99% of cuts at most {LATE_P99_MS:.0f} ms late ({where})"
    yield Floor(promise, f"{late:.2f} ms", late <= LATE_P99_MS)
    early = max(row.early, row.early_seen)
    yield Floor(f"no cut is early ({where})", f"{early} early", early == 0)


def _starts(found: list[Starts], sidecar: str) -> Iterator[Floor]:
    mine = next((each for each in found if each.name == sidecar), None)
    idle, ready = (mine.idle / MIB, mine.ready) if mine else (None, None)
    yield Floor(
        f"idle memory below {IDLE_MIB} MiB",
        f"{idle:.1f} MiB" if idle else None,
        bool(idle and idle < IDLE_MIB),
    )
    yield Floor(
        f"ready within {READY_MS} ms", f"{ready:.0f} ms" if ready else None, bool(ready and ready < READY_MS)
    )


def _hotpath(found: list[HotPath], sidecar: str) -> Iterator[Floor]:
    mine = [each for each in found if each.name == sidecar]
    for each in mine:
        most = INSTRUCTIONS[sidecar][each.kind]
        yield Floor(
            f"a {each.kind.upper()} takes at most {most:,} instructions of the interpreter",
            f"{each.instructions:,}",
            each.instructions <= most,
        )
        yield Floor(
            f"a {each.kind.upper()} leaks no memory",
            f"{each.leaked:.1f} blocks",
            each.leaked < LEAKED_BLOCKS,
        )
    if not mine:
        yield Floor("what a call takes is counted", None, met=False)
