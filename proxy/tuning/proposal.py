"""From the table to other shares: what nearly all jobs need and a margin, adding up to exactly what there is.

    wants       the 99th percentile and the margin; where nobody knows it, its least and no less than the share is now
    kept        the share of a stage with too few samples
    over        what is left when all have what they want: for one stage, or in proportion to the wants
    missing     what the wants are too large by: then each gets its part in proportion

All shares are whole milliseconds, and at least one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from proxy.core.units import MILLISECOND
from proxy.tuning.distribution import Rate
from proxy.tuning.faults import Untunable
from proxy.tuning.table import Row


class Basis(StrEnum):
    """What a proposed share rests on.

    `measured`: what was needed is known. `at least`: it is known only to be more than what was measured. `kept`: too few
    samples. `raised`: the same, with what is over. `squeezed`: the same, but there is not even enough for what was to be kept.
    """

    MEASURED = "measured"
    AT_LEAST = "at least"
    KEPT = "kept"
    RAISED = "raised"
    SQUEEZED = "squeezed"


@dataclass(frozen=True, slots=True)
class Proposed:
    """The share of one stage as it is and as it might be, and which part of its jobs each would cut (None: nobody knows)."""

    stage: str
    before: int
    after: int
    basis: Basis
    cut_before: Rate | None
    cut_after: Rate | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """All shares. With `slack` they add up to `total`; `missing` is what the wants exceed that by (nanoseconds)."""

    shares: tuple[Proposed, ...]
    slack: int
    total: int
    missing: int


def propose(
    rows: Sequence[Row], *, total: int, slack: int, give: str | None, margin: float
) -> Proposal | None:
    """Return other shares; None where no stage has samples enough. Raises Untunable.

    `total` counts in whole milliseconds rounded down, `slack` rounded up. `give`: the stage that gets what is over.
    """
    total_ms, slack_ms = total // MILLISECOND, -(-slack // MILLISECOND)
    room, given = total_ms - slack_ms, _place(rows, give)
    if not any(row.p99 is not None for row in rows):
        return None
    if room < len(rows):
        problem = (
            f"without its reserve and the slack, the budget has {max(0, room)} ms for {len(rows)} stages"
        )
        raise Untunable(problem, "raise budget.default, or lower budget.reserve or the slack")
    wants = [_want(row, margin) for row in rows]
    measured = [row.p99 is not None for row in rows]
    kept = sum(want for want, known in zip(wants, measured, strict=True) if not known)
    squeezed = room - kept < sum(measured)
    free = [known or squeezed for known in measured]
    spans = _divided(room - (0 if squeezed else kept), wants, free, given)
    shares = tuple(
        Proposed(
            row.stage,
            row.share,
            span * MILLISECOND,
            _basis(row, span, squeezed=squeezed),
            row.rate_over(row.share) if known else None,
            row.rate_over(span * MILLISECOND) if known else None,
        )
        for row, span, known in zip(rows, spans, measured, strict=True)
    )
    missing = max(0, sum(wants) - room)
    return Proposal(shares, slack_ms * MILLISECOND, total_ms * MILLISECOND, missing * MILLISECOND)


def in_ms(span: float) -> int:
    """Return a span in whole milliseconds, rounded up, and at least one."""
    return max(1, -int(-span // MILLISECOND))


def _want(row: Row, margin: float) -> int:
    """Return what a stage wants, in milliseconds."""
    if row.p99 is None:
        return max(1, row.share // MILLISECOND)
    if row.p99.high is not None:
        return in_ms(row.p99.high * (1 + margin))
    return in_ms(max(row.share, row.p99.low * (1 + margin)))


def _basis(row: Row, span: int, *, squeezed: bool) -> Basis:
    if row.p99 is not None:
        return Basis.AT_LEAST if row.p99.high is None else Basis.MEASURED
    if squeezed:
        return Basis.SQUEEZED
    return Basis.RAISED if span * MILLISECOND > row.share else Basis.KEPT


def _place(rows: Sequence[Row], give: str | None) -> int | None:
    """Return where the stage stands that gets what is over. Raises Untunable."""
    if give is None:
        return None
    stages = [row.stage for row in rows]
    if give not in stages:
        remedy = f"the stages of this policy are {', '.join(stages)}"
        raise Untunable(f"there is no stage {give!r} to give what is over to", remedy)
    return stages.index(give)


def _divided(room: int, wants: Sequence[int], free: Sequence[bool], give: int | None) -> list[int]:
    """Return the shares: those that are free take up the room, the others have what they want."""
    those = [at for at, is_free in enumerate(free) if is_free]
    mine = [wants[at] for at in those]
    over = room - sum(mine)
    found = list(wants)
    if over < 0:
        for at, part in zip(those, apportioned(room, mine), strict=True):
            found[at] = part
        return found
    if give is not None:
        found[give] += over
        return found
    for at, more in zip(those, _parts(over, mine), strict=True):
        found[at] += more
    return found


def apportioned(room: int, wants: Sequence[int]) -> list[int]:
    """Return parts of a room that is too small for all wants: in proportion, each at least 1, none more than it wants.

    There is room for 1 each, and all wants are at least 1.
    """
    more = _parts(room - len(wants), [want - 1 for want in wants])
    return [1 + each for each in more]


def _parts(whole: int, weights: Sequence[int]) -> list[int]:
    """Divide a whole in proportion to weights, exactly: what rounding leaves goes to the largest remainders."""
    together = sum(weights)
    if not together:
        weights, together = [1] * len(weights), len(weights)
    parts = [whole * weight // together for weight in weights]
    rest = whole - sum(parts)
    by_remainder = sorted(range(len(weights)), key=lambda at: (-(whole * weights[at] % together), at))
    for at in by_remainder[:rest]:
        parts[at] += 1
    return parts
