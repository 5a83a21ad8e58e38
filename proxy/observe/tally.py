"""Counters that cost next to nothing: plain integers in lists and dicts, and a bound on how many there can be."""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"


class Histogram:
    """How many values lie up to each bound, and their sum. The sum never shrinks."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Begin with nothing; one more count than bounds, for what lies beyond them."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[self._place(value)] += 1
        if value > 0:
            self.sum += value

    def add_many(self, value: float, count: int) -> None:
        """Count a value so many times."""
        self.counts[self._place(value)] += count
        self.sum += value * count

    def _place(self, value: float) -> int:
        """Return which bound is the first that a value does not exceed. Most are small: from below, it is soon found."""
        place = 0
        for bound in self.bounds:
            if value <= bound:
                break
            place += 1
        return place

    def plus(self, other: Histogram) -> Histogram:
        """Return what both have counted. They have the same bounds."""
        both = Histogram(self.bounds)
        both.counts = [one + more for one, more in zip(self.counts, other.counts, strict=True)]
        both.sum = self.sum + other.sum
        return both


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
    """A counter by a few words, each of which is bounded."""

    __slots__ = ("_words", "counts")

    def __init__(self, *words: Words) -> None:
        """Count by as many words as are given here."""
        self._words = words
        self.counts: dict[tuple[str, ...], int] = {}

    def add(self, *said: str, count: int = 1) -> None:
        """Count what these words say."""
        labels = tuple([words.label(word) for words, word in zip(self._words, said, strict=True)])
        self.counts[labels] = self.counts.get(labels, 0) + count
