"""A distribution made of the buckets of a histogram: of each sample it is known between which edges it lies, and no more.

Which samples were cut a histogram does not say. Some of these are known to lie in certain buckets (`Bucketed.past`), others
may be any (`stray`); both are counted against what would otherwise be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proxy.tuning.distribution import Between, rank


class Bin(NamedTuple):
    """So many samples are above `low` and not above `high` (nanoseconds; None: without an end)."""

    low: int
    high: int | None
    samples: int


class Bucketed:
    """The bins, from the lowest up, without gaps. `cut`: how many samples above the edge `past` were cut; `stray`: and anywhere."""

    def __init__(self, bins: Sequence[Bin], *, past: int = 0, cut: int = 0, stray: int = 0) -> None:
        """Take the bins; no more can have been cut than there are samples."""
        self._bins = tuple(bins)
        self._past = past
        self.total = sum(each.samples for each in bins)
        self._cut = min(cut, sum(each.samples for each in bins if each.low >= past))
        self._stray = min(stray, self.total - self._cut)

    @property
    def censored(self) -> int:
        """How many samples were cut, or may have been."""
        return self._cut + self._stray

    def quantile(self, q: float) -> Between:
        """Return where a quantile lies: the edges of its bin, as far as what was cut leaves it there."""
        number, count, low = rank(q, self.total), 0, None
        for index, each in enumerate(self._bins):
            count += each.samples
            if count < number:
                continue
            low = each.low if low is None else low
            if each.high is not None and self._whole_up_to(index) >= number:
                return Between(low, each.high)
        return Between(low or 0, None)

    def over(self, span: int) -> tuple[int, int]:
        """Return how many samples need more than this span."""
        surely = sum(each.samples for each in self._bins if each.low >= span)
        within = [at for at, each in enumerate(self._bins) if each.high is not None and each.high <= span]
        return surely, self.total - (self._whole_up_to(within[-1]) if within else 0)

    def _whole_up_to(self, last: int) -> int:
        """Return how many samples at least were not cut and lie in the bins up to one."""
        bins = self._bins[: last + 1]
        count = sum(each.samples for each in bins)
        cut = min(self._cut, sum(each.samples for each in bins if each.low >= self._past))
        return max(0, count - cut - self._stray)
