"""One deadline of one owner: moved often, fired rarely, never early.

uvloop's timers count whole milliseconds from a cached time, and can wake up to 1.3 ms before they were asked to. So a
wake is a hint: the alarm looks at the clock again, and sleeps on when it is not time yet. That also makes it cheap:
a deadline that moves back only changes a number, and the timer that is armed already finds out when it wakes.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

from proxy.core.units import MILLISECOND


class Alarm:
    """Calls `fire(now)` once `clock()` has reached the due time. Times are nanoseconds."""

    __slots__ = ("_armed", "_clock", "_due", "_fire", "_handle", "_loop")

    def __init__(
        self, loop: AbstractEventLoop, clock: Callable[[], int], fire: Callable[[int], None]
    ) -> None:
        """Make an alarm that is not set."""
        self._loop = loop
        self._clock = clock
        self._fire = fire
        self._due: int | None = None
        self._armed = 0
        self._handle: TimerHandle | None = None

    def set(self, due: int) -> None:
        """Set, or move, the due time. A time that has passed fires from the loop, never from inside this call."""
        self._due = due
        if self._handle is None or due < self._armed:
            self._arm(due)

    def clear(self) -> None:
        """Unset the alarm; the armed timer is left to find out."""
        self._due = None

    def close(self) -> None:
        """Unset the alarm and let go of the timer, so that nothing keeps its owner alive."""
        self._due = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, due: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        wait = due - self._clock()
        self._armed = due
        # Rounded up: a timer of no whole millisecond would spin.
        self._handle = self._loop.call_later(-(-wait // MILLISECOND) / 1000 if wait > 0 else 0, self._wake)

    def _wake(self) -> None:
        self._handle = None
        due = self._due
        if due is None:
            return
        now = self._clock()
        if now >= due:
            self._due = None
            self._fire(now)
        else:
            self._arm(due)
