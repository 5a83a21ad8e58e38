"""The stages of a budget: shares in proportion, time that is used once however many steps run side by side, and carry."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.policy import BudgetDefaults, Share
from proxy.core.stages import Stage, Stages, shares
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
    """As they are given for the default budget, in the same order; of nothing each is nothing. Nobody has the slack."""
    stages = shares(BudgetDefaults(default=10_000, stages=STAGES), total)
    assert [(stage.name, stage.share) for stage in stages] == [("retrieval", retrieval), ("llm", llm)]
    assert stages.get("slack") is None


@given(st.lists(st.integers(0, 10**12), max_size=6), st.integers(0, 10**12), st.integers(0, 10**13))
def test_shares_are_never_more_than_the_whole(spans: list[int], spare: int, total: int) -> None:
    """When those of the policy are not, rounding does not make them so."""
    given_shares = tuple(Share(str(number), span) for number, span in enumerate(spans))
    stages = shares(BudgetDefaults(default=sum(spans) + spare, stages=given_shares), total)
    assert len([*stages]) == len(spans)
    assert sum(stage.share for stage in stages) <= total


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


# -- carry: worked examples --------------------------------------------------------------------------------------


class Day:
    """A budget of retrieval 4, llm 5 and formatting 1, with carry, on which steps are played one after the other."""

    def __init__(self, *, carry: bool = True) -> None:
        given_shares = (Stage(4, "retrieval"), Stage(5, "llm"), Stage(1, "formatting"))
        self.retrieval, self.llm, self.formatting = given_shares
        self.stages, self.now = Stages(given_shares, carry=carry), 0

    def left(self) -> list[int]:
        return [self.stages.left(stage, self.now) for stage in self.stages]

    def carried_in(self) -> list[int]:
        return [self.stages.carried_in(stage, self.now) for stage in self.stages]

    def use(self, stage: Stage, span: int) -> None:
        """A step that takes so long."""
        stage.begin(self.now, self.stages.left(stage, self.now))
        self.now += span
        stage.end(self.now)


def test_what_a_stage_leaves_goes_to_the_later_ones() -> None:
    """Retrieval takes 1 of its 4: the model has 5 + 3. It leaves 2 of these: formatting has 1 + 2."""
    day = Day()
    day.use(day.retrieval, 1)
    assert (day.left(), day.carried_in()) == ([3, 8, 9], [0, 3, 8])
    day.use(day.llm, 6)
    assert (day.left(), day.carried_in()) == ([2, 2, 3], [0, 3, 2])
    day.use(day.formatting, 3)
    assert (day.left(), day.carried_in()) == ([0, 0, 0], [0, 1, 2])


def test_nothing_goes_to_the_earlier_ones() -> None:
    """What the model leaves is no use to a retrieval that comes after it."""
    day = Day()
    day.use(day.llm, 1)
    assert day.left()[0] == 4
    day.use(day.retrieval, 4)
    assert day.left() == [0, 4, 5]


def test_an_earlier_stage_that_comes_back_finds_what_is_really_left() -> None:
    """The model had 8 of the 9 that were there for both: retrieval, which has used nothing, has 1, and nobody is paid twice."""
    day = Day()
    day.use(day.llm, 8)
    assert day.left() == [1, 1, 2]
    day.use(day.retrieval, 1)
    assert (day.left(), day.retrieval.left(day.now)) == ([0, 0, 1], 3)


def test_without_carry_each_has_its_own() -> None:
    """And nothing is carried, into any stage or any step."""
    day = Day(carry=False)
    day.use(day.retrieval, 1)
    assert (day.left(), day.carried_in()) == ([3, 5, 1], [0, 0, 0])
    assert day.stages.carried(day.llm, 5, day.now) == 0


def test_what_a_step_under_way_may_still_take_is_not_there_for_the_others() -> None:
    """Retrieval has begun a step of at most 3: of its 4, 1 is free. When it ends after 2, another 1 is."""
    day = Day()
    day.retrieval.begin(0, 3)
    assert day.left() == [4, 6, 7]
    day.now = 1
    assert day.left() == [3, 6, 7]
    day.now = 2
    day.retrieval.end(2)
    assert day.left() == [2, 7, 8]


def test_a_step_that_outlives_its_allowance_counts_on() -> None:
    """Where nothing is cut (`mode: observe`), what has been used is used."""
    day = Day()
    day.retrieval.begin(0, 2)
    day.now = 3
    assert day.left() == [1, 6, 7]
    day.retrieval.end(6)
    day.now = 6
    assert day.left() == [-2, 3, 4]


@pytest.mark.parametrize(("allowed", "carried"), [(8, 3), (5, 0), (6, 1), (0, 0), (-2, 0)])
def test_how_much_of_an_allowance_was_carried(allowed: int, carried: int) -> None:
    """What lies beyond the share of its own stage; of an allowance that a cap has made smaller, less."""
    day = Day()
    assert day.stages.carried(day.llm, allowed, 0) == carried


def test_beyond_its_share_all_of_an_allowance_was_carried() -> None:
    """The model has used 6 of its 5, and is allowed 2 more: not a moment of these is its own."""
    day = Day()
    day.use(day.llm, 6)
    assert day.stages.carried(day.llm, 2, day.now) == 2


# -- carry: for any steps ----------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A step of some stage: after a pause, it needs so long, and no more than `cap` is allowed."""

    stage: int
    pause: int
    need: int
    cap: int


SHARES = st.lists(st.integers(0, 40), min_size=1, max_size=4)
MIXED = st.lists(
    st.builds(Step, st.integers(0, 3), st.integers(0, 20), st.integers(0, 60), st.integers(1, 90)),
    max_size=14,
)


class Played(NamedTuple):
    """What a step was allowed, and the stages when it arrived."""

    step: Step
    allowed: int
    left: list[int]


def played(spans: list[int], steps: list[Step], *, carry: bool) -> tuple[Stages, list[Played], int]:
    """Have steps of several stages come and go, each cut at its allowance, and hold the bounds at every arrival."""
    stages = Stages([Stage(span, str(place)) for place, span in enumerate(spans)], carry=carry)
    every, ends, found, now = [*stages], list[tuple[int, int]](), list[Played](), 0
    for step in steps:
        now += step.pause
        while ends and ends[0][0] <= now:
            ended, place = heapq.heappop(ends)
            every[place].end(ended)
            hold_bounds(stages, ended)
        stage = every[step.stage % len(every)]
        left = stages.left(stage, now)
        found.append(Played(step, min(left, step.cap), [stages.left(each, now) for each in every]))
        if left > 0:
            stage.begin(now, min(left, step.cap))
            heapq.heappush(ends, (now + min(step.need, left, step.cap), step.stage % len(every)))
        hold_bounds(stages, now)
    while ends:
        now, place = heapq.heappop(ends)
        every[place].end(now)
        hold_bounds(stages, now)
    return stages, found, now


def hold_bounds(stages: Stages, now: int) -> None:
    """Of the first k stages, what is used, or may still be, is never more than their shares; nothing is owed."""
    shared = used = 0
    for stage in stages:
        shared, used = shared + stage.share, used + stage.taken(now)
        assert stage.used(now) <= stage.taken(now)
        assert used <= shared if stages.carry else stage.taken(now) <= stage.share
        assert stages.left(stage, now) >= 0


@given(SHARES, MIXED, st.booleans())
def test_all_stages_together_never_use_more_than_all_shares(
    spans: list[int], steps: list[Step], carry: bool
) -> None:
    """Side by side or one after the other, in any order, whatever they need: nor do the first k of them, of theirs."""
    stages, _, now = played(spans, steps, carry=carry)
    assert sum(stage.used(now) for stage in stages) <= sum(spans)


@given(SHARES, MIXED)
def test_the_stages_after_have_at_least_what_one_before_has(spans: list[int], steps: list[Step]) -> None:
    """With carry, whatever a stage might take a later one might as well; while steps run, what they may take is set aside."""
    stages = Stages([Stage(span, str(place)) for place, span in enumerate(spans)], carry=True)
    every, now = [*stages], 0
    for step in steps:
        stage = every[step.stage % len(every)]
        span = max(0, min(step.need, step.cap, stages.left(stage, now)))
        stage.begin(now, span)
        now += span
        stage.end(now)
        left = [stages.left(each, now) for each in every]
        assert left == sorted(left)
        sums = [sum(each.left(now) for each in every[: k + 1]) for k in range(len(every))]
        assert left == [min(sums[k:]) for k in range(len(every))]


@given(SHARES, MIXED)
def test_where_nobody_is_under_way_using_time_leaves_less(spans: list[int], steps: list[Step]) -> None:
    """For every stage: a step takes nothing away but what it uses, and gives nobody more."""
    stages = Stages([Stage(span, str(place)) for place, span in enumerate(spans)], carry=True)
    every, now = [*stages], 0
    for step in steps:
        before = [stages.left(each, now) for each in every]
        stage = every[step.stage % len(every)]
        span = max(0, min(step.need, stages.left(stage, now)))
        stage.begin(now, span)
        stage.end(now + span)
        now += span
        after = [stages.left(each, now) for each in every]
        assert all(old - span <= new <= old for old, new in zip(before, after, strict=True))


@given(SHARES, MIXED)
def test_without_carry_stages_know_nothing_of_each_other(spans: list[int], steps: list[Step]) -> None:
    """Each step is allowed what it would be if its stage were the only one."""
    _, found, _ = played(spans, steps, carry=False)
    for place, span in enumerate(spans):
        now, own, times = 0, list[Step](), list[int]()
        for step in steps:
            now += step.pause
            if step.stage % len(spans) == place:
                own.append(step._replace(stage=0, pause=now - sum(times)))
                times.append(own[-1].pause)
        _, alone, _ = played([span], own, carry=False)
        mine = [each for each in found if each.step.stage % len(spans) == place]
        assert [each.allowed for each in mine] == [each.allowed for each in alone]


@given(SHARES, MIXED)
def test_carry_changes_nothing_for_the_first_use(spans: list[int], steps: list[Step]) -> None:
    """As long as no step has needed more than the share of its own stage, each finds at least that share's rest."""
    stages = Stages([Stage(span, str(place)) for place, span in enumerate(spans)], carry=True)
    every, now = [*stages], 0
    for step in steps:
        stage = every[step.stage % len(every)]
        assert stages.left(stage, now) >= stage.left(now)
        span = max(0, min(step.need, stage.left(now)))
        stage.begin(now, span)
        now += span
        stage.end(now)


def test_a_step_that_may_last_longer_than_was_said_takes_it_from_those_after() -> None:
    """Its caller's own timer is let go of once it has begun to answer."""
    early, late = Stage(SECOND, "early"), Stage(SECOND, "late")
    stages = Stages([early, late], carry=True)
    early.begin(0, 100)
    assert stages.left(late, 0) == 2 * SECOND - 100
    early.extend(SECOND)
    assert stages.left(late, 0) == SECOND
    early.end(50)
    assert stages.left(late, 50) == 2 * SECOND - 50
