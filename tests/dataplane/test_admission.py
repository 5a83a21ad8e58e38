"""Whose turn it is: what waits, in which order and for how long, and that every place is given back, whatever happens."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from proxy.core.calls import Outcome
from proxy.core.policy import BudgetDefaults, Mode, Policy, Retries, Route
from proxy.core.units import MILLISECOND
from tests.dataplane.world import FakeClient, World, request, response

ONE_SLOT = Route("fallback", concurrency=1)
NARROW = {
    "concurrency": Policy(fallback=ONE_SLOT),
    "serialize": Policy(fallback=Route("fallback", serialize=True)),
    "limit": Policy(limit=1),
    "width": Policy(budget=BudgetDefaults(width=1)),
}
FULL = {"concurrency": "queue_full", "serialize": "queue_full", "limit": "busy", "width": "width"}


def _with(policy: Policy, **route: Any) -> Policy:
    """The same policy, but for what its route says."""
    return replace(policy, fallback=replace(policy.fallback, **route))


def _asks(world: World, number: int, method: str = "POST", **fields: Any) -> FakeClient:
    """A client of its own asks for /number, for the job `b`."""
    body = b'{"n": %d}' % number if method == "POST" else b""
    return world.client().asks(method, f"http://tool/{number}", body, **{"Budget_Id": "b"} | fields)


def _order(world: World) -> list[int]:
    """The numbers of the calls that were sent, in order."""
    heads = [head for upstream in world.upstreams for head in upstream.heads]
    return [int(number) for head in heads for number in re.findall(rb"[A-Z]+ /(\d+) HTTP", head)]


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", NARROW)
def test_a_call_waits_while_there_is_no_place(narrow: str) -> None:
    """It is sent when the first has ended, and its record says how long it waited."""
    world = World(NARROW[narrow])
    first, second = _asks(world, 1), _asks(world, 2)
    assert _order(world) == [1]
    assert world.plane.scheduler.queued() == {"fallback": 1}
    assert world.plane.scheduler.leases == 1
    world.advance(40)
    assert second.received == b""
    world.upstream().answers()
    assert _order(world) == [1, 2]
    world.advance(5)
    world.upstream().answers()
    assert first.statuses == second.statuses == [200]
    assert [(record.queued_ms, record.waited_ms, record.elapsed_ms) for record in world.records] == [
        (0, 0, 40),
        (40, 40, 45),
    ]
    assert world.records[1].overhead_ms == 0
    world.at_rest()


def test_who_does_not_need_a_place_does_not_wait_for_it() -> None:
    """Reads pass a route that takes one write at a time, and calls of no named job have no width."""
    world = World(NARROW["serialize"])
    _asks(world, 1)
    _asks(world, 2, "GET")
    _asks(world, 3, "PUT")
    _asks(world, 4)
    assert _order(world) == [1, 2, 3]
    world = World(NARROW["width"])
    for number in range(3):
        _asks(world, number, Budget_Id=None)
    assert _order(world) == [0, 1, 2]
    _asks(world, 3)
    _asks(world, 4)
    _asks(world, 5, Budget_Id="another")
    assert _order(world) == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("narrow", ["concurrency", "limit", "width"])
def test_the_earliest_deadline_goes_first(narrow: str, method: str) -> None:
    """Among those who wait, whoever came first; of two with the same deadline, the one that came first."""
    world = World(NARROW[narrow])
    _asks(world, 0, method)
    for number, timeout in ((1, 9000), (2, 3000), (3, 6000), (4, 3000), (5, 1000)):
        _asks(world, number, method, Connect_Timeout_Ms=timeout)
    for _ in range(6):
        world.upstream().answers()
    assert _order(world) == [0, 5, 2, 4, 3, 1]
    world.at_rest()


@pytest.mark.parametrize("narrow", NARROW)
def test_a_full_queue_turns_away(narrow: str) -> None:
    """Nothing is sent, and the caller is told when to come again."""
    world = World(_with(NARROW[narrow], queue=1))
    _asks(world, 1)
    _asks(world, 2)
    client = _asks(world, 3)
    assert client.statuses == [503]
    assert client.field("Retry-After") == "2"
    assert client.field("Retry-After-Ms") == "2000"
    assert client.field("x-should-retry") == "true"
    assert client.field("Budget-Outcome") == (
        f"shed; effect=none; retry=safe; reason={FULL[narrow]}; phase=not_sent"
    )
    assert (world.record.outcome, world.record.tries, world.record.fresh) == ("shed", 0, 0)
    world.upstream().answers()
    world.upstream().answers()
    assert _order(world) == [1, 2]
    world.at_rest()


@pytest.mark.parametrize(("left", "status"), [(999, 403), (1000, 403), (1001, 503), (9000, 503)])
def test_who_could_not_come_again_in_time_is_told_so(left: int, status: int) -> None:
    """A `Retry-After` that does not fit into what is left would only cost it time."""
    world = World(_with(NARROW["concurrency"], queue=1))
    _asks(world, 1, Budget_Id="a")
    _asks(world, 2, Budget_Id="a")
    client = _asks(world, 3, Budget_Remaining_Ms=left)
    assert client.statuses == [status]
    assert (client.field("Retry-After") is not None) == (status == 503)
    assert client.field("x-should-retry") == ("true" if status == 503 else "false")
    assert f"retry={'safe' if status == 503 else 'never'}" in (client.field("Budget-Outcome") or "")
    assert world.record.outcome == "shed"


def test_min_start_counts_in_what_a_repetition_needs() -> None:
    """What is left after the wait must be enough to start."""
    world = World(_with(NARROW["concurrency"], queue=0, min_start=500 * MILLISECOND))
    _asks(world, 1, Budget_Id="a")
    assert _asks(world, 2, Budget_Remaining_Ms=1500).statuses == [403]
    assert _asks(world, 3, Budget_Id="c", Budget_Remaining_Ms=1501).statuses == [503]


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("early", [0, 1_300_000])
def test_who_cannot_start_in_time_any_more_is_turned_away_at_that_moment(narrow: str, early: int) -> None:
    """Not at the end of its allowance, and never sent, whatever comes free afterwards."""
    world = World(_with(NARROW[narrow], min_start=300 * MILLISECOND))
    world.loop.early = early
    _asks(world, 1)
    client = _asks(world, 2, Connect_Timeout_Ms=1000)
    world.advance(699)
    assert client.received == b""
    world.advance(1.2)
    assert client.statuses == [503]
    record = world.record
    assert (record.outcome, record.reason, record.phase) == ("shed", "queue_deadline", "not_sent")
    assert 700 <= record.queued_ms < 701
    world.upstream().answers()
    assert _order(world) == [1]
    world.at_rest()


def test_without_min_start_it_waits_to_the_end_and_is_turned_away_all_the_same() -> None:
    """Whether the timer wakes a moment before the end or after it: its turn did not come."""
    for early in (0, 1_300_000):
        world = World(NARROW["concurrency"])
        world.loop.early = early
        _asks(world, 1, Budget_Id="a")
        client = _asks(world, 2, Budget_Remaining_Ms=100)
        world.advance(99)
        assert client.received == b""
        world.advance(2)
        assert client.statuses == [403]
        assert (world.record.outcome, world.record.reason) == ("shed", "queue_deadline")
        assert world.record.elapsed_ms >= 99.999


def test_the_wait_is_part_of_the_allowance() -> None:
    """Who has waited is cut when it would have been cut anyway, and tells on what is left by then."""
    world = World(NARROW["concurrency"])
    _asks(world, 1)
    client = _asks(world, 2, Connect_Timeout_Ms=1000)
    world.advance(600)
    world.upstream().answers()
    assert world.upstream().field("Budget-Remaining-Ms") == "400"
    world.advance(399)
    assert client.received == b""
    world.advance(1)
    assert client.statuses == [424]
    assert world.records[-1].elapsed_ms == 1000


@pytest.mark.parametrize("narrow", NARROW)
def test_a_client_that_leaves_while_it_waits(narrow: str) -> None:
    """Its place in the queue is free at once, and its turn goes to the next."""
    world = World(_with(NARROW[narrow], queue=1))
    _asks(world, 1)
    leaving = _asks(world, 2)
    world.advance(30)
    leaving.leaves()
    assert (world.record.outcome, world.record.phase, world.record.queued_ms) == (
        "client_gone",
        "not_sent",
        30,
    )
    _asks(world, 3)
    world.upstream().answers()
    world.upstream().answers()
    assert _order(world) == [1, 3]
    world.at_rest()


def test_a_whole_crowd_that_ends_at_once_is_no_deep_recursion() -> None:
    """Each of a thousand that waited finds its connection refused, and hands its turn to the next."""
    world = World(Policy(fallback=replace(ONE_SLOT, queue=1000)))
    _asks(world, 0, "GET")
    for number in range(1, 1001):
        _asks(world, number, "GET")
    world.dialer.refused.add("tool")
    world.upstream().breaks_off()
    assert len(world.records) == 1001
    world.at_rest()


def test_a_body_may_still_be_on_its_way_while_its_call_waits() -> None:
    """Its client is made to wait with the rest, and goes on when it is its turn."""
    world = World(NARROW["concurrency"])
    _asks(world, 1, "GET")
    wire = request("PUT", "http://tool/2", b"x" * 200_000, Budget_Id="b")
    client = world.client().sends(wire[:100_000])
    assert not client.transport.is_reading()
    client.sends(wire[100_000:])
    world.upstream().answers()
    assert world.sent.count(b"x") == 200_000
    world.upstream().answers()
    assert client.statuses == [200]
    world.at_rest()


# -- what a write finds when its turn has come ---------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("later_ms", [0, 20])
def test_a_write_that_waited_is_not_sent_if_its_equal_was_cut_meanwhile(
    narrow: str, key: str | None, later_ms: int
) -> None:
    """When it came nothing was known of the first; now it may have happened."""
    world = World(NARROW[narrow])
    equal: dict[str, Any] = {"Budget_Id": "b", "Idempotency_Key": key}
    first = world.client().asks("POST", body=b"{}", **equal)
    second = world.client().asks(
        "POST", body=b"{}", **equal
    )  # with a key, it waits for the first one's answer
    world.advance(later_ms)
    world.upstream().breaks_off()
    assert first.statuses == second.statuses == [424]
    assert [record.reason for record in world.records] == ["connection_terminated", "unresolved_write"]
    assert f'"record": "{world.records[0].record}"'.encode() in second.body
    assert sum(len(upstream.heads) for upstream in world.upstreams) == 1
    world.at_rest()


def test_a_dead_letter_is_not_sent_when_its_turn_comes() -> None:
    """The last attempt of its unit failed while it waited."""
    retries = Retries(max=1, outcomes=frozenset({Outcome.UPSTREAM_FAILED}))
    world = World(Policy(fallback=replace(ONE_SLOT, max_attempts=2, retries=retries)))
    _asks(world, 1, "GET")
    second = _asks(world, 1, "GET")
    world.upstream().breaks_off()
    world.advance(1)
    assert second.received == b""
    world.upstream().breaks_off()
    assert second.statuses == [424]
    assert world.records[-1].reason == "dead_lettered"
    assert _order(world) == [1, 1]
    world.at_rest()


# -- what holds no place -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", NARROW)
def test_a_standing_ear_holds_no_place(narrow: str) -> None:
    """It would hold it as long as the job lasts, and longer."""
    world = World(_with(NARROW[narrow], queue=0))
    ears = [
        world.client().asks("GET", "http://tool/1", Accept="text/event-stream"),
        world.client().asks("GET", "http://tool/2", Upgrade="websocket", Connection="Upgrade"),
    ]
    assert world.plane.scheduler.leases == 0
    _asks(world, 3)
    assert _order(world) == [1, 2, 3]
    world.upstream(1).says(response(101, b"", Upgrade="websocket", Connection="Upgrade"))
    for ear in ears:
        ear.leaves()
    world.upstream().answers()
    assert [record.tries for record in world.records] == [1, 1, 1]
    world.advance(1000)
    world.at_rest()


# -- a policy that changes ---------------------------------------------------------------------------------------------


WIDER = {
    "concurrency": Policy(fallback=Route("fallback", concurrency=2)),
    "serialize": Policy(fallback=Route("fallback")),
    "limit": Policy(limit=2),
    "width": Policy(budget=BudgetDefaults(width=2)),
}


@pytest.mark.parametrize("narrow", NARROW)
def test_a_reload_that_makes_room_lets_in_who_waits(narrow: str) -> None:
    """At once, and in order; and one that takes room away stops nobody."""
    world = World(NARROW[narrow])
    _asks(world, 1)
    _asks(world, 2)
    world.advance(10)
    world.plane.adopt(WIDER[narrow])
    world.loop.settle()
    assert _order(world) == [1, 2]
    world.plane.adopt(NARROW[narrow])
    _asks(world, 3)
    world.upstream(0).answers()
    assert _order(world) == [1, 2]
    world.upstream(1).answers()
    assert 3 in _order(world)
    for upstream in world.upstreams:
        upstream.answers()
    assert len(world.records) == 3
    world.at_rest()


def test_a_route_that_goes_away_lets_in_who_waits_at_it() -> None:
    """A call is treated as it was when it came, but for a place that nobody counts any more."""
    world = World(Policy(routes=(replace(ONE_SLOT, name="r"),)))
    _asks(world, 1)
    _asks(world, 2)
    world.plane.adopt(Policy())
    world.loop.settle()
    assert _order(world) == [1, 2]
    for upstream in world.upstreams:
        upstream.answers()
    world.at_rest()


# -- observing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_observing_turns_nobody_away(narrow: str, method: str) -> None:
    """Who would wait passes, and who would be turned away passes and says so."""
    if (narrow, method) == ("serialize", "GET"):
        return  # reads do not wait there
    world = World(replace(_with(NARROW[narrow], queue=0), mode=Mode.OBSERVE))
    first, second = _asks(world, 1, method), _asks(world, 2, method)
    assert _order(world) == [1, 2]
    for upstream in world.upstreams:
        upstream.answers()
    assert first.statuses == second.statuses == [200]
    assert [(record.outcome, record.would) for record in world.records] == [
        ("completed", None),
        ("completed", "shed"),
    ]
    assert "would=shed" in (second.field("Budget-Outcome") or "")
    world.at_rest()
    world = World(replace(NARROW[narrow], mode=Mode.OBSERVE))
    _asks(world, 1, method)
    _asks(world, 2, method)
    assert _order(world) == [1, 2]
    for upstream in world.upstreams:
        upstream.answers()
    assert [record.would for record in world.records] == [None, None]
    assert [what for what, step in world.happened("b") if step == 2] == [
        "enqueued",
        "granted",
        "completed",
        "released",
    ]
    world.at_rest()
