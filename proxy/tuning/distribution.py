"""What jobs have needed, as a distribution that says how much of it is known.

A sample that was cut is censored: what it would have needed is larger than what it used, and nobody knows by how much. So a
quantile lies between two spans, of which the upper one may be unknown, and a rate between two rates. Nothing is guessed in
between. Spans are nanoseconds.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, Protocol

_ROUNDING: Final = 1e-6  # 0.07 * 100 is a little more than 7


class Between(NamedTuple):
    """Where a span lies: not below `low`, and not above `high`; `high` None: above `low`, and nobody knows how far."""

    low: int
    high: int | None


class Rate(NamedTuple):
    """A part of all, at least and at most, both from 0 to 1."""

    least: float
    most: float


class Distribution(Protocol):
    """How much was needed, by so many samples."""

    @property
    def total(self) -> int:
        """How many samples there are."""

    @property
    def censored(self) -> int:
        """How many of them were cut, or may have been."""

    def quantile(self, q: float) -> Between:
        """Return where the quantile lies that is asked for (above 0, up to 1). There is a sample at least."""

    def over(self, span: int) -> tuple[int, int]:
        """Return how many samples need more than this span: at least, and at most."""


def rank(q: float, total: int) -> int:
    """Return which sample a quantile is, counted from the smallest, which is 1: so many are not above it."""
    return max(1, min(total, math.ceil(q * total - _ROUNDING)))


def rate_over(distribution: Distribution, span: int) -> Rate:
    """Return which part of all needs more than this span. There is a sample at least."""
    least, most = distribution.over(span)
    return Rate(least / distribution.total, most / distribution.total)
