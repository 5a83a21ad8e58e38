"""What is counted of answers that are less than asked: rungs, the cache, and what the stages have used of their time.

A step that has none of it does not come here (`metrics`), so this costs only where a ladder, a cache or a share is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from proxy.core.budget import Limit
from proxy.core.calls import Outcome
from proxy.core.step import StepRecord
from proxy.core.units import MILLISECOND
from proxy.observe import families
from proxy.observe.families import Family
from proxy.observe.sampled import Labels, Sampled, tallied
from proxy.observe.tally import Histogram, Tally, Words

MOST_NAMES: Final = (
    200  # of rungs, and of stages, kept apart; what comes later, over any number of reloads, is `other`
)
_MOST_WORDS: Final = 64

NO_NAME: Final = "unknown"


class Ladders:
    """Counts steps that may be answered with less. Used from the event loop's thread only."""

    def __init__(self, routes: Words) -> None:
        """Begin at zero. `routes`: the names that all families know routes by."""
        rungs, stages = Words(MOST_NAMES), Words(MOST_NAMES)
        self._routes = routes
        self._rung_names = rungs
        self._stage_names = stages
        self._rungs = Tally(routes, rungs)
        self._degraded = Tally(routes, rungs, Words(_MOST_WORDS))
        self._lookups = Tally(routes, Words(_MOST_WORDS))
        self._failures = Tally(Words(_MOST_WORDS))
        self._cuts = Tally(stages)
        self._tries: dict[Labels, Histogram] = {}
        self._used: dict[Labels, Histogram] = {}
        self._ratios: dict[Labels, Histogram] = {}

    def step(self, record: StepRecord) -> None:
        """Count a step."""
        route, less = record.route, record.degraded
        if record.rung is not None:
            self._rungs.add(route, record.rung)
        if less is not None:
            self._degraded.add(route, less.rung, less.why)
        if record.cache is not None:
            self._lookups.add(route, record.cache)
        if record.reason == Limit.STAGE and record.outcome == Outcome.DEADLINE_EXCEEDED:
            self._cuts.add(record.stage or NO_NAME)

    def rung_tried(self, route: str, rung: str, ns: int) -> None:
        """Count one try of a rung that asks an upstream, answered whole or given up as too slow (nanoseconds)."""
        labels = self._routes.label(route), self._rung_names.label(rung)
        _add(self._tries, families.RUNG_DURATION, labels, ns / MILLISECOND)

    def cache_failed(self, part: str) -> None:
        """Count a question to a part of the cache that was not answered."""
        self._failures.add(part)

    def stage_used(self, stage: str, share: int, used: int) -> None:
        """Count what a stage of a finished budget was given and has used (nanoseconds)."""
        labels = (self._stage_names.label(stage),)
        _add(self._used, families.STAGE_USED, labels, used / MILLISECOND)
        if share > 0:
            _add(self._ratios, families.STAGE_RATIO, labels, used / share)

    def collect(self) -> Iterator[Sampled]:
        """Return all its families as they are now."""
        yield tallied(families.RUNGS, self._rungs)
        yield tallied(families.DEGRADED, self._degraded)
        yield tallied(families.CACHE_LOOKUPS, self._lookups)
        yield tallied(families.CACHE_FAILURES, self._failures)
        yield tallied(families.STAGE_CUTS, self._cuts)
        for family, found in (
            (families.RUNG_DURATION, self._tries),
            (families.STAGE_USED, self._used),
            (families.STAGE_RATIO, self._ratios),
        ):
            yield Sampled(family, family.labels, dict(found))


def _add(found: dict[Labels, Histogram], family: Family, labels: Labels, value: float) -> None:
    histogram = found.get(labels)
    if histogram is None:
        histogram = found[labels] = Histogram(family.bounds)
    histogram.add(value)
