"""Counters that cost next to nothing: plain integers in lists and dicts, and a bound on how many there can be."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

OTHER: Final = "other"


class Histogram:
    """How many values lie up to each bound, and their sum, in milliseconds. The sum never shrinks."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Begin with nothing; one more count than bounds, for what lies beyond them."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        if value > 0:
            self.sum += value


class Words:
    """Labels that others choose: the first `most` are kept apart, all later ones are `other`."""

    __slots__ = ("_known", "_most")

    def __init__(self, most: int) -> None:
        """Begin with no word known."""
        self._known: set[str] = set()
        self._most = most

    def label(self, word: str) -> str:
        """Return the label that a word is counted under."""
        if word not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(word)
        return word


class Tally:
    """A counter by one word."""

    __slots__ = ("_words", "counts")

    def __init__(self, most: int) -> None:
        """Keep at most `most` words apart."""
        self._words = Words(most)
        self.counts: dict[str, int] = {}

    def add(self, word: str) -> None:
        """Count a word."""
        label = self._words.label(word)
        self.counts[label] = self.counts.get(label, 0) + 1
