"""A route with a cache and no ladder: what was kept is given where the answer would be an error, and says what it is."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.calls import Kind, Outcome
from proxy.core.degrading import RouteCache
from proxy.core.policy import Match, Mode, Policy, Route
from proxy.core.units import MILLISECOND, SECOND
from tests.dataplane.world import FakeClient, World

PAGE = "http://library/page"
HOUR = 3600 * SECOND


def _world(*, policy: dict[str, Any] | None = None, **cache: Any) -> World:
    rules = RouteCache(**({"first": True, "ttl": 10 * SECOND, "stale_if_error": HOUR} | cache))
    route = Route("reads", Match(), effect=Kind.READ, cache=rules, cap=500 * MILLISECOND)
    return World(Policy(routes=(route,), **(policy or {})))


def _kept(world: World, **fields: Any) -> None:
    """Let a page be kept, and become stale."""
    world.client().asks(target=PAGE)
    world.upstream().answers(b"first", **fields)
    world.advance(20_000)


def _stale(client: FakeClient, why: str) -> bool:
    return (
        (client.statuses, client.body) == ([200], b"first")
        and client.field("Budget-Degraded") == f"level=1; rung=cached; reason={why}"
        and (client.field("Cache-Status") or "").endswith("detail=stale")
    )


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_an_answer_that_says_to_come_again_is_replaced(status: int) -> None:
    world = _world()
    _kept(world)
    client = world.client().asks(target=PAGE)
    world.upstreams[-1].answers(b"shut", status)
    assert _stale(client, "failed")
    record = world.observed.records[-1]
    assert (record.cache, record.rung, record.outcome) == ("stale", "cached", Outcome.COMPLETED)


@pytest.mark.parametrize("status", [200, 400, 404, 410])
def test_any_other_answer_is_the_answer(status: int) -> None:
    world = _world()
    _kept(world)
    client = world.client().asks(target=PAGE)
    world.upstreams[-1].answers(b"other", status)
    assert (client.statuses, client.body) == ([status], b"other")
    assert client.field("Budget-Degraded") is None


def test_a_connection_that_breaks_before_the_answer_is_replaced() -> None:
    world = _world()
    _kept(world)
    client = world.client().asks(target=PAGE)
    for upstream in world.upstreams:
        upstream.breaks_off()
    assert _stale(client, "failed")


def test_one_that_breaks_in_the_answer_is_not() -> None:
    world = _world()
    _kept(world)
    client = world.client().asks(target=PAGE)
    world.upstreams[-1].says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    world.upstreams[-1].breaks_off()
    assert client.transport.lost


def test_one_that_says_nothing_is_replaced_when_its_time_is_over() -> None:
    world = _world()
    _kept(world)
    client = world.client().asks(target=PAGE)
    world.advance(499)
    assert client.statuses == []
    world.advance(2)
    assert _stale(client, "slow")


@pytest.mark.parametrize(
    ("cache", "fields"),
    [({"stale_if_error": 0}, {}), ({}, {"Cache_Control": "max-age=1, must-revalidate"})],
    ids=["nothing said", "said not to"],
)
def test_only_where_that_was_allowed(cache: dict[str, Any], fields: dict[str, Any]) -> None:
    world = _world(**cache)
    _kept(world, **fields)
    client = world.client().asks(target=PAGE)
    world.upstreams[-1].answers(b"shut", 503)
    assert (client.statuses, client.body) == ([503], b"shut")
    assert client.field("Budget-Degraded") is None
    assert world.observed.records[-1].rung is None


def test_nothing_kept_leaves_the_error_as_it_is() -> None:
    world = _world()
    client = world.client().asks(target=PAGE)
    world.upstream().answers(b"shut", 503)
    assert (client.statuses, client.body) == ([503], b"shut")
    assert client.field("Cache-Status") == "waterclock; fwd=miss"


def test_under_observation_the_error_is_passed_on() -> None:
    world = _world(policy={"mode": Mode.OBSERVE})
    _kept(world)
    client = world.client().asks(target=PAGE)
    world.upstreams[-1].answers(b"shut", 503)
    assert (client.statuses, client.body) == ([503], b"shut")


def test_what_is_fresh_and_not_looked_for_first_serves_too() -> None:
    world = _world(first=False)
    world.client().asks(target=PAGE)
    world.upstream().answers(b"first")
    client = world.client().asks(target=PAGE)
    world.upstreams[-1].answers(b"shut", 503)
    assert (client.statuses, client.body) == ([200], b"first")
    assert client.field("Budget-Degraded") == "level=1; rung=cached; reason=failed"
    assert client.field("Cache-Status") == "waterclock; hit; ttl=10"
