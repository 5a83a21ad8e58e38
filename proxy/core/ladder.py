"""Which rung of a ladder a step takes: the highest whose need fits what is left. A value with a reason; nothing is applied.

choose      at the start, and again whenever a rung cannot be taken or has failed
patience    how long a rung that says nothing is waited for, while a lower one still fits
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proxy.core.degrading import Rung, Why


class Choice(NamedTuple):
    """The rung to take, `level` rungs below the first. `why`: what speaks against those above it; None for the first."""

    level: int
    rung: Rung
    why: Why | None


def fits(rung: Rung, need: int, left: int | None) -> bool:
    """Say whether a rung may be taken with so much left (nanoseconds; None: no limit). On nothing, nothing is asked of anybody."""
    if left is None:
        return True
    if left <= 0:
        return rung.local and need <= 0
    return left >= need


def choose(
    ladder: Sequence[Rung],
    needs: Sequence[int],
    left: int | None,
    *,
    start: int = 0,
    why: Why | None = None,
    local: bool = False,
) -> Choice | None:
    """Return the highest rung from `start` on that fits what is left; None when there is none.

    `needs`: what each rung needs by now (nanoseconds), the route's `min_start` counted. `why`: what speaks against those
    above `start`; it is `time` where only their needs do. `local`: take none that asks an upstream.
    """
    for level in range(start, len(ladder)):
        rung = ladder[level]
        if fits(rung, needs[level], left) and (rung.local or not local):
            return Choice(level, rung, (why or Why.TIME) if level else None)
    return None


def patience(
    ladder: Sequence[Rung], needs: Sequence[int], level: int, left: int | None, *, below: int | None = None
) -> tuple[int, int] | None:
    """Return how long the rung taken is waited for (nanoseconds from now), and which one follows it then.

    It gets what it needs in any case. After that it is waited for as long as the best lower rung that still fits then can
    wait. None: until the allowance ends, since there is nothing below that could still answer. `below`: it has had what it
    needs, and the rungs down to this one have nothing to give.
    """
    if left is None:
        return None
    spare = left - needs[level] if below is None else left
    for lower in range((level if below is None else below) + 1, len(ladder)):
        if 0 < needs[lower] <= spare:
            return left - needs[lower], lower
    return None
