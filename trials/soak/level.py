"""Whether a series has levelled off: a pure judgement of points, with two bounds that both have to be passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

from bench.plots.paper import thinned

HOUR: Final = 3600.0
FEWEST: Final = 8
"""As many points a series must have: two in each quarter."""
_MOST: Final = 150  # points of the second half that are paired: 11,000 slopes

Point = tuple[float, float]
"""Seconds since the beginning, and a value."""


@dataclass(frozen=True)
class Bound:
    """What a series may do. It grows when its slope is above `per_hour`, and the last quarter is above the one before by more
    than `rise` and by more than `share` of it: a slope alone is noise in a short run, a rise alone may be one step.
    """

    per_hour: float
    rise: float
    share: float = 0.02

    def times(self, slack: float) -> Bound:
        """Return the same with more room for a rise."""
        return Bound(self.per_hour, self.rise * slack, self.share * slack)

    def most(self, before: float) -> float:
        """Return what the last quarter may be above the one before, whose level this is."""
        return max(self.rise, self.share * abs(before))


@dataclass(frozen=True)
class Judged:
    """`level`: the median of the last quarter; `rise`: that less the median of the quarter before."""

    name: str
    level: float
    rise: float
    per_hour: float
    grows: bool


def slope(points: Sequence[Point]) -> float:
    """Return the median of the slopes between all pairs of points (Theil and Sen), in values a second; 0 without a pair."""
    pairs = combinations(points, 2)
    slopes = [
        (after[1] - before[1]) / (after[0] - before[0]) for before, after in pairs if after[0] > before[0]
    ]
    return median(slopes) if slopes else 0.0


def judge(name: str, points: Sequence[Point], bound: Bound) -> Judged:
    """Judge a series by its second half. Raises ValueError when it has too few points to have quarters."""
    if len(points) < FEWEST:
        raise ValueError(f"{name} has {len(points)} points; a judgement takes {FEWEST}")
    quarter = len(points) // 4
    last = median(value for _, value in points[-quarter:])
    before = median(value for _, value in points[-2 * quarter : -quarter])
    rise = last - before
    per_hour = slope(thinned(points[-2 * quarter :], _MOST)) * HOUR
    grows = per_hour > bound.per_hour and rise > bound.most(before)
    return Judged(name, last, rise, per_hour, grows)
