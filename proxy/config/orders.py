"""Amounts that may not pass each other, wherever in the file the two of them stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from proxy.config.reading import Report
from proxy.config.scalars import SPANS


class Amount(NamedTuple):
    """The amount that a key stands for, and how it is written: as a span, in nanoseconds, unless it says otherwise."""

    key: str
    amount: int
    show: Callable[[int], str] = SPANS.show

    def __str__(self) -> str:
        return self.show(self.amount)


def in_order(report: Report, low: Amount, high: Amount, *, strictly: bool = False) -> None:
    """Refuse a lower amount that is above the higher one, or `strictly` one that equals it."""
    if low.amount < high.amount or (low.amount == high.amount and not strictly):
        return
    if low.key in report.given:
        at, other, relation = low, high, "not less than" if strictly else "more than"
    else:
        at, other, relation = high, low, "not more than" if strictly else "less than"
    problem = f"{at} is {relation} {other.key}, {other} ({report.place(other.key)})"
    report.add_conflict(at.key, (low.key, high.key), problem, "change one of the two")
