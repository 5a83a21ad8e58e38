"""Stages of a budget with carry, on real calls: what a step was allowed beyond its own share is in its record."""

from __future__ import annotations

from proxy.core.policy import BudgetDefaults, Policy, Share
from proxy.core.units import MILLISECOND, SECOND
from tests.dataplane.world import FakeClient, World

STAGES = (Share("search", 300 * MILLISECOND), Share("llm", 500 * MILLISECOND), Share("slack", 0))


def _world(*, carry: bool = True, stages: tuple[Share, ...] = STAGES) -> World:
    return World(Policy(budget=BudgetDefaults(default=10 * SECOND, stages=stages, carry=carry)))


def _asks(world: World, stage: str) -> FakeClient:
    return world.client().asks("GET", Budget_Id="b", Budget_Stage=stage)


def _used(world: World, stage: str, ms: int) -> None:
    _asks(world, stage)
    world.advance(ms)
    world.upstream().answers()


def test_the_record_says_what_was_carried() -> None:
    """Search leaves 200 ms: the model is allowed 700, of which 500 are its own, and is cut when they are over."""
    world = _world()
    _used(world, "search", 100)
    cut = _asks(world, "llm")
    world.advance(699)
    assert cut.statuses == []
    world.advance(1)
    assert cut.statuses == [504]
    first, second = world.records
    assert (first.allowed_ms, first.carried_ms) == (300.0, None)
    assert (second.allowed_ms, second.carried_ms, second.reason) == (700.0, 200.0, "stage_share")
    assert _asks(world, "search").statuses == [403]


def test_without_carry_nothing_is() -> None:
    """Each stage has its own share."""
    world = _world(carry=False)
    _used(world, "search", 100)
    cut = _asks(world, "llm")
    world.advance(500)
    assert cut.statuses == [504]
    assert [record.carried_ms for record in world.records] == [None, None]


def test_what_a_step_may_still_take_is_not_given_away() -> None:
    """Side by side: while search is under way, the model is allowed no more than its own share."""
    world = _world()
    _asks(world, "search")
    cut = _asks(world, "llm")
    world.advance(300)
    assert world.records[0].reason == "stage_share"
    world.advance(200)
    assert cut.statuses == [504]
    assert world.records[1].carried_ms is None


def test_a_finished_budget_says_what_its_stages_used() -> None:
    """Of the stages that were used, once; a budget without stages says nothing."""
    world = _world()
    _used(world, "search", 100)
    _used(world, "llm", 400)
    assert world.observed.stages_used == []
    world.advance(10_000)
    world.plane.attend()
    share = {stage.stage: stage.span for stage in STAGES}
    assert world.observed.stages_used == [
        ("search", share["search"], 100 * MILLISECOND),
        ("llm", share["llm"], 400 * MILLISECOND),
    ]
    world.plane.attend()
    assert len(world.observed.stages_used) == 2
    undivided = _world(stages=())
    _used(undivided, "search", 100)
    undivided.advance(10_000)
    undivided.plane.attend()
    assert (len(undivided.observed.budgets_closed), undivided.observed.stages_used) == (1, [])
