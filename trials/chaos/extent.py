"""How much a run does, what happens in its acts, and what it has come to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trials.chaos.evidence import Look


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is done. `events`: for each act, what happens in it, in this order. `within`: the most it may take (seconds)."""

    calls: int
    clients: int
    lanes: int
    events: tuple[tuple[str, ...], ...]
    within: float


EVENTS: Final = ("kill", "stop", "reload", "faulty", "full_refuse", "full_continue", "full_kill")
SHORT: Final = Extent(
    1_300, 2, 40, (("reload", "kill", "full_refuse"), ("kill", "faulty", "full_continue", "stop")), within=90
)


def long(seed: int, acts: int = 24) -> Extent:
    """Return the long form: in every act some of all that can happen, each equally often, in an order drawn from the seed."""
    chance = random.Random(f"{seed} events")
    drawn: list[str] = []
    while len(drawn) < acts * 3:
        drawn += chance.sample(EVENTS, len(EVENTS))
    return Extent(
        4_400, 3, 50, tuple(tuple(drawn[act * 3 : act * 3 + 3]) for act in range(acts)), within=1800
    )


@dataclass
class Outcome:
    """What a run has come to. `calls` of all acts are kept as counts alone."""

    looks: list[Look] = field(default_factory=list)
    by_way: dict[str, dict[str, int]] = field(default_factory=dict)
    calls: int = 0
    events: dict[str, int] = field(default_factory=dict)
    incarnations: int = 0
    verified: int = 0
    joined: int = 0
    disk: str = ""
    seconds: float = 0.0

    def take(self, looks: Sequence[Look]) -> None:
        """Add what the checks have found in an act."""
        if not self.looks:
            self.looks = [Look(look.check) for look in looks]
        for known, look in zip(self.looks, looks, strict=True):
            known.exercised += look.exercised
            known.findings += look.findings

    @property
    def violations(self) -> int:
        """How much did not hold."""
        return sum(len(look.findings) for look in self.looks)

    @property
    def idle(self) -> list[str]:
        """Which checks never had anything to look at: then the run has not shown what it is for."""
        return [look.check for look in self.looks if not look.exercised]
