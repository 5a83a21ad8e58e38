"""A distribution made of single samples, kept as two sketches: of what was whole, and of what was cut.

A sketch (DDSketch) keeps counts in bins whose width is a part of their value, so that millions of samples take a few kilobytes
and every quantile is known to `ACCURACY` of itself. All that is told here allows for that.
"""

from __future__ import annotations

from typing import Final

from ddsketch import DDSketch

from proxy.tuning.distribution import Between, rank

ACCURACY: Final = 0.005
_AT_SHARE: Final = 1.001  # cut at the share: its clock is read a little after the share was used up


class Sketched:
    """Samples, as far as they have come. `share`: what a stage may use; whatever is cut by that was cut there exactly."""

    def __init__(self, share: int | None = None) -> None:
        """Start with none."""
        self._share = share
        self._whole = DDSketch(ACCURACY)
        self._cut = DDSketch(ACCURACY)
        self._at_share = 0
        self._past_share = [0, 0]  # whole ones above the share; cut ones at it or above

    def add(self, used: int, *, cut: bool = False) -> None:
        """Add a sample: what was used, and whether more would have been."""
        share = self._share
        if share is not None and used >= share + (not cut):
            self._past_share[cut] += 1
        if not cut:
            self._whole.add(float(used))
        elif share is not None and share <= used <= share * _AT_SHARE:
            self._at_share += 1
        else:
            self._cut.add(float(used))

    @property
    def total(self) -> int:
        """How many samples there are."""
        return _count(self._whole) + self.censored

    @property
    def censored(self) -> int:
        """How many of them were cut."""
        return _count(self._cut) + self._at_share

    def quantile(self, q: float) -> Between:
        """Return where a quantile lies."""
        number, whole = rank(q, self.total), _count(self._whole)
        low = int(_nth(self._all(), number) / (1 + ACCURACY))
        if self._share is not None and number > self.total - sum(self._past_share):
            low = max(low, self._share)
        if number > whole:
            return Between(low, None)
        high = int(_nth(self._whole, number) / (1 - ACCURACY)) + 1
        if self._share is not None and number <= whole - self._past_share[0]:
            high = min(high, self._share)
        return Between(min(low, high), high)

    def over(self, span: int) -> tuple[int, int]:
        """Return how many samples need more than this span; of the share itself that is known exactly."""
        if span == self._share:
            whole, cut = self._past_share
            return whole + cut, whole + self.censored
        surely = _above(self._whole, span * (1 + ACCURACY)) + _above(self._cut, span * (1 + ACCURACY))
        if self._share is not None and self._share >= span:
            surely += self._at_share
        return surely, _above(self._whole, span * (1 - ACCURACY)) + self.censored

    def _all(self) -> DDSketch:
        """Return all samples at what they have used."""
        every = DDSketch(ACCURACY)
        every.merge(self._whole)
        every.merge(self._cut)
        if self._at_share:
            every.add(float(self._share or 0), self._at_share)
        return every


def _count(sketch: DDSketch) -> int:
    return int(sketch.count)


def _nth(sketch: DDSketch, number: int) -> float:
    """Return about the value of a sample, counted from the smallest, which is 1."""
    others = sketch.count - 1
    value = sketch.get_quantile_value(min(1.0, (number - 0.5) / others) if others else 1.0)
    assert value is not None
    return float(value)


def _above(sketch: DDSketch, value: float) -> int:
    """Return how many samples are about above a value."""
    low, high = (
        0,
        _count(sketch),
    )  # so many are surely not above it; and of so many the largest is, or there are no more
    while low < high:
        middle = (low + high + 1) // 2
        if _nth(sketch, middle) <= value:
            low = middle
        else:
            high = middle - 1
    return _count(sketch) - low
