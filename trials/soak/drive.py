"""Driving a sidecar: as hard as it goes for a moment, to see what it can do, then at a steady rate, whatever becomes of each call."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from trials.soak.caller import Broken
from trials.soak.kinds import FULL_LOAD, SHARES, Kind, Mix

CALLERS: Final = 32
"""How many call at once under full load."""
MOST_AT_ONCE: Final = 2_000
"""How many calls may be under way at the steady rate; further ones are left out, and counted."""
_TICK: Final = 0.01
_DRAIN: Final = 20.0


@dataclass
class Counts:
    """`begun` and `wrong`: calls by kind, and what was wrong with how many. `left_out`: not made, since too many were under way."""

    begun: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    left_out: int = 0

    @property
    def total(self) -> int:
        return sum(self.begun.values())


async def full(mix: Mix, counts: Counts, seconds: float) -> float:
    """Call as fast as it goes; return calls a second."""
    kinds = [(name, SHARES[name][1]) for name in FULL_LOAD]
    began, before = time.monotonic(), counts.total

    async def one(offset: int) -> None:
        number = offset
        while time.monotonic() - began < seconds:
            name, kind = kinds[number % len(kinds)]
            await _make(mix, counts, name, kind)
            number += 1

    async with asyncio.TaskGroup() as tasks:
        for offset in range(CALLERS):
            tasks.create_task(one(offset))
    return (counts.total - before) / (time.monotonic() - began)


def drawn(seed: int) -> Iterable[str]:
    """The names of kinds without end, as often as their shares say."""
    chance = random.Random(seed)
    names, shares = list(SHARES), [share for share, _ in SHARES.values()]
    while True:
        yield from chance.choices(names, shares, k=1_000)


async def steady(mix: Mix, counts: Counts, rate: float, over: Callable[[], bool], seed: int) -> None:
    """Begin `rate` calls a second until it is over, then wait for those under way. A tick that comes late is made up for."""
    names = iter(drawn(seed))
    under_way: set[asyncio.Task[None]] = set()
    began, begun = time.monotonic(), 0
    loop = asyncio.get_running_loop()
    while not over():
        due = int((time.monotonic() - began) * rate)
        for _ in range(min(due - begun, int(rate))):
            name = next(names)
            if len(under_way) >= MOST_AT_ONCE:
                counts.left_out += 1
                continue
            task = loop.create_task(_make(mix, counts, name, SHARES[name][1]))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        begun = due
        await asyncio.sleep(_TICK)
    if under_way:
        _, late = await asyncio.wait(under_way, timeout=_DRAIN)
        for task in late:
            task.cancel()
            counts.wrong[f"a call did not end within {_DRAIN:.0f} s of the others"] += 1


async def _make(mix: Mix, counts: Counts, name: str, kind: Kind) -> None:
    counts.begun[name] += 1
    try:
        wrong = await kind(mix)
    except Broken as fault:
        wrong = str(fault)
    if wrong:
        counts.wrong[f"{name}: {wrong}"] += 1
