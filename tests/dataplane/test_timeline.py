"""The admission timeline of a job, rebuilt from its events."""

from __future__ import annotations

from typing import Any

from proxy.core.policy import Policy, Retries, Route
from tests.dataplane.world import FakeClient, World


def _asks(world: World, number: int, method: str = "POST", **fields: Any) -> FakeClient:
    """A client of its own asks for /number, for the job `b`."""
    body = b'{"n": %d}' % number if method == "POST" else b""
    return world.client().asks(method, f"http://tool/{number}", body, Budget_Id="b", **fields)


def test_the_timeline_of_a_job_is_told_by_its_events() -> None:
    """Enqueued, granted, renewed, expired, released, completed: each where it belongs."""
    route = Route("fallback", concurrency=1, queue=2, retries=Retries(max=1, statuses=frozenset({503})))
    world = World(Policy(fallback=route))
    _asks(world, 1, "GET")
    _asks(world, 2, "GET", Connect_Timeout_Ms=900)
    _asks(world, 3, "GET", Connect_Timeout_Ms=100)
    assert _asks(world, 4, "GET").statuses == [503]
    world.advance(100)
    world.upstream().answers(status=503)
    world.advance(1)
    world.upstream().answers()
    world.advance(1000)
    world.at_rest()
    assert world.happened("b") == [
        ("granted", 1),
        ("enqueued", 2),
        ("enqueued", 3),
        ("expired", 3),
        ("renewed", 1),
        ("completed", 1),
        ("released", 1),
        ("granted", 2),
        ("expired", 2),
        ("released", 2),
    ]
    history = world.plane.budgets.get("b").history  # type: ignore[union-attr]
    assert history is not None
    details = {(event.what.value, event.step): event.detail for event in history.events if event.detail}
    assert details == {
        ("expired", 3): "queue_deadline",
        ("renewed", 1): "attempt 2",
        ("expired", 2): "foreign_limit",
    }
    assert {event.slot for event in history.events if event.step == 1} == {0}


def test_a_call_of_no_named_job_has_no_timeline() -> None:
    """Nobody could ask for it."""
    world = World()
    world.client().asks()
    world.upstream().answers()
    (budget,) = world.plane.budgets.listed()
    assert budget.history is None or budget.history.events == []
