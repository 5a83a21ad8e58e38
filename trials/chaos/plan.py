"""What the clients do, drawn from one seed: jobs, their calls, and what is sent again after it went wrong.

A seed draws the same jobs in the same order, whatever becomes of them; what a client does after a call that failed is drawn
beforehand too. When things happen is up to the machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from trials.chaos.facts import Ask, Told
from trials.chaos.words import FINGERPRINT_BYTES, ROUTES, WAYS, Place, Route, Way

LEAVES: Final = ("head", "body", "sent", "waiting", "waiting", "answer")
"""Where a client may leave: in the request's head, in its body, when it has sent all, while it waits, at the answer's
first bytes.
"""
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE")
_OF_METHODS: Final = (26, 4, 52, 12, 6)
MOST_SENDINGS: Final = 3
"""How often a client sends one unit of work."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A unit of work and all the calls that may be made of it, one after the other, until one is answered.

    `twins`: the first two are the same call, made at once.
    """

    calls: tuple[Ask, ...]
    twins: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Errands that share a budget, or one that has its own. `abreast`: how many of them run at once."""

    errands: tuple[Errand, ...]
    abreast: int


def jobs(seed: int, act: int, client: int, lane: int) -> Iterator[Job]:
    """Draw the jobs of one lane of one client in one act, without end."""
    chance = random.Random(f"{seed} {act} {client} {lane}")
    number = 0
    while True:
        number += 1
        name = f"{act}-{client}-{lane}-{number}"
        if chance.random() < 0.6:
            yield Job((_errand(chance, f"{name}.1", None, _single_ms(chance)),), 1)
            continue
        budget, total = f"job-{name}", chance.randrange(500, 4000)
        errands = [
            _errand(chance, f"{name}.{each}", budget, total) for each in range(1, chance.randrange(3, 7))
        ]
        yield Job(tuple(errands), chance.choice((1, 1, 2, 3)))


def goes_on(told: Told) -> bool:
    """Say whether a client sends the work again, as an SDK does after an error: unless it has an answer."""
    return not (told.heard.completed and told.heard.status < 500)


def _single_ms(chance: random.Random) -> int | None:
    """Draw the budget that a single call states: none, enough, hardly any, or nothing."""
    kind = chance.random()
    if kind < 0.15:
        return None
    if kind < 0.19:
        return chance.choice((0, 1, 3, 10, 40))
    return chance.randrange(150, 2500)


def _errand(chance: random.Random, unit: str, budget: str | None, stated: int | None) -> Errand:
    route = _weighted(chance, ROUTES)
    method = chance.choices(_METHODS, _OF_METHODS)[0]
    if route.stream:
        method = "GET"
    # A question about a write goes to where the write went: to a port that answers none, it would be asked for ever.
    way = _way(chance, route, Place.MAIN if "verify" in route.settings else None)
    has_body = method in ("POST", "PUT")
    first = Ask(
        id=f"{unit}.1",
        unit=unit,
        number=1,
        route=route.name,
        method=method,
        place=way.place,
        ways=_ways(chance, route, way),
        key=f"key-{unit}" if has_body and chance.random() < 0.5 else None,
        size=_size(chance) if has_body else 0,
        chunked=has_body and chance.random() < 0.3,
        budget=budget,
        stated_ms=stated,
    )
    if first.key is not None and chance.random() < 0.15:
        twin = replace(first, id=f"{unit}.2", number=2)
        return Errand((_leaving(chance, first), _leaving(chance, twin)), twins=True)
    calls = [_leaving(chance, first)]
    while len(calls) < MOST_SENDINGS and chance.random() < 0.6:
        calls.append(_leaving(chance, _again(chance, route, first, len(calls) + 1)))
    return Errand(tuple(calls))


def _again(chance: random.Random, route: Route, first: Ask, number: int) -> Ask:
    """Draw another sending of a unit: under the same key, under a new one, or with the word that the first did not happen."""
    key = first.key
    if key is not None and chance.random() < 0.3:
        key = f"{key}-{number}"
    ways = first.ways
    if first.place == Place.MAIN:
        ways = _ways(chance, route, _way(chance, route, Place.MAIN))
    confirmed = chance.random() < 0.1
    return replace(first, id=f"{first.unit}.{number}", number=number, key=key, ways=ways, confirmed=confirmed)


def _leaving(chance: random.Random, ask: Ask) -> Ask:
    if chance.random() < 0.86:
        return ask
    leave = chance.choice(LEAVES)
    if leave == "body" and not ask.size:
        leave = "sent"
    return replace(ask, leave=leave, rudely=chance.random() < 0.4)


def _ways(chance: random.Random, route: Route, first: Way) -> tuple[str, ...]:
    """Draw how the upstream behaves at the first arrival of a call, and at those that the sidecar makes by itself."""
    if first.place is not Place.MAIN:
        return (first.name,)
    further = (_way(chance, route, Place.MAIN) for _ in range(chance.choice((0, 1, 2))))
    return (first.name, *(way.name for way in further))


def _way(chance: random.Random, route: Route, place: Place | None = None) -> Way:
    fit = [way for way in WAYS if (route.stream or not way.stream) and (place is None or way.place is place)]
    return chance.choices(fit, [way.weight * (4 if way.stream else 1) for way in fit])[0]


def _weighted(chance: random.Random, routes: tuple[Route, ...]) -> Route:
    return chance.choices(routes, [route.weight for route in routes])[0]


def _size(chance: random.Random) -> int:
    kind = chance.random()
    if kind < 0.6:
        return chance.randrange(1, 500)
    if kind < 0.85:
        return chance.randrange(500, FINGERPRINT_BYTES)
    return chance.randrange(FINGERPRINT_BYTES + 1, 120_000)
