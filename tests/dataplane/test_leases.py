"""A lease is given back exactly once, and with it all that a call has held, however the call ends (promise 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.core.policy import BudgetDefaults, Policy, Retries, Route, Writes
from proxy.core.units import MILLISECOND
from tests.dataplane.world import FakeClient, World, request, response

TIGHT = Policy(
    limit=1,
    budget=BudgetDefaults(width=1),
    fallback=Route("fallback", concurrency=1, serialize=True, max_attempts=100, retries=Retries(max=1)),
    writes=Writes(linger=50 * MILLISECOND),
)
WANTS: dict[str, Any] = {"Upgrade": "websocket", "Connection": "Upgrade"}
AGREED = response(101, b"", **WANTS)
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
PART = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"


def _asks(world: World, number: int, method: str = "POST", budget: str = "b") -> FakeClient:
    """A client of its own asks for /number."""
    body = b'{"n": %d}' % number if method == "POST" else b""
    return world.client().asks(method, f"http://tool/{number}", body, Budget_Id=budget)


Way = Callable[[World, FakeClient], object]


def _hold(what: str) -> Callable[[World], None]:
    def hold(world: World) -> None:
        getattr(world, what).held = True

    return hold


def _refuse(world: World) -> None:
    world.dialer.refused.add("tool")


def _fail_to_write(world: World) -> None:
    world.journal.error = OSError("the disk is full")


def _leaves(world: World, client: FakeClient) -> None:
    client.leaves()


def _stops(world: World, client: FakeClient) -> None:
    client.protocol.stop()


def _after(*steps: Way) -> Way:
    def way(world: World, client: FakeClient) -> None:
        for step in steps:
            step(world, client)

    return way


def _says(data: bytes) -> Way:
    return lambda world, client: world.upstream().says(data)


def _time(ms: float) -> Way:
    return lambda world, client: world.advance(ms)


WAYS: dict[str, tuple[Callable[[World], None] | None, dict[str, Any], Way]] = {
    # how the world is before it asks, what it says besides, and what happens then
    "success": (None, {}, _says(response())),
    "an error": (None, {}, _says(response(500))),
    "a cut": (None, {}, _time(1000)),
    "a cut while dialling": (_hold("dialer"), {}, _time(1000)),
    "a cut while the disk hangs": (_hold("journal"), {}, _time(1000)),
    "a cut in the answer": (None, {}, _after(_says(PART), _time(1000))),
    "a cut stream": (None, {}, _after(_says(SSE), _time(1000))),
    "a reset": (None, {}, lambda world, _: world.upstream().breaks_off()),
    "a close": (None, {}, lambda world, _: world.upstream().ends()),
    "a reset in the answer": (None, {}, _after(_says(PART), lambda world, _: world.upstream().breaks_off())),
    "garbage": (None, {}, _says(b"\0\0\0\r\n\r\n")),
    "a client that leaves while it is dialled": (_hold("dialer"), {}, _leaves),
    "a client that leaves while the disk hangs": (_hold("journal"), {}, _leaves),
    "a client that leaves when it was sent": (None, {}, _leaves),
    "a client that leaves in the answer": (None, {}, _after(_says(PART), _leaves)),
    "a client that leaves a stream": (None, {}, _after(_says(SSE), _leaves)),
    "a client that leaves before it is told": (
        None,
        {},
        _after(lambda world, _: _hold("journal")(world), _says(response()), _leaves),
    ),
    "a client that half-closes and has gone": (
        None,
        {},
        _after(
            lambda world, _: setattr(world.kernel, "left", True), lambda _, client: client.ends(), _time(200)
        ),
    ),
    "a client that leaves between two attempts": (
        _refuse,
        {},
        _after(lambda world, _: setattr(world.plane, "jitter", lambda: 0.9), _leaves),
    ),
    "a refused connection": (_refuse, {}, _time(1)),
    "a disk that fails": (_fail_to_write, {}, _says(response())),
    "an upgrade that ends": (
        None,
        WANTS,
        _after(_says(AGREED), lambda _, client: client.ends(), lambda world, _: world.upstream().ends()),
    ),
    "an upgrade that is reset": (None, WANTS, _after(_says(AGREED), _leaves)),
    "an upgrade that is cut": (
        None,
        WANTS | {"Budget_Remaining_Ms": 1000},
        _after(_says(AGREED), _time(1000)),
    ),
    "an upgrade that is not agreed to": (None, WANTS, _says(response(400))),
    "an upgrade that nobody asked for": (None, {}, _says(AGREED)),
    "a stop": (None, {}, _stops),
    "a stop in a stream": (
        None,
        {},
        _after(_says(SSE), _stops),
    ),
    "a stop while the disk hangs": (
        _hold("journal"),
        {},
        _stops,
    ),
}


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
@pytest.mark.parametrize("way", WAYS)
def test_a_place_is_given_back_once_whatever_happens(way: str, method: str, key: str | None) -> None:
    """And goes to the one who waits for it."""
    before, fields, happens = WAYS[way]
    world = World(TIGHT)
    if before is not None:
        before(world)
    body = b"" if method == "GET" else b"{}"
    stated = {"Budget_Id": "b", "Connect_Timeout_Ms": 1000, "Idempotency_Key": key} | fields
    client = world.client().asks(method, "http://tool/1", body, **stated)
    world.journal.error = None
    waiting = None
    if not world.records:
        assert world.plane.scheduler.leases == 1
        waiting = _asks(world, 2, budget="another")
        if way.endswith("the disk hangs") and method != "POST":  # nobody waits for a disk
            happens = _says(response())
        happens(world, client)
        world.advance(1)
    assert len(world.records) == 1, "the first has ended"
    world.dialer.held = world.journal.held = False
    world.dialer.refused.clear()
    world.journal.release()
    world.dialer.release()
    if waiting is not None and not waiting.statuses:
        assert world.plane.scheduler.leases == 1, "one place, and one who has it"
        world.upstream().answers()
        assert waiting.statuses[-1:] == [200]
    world.advance(1000)
    world.at_rest()
    fresh = _asks(world, 3, budget="third")
    world.upstream().answers()
    assert fresh.statuses == [200]
    assert len({record.record for record in world.records}) == len(world.records)
    world.at_rest()


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_malformed_body_gives_its_place_back(method: str) -> None:
    """A write is whole before it asks for one; any other call may be sent, or waiting, when it turns out."""
    world = World(TIGHT)
    first = _asks(world, 1, "GET")
    for number in (2, 3):
        client = world.client()
        client.sends(request(method, f"http://tool/{number}", Transfer_Encoding="chunked", Budget_Id="b"))
        client.sends(b"2\r\nab\r\n")
        if number == 3:
            world.upstream().answers()
            assert first.statuses == [200]
        client.sends(b"x\r\n")
        assert client.statuses == [400]
    assert [record.reason for record in world.records] == ["malformed", None, "malformed"]
    world.at_rest()


def test_a_stop_ends_those_who_wait_too() -> None:
    """Each is told, and nothing is sent that was not before."""
    world = World(TIGHT)
    clients = [_asks(world, number, method) for number, method in enumerate(("GET", "POST", "PUT", "GET"))]
    world.plane.close()
    world.loop.settle()
    assert all(client.statuses for client in clients)
    assert len(world.records) == 4
    world.advance(1000)
    world.at_rest()


def test_a_drain_waits_for_those_who_wait() -> None:
    """A call that has been let in is served, be it from the queue."""
    world = World(TIGHT)
    first, second = _asks(world, 1), _asks(world, 2)
    world.plane.drain()
    assert not world.plane.quiet.is_set()
    world.upstream().answers()
    assert not world.plane.quiet.is_set()
    world.upstream().answers()
    assert first.statuses == second.statuses == [200]
    assert world.plane.quiet.is_set()
    world.at_rest()
