"""The timers that wake the sidecar for its deadlines: the kernel's, which is never early, in place of `proxy.net.timer`."""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.units import MICROSECOND
from trials.simulation.clock import Clock, Event
from trials.simulation.draws import Draws
from trials.simulation.loop import Loop

LATE = 100 * MICROSECOND
"""How much too late the kernel may wake who waits (nanoseconds)."""


class KernelTimer:
    """A descriptor that becomes readable at a time, and stays so until the timer is set anew."""

    def __init__(self, loop: Loop, clock: Clock, draws: Draws) -> None:
        """Make a timer that is not set."""
        self._loop = loop
        self._clock = clock
        self._draws = draws
        self._wake: Callable[[], None] | None = None
        self._event: Event | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Take what is to be called."""
        self._wake = wake

    def set(self, due: int) -> None:
        """Wake at this time, and not before."""
        self.clear()
        self._event = self._clock.at(due + int(LATE * self._draws.random()), self._expire)

    def clear(self) -> None:
        """Wake no more."""
        if self._event is not None:
            self._event.call_off()
            self._event = None

    def close(self) -> None:
        """Wake never again."""
        self.clear()
        self._wake = None

    def _expire(self) -> None:
        self._event = None
        if self._wake is not None and self._loop.alive:
            self._loop.event(self._ring)

    def _ring(self) -> None:
        if self._wake is not None and self._event is None:
            self._wake()
