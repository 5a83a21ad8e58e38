"""Which calls are made, at which allowance, how many at once: a pure function of how long it may take.

A cell is a pattern, a number of calls in flight and an allowance, and a block is one cell as often as it is worth.

    spread     each caller calls again when it is answered; the first calls are spread over one allowance
    together   all call at one moment, and nobody calls again before all are answered, so that many cuts fall due at once
    flood      the same, with an allowance in which not even one core's worth of calls can begin: overload, not precision

What cannot be is left out: 1,000 callers with 5 ms each that call again at once would be 200,000 calls a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SPREAD: Final = "spread"
TOGETHER: Final = "together"
FLOOD: Final = "flood"
PATTERNS: Final = (SPREAD, TOGETHER, FLOOD)

_MOST_A_SECOND: Final = 1_000
"""Calls a second under `spread`: well below what one core can begin and cut, so that the load is not what is measured."""
_BEGUN_IN_A_MS: Final = 10
"""Calls that a fast proxy begins in a millisecond. Fewer milliseconds than that takes for all make it a flood."""


@dataclass(frozen=True)
class Extent:
    """How much is spent. `widths`: numbers in flight, each with its allowances (ms).

    `seconds`: after so long in one block no wave is added; `most`: cuts in one block, save for a single wave.
    """

    widths: tuple[tuple[int, tuple[int, ...]], ...]
    seconds: float
    most: int


ALLOWANCES_MS: Final = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
FULL: Final = Extent(tuple((width, ALLOWANCES_MS) for width in (1, 50, 1_000)), seconds=1.0, most=500)
SHORT: Final = Extent(
    ((1, (5, 50, 200)), (50, (5, 50, 200)), (1_000, (5, 200, 1_000))), seconds=0.4, most=250
)


@dataclass(frozen=True)
class Block:
    """`waves` of `in_flight` calls each."""

    pattern: str
    in_flight: int
    allowance_ms: int
    waves: int

    @property
    def cuts(self) -> int:
        return self.waves * self.in_flight

    @property
    def seconds(self) -> float:
        """How long it takes at least. What is spread begins over one allowance more."""
        spread = self.pattern == SPREAD and self.in_flight > 1
        return (self.waves + spread) * self.allowance_ms / 1_000

    @property
    def name(self) -> str:
        """Which paths are made of, so that each line of a log is known again."""
        return f"{self.pattern}-{self.in_flight}-{self.allowance_ms}"


def plan(extent: Extent) -> list[Block]:
    """Return the blocks, from few in flight to many, and from short to long."""
    return [
        Block(pattern, width, allowance, _waves(extent, width, allowance))
        for width, allowances in extent.widths
        for pattern in PATTERNS
        for allowance in allowances
        if _fits(pattern, width, allowance)
    ]


def seconds(blocks: Sequence[Block], proxies: int) -> float:
    """Return how long all blocks take at least, one proxy after the other."""
    return proxies * sum(block.seconds for block in blocks)


def _fits(pattern: str, width: int, allowance_ms: int) -> bool:
    if width == 1:
        return pattern == SPREAD  # alone, one after the other
    if pattern == SPREAD:
        return width * 1_000 <= allowance_ms * _MOST_A_SECOND
    begins = width <= allowance_ms * _BEGUN_IN_A_MS
    return begins if pattern == TOGETHER else not begins


def _waves(extent: Extent, width: int, allowance_ms: int) -> int:
    most = max(extent.most // 10, 1) if width == 1 else extent.most // width
    return max(1, min(most, int(extent.seconds * 1_000 / allowance_ms)))
