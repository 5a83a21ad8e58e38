"""An alarm fires once, never early, whatever the loop's timers do."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import MILLISECOND
from proxy.net.alarm import NEVER, Alarm, Alarms
from tests.dataplane.world import Loop

TOO_EARLY = 1_300_000
"""What uvloop's timers have been seen to be early by (nanoseconds)."""


class Bell:
    """An alarm, and when it rang."""

    def __init__(self, *, early: int = TOO_EARLY) -> None:
        self.loop = Loop()
        self.loop.early = early
        self.rang: list[int] = []
        self.alarms = Alarms(cast(asyncio.AbstractEventLoop, self.loop), self.loop.clock)
        self.alarm = Alarm(self.alarms, self.rang.append)

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


class Bells:
    """Several alarms under one loop, and what they rang."""

    def __init__(self, count: int, *, early: int = TOO_EARLY) -> None:
        self.loop = Loop()
        self.loop.early = early
        self.told: list[str] = []
        self.alarms = Alarms(cast(asyncio.AbstractEventLoop, self.loop), self.loop.clock)
        self.each = [Alarm(self.alarms, partial(self._ring, number)) for number in range(count)]

    def _ring(self, number: int, now: int) -> None:
        self.told.append(f"rang {number}")
        self.alarms.afterwards(lambda: self.told.append(f"after {number}"))

    def set(self, number: int, ms: float) -> None:
        self.each[number].set(self.loop.now + round(ms * MILLISECOND))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.booleans()), max_size=40))
def test_many_ring_in_their_order_each_at_the_last_time_that_was_set_for_it(
    moves: list[tuple[int, int, bool]],
) -> None:
    """Set, moved and unset as often as you like, by one timer."""
    bells = Bells(6)
    last: dict[int, int] = {}
    for number, ms, unset in moves:
        bells.set(number, ms)
        last[number] = ms
        if unset:
            bells.each[number].clear()
            del last[number]
        assert bells.loop.armed <= 1
    seen: list[int] = []
    for ms in range(42):
        bells.told.clear()
        bells.loop.advance(1)
        rang = [int(word.split()[1]) for word in bells.told if word.startswith("rang")]
        assert all(last[number] <= ms + 1 for number in rang)
        seen += rang
    assert sorted(seen) == sorted(last)
    assert seen == sorted(seen, key=lambda number: last[number]) or len(set(last.values())) < len(last)
    assert bells.alarms.first == NEVER
    assert bells.loop.armed == 0


def test_all_that_are_due_ring_before_anything_that_was_left_for_afterwards() -> None:
    """So that many answers that are due at once leave one after the other, with no bookkeeping in between."""
    bells = Bells(3, early=0)
    for number in range(3):
        bells.set(number, 5)
    bells.loop.advance(6)
    assert bells.told == ["rang 0", "rang 1", "rang 2", "after 0", "after 1", "after 2"]


def test_what_falls_due_during_the_rest_comes_before_what_remains_of_it() -> None:
    """Bookkeeping of many takes its time, and a deadline that comes meanwhile does not wait for all of it."""
    bells = Bells(3, early=0)
    bells.set(0, 5)
    bells.set(1, 5)
    bells.set(2, 7)
    slow = bells.told.append

    def work(word: str) -> None:
        slow(word)
        bells.loop.now += 2 * MILLISECOND

    bells.each[0].fire = lambda _: bells.alarms.afterwards(lambda: work("slow work"))
    bells.loop.advance(5)
    assert bells.told[:4] == ["rang 1", "slow work", "rang 2", "after 1"]


def test_outside_of_a_ringing_there_is_nothing_to_wait_for() -> None:
    """Whoever ends in another way does all of it at once."""
    bells = Bells(0)
    bells.alarms.afterwards(lambda: bells.told.append("done"))
    assert bells.told == ["done"]


def test_the_fault_of_one_is_raised_from_the_loop_and_holds_up_nobody() -> None:
    """As it was when each had a timer of its own."""
    bells = Bells(3, early=0)

    def fail(_: int) -> None:
        raise RuntimeError("of one")

    def fail_later() -> None:
        raise RuntimeError("of what it left for afterwards")

    bells.each[1].fire = fail
    bells.each[0].fire = lambda _: bells.alarms.afterwards(fail_later)
    for number in range(3):
        bells.set(number, 5)
    for what in ("of one", "of what it left"):
        with pytest.raises(RuntimeError, match=what):
            bells.loop.advance(6)
    assert bells.told == ["rang 2", "after 2"]
    bells.set(2, 5)
    bells.loop.advance(6)
    assert bells.told[2:] == ["rang 2", "after 2"]


def test_places_that_were_left_do_not_pile_up() -> None:
    """A deadline that is moved forward leaves its place behind; so does a connection that ends long before its own."""
    bells = Bells(1)
    keep = Alarm(bells.alarms, bells.told.count)  # type: ignore[arg-type]
    keep.set(bells.loop.now + 10_000 * MILLISECOND)
    for ms in range(9_000, 1_000, -1):
        bells.set(0, ms)
        gone = Alarm(bells.alarms, bells.told.count)  # type: ignore[arg-type]
        gone.set(bells.loop.now + 20_000 * MILLISECOND)
        gone.close()
    assert len(bells.alarms._heap) < 200
    assert bells.loop.armed == 1


def test_one_that_sets_itself_to_what_has_passed_is_no_endless_loop() -> None:
    """It rings again from the loop, whose other work comes in between."""
    bells = Bells(1, early=0)
    rang: list[int] = []

    def again(now: int) -> None:
        rang.append(now)
        if len(rang) < 50:
            bells.each[0].set(now - 1)
            bells.loop.call_soon(bells.told.append, "other work")

    bells.each[0].fire = again
    bells.set(0, 1)
    bells.loop.advance(2)
    assert len(rang) == 50
    assert bells.told == ["other work"] * 49
