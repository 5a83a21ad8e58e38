"""The tables of cuts, and what must be reached of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from bench.cuts.lateness import Lateness, over_allowances
from bench.cuts.plan import FLOOD
from bench.percentile import percentile
from bench.report import NONE, Table, table_of
from bench.targets import Target, Verdict, judge

TARGETS: Final = {
    50: Target("cut lateness p99, 50 in flight", least=2.0, aim=1.5, better="less", unit="ms"),
    1_000: Target("cut lateness p99, 1,000 in flight", least=10.0, aim=5.0, better="less", unit="ms"),
}
EARLY: Final = Target("cuts that are early, by either clock", least=0, aim=0, better="less")


def _late(values: Sequence[float], share: float) -> str:
    return f"{percentile(values, share):.2f}" if values else NONE


COLUMNS: Final[dict[str, Callable[[Lateness], str]]] = {
    "": lambda found: found.name,
    "callers": lambda found: "alone" if found.in_flight == 1 else found.pattern,
    "in flight": lambda found: f"{found.in_flight:,}",
    "allowance ms": lambda found: "all" if found.allowance_ms is None else f"{found.allowance_ms:,}",
    "cuts": lambda found: f"{len(found.seen_ms):,}",
    "p50": lambda found: _late(found.own_ms, 0.5),
    "p99": lambda found: _late(found.own_ms, 0.99),
    "max": lambda found: _late(found.own_ms, 1),
    "early": lambda found: f"{found.early:,}",
    "p50 seen": lambda found: _late(found.seen_ms, 0.5),
    "p99 seen": lambda found: _late(found.seen_ms, 0.99),
    "max seen": lambda found: _late(found.seen_ms, 1),
    "early seen": lambda found: f"{found.early_seen:,}",
}


def tables(found: Sequence[Lateness]) -> Iterator[Table]:
    """Yield how late each proxy is over all allowances, then at each."""
    what = "ms late by the proxy's own log, and as seen by the callers' kernel"
    yield table_of(f"Cuts: {what}", COLUMNS, over_allowances(found), _notes(found))
    ordered = sorted(found, key=lambda each: (each.in_flight, each.pattern, each.allowance_ms or 0))
    yield table_of("Cuts, by allowance", COLUMNS, ordered)


def verdicts(found: Sequence[Lateness], sidecar: str) -> Iterator[Verdict]:
    """Yield what must be reached beside what one build has reached: under the pattern that is the hardest for it.

    A flood is not judged by how late it is, only by whether anything in it is early. Where a cut is missing, nothing is said to be
    measured.
    """
    mine = [each for each in found if each.name == sidecar]
    for width, target in TARGETS.items():
        rows = [each for each in over_allowances(mine) if each.in_flight == width and each.pattern != FLOOD]
        if not rows or not all(each.complete for each in rows):
            yield judge(target, None)
            continue
        worst = max(rows, key=lambda each: percentile(each.own_ms, 0.99))
        seen = max(percentile(each.seen_ms, 0.99) for each in rows)
        yield judge(target, percentile(worst.own_ms, 0.99), f"{worst.pattern}; {seen:.2f} ms as seen")
    early = sum(max(each.early, each.early_seen) for each in mine)
    yield judge(EARLY, early if mine else None, f"of {sum(each.expected for each in mine):,}")


def _notes(found: Sequence[Lateness]) -> Iterator[str]:
    for each in over_allowances(found):
        where = f"{each.name}, {each.pattern}, {each.in_flight:,} in flight"
        if each.other_answers:
            yield f"{where}: {each.other_answers:,} calls were answered with another status than 504."
        if len(each.own_ms) != len(each.seen_ms):
            yield f"{where}: its log tells of {len(each.own_ms):,} cuts."
