"""One seed, and everything that is drawn from it: each part has a stream of its own, so that one more draw moves no other part."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from proxy.core.units import MICROSECOND

T = TypeVar("T")


class Draws(random.Random):
    """The draws of one part. The same seed and the same name give the same draws, in any process."""

    def __init__(self, seed: int, part: str) -> None:
        """`part` is any text: a string seeds by its digest, which no hash order touches."""
        super().__init__(f"{seed}/{part}")

    def happens(self, chance: float) -> bool:
        """Return True so often of one."""
        return self.random() < chance

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of several, each as likely."""
        return options[int(self.random() * len(options))]

    def weighted(self, options: dict[T, float]) -> T:
        """Return a key, as likely as its value is large."""
        at = self.random() * sum(options.values())
        for option, weight in options.items():
            at -= weight
            if at < 0:
                return option
        return option

    def span(self, least: int, most: int) -> int:
        """Return a span (nanoseconds) between two, short ones as likely as long ones by their order of magnitude."""
        least, most = max(least, MICROSECOND), max(most, MICROSECOND)
        return int(least * (most / least) ** self.random())

    def between(self, least: int, most: int) -> int:
        """Return a whole number between two, both included."""
        return least + int(self.random() * (most - least + 1))


def split_at(draws: random.Random, data: bytes, most: int) -> list[bytes]:
    """Return the pieces of some bytes, cut wherever it is drawn, at most so many."""
    if len(data) < 2 or most < 2:
        return [data]
    cuts = sorted({1 + int(draws.random() * (len(data) - 1)) for _ in range(int(draws.random() * most))})
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
