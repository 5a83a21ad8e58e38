"""The stages of a budget: shares in proportion, and time that is used once however many steps run side by side."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.policy import BudgetDefaults, Share
from proxy.core.stages import Stage, shares
from proxy.core.units import SECOND

STAGES = (Share("retrieval", 1_500), Share("llm", 5_500), Share("slack", 500))


def union(spans: list[tuple[int, int]]) -> int:
    """How much time at least one of the spans covers, moment by moment."""
    return len({moment for begun, ended in spans for moment in range(begun, ended)})


# -- shares ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "llm", "retrieval"),
    [(10_000, 5_500, 1_500), (5_000, 2_750, 750), (20_000, 11_000, 3_000), (1, 0, 0), (0, 0, 0), (-5, 0, 0)],
)
def test_shares_are_in_proportion(total: int, llm: int, retrieval: int) -> None:
    """As they are given for the default budget; of nothing each is nothing. Nobody has the slack."""
    stages = shares(BudgetDefaults(default=10_000, stages=STAGES), total)
    assert {name: stage.share for name, stage in stages.items()} == {"llm": llm, "retrieval": retrieval}


@given(st.lists(st.integers(0, 10**12), max_size=6), st.integers(0, 10**12), st.integers(0, 10**13))
def test_shares_are_never_more_than_the_whole(spans: list[int], spare: int, total: int) -> None:
    """When those of the policy are not, rounding does not make them so."""
    given_shares = tuple(Share(str(number), span) for number, span in enumerate(spans))
    stages = shares(BudgetDefaults(default=sum(spans) + spare, stages=given_shares), total)
    assert len(stages) == len(spans)
    assert sum(stage.share for stage in stages.values()) <= total


# -- use ---------------------------------------------------------------------------------------------------------


def test_a_stage_that_was_not_used_has_its_share() -> None:
    """Whenever it is asked."""
    stage = Stage(SECOND)
    assert [stage.left(at) for at in (-SECOND, 0, 9 * SECOND)] == [SECOND] * 3


def test_steps_side_by_side_use_time_once() -> None:
    """From the first arrival to the last end; the pause before the next step is free."""
    stage = Stage(10)
    stage.begin(0)
    assert stage.left(2) == 8
    stage.begin(2)
    stage.end(3)
    assert (stage.used(3), stage.left(5)) == (3, 5)
    stage.end(6)
    assert (stage.used(6), stage.used(100)) == (6, 6)
    stage.begin(100)
    assert stage.left(102) == 2
    stage.end(105)
    assert stage.left(105) == -1


def test_no_moment_counts_twice() -> None:
    """A step is heard of after another has ended, though it arrived before: that part of the time has been counted."""
    stage = Stage(100)
    stage.begin(0)
    stage.end(10)
    stage.begin(8)
    assert stage.used(9) == 10
    assert stage.used(12) == 12
    stage.end(12)
    assert stage.used(12) == union([(0, 10), (8, 12)])


def test_a_clock_that_is_read_out_of_turn_takes_nothing_back() -> None:
    """A step may end by an older reading than the one that it began by."""
    stage = Stage(100)
    stage.begin(5)
    assert stage.used(3) == 0
    stage.end(3)
    assert stage.used(10) == 0
    stage.begin(10)
    stage.end(12)
    assert stage.used(12) == 2


STEPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), max_size=12)


@given(STEPS, st.integers(0, 100))
def test_the_union_of_the_steps_never_exceeds_the_share(steps: list[tuple[int, int]], share: int) -> None:
    """Whatever they would need: each may take what is left when it arrives, and what is used is their union."""
    stage, arrival = Stage(share), 0
    spans: list[tuple[int, int]] = []
    ends: list[int] = []
    for pause, need in steps:
        arrival += pause
        while ends and ends[0] <= arrival:
            stage.end(heapq.heappop(ends))
        left = stage.left(arrival)
        assert left == share - union([(begun, min(ended, arrival)) for begun, ended in spans])
        if left > 0:
            stage.begin(arrival)
            ended = arrival + min(need, left)
            spans.append((arrival, ended))
            heapq.heappush(ends, ended)
    while ends:
        stage.end(heapq.heappop(ends))
    assert stage.used(10**6) == union(spans) <= share
