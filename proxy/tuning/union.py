"""The time that at least one of some steps was under way, in a bounded space, whatever order they are told in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

MOST: Final = 256
"""How many spans apart from each other are kept; the earliest ones are then only summed up."""


class Union:
    """The union of spans, as its length in nanoseconds."""

    __slots__ = ("_begins", "_ends", "_settled", "_settled_to")

    def __init__(self) -> None:
        """Start with nothing."""
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._settled = 0
        self._settled_to: int | None = None

    def add(self, begin: int, end: int) -> None:
        """Add a span. What of it lies before those that are only summed up is taken as counted."""
        if self._settled_to is not None:
            begin = max(begin, self._settled_to)
        if end <= begin:
            return
        first, last = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last] = [begin]
        self._ends[first:last] = [end]
        if len(self._begins) > MOST:
            self._settle()

    @property
    def length(self) -> int:
        """How much time it covers."""
        return self._settled + sum(self._ends) - sum(self._begins)

    def _settle(self) -> None:
        half = MOST // 2
        self._settled += sum(self._ends[:half]) - sum(self._begins[:half])
        self._settled_to = self._ends[half - 1]
        del self._begins[:half], self._ends[:half]
