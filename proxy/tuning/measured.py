"""What was measured, whoever told of it: the needs of each stage and of each rung, and what is to be said about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from proxy.core.degrading import Rung
from proxy.core.policy import SLACK, BudgetDefaults, Policy, Route, Share
from proxy.tuning.distribution import Distribution

RungName = tuple[str, str]
"""A route, and a rung of its ladder."""


@dataclass(frozen=True, slots=True)
class Use:
    """What jobs needed of one stage, reckoned for a budget of the default length. Only jobs that came to it count.

    `cut`: in how many of them a step of it was cut or turned away because its share was used up, or would have been.
    `short`: in how many it was answered with less for want of time (part of the censored ones).
    """

    needs: Distribution
    cut: int
    short: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured. `notes`: sentences on what the figures leave out."""

    stages: Mapping[str, Use] = field(default_factory=dict)
    rungs: Mapping[RungName, Distribution] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def claimed(budget: BudgetDefaults) -> list[Share]:
    """Return the shares that calls may claim, in the order of the policy."""
    return [share for share in budget.stages if share.stage != SLACK]


def routes_of(policy: Policy) -> Iterator[Route]:
    """Yield all routes, the fallback last."""
    yield from policy.routes
    yield policy.fallback


def ladders(policy: Policy) -> Iterator[tuple[Route, Rung]]:
    """Yield the rungs that ask an upstream, those of each route from the top."""
    for route in routes_of(policy):
        for rung in route.ladder:
            if not rung.local:
                yield route, rung
