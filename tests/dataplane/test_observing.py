"""`mode: observe`: every decision is made and recorded, and none is applied."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import BudgetDefaults, Mode, OnMissing, Policy, Route
from proxy.core.units import MILLISECOND
from tests.dataplane.world import World, request

OBSERVING = Policy(mode=Mode.OBSERVE, fallback=Route("fallback", cap=100 * MILLISECOND))


def test_a_call_is_not_cut() -> None:
    """It ends when it ends, and its record says that it would have been."""
    world = World(OBSERVING)
    client = world.client().asks()
    world.advance(5000)
    assert world.records == []
    world.upstream().answers()
    assert client.statuses == [200]
    assert (world.record.outcome, world.record.would, world.record.allowed_ms) == ("completed", "cut", 100.0)
    assert world.record.late_ms is None
    assert "would=cut" in (client.field("Budget-Outcome") or "")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"Budget_Remaining_Ms": 0}, "budget_exhausted"),
        ({"Budget_Remaining_Ms": "-1"}, "malformed"),
        ({"Budget_Depth": 9}, "depth_exceeded"),
    ],
)
def test_a_call_is_not_refused(fields: dict[str, Any], reason: str) -> None:
    """Whatever the budget would say."""
    world = World(Policy(mode=Mode.OBSERVE, budget=BudgetDefaults(depth=3)))
    client = world.client().asks("POST", body=b"{}", **fields)
    world.upstream().answers()
    assert client.statuses == [200]
    assert (world.record.outcome, world.record.would) == ("completed", "refuse")
    del reason


def test_a_call_without_a_budget_is_not_refused() -> None:
    """Though `on_missing: refuse` would."""
    world = World(Policy(mode=Mode.OBSERVE, budget=BudgetDefaults(on_missing=OnMissing.REFUSE)))
    client = world.client().asks()
    world.upstream().answers()
    assert (client.statuses, world.record.would) == ([200], "refuse")


def test_what_cannot_go_anywhere_is_refused_all_the_same() -> None:
    """There is nothing to let it pass to."""
    world = World(OBSERVING)
    client = world.client().asks("GET", "http://127.0.0.1:10800/")
    assert client.statuses == [508]
    client.sends(request("GET", "/", Host=""))
    assert client.statuses == [508, 400]


@pytest.mark.parametrize("when", ["body", "journal", "dial", "refusal", "break", "leave"])
def test_time_that_runs_out_at_any_point_stops_nothing(when: str) -> None:
    """Wherever the allowance ends, the call goes on as if it had not."""
    world = World(OBSERVING)
    world.journal.held = when == "journal"
    world.dialer.held = when in ("dial", "refusal")
    client = world.client()
    wire = request("POST", body=b"{}")
    client.sends(wire[:-1] if when == "body" else wire)
    world.advance(200)
    if when == "refusal":
        world.dialer.refused.add("tool")
    client.sends(wire[-1:] if when == "body" else b"")
    world.journal.held = False
    world.journal.release()
    world.dialer.release()
    if when == "break":
        world.upstream().breaks_off()
    elif when == "leave":
        client.leaves()
    elif when != "refusal":
        world.upstream().answers()
    outcomes = {"refusal": "connect_failed", "break": "upstream_failed", "leave": "client_gone"}
    assert (world.record.outcome, world.record.would) == (outcomes.get(when, "completed"), "cut")
    if when != "leave":
        assert client.statuses == [{"refusal": 502, "break": 424}.get(when, 200)]


def test_a_stream_is_not_ended() -> None:
    """Nor is anything added to it."""
    world = World(OBSERVING)
    client = world.client().asks()
    world.upstream().says(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    world.advance(1000)
    world.upstream().says(b"9\r\ndata: 1\n\n\r\n0\r\n\r\n")
    assert client.body == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
    assert (world.record.outcome, world.record.would) == ("completed", "cut")
