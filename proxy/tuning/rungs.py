"""How long the rungs of ladders take, from the records of the steps that they answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proxy.core.attempts import asks_again
from proxy.core.calls import Outcome
from proxy.core.degrading import Rung, Why
from proxy.core.policy import Policy
from proxy.tuning.distribution import Distribution
from proxy.tuning.measured import RungName, ladders, routes_of
from proxy.tuning.seen import Seen
from proxy.tuning.sketched import Sketched
from proxy.tuning.words import many

_ENDED_EARLY: Final = frozenset({Outcome.DEADLINE_EXCEEDED, Outcome.CLIENT_GONE})


class RungTimes:
    """Takes steps. A step counts for the rung that answered it, if it was asked first: of several, a record has only the sum."""

    def __init__(self, policy: Policy) -> None:
        """Know the ladders."""
        self._times: dict[RungName, Sketched] = {
            (route.name, rung.name): Sketched() for route, rung in ladders(policy)
        }
        self._ladders = {route.name: route.ladder for route in routes_of(policy) if route.ladder}
        self._given_up = 0

    def add(self, step: Seen) -> None:
        """Take a step: from its turn to its end, without its wait for that."""
        if step.rung is None:
            return
        if step.why == Why.SLOW:
            self._give_up(step)
        times = self._times.get((step.route, step.rung))
        if times is None or step.tries != 1:
            return
        took, early = max(0, step.elapsed - step.queued), step.outcome in _ENDED_EARLY
        if early or (step.outcome == Outcome.COMPLETED and not asks_again(step.status)):
            times.add(took, cut=early)

    def measured(self) -> Mapping[RungName, Distribution]:
        """Return what was measured."""
        return self._times

    def notes(self) -> list[str]:
        """Say what is only half known."""
        if not self._given_up:
            return []
        tries = many(self._given_up, "try of a better rung was", "tries of better rungs were")
        how_long = "a step's record does not say after how long, so what the rung needs by its policy counts"
        return [f"{tries} given up; {how_long}."]

    def _give_up(self, step: Seen) -> None:
        """Count a try that was given up for the nearest rung above the one that answered: it got what it needs, in vain."""
        ladder = self._ladders.get(step.route, ())
        above: tuple[Rung, ...] = ladder[: step.level]
        for rung in reversed(above):
            if not rung.local:
                self._times[step.route, rung.name].add(rung.needs or 0, cut=True)
                self._given_up += 1
                return
