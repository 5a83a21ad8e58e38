"""What is promised, beside what was measured. Only the parts that ran are judged, but those in full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bench.builds import COMPILED, PURE
from bench.comparison.added import Added
from bench.comparison.scenarios import SMALL_GET
from bench.comparison.start import Starts
from bench.comparison.throughput import Comparison
from bench.cuts import table as cuts_table
from bench.cuts.lateness import Lateness
from bench.hotpath.counts import HotPath
from bench.memory import IDLE
from bench.report import MIB
from bench.targets import Floor, Target, Verdict, judge

RATE: Final = Target(
    "requests/s on one core, small calls, against Envoy", least=1.5, aim=2, better="more", unit="×"
)
CPU: Final = Target(
    "CPU per request, small calls, against Envoy", least=0.65, aim=0.5, better="less", unit="×"
)
ADDED: Final = Target(
    "p99 added at 1,000 requests/s, against Envoy", least=1, aim=0.7, better="less", unit="×"
)
READY: Final = Target("start to ready", least=400, aim=250, better="less", unit="ms")
LEAKED_BLOCKS: Final = (
    0.5  # of one call, averaged over many: less than one is the loop's and the log's own coming and going
)

INSTRUCTIONS: Final = {PURE: {"get": 8_700, "post": 12_200}, COMPILED: {"get": 20, "post": 250}}
"""The most instructions of the interpreter that a call may take: a tenth or more above what it takes on CPython 3.11, with
admission, the ledger and the ladder on its way, of which a route that has no ladder pays a few hundred. More on the compiled
build means that a module on the way of every call is not compiled."""


@dataclass
class Results:
    """What each part found; `None` is a part that did not run."""

    throughput: list[Comparison] | None = None
    added: Added | None = None
    cuts: list[Lateness] | None = None
    starts: list[Starts] | None = None
    hotpath: list[HotPath] | None = None
    versions: dict[str, str] = field(default_factory=dict)


def judged(results: Results) -> str:
    """The build that the promises are about: the compiled one, which is what runs in production, where it is there."""
    names = {row.name for comparison in results.throughput or [] for row in comparison.rows}
    names |= {row.name for row in results.added.rows} if results.added else set()
    names |= {each.name for part in (results.cuts, results.starts, results.hotpath) for each in part or []}
    return COMPILED if COMPILED in names else PURE


def verdicts(results: Results) -> list[Verdict]:
    """What must be reached, of the parts that ran."""
    sidecar = judged(results)
    found: list[Verdict] = []
    small = next((each for each in results.throughput or [] if each.scenario == SMALL_GET), None)
    if small:
        row = small.row(sidecar)
        found.append(judge(RATE, row.ratio if row else None))
        found.append(judge(CPU, row.cpu_ratio if row else None))
    if results.added:
        calm = results.added.row(sidecar)
        found.append(judge(ADDED, results.added.ratio(calm, 0.99) if calm else None))
    if results.cuts is not None:
        found += cuts_table.verdicts(results.cuts, sidecar)
    if results.starts is not None:
        mine = next((each for each in results.starts if each.name == sidecar), None)
        found.append(judge(READY, mine.ready if mine else None))
        found.append(judge(IDLE, mine.idle / MIB if mine else None))
    return found


def floors(results: Results) -> list[Floor]:
    """What is promised besides, and is either kept or not."""
    found: list[Floor] = []
    sidecar = judged(results)
    if results.throughput is not None:
        found += _throughput(results.throughput, sidecar)
    if results.added is not None:
        found += _added(results.added, sidecar)
    if results.hotpath is not None:
        found += _hotpath(results.hotpath, sidecar)
    return found


def _throughput(comparisons: list[Comparison], sidecar: str) -> Iterator[Floor]:
    rows = [comparison.row(sidecar) for comparison in comparisons]
    errors = sum(row.errors for row in rows if row) if all(rows) else None
    yield Floor("no request fails under load", None if errors is None else f"{errors} failed", errors == 0)


def _added(found: Added, sidecar: str) -> Iterator[Floor]:
    row = found.row(sidecar)
    lost = row.failed + row.unanswered if row else None
    promise = f"no request fails at {found.pace.rate:,} requests/s"
    yield Floor(promise, None if lost is None else f"{lost} failed", lost == 0)


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
