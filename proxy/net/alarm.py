"""Deadlines: each owner has one, which is moved often, fired rarely, and never early.

All that are set under one loop stand in a heap, and one timer wakes for the first of them. A wake is a hint: the clock
is looked at again. A deadline that moves back only changes a number: its place in the heap finds out when it comes up.

Deadlines come before new work. Many may fall due at one moment, and the loop may be busy with what has arrived, so whoever
takes in new work rings what is due before it (`first`, `ring`). And what can wait until each of them has had its say, the record
and the log, is left for afterwards (`afterwards`): nothing that arrives is served in between.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from proxy.net.timer import LoopTimer, Timer

NEVER: Final = 1 << 61
"""When the first is due if there is none."""
_FEW: Final = 64
"""As many left places do not make it worth clearing them away."""


class _Place:
    """A place in the heap; it has been left when it has no alarm any more."""

    __slots__ = ("alarm",)

    def __init__(self, alarm: Alarm) -> None:
        self.alarm: Alarm | None = alarm


class Alarms:
    """The alarms of one loop. Times are nanoseconds. Before `first` none is due; a wake then may find none, all the same."""

    __slots__ = (
        "_after",
        "_clock",
        "_firing",
        "_heap",
        "_left",
        "_loop",
        "_places",
        "_ringing",
        "_timer",
        "first",
    )

    def __init__(self, loop: AbstractEventLoop, clock: Callable[[], int], timer: Timer | None = None) -> None:
        """Begin with none. `timer`: what wakes the loop; without one, its own timers do."""
        self.first = NEVER
        self._loop = loop
        self._clock = clock
        self._heap: list[tuple[int, int, _Place]] = []
        self._places = 0
        self._left = 0
        self._ringing = False
        self._firing = False
        self._after: deque[Callable[[], None]] = deque()
        self._timer: Timer = timer if timer is not None else LoopTimer(loop, clock)
        self._timer.start(self.ring)

    def ring(self) -> None:
        """Fire all that are due by now, and only then do what was left for afterwards. From within itself: nothing."""
        if self._ringing:
            return
        self._ringing = True
        self._fire_due()
        while self._after:
            self._finish(self._after.popleft())
            self._fire_due()
        self._ringing = False
        self._set_timer()

    def look(self) -> None:
        """Ring if anything is due, for whoever is about to do what takes its time, many times in one turn of the loop."""
        if self._clock() >= self.first:
            self.ring()

    def afterwards(self, do: Callable[[], None]) -> None:
        """Do something when all alarms that are due have fired; at once, if none fires just now."""
        if self._firing:
            self._after.append(do)
        else:
            do()

    def close(self) -> None:
        """Let go of the timer: nothing rings any more."""
        self._heap.clear()
        self.first = NEVER
        self._timer.close()

    # -- for an alarm ----------------------------------------------------------------------------------------------

    def arm(self, alarm: Alarm, due: int) -> _Place:
        """Give an alarm a place."""
        place = _Place(alarm)
        self._places += 1
        heappush(self._heap, (due, self._places, place))
        if due < self.first:
            self.first = due
            if not self._ringing:
                self._timer.set(due)
        return place

    def leave(self, place: _Place) -> None:
        """Take note that a place is not needed any more."""
        place.alarm = None
        self._left += 1
        if self._left > _FEW and self._left * 2 > len(self._heap):
            self._heap = [each for each in self._heap if each[2].alarm is not None]
            heapify(self._heap)
            self._left = 0
        elif self._left == len(self._heap):
            self._heap.clear()
            self._left = 0
        if not self._heap and not self._ringing:
            self._set_timer()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _fire_due(self) -> None:
        self._firing = True
        for _ in range(len(self._heap)):  # so that one which is set to what has passed is not fired for ever
            now = self._clock()
            if not self._heap or self._heap[0][0] > now:
                break
            alarm = heappop(self._heap)[2].alarm
            if alarm is None:
                self._left -= 1
            elif alarm.comes_up(now):
                try:
                    alarm.fire(now)
                except Exception as fault:  # noqa: BLE001 - it is not the others' fault: raised from the loop, by itself
                    self._loop.call_soon(_raise, fault)
        self._firing = False

    def _finish(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as fault:  # noqa: BLE001 - as above
            self._loop.call_soon(_raise, fault)

    def _set_timer(self) -> None:
        while self._heap and self._heap[0][2].alarm is None:
            heappop(self._heap)
            self._left -= 1
        if self._heap:
            self.first = self._heap[0][0]
            self._timer.set(self.first)
        else:
            self.first = NEVER
            self._timer.clear()


class Alarm:
    """Calls `fire(now)` once the clock of its `alarms` has reached the due time. Times are nanoseconds."""

    __slots__ = ("_alarms", "_armed", "_due", "_place", "fire")

    def __init__(self, alarms: Alarms, fire: Callable[[int], None]) -> None:
        """Make an alarm that is not set."""
        self.fire = fire
        self._alarms = alarms
        self._due: int | None = None
        self._armed = 0
        self._place: _Place | None = None

    def set(self, due: int) -> None:
        """Set, or move, the due time. A time that has passed fires from the loop, never from inside this call."""
        self._due = due
        if self._place is None:
            self._arm(due)
        elif due < self._armed:
            self._alarms.leave(self._place)
            self._arm(due)

    def clear(self) -> None:
        """Unset the alarm; its place is left to find out."""
        self._due = None

    def close(self) -> None:
        """Unset the alarm and leave its place, so that nothing keeps its owner alive."""
        self._due = None
        if self._place is not None:
            self._alarms.leave(self._place)
            self._place = None

    def comes_up(self, now: int) -> bool:
        """Leave its place, which has come up; return whether it is time. If it is not, because it was moved, take another."""
        self._place = None
        due = self._due
        if due is None:
            return False
        if due > now:
            self._arm(due)
            return False
        self._due = None
        return True

    def _arm(self, due: int) -> None:
        self._armed = due
        self._place = self._alarms.arm(self, due)


def _raise(fault: Exception) -> None:
    raise fault
