"""Simulated time: a queue of what is to happen when. Nothing waits; time jumps from one event to the next."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, Final

from trials.simulation.draws import Draws

STARTS_AT: Final = 1_000_000_000_000
"""What the simulated monotonic clock shows at the beginning (nanoseconds): a machine that has been up for a while."""


class Event:
    """Something that is to happen, unless it is called off."""

    __slots__ = ("args", "fn")

    def __init__(self, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Wait."""
        self.fn: Callable[..., object] | None = fn
        self.args = args

    def call_off(self) -> None:
        """Let it not happen."""
        self.fn = None
        self.args = ()


class Clock:
    """The time of one run, and all that waits for its time. What falls on one moment happens in an order that is drawn."""

    def __init__(self, draws: Draws) -> None:
        """Begin at STARTS_AT."""
        self.now = STARTS_AT
        self._tie = draws.random
        self._order = itertools.count()
        self._events: list[tuple[int, float, int, Event]] = []
        self.happened = 0

    def at(self, when: int, fn: Callable[..., object], *args: Any) -> Event:
        """Have something happen at a time, or at once if that has passed."""
        event = Event(fn, args)
        heapq.heappush(self._events, (max(when, self.now), self._tie(), next(self._order), event))
        return event

    def after(self, span: int, fn: Callable[..., object], *args: Any) -> Event:
        """Have something happen after a while (nanoseconds)."""
        return self.at(self.now + span, fn, *args)

    def run(self, until: int) -> None:
        """Let all happen that is due by then, and stop there."""
        events = self._events
        while events and events[0][0] <= until:
            when, _, _, event = heapq.heappop(events)
            fn = event.fn
            if fn is not None:
                self.now = when
                self.happened += 1
                fn(*event.args)
        self.now = max(self.now, until)
