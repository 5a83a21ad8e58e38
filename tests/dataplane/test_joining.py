"""Calls under one idempotency key while the first of them is in flight: one is sent, and all get its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from proxy.core.policy import Idempotency, Policy, Route, Writes
from proxy.core.units import MILLISECOND
from tests.dataplane.world import FakeClient, World, request, response

HONOURED = Route("fallback", idempotency=Idempotency(honoured=True))
WANTS: dict[str, Any] = {"Upgrade": "websocket", "Connection": "Upgrade"}


def _asks(world: World, body: bytes = b"{}", **fields: Any) -> FakeClient:
    """A client of its own makes the call, for the job `b`."""
    return world.client().asks("POST", body=body, **{"Budget_Id": "b", "Idempotency_Key": "k"} | fields)


def _sent(world: World) -> int:
    """How many calls were sent."""
    return sum(len(upstream.heads) for upstream in world.upstreams)


@pytest.mark.parametrize("honoured", [False, True])
@pytest.mark.parametrize("others", [1, 5])
def test_one_is_sent_and_all_get_its_answer(others: int, honoured: bool) -> None:
    """Each of the others says so, leaves a record of its own, and was no attempt."""
    world = World(Policy(fallback=HONOURED if honoured else Route("fallback")))
    first = _asks(world)
    joined = [_asks(world) for _ in range(others)]
    world.advance(30)
    assert all(client.received == b"" for client in joined)
    world.upstream().answers(b"made", 201, X="y")
    assert _sent(world) == 1
    for client in (first, *joined):
        assert client.statuses == [201]
        assert (client.body, client.field("X")) == (b"made", "y")
    for client in joined:
        assert client.field("Budget-Outcome") == "completed; effect=reported; reason=joined; phase=complete"
    assert "joined" not in (first.field("Budget-Outcome") or "")
    assert len({client.field("Budget-Record") for client in (first, *joined)}) == 1 + others
    left = [(record.outcome, record.reason, record.tries, record.fresh) for record in world.records]
    assert left == [("completed", None, 1, 1)] + [("completed", "joined", 0, 0)] * others
    assert world.observed.joins == ["fallback"] * others
    assert world.journal.kept == {}
    assert len(world.book) == 0
    world.at_rest()


FRAMINGS = {
    "length": b"Content-Length: 4\r\n\r\nmade",
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n2\r\nma\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n",
    "until close": b"\r\nmade",
    "a stream": b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmade\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_each_gets_it_in_a_form_that_it_can_read(framing: str, version: str) -> None:
    """Whatever form it came in, and all of it."""
    world = World()
    first, second = _asks(world), _asks(world, version=version)
    world.upstream().says(b"HTTP/1.1 200 OK\r\n" + FRAMINGS[framing])
    if framing == "until close":
        world.upstream().ends()
    assert first.statuses == second.statuses == [200]
    if version == "1.0":
        assert second.body == b"made"
        assert second.transport.lost
    else:
        assert second.body.startswith(b"made" if framing == "length" else b"4\r\nmade\r\n0\r\n")
    assert b"T: u" in second.body or framing != "chunked" or version == "1.0"
    world.at_rest()


def test_an_answer_that_says_no_is_an_answer() -> None:
    """All are told the same."""
    world = World()
    clients = [_asks(world) for _ in range(3)]
    world.upstream().answers(b"no", 503)
    assert [client.statuses for client in clients] == [[503]] * 3
    assert _sent(world) == 1
    world.at_rest()


def test_one_that_comes_when_the_answer_is_already_here() -> None:
    """It is being put on record, and has not been passed on."""
    world = World()
    first = _asks(world)
    world.journal.held = True
    world.upstream().answers(b"made")
    second = _asks(world)
    assert first.received == second.received == b""
    world.journal.release()
    assert first.body == second.body == b"made"
    assert _sent(world) == 1
    third = _asks(world)
    world.journal.held = False
    world.journal.release()
    assert third.received == b""
    assert _sent(world) == 2, (
        "the first is over: what is asked under its key now is for the other side to judge"
    )


def test_an_answer_in_the_very_moment_in_which_the_other_is_cut() -> None:
    """Both are due at once: the second is told that it has waited in vain, and its record says the same."""
    world = World(Policy(fallback=Route("fallback", cap=100 * MILLISECOND)))
    fields = {"Budget_Id": "b", "Idempotency_Key": "k"}
    wire = request("POST", "http://tool.internal/orders", b"{}", **fields)
    second = world.client()
    second.sends(wire[:-1])  # its time runs first, and it joins all the same
    first = world.client()
    first.sends(wire)
    second.sends(wire[-1:])
    world.journal.held = True
    world.upstream().answers(b"made")  # which the journal does not know of before the time is over
    world.advance(100)
    assert (first.statuses, second.statuses) == ([200], [424])
    said = second.field("Budget-Outcome")
    assert said == "deadline_exceeded; effect=none; retry=never; reason=route_cap; phase=not_sent"
    by_step = {record.step: record for record in world.records}
    assert sorted(by_step) == [1, 2]
    record = by_step[1]
    assert (record.outcome, record.effect, record.phase) == ("deadline_exceeded", "none", "not_sent")
    assert (record.status, record.bytes) == (424, 0)
    world.journal.held = False
    world.journal.release()
    world.at_rest()


# -- there is no answer to share ---------------------------------------------------------------------------------------


def _large(world: World) -> None:
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 101)


def _large_at_once(world: World) -> None:
    world.upstream().answers(b"x" * 101)


@pytest.mark.parametrize("how", [_large, _large_at_once])
def test_an_answer_too_large_to_be_kept_is_not_shared(how: Any) -> None:
    """The first gets it as it comes; the others are told that theirs is under way, or are sent if that does no harm."""
    for route in (Route("fallback"), HONOURED):
        world = World(Policy(fallback=route, writes=Writes(hold_back_bytes=100)))
        first, second = _asks(world), _asks(world)
        how(world)
        assert first.statuses == [200]
        call = first.protocol._call
        assert call is None or not call._response.copied  # type: ignore[union-attr]
        if route is HONOURED:
            assert _sent(world) == 2
            continue
        assert second.statuses == [424]
        assert f'"record": "{first.field("Budget-Record")}"'.encode() in second.body
        assert _sent(world) == 1


def test_a_stream_that_has_begun_is_not_shared() -> None:
    """Who comes too late for its beginning would miss it."""
    world = World()
    first = _asks(world)
    world.upstream().says(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
    )
    second = _asks(world)
    assert second.statuses == [424]
    assert b"is still under way" in second.body
    assert f'"record": "{first.field("Budget-Record")}"'.encode() in second.body
    world.upstream().says(b"0\r\n\r\n")
    world.at_rest()


def _half(world: World, first: FakeClient) -> None:
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart")
    world.upstream().breaks_off()


ENDINGS: dict[str, Callable[[World, FakeClient], object]] = {
    "a cut": lambda world, first: world.advance(1000),
    "a reset": lambda world, first: world.upstream().breaks_off(),
    "garbage": lambda world, first: world.upstream().says(b"\0\0\0\r\n\r\n"),
    "half an answer": _half,
    "its caller leaves": lambda world, first: first.leaves(),
    "a stop": lambda world, first: first.protocol.stop(),
}


LISTENED: Final = frozenset({"a cut", "its caller leaves"})
"""The endings after which the sidecar goes on listening for the answer."""


@pytest.mark.parametrize("ending", sorted(LISTENED))
def test_who_waits_gets_a_late_answer_too(ending: str) -> None:
    """The first was cut, or has left: the others go on waiting for what is listened for in any case."""
    world = World()
    first = _asks(world, Connect_Timeout_Ms=1000)
    joined = [_asks(world) for _ in range(2)]
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nma")
    ENDINGS[ending](world, first)
    assert [client.received for client in joined] == [b""] * 2
    world.upstream().says(b"de")
    assert [client.body for client in joined] == [b"made"] * 2
    assert [record.reason for record in world.records[1:]] == ["joined"] * 2
    assert _sent(world) == 1
    world.at_rest()


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_uncertain_end_is_everybodys(ending: str) -> None:
    """The others are refused, as any later repeat would be, with the record of the first, once nobody listens any more."""
    world = World()
    first = _asks(world, Connect_Timeout_Ms=1000)
    joined = [_asks(world) for _ in range(3)]
    ENDINGS[ending](world, first)
    world.advance(10_000 if ending in LISTENED else 0)
    assert _sent(world) == 1
    assert world.records[0].effect == "uncertain"
    for client in joined:
        assert client.statuses == [424]
        assert f'"record": "{world.records[0].record}"'.encode() in client.body
        assert client.field("x-should-retry") == "false"
    assert [record.reason for record in world.records[1:]] == ["unresolved_write"] * 3
    world.advance(20_000)
    world.at_rest()


@pytest.mark.parametrize("ending", ENDINGS)
def test_where_the_key_is_honoured_the_next_goes_on_in_its_place(ending: str) -> None:
    """The other side knows the key, so it is asked again: once, for all that wait."""
    world = World(Policy(fallback=HONOURED))
    first = _asks(world, Connect_Timeout_Ms=1000)
    joined = [_asks(world) for _ in range(3)]
    ENDINGS[ending](world, first)
    world.loop.settle()
    assert _sent(world) == 2
    world.upstream().answers(b"made")
    assert [client.body for client in joined] == [b"made"] * 3
    assert [record.tries for record in world.records].count(1) == 2
    world.advance(20_000)
    world.at_rest()


def test_a_first_that_was_never_sent_is_followed_by_the_next() -> None:
    """And so on: each that finds its connection refused leaves the others waiting for the one after it."""
    world = World()
    world.dialer.held = True
    clients = [_asks(world) for _ in range(4)]
    world.dialer.refused.add("tool")
    for number in range(2):
        world.dialer.release()
        assert clients[number].statuses == [502]
        assert [client.received for client in clients[number + 1 :]] == [b""] * (3 - number)
    world.dialer.refused.clear()
    world.dialer.release()
    world.upstream().answers(b"made")
    assert clients[2].body == clients[3].body == b"made"
    assert _sent(world) == 1
    assert [record.reason for record in world.records] == [*["connection_refused"] * 2, None, "joined"]
    world.at_rest()


@pytest.mark.parametrize("where", ["in the queue", "while the disk hangs", "while it is dialled"])
def test_a_first_whose_caller_leaves_before_it_was_sent(where: str) -> None:
    """The next goes on in its place, and has its whole turn before it."""
    world = World(Policy(fallback=Route("fallback", concurrency=1)))
    if where == "in the queue":
        world.client().asks()
    world.journal.held = where == "while the disk hangs"
    world.dialer.held = where == "while it is dialled"
    first, second, third = _asks(world), _asks(world), _asks(world)
    world.advance(10)
    first.leaves()
    assert second.received == third.received == b""
    world.advance(10)
    world.journal.held = world.dialer.held = False
    world.journal.release()
    for _ in range(3):
        world.dialer.release()
    if where == "in the queue":
        world.upstream().answers()
    world.upstream().answers(b"made")
    assert second.body == third.body == b"made"
    sent = next(
        record for record in world.records if record.tries and record.method == "POST" and record.status
    )
    assert sent.waited_ms == 20
    if where == "in the queue":
        assert (sent.queued_ms, sent.overhead_ms) == (10, 0), (
            "what it waited for the first is no wait for a slot"
        )
    world.at_rest()


def test_a_first_that_waits_too_long_for_its_turn() -> None:
    """It is turned away; the next, which has more time, waits on."""
    world = World(Policy(fallback=Route("fallback", concurrency=1)))
    world.client().asks()
    first, second = _asks(world, Connect_Timeout_Ms=100), _asks(world)
    world.advance(100)
    assert first.statuses == [503]
    assert second.received == b""
    world.upstream().answers()
    world.upstream().answers(b"made")
    assert second.body == b"made"
    world.at_rest()


def test_an_upgrade_is_no_answer_to_share() -> None:
    """The first goes on in another protocol; the next asks for itself."""
    world = World()
    first, second = _asks(world, **WANTS), _asks(world, **WANTS)
    world.upstream().says(response(101, b"", **WANTS))
    assert first.statuses == [101]
    assert _sent(world) == 2
    world.upstream().says(response(101, b"", **WANTS))
    assert second.statuses == [101]
    for client in (first, second):
        client.leaves()
    world.at_rest()


# -- those who wait ----------------------------------------------------------------------------------------------------


def test_each_waits_within_its_own_time() -> None:
    """Then it is cut, told that the first is still under way, and the first goes on."""
    world = World()
    first, second = _asks(world), _asks(world, Connect_Timeout_Ms=50)
    third = _asks(world, Budget_Id="c", Budget_Remaining_Ms=60)
    world.advance(50)
    assert second.statuses == [424]
    assert b"is still under way" in second.body
    assert third.received == b""
    world.advance(10)
    assert third.statuses == [424]
    assert [(record.outcome, record.reason, record.phase) for record in world.records] == [
        ("deadline_exceeded", "foreign_limit", "not_sent"),
        ("deadline_exceeded", "budget_remaining", "not_sent"),
    ]
    world.upstream().answers(b"made")
    assert first.body == b"made"
    world.at_rest()


def test_who_waits_for_one_that_may_not_have_been_sent_runs_out_of_time_like_any_other() -> None:
    """There is no record yet that it could be told."""
    world = World(Policy(fallback=Route("fallback", concurrency=1)))
    world.client().asks()
    _asks(world)
    second = _asks(world, Connect_Timeout_Ms=50)
    world.advance(50)
    assert second.statuses == [504]
    assert world.record.effect == "none"


def test_who_leaves_is_not_waited_for() -> None:
    """The others are told as before."""
    world = World()
    first, second, third = _asks(world), _asks(world), _asks(world)
    second.leaves()
    (claim,) = world.plane.claims._claims.values()
    assert len(claim.waiting) == 1
    assert (world.record.outcome, world.record.effect, world.record.tries) == ("client_gone", "none", 0)
    world.upstream().answers(b"made")
    assert first.body == third.body == b"made"
    world.at_rest()


def test_who_is_stopped_is_told_nothing_of_it() -> None:
    """A stop of the sidecar ends those who wait too, and sends nothing in their place."""
    world = World()
    clients = [_asks(world) for _ in range(3)]
    world.plane.close()
    world.loop.settle()
    assert all(client.statuses for client in clients)
    assert _sent(world) == 1
    world.advance(20_000)
    world.at_rest()


def test_a_client_can_ask_for_the_same_on_the_same_connection_again() -> None:
    """Each request has its answer, in order, and what comes after the first is over is another call."""
    world = World()
    client = _asks(world)
    world.upstream().answers(b"1")
    client.asks("POST", body=b"{}", Idempotency_Key="k")
    other = _asks(world)
    world.upstream().answers(b"2")
    client.asks("POST", body=b"{}", Idempotency_Key="k")
    world.upstream().answers(b"3")
    assert client.statuses == [200] * 3
    assert other.body == b"2"
