"""An alarm fires once, never early, whatever the loop's timers do."""

from __future__ import annotations

import asyncio
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import MILLISECOND
from proxy.net.alarm import Alarm
from tests.dataplane.world import Loop

TOO_EARLY = 1_300_000
"""What uvloop's timers have been seen to be early by (nanoseconds)."""


class Bell:
    """An alarm, and when it rang."""

    def __init__(self, *, early: int = TOO_EARLY) -> None:
        self.loop = Loop()
        self.loop.early = early
        self.rang: list[int] = []
        self.alarm = Alarm(cast(asyncio.AbstractEventLoop, self.loop), self.loop.clock, self.rang.append)

    def due(self, ms: float) -> int:
        """A time from now."""
        return self.loop.now + round(ms * MILLISECOND)


@given(st.integers(1, 50 * MILLISECOND), st.integers(0, TOO_EARLY))
def test_it_never_fires_early(span: int, early: int) -> None:
    """A wake is a hint: it looks at the clock again, and sleeps on when it is not time yet."""
    bell = Bell(early=early)
    due = bell.loop.now + span
    bell.alarm.set(due)
    bell.loop.advance(60)
    (rang,) = bell.rang
    assert due <= rang <= due + 2 * MILLISECOND
    assert bell.loop.armed == 0


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_it_fires_once_at_the_last_time_that_was_set(times: list[int]) -> None:
    """Moved forward or back, it is the last word that counts."""
    bell = Bell()
    for ms in times:
        bell.alarm.set(bell.due(ms))
    due = bell.due(times[-1])
    bell.loop.advance(100)
    (rang,) = bell.rang
    assert rang >= due
    assert rang <= due + 2 * MILLISECOND


def test_moving_it_back_takes_no_new_timer() -> None:
    """The timer that is armed already finds out when it wakes."""
    bell = Bell(early=0)
    bell.alarm.set(bell.due(10))
    for ms in range(11, 100):
        bell.alarm.set(bell.due(ms))
    assert bell.loop.armed == 1
    bell.loop.advance(98.9)
    assert bell.rang == []
    bell.loop.advance(2)
    assert len(bell.rang) == 1


def test_it_can_be_unset_and_closed() -> None:
    """Unset it does not ring; closed it holds nothing."""
    bell = Bell()
    bell.alarm.set(bell.due(5))
    bell.alarm.clear()
    bell.loop.advance(10)
    assert bell.rang == []
    bell.alarm.set(bell.due(5))
    bell.alarm.close()
    assert bell.loop.armed == 0
    bell.loop.advance(10)
    assert bell.rang == []


def test_a_time_that_has_passed_rings_from_the_loop() -> None:
    """Never from inside `set`, whose caller may be in the middle of something."""
    bell = Bell()
    bell.alarm.set(bell.loop.now - 5)
    assert bell.rang == []
    bell.loop.settle()
    assert len(bell.rang) == 1
