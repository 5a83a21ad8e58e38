"""A place that fails is left alone for a growing while, and tried again by one question at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import SECOND
from proxy.degrade.cache.breaker import LONGEST, Breaker


def test_it_asks_as_long_as_it_is_answered() -> None:
    breaker = Breaker()
    for now in range(5):
        assert breaker.allows(now)
        breaker.succeeded()
    assert not breaker.open


def test_the_while_grows_from_a_second_to_thirty() -> None:
    breaker, now, pauses = Breaker(), 0, []
    for _ in range(8):
        assert breaker.allows(now)
        breaker.failed(now)
        start = now
        while not breaker.allows(now):
            now += SECOND // 2
        pauses.append((now - start) // SECOND)
        breaker.withdrawn()
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_one_question_goes_through_and_the_others_do_not() -> None:
    breaker = Breaker()
    breaker.failed(0)
    assert [breaker.allows(SECOND) for _ in range(3)] == [True, False, False]
    breaker.succeeded()
    assert breaker.allows(SECOND)
    assert breaker.allows(SECOND)


def test_failures_of_questions_that_were_on_their_way_add_nothing() -> None:
    breaker = Breaker()
    for _ in range(10):
        breaker.failed(0)
    assert breaker.allows(SECOND)


def test_a_probe_that_shows_nothing_leaves_the_next_one_to_try() -> None:
    breaker = Breaker()
    breaker.failed(0)
    assert breaker.allows(SECOND)
    breaker.withdrawn()
    assert breaker.allows(SECOND)


def test_a_good_sign_lets_the_next_question_try_without_forgetting_the_failures() -> None:
    breaker = Breaker()
    breaker.failed(0)
    breaker.hopeful()
    assert breaker.allows(1)
    breaker.failed(1)
    assert not breaker.allows(1 + 2 * SECOND - 1)
    assert breaker.allows(1 + 2 * SECOND)


@given(st.lists(st.sampled_from(["ask", "succeeded", "failed", "withdrawn", "hopeful", "wait"]), max_size=60))
def test_it_never_waits_for_longer_than_thirty_seconds(events: list[str]) -> None:
    breaker, now = Breaker(), 0
    for event in events:
        if event == "ask":
            breaker.allows(now)
        elif event == "failed":
            breaker.failed(now)
        elif event == "wait":
            now += SECOND
        else:
            getattr(breaker, event)()
    breaker.withdrawn()
    assert breaker.allows(now + LONGEST)


def test_waits_that_are_too_short_to_say_anything_say_it_together() -> None:
    """Else a store that hangs would cost every short call its time, and be asked again by the next."""
    breaker = Breaker()
    assert [breaker.unanswered(0, 20, 50) for _ in range(3)] == [False, False, True]
    assert breaker.open
    breaker = Breaker()
    for _ in range(10):
        assert not breaker.unanswered(0, 40, 50)
        breaker.succeeded()
    assert not breaker.open
