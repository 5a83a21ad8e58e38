"""Whether a series has levelled off: what is noise, what is one step, and what grows."""

from __future__ import annotations

import random

import pytest

from trials.soak.level import HOUR, Bound, Point, judge, slope

BOUND = Bound(per_hour=4.0, rise=1.0, share=0.02)


def over(seconds: int, value: object, *, every: float = 1.0) -> list[Point]:
    """A series that has `value(t)` at t."""
    count = int(seconds / every)
    return [(number * every, float(value(number * every))) for number in range(count)]  # type: ignore[operator]


def noise(seed: int, size: float) -> random.Random:
    return random.Random(f"{seed} {size}")


def test_slopes_are_the_median_of_all_pairs() -> None:
    """One point that is far off changes nothing."""
    straight = over(60, lambda at: 5 + 2 * at)
    assert slope(straight) == pytest.approx(2)
    straight[30] = (30.0, 1e9)
    assert slope(straight) == pytest.approx(2, rel=0.05)
    assert slope([(1.0, 5.0)]) == slope([]) == slope([(1.0, 5.0), (1.0, 9.0)]) == 0


@pytest.mark.parametrize("seed", range(5))
def test_noise_about_a_level_does_not_grow(seed: int) -> None:
    chance = noise(seed, 3.0)
    points = over(3600, lambda at: 60 + chance.gauss(0, 3))
    assert not judge("memory", points, BOUND).grows


def test_what_fills_up_and_then_stays_does_not_grow() -> None:
    """A store with a bound, full in the first eighth."""
    found = judge("cache", over(3600, lambda at: min(at, 450) / 10), BOUND)
    assert not found.grows
    assert found.level == 45.0
    assert found.rise == 0.0


def test_a_sawtooth_does_not_grow() -> None:
    """A journal that is emptied every minute, and an upstream's idle connections."""
    assert not judge("journal", over(1800, lambda at: 10 + (at % 60) / 6), BOUND).grows


def test_what_falls_does_not_grow() -> None:
    assert not judge("memory", over(1800, lambda at: 90 - at / 100), BOUND).grows


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_grows(seed: int) -> None:
    """8 MiB an hour, in noise of as much as a quarter of an hour's worth."""
    chance = noise(seed, 1.0)
    found = judge("memory", over(3600, lambda at: 60 + 8 * at / HOUR + chance.gauss(0, 1)), BOUND)
    assert found.grows
    assert found.per_hour == pytest.approx(8, rel=0.3)
    assert found.rise == pytest.approx(2, rel=0.3)


def test_a_leak_that_begins_late_grows() -> None:
    """Nothing for half of the time, then a descriptor every 20 seconds."""
    assert judge("descriptors", over(3600, lambda at: 40 + max(0, at - 1800) // 20), BOUND).grows


def test_a_leak_in_steps_grows() -> None:
    """As an allocator shows it: nothing for minutes, then a mebibyte at once."""
    assert judge("memory", over(3600, lambda at: 60 + 2 * (at // 400)), BOUND).grows


def test_a_slope_alone_is_not_enough() -> None:
    """In a short run the slope of noise is steep: 12 MiB an hour is 0.05 in a quarter of a minute."""
    found = judge("memory", over(60, lambda at: 60 + 12 * at / HOUR), BOUND)
    assert found.per_hour > BOUND.per_hour
    assert not found.grows


def test_a_large_level_may_rise_by_its_share() -> None:
    """1.5% of 100 MiB in a quarter, where 2% are allowed."""
    points = over(3600, lambda at: 100 + 1.5 * at / 900)
    assert not judge("memory", points, BOUND).grows
    assert judge("memory", points, Bound(4.0, 1.0, share=0.005)).grows


def test_more_room_is_for_the_rise_alone() -> None:
    assert BOUND.times(3) == Bound(per_hour=4.0, rise=3.0, share=0.06)


def test_too_few_points_are_no_judgement() -> None:
    with pytest.raises(ValueError, match="descriptors has 7 points"):
        judge("descriptors", over(7, lambda at: at), BOUND)
