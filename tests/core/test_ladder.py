"""Which rung a step takes: pure, so every promise is checked on any ladder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.degrading import CacheUse, Degraded, FixedAnswer, Rung, Why
from proxy.core.ladder import choose, fits, patience
from proxy.core.units import MILLISECOND, SECOND

spans = st.integers(0, 20_000).map(lambda ms: ms * MILLISECOND)
rungs = st.builds(
    lambda needs, kind: Rung(
        "rung",
        needs,
        cache=CacheUse() if kind == "cache" else None,
        answer=FixedAnswer() if kind == "answer" else None,
    ),
    spans,
    st.sampled_from(["upstream", "upstream", "cache", "answer"]),
)
ladders = st.lists(rungs, min_size=1, max_size=6)
lefts = st.none() | st.integers(-SECOND, 20 * SECOND)


def needs_of(ladder: list[Rung]) -> list[int]:
    return [rung.needs or 0 for rung in ladder]


@given(ladders, lefts, st.integers(0, 5))
def test_the_highest_rung_that_fits_is_taken(ladder: list[Rung], left: int | None, start: int) -> None:
    needs = needs_of(ladder)
    choice = choose(ladder, needs, left, start=start)
    fitting = [level for level in range(start, len(ladder)) if fits(ladder[level], needs[level], left)]
    assert (choice.level if choice is not None else None) == (fitting[0] if fitting else None)


@given(ladders, st.integers(-SECOND, 20 * SECOND))
def test_what_is_taken_never_needs_more_than_is_left(ladder: list[Rung], left: int) -> None:
    choice = choose(ladder, needs_of(ladder), left)
    if choice is not None:
        assert (choice.rung.needs or 0) <= max(0, left)


@given(ladders, st.integers(-SECOND, 0))
def test_on_nothing_nobody_is_asked(ladder: list[Rung], left: int) -> None:
    choice = choose(ladder, needs_of(ladder), left)
    assert choice is None or (choice.rung.local and not choice.rung.needs)


@given(ladders, st.integers(0, 20 * SECOND), st.integers(0, 5 * SECOND))
def test_more_time_never_means_a_lower_rung(ladder: list[Rung], left: int, more: int) -> None:
    less, better = choose(ladder, needs_of(ladder), left), choose(ladder, needs_of(ladder), left + more)
    assert less is None or (better is not None and better.level <= less.level)


@given(ladders, lefts, st.sampled_from([None, *Why]))
def test_the_first_rung_has_no_reason_and_every_other_one(
    ladder: list[Rung], left: int | None, why: Why | None
) -> None:
    choice = choose(ladder, needs_of(ladder), left, why=why)
    if choice is not None:
        assert (choice.why is None) is (choice.level == 0)
        assert choice.level == 0 or choice.why == (why or Why.TIME)


@given(ladders, lefts)
def test_where_no_upstream_may_be_asked_none_is(ladder: list[Rung], left: int | None) -> None:
    choice = choose(ladder, needs_of(ladder), left, local=True)
    assert choice is None or choice.rung.local


@given(ladders, st.integers(1, 20 * SECOND))
def test_patience_leaves_a_rung_what_it_needs_and_the_next_one_too(ladder: list[Rung], left: int) -> None:
    needs = needs_of(ladder)
    choice = choose(ladder, needs, left)
    waits = patience(ladder, needs, choice.level, left) if choice is not None else None
    if choice is not None and waits is not None:
        wait, lower = waits
        assert wait >= needs[choice.level]
        assert left - wait == needs[lower] > 0
        assert lower > choice.level


@given(ladders, st.integers(1, 20 * SECOND), st.integers(0, 5))
def test_after_a_rung_that_had_nothing_a_lower_one_follows_later(
    ladder: list[Rung], left: int, below: int
) -> None:
    waits = patience(ladder, needs_of(ladder), 0, left, below=below)
    assert waits is None or (0 <= waits[0] < left and waits[1] > below)


def test_what_is_said_of_an_answer_that_is_less() -> None:
    assert Degraded(2, "minimal", Why.TIME, "llm").field() == "level=2; rung=minimal; stage=llm; reason=time"
    assert Degraded(1, "fast", Why.FAILED).field() == "level=1; rung=fast; reason=failed"
    assert Degraded(1, "fast", Why.SLOW, "2nd").field() == 'level=1; rung=fast; stage="2nd"; reason=slow'
