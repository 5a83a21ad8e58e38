"""What the rungs of ladders need, by what they took: the 95th percentile and the margin. Spans are nanoseconds.

A rung is taken when what it needs still fits, so the needs of a ladder fall from the top, or stay, and none exceeds what a step
ever has. What would break that is not proposed, and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from proxy.core.degrading import Rung
from proxy.core.policy import BudgetDefaults, OnMissing, Policy, Route
from proxy.core.units import MILLISECOND
from proxy.tuning.distribution import Between
from proxy.tuning.measured import Measured, claimed, routes_of
from proxy.tuning.proposal import in_ms


class Finding(StrEnum):
    """What is to be said of a rung's need.

    `at least`: it is known only to be more than what was measured. `auto`: the sidecar measures it itself. The last one of a
    ladder that needs nothing is tried with whatever is left.
    """

    MEASURED = "measured"
    AT_LEAST = "at least"
    AUTO = "auto: left alone"
    LAST = "the last one: left alone"
    NO_LESS = "no quicker than those above"
    NEVER = "more than its steps ever have"
    TOO_FEW = "too few samples"


@dataclass(frozen=True, slots=True)
class Need:
    """One rung: what it needs by its policy (None: auto), and what it should (None: as it is)."""

    route: str
    rung: str
    needs: int | None
    samples: int
    p50: Between | None
    p95: Between | None
    proposed: int | None
    finding: Finding


def needs(measured: Measured, policy: Policy, *, margin: float, least: int) -> list[Need]:
    """Return a row for each rung that asks an upstream. `margin`: a part of what is needed; `least`: enough samples."""
    found = []
    for route in routes_of(policy):
        rows = [_looked_at(route, rung, measured, margin, least) for rung in route.ladder]
        _settle(rows, route.ladder, _most(route, policy.budget))
        found += [
            Need(route.name, rung.name, rung.needs, row.samples, row.p50, row.p95, row.want, row.finding)
            for rung, row in zip(route.ladder, rows, strict=True)
            if not rung.local
        ]
    return found


@dataclass(slots=True)
class _Row:
    """A rung while its ladder is looked at. `want`: what would be proposed."""

    samples: int = 0
    p50: Between | None = None
    p95: Between | None = None
    want: int | None = None
    finding: Finding = Finding.TOO_FEW


def _looked_at(route: Route, rung: Rung, measured: Measured, margin: float, least: int) -> _Row:
    """Return what was measured of a rung, and what it would need by that alone."""
    times = None if rung.local else measured.rungs.get((route.name, rung.name))
    row = _Row(times.total if times is not None else 0)
    if times is not None and row.samples >= max(1, least):
        row.p50, row.p95 = times.quantile(0.5), times.quantile(0.95)
    if rung.needs is None:
        row.finding = Finding.AUTO
    elif rung is route.ladder[-1] and not rung.needs:
        row.finding = Finding.LAST
    elif row.p95 is not None and row.p95.high is not None:
        row.finding, span = Finding.MEASURED, row.p95.high * (1 + margin)
        row.want = in_ms(span) * MILLISECOND
    elif row.p95 is not None:
        row.finding, span = Finding.AT_LEAST, max(rung.needs, row.p95.low * (1 + margin))
        row.want = in_ms(span) * MILLISECOND
    return row


def _settle(rows: Sequence[_Row], ladder: Sequence[Rung], most: int | None) -> None:
    """Take back what would break the order of a ladder, until nothing does."""
    while any(_taken_back(at, rows, ladder, most) for at in range(len(rows))):
        pass


def _taken_back(at: int, rows: Sequence[_Row], ladder: Sequence[Rung], most: int | None) -> bool:
    """Raise a proposal to what the rungs below it keep; take it back where it cannot be had. Return whether it was."""
    row = rows[at]
    if row.want is None:
        return False
    below = zip(ladder[at + 1 :], rows[at + 1 :], strict=True)
    kept = [rung.needs or 0 for rung, other in below if other.want is None]
    row.want = max(row.want, *kept, 0)
    above = [_room_below(rung, other) for rung, other in zip(ladder[:at], rows[:at], strict=True)]
    if most is not None and row.want > most:
        row.want, row.finding = None, Finding.NEVER
    elif any(limit is not None and row.want > limit for limit in above):
        row.want, row.finding = None, Finding.NO_LESS
    return row.want is None


def _room_below(rung: Rung, row: _Row) -> int | None:
    """Return what a rung below this one may need at most; None: anything."""
    if rung.answer is not None and rung.needs:
        return rung.needs - MILLISECOND  # with as much, that answer could always be given
    if rung.local:
        return None
    return row.want or rung.needs or None


def _most(route: Route, budget: BudgetDefaults) -> int | None:
    """Return the most that a step of a route ever has; None: any time."""
    limits = [] if route.cap is None else [route.cap]
    if budget.on_missing is not OnMissing.PASS:
        limits.append(budget.max)
        share = next((share.span for share in claimed(budget) if share.stage == route.stage), None)
        if share is not None and not budget.carry:
            limits.append(share * budget.max // max(1, budget.default))
    return min(limits, default=None)
