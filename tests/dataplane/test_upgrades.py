"""Leaving HTTP: an upgrade that is agreed to, one that is not, and what stands behind it on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import Mode, Policy, Route
from proxy.core.units import MILLISECOND
from tests.dataplane.world import World, request, response

WANTS: dict[str, Any] = {"Upgrade": "websocket", "Connection": "Upgrade"}
AGREED = response(101, b"", Upgrade="websocket", Connection="Upgrade")


def test_an_agreed_upgrade_is_relayed_both_ways() -> None:
    """From its first byte on, also what both sides sent before they knew."""
    world = World()
    client = world.client().sends(request(**WANTS) + b"early")
    assert world.upstream().field("Upgrade") == "websocket"
    assert world.upstream().field("Connection") == "Upgrade"
    assert b"early" not in world.sent
    world.upstream().says(AGREED + b"hello")
    assert client.statuses == [101]
    assert client.field("Upgrade") == "websocket"
    assert client.body == b"hello"
    assert world.sent.endswith(b"early")
    client.sends(b"ping")
    world.upstream().says(b"pong")
    assert world.sent.endswith(b"earlyping")
    assert client.body == b"hellopong"
    assert world.plane.in_flight == 1
    world.upstream().ends()
    client.ends()
    assert (world.record.outcome, world.record.kind, world.record.bytes) == ("completed", "opaque", 9)
    assert world.plane.relays == set()


@pytest.mark.parametrize(
    "follows", [b"", request("GET", "http://tool/2")], ids=["nothing", "the next request"]
)
def test_a_refused_upgrade_goes_on_in_http(follows: bytes) -> None:
    """What stands behind the request is the next request, whether it came before the refusal or after it."""
    world = World()
    client = world.client().sends(request(**WANTS) + follows)
    world.upstream().answers(b"no")
    if not follows:
        client.asks("GET", "http://tool/2")
    assert b"GET /2 " in world.upstream().heads[-1]
    world.upstream().answers(b"2")
    client.asks("GET", "http://tool/3", **WANTS)
    client.sends(request("GET", "http://tool/4"))
    world.upstream().answers(b"3")
    world.upstream().answers(b"4")
    assert client.statuses == [200, 200, 200, 200]


def test_the_body_of_an_upgrade_request_is_read() -> None:
    """Clients in Java ask for h2c with each request, bodies too: they go on in HTTP/1.1 behind it."""
    world = World()
    client = world.client()
    for method in ("PUT", "POST"):
        wire = request(method, body=b"0123456789", Upgrade="h2c", Connection="Upgrade, HTTP2-Settings")
        client.sends(wire[:-5])
        client.sends(wire[-5:] + request())
        assert world.sent.endswith(b"0123456789")
        world.upstream().answers()
        world.upstream().answers()
    assert client.statuses == [200] * 4


def test_an_agreement_that_nobody_asked_for_is_a_fault() -> None:
    """A 101 without an upgrade is no answer."""
    world = World()
    client = world.client().asks()
    world.upstream().says(AGREED)
    assert client.statuses == [502]
    assert world.upstream().closed


def test_an_upgrade_is_held_to_its_allowance() -> None:
    """Before it is agreed to and after: it is one step."""
    world = World()
    silent = world.client().asks(**WANTS, Budget_Remaining_Ms=100)
    talking = world.client().asks("GET", "http://other/", **WANTS, Budget_Remaining_Ms=200)
    world.upstream().says(AGREED)
    world.advance(100)
    assert silent.statuses == [504]
    for _ in range(9):
        talking.sends(b"x")
        world.upstream().says(b"y")
        world.advance(10)
    assert len(world.records) == 1
    world.advance(10)
    assert [record.outcome for record in world.records] == ["deadline_exceeded"] * 2
    assert talking.transport.lost
    assert talking.socket.resets_on_close


def test_a_standing_ear_has_no_allowance_but_its_silence_ends_it() -> None:
    """Without a stated budget it is no step that is timed."""
    world = World(
        Policy(subscription_idle=1000 * MILLISECOND, fallback=Route("fallback", cap=10 * MILLISECOND))
    )
    client = world.client().asks(**WANTS)
    world.advance(500)
    world.upstream().says(AGREED)
    for _ in range(10):
        world.advance(900)
        world.upstream().says(b".")
    assert world.records == []
    world.advance(1000)
    assert world.record.reason == "idle"
    assert client.transport.lost


def test_observing_cuts_no_upgrade() -> None:
    """It says that it would have."""
    world = World(Policy(mode=Mode.OBSERVE))
    client = world.client().asks(**WANTS, Budget_Remaining_Ms=100)
    world.upstream().says(AGREED)
    world.advance(5000)
    assert world.records == []
    client.sends(b"x").ends()
    world.upstream().ends()
    assert world.record.would == "cut"


def test_a_write_that_became_another_protocol_is_settled() -> None:
    """Its answer was the agreement; nothing of it stays in doubt."""
    world = World()
    client = world.client().asks("POST", body=b"{}", Idempotency_Key="k", **WANTS)
    world.upstream().says(AGREED)
    assert client.statuses == [101]
    world.advance(1000)
    assert world.journal.kept == {}
    assert len(world.book) == 0


def test_back_pressure_goes_both_ways_through_a_relay() -> None:
    """Whoever does not read makes the other side wait."""
    world = World()
    client = world.client().asks(**WANTS)
    upstream = world.upstream().says(AGREED)
    client.transport.stuck = True
    upstream.says(b"x" * 70_000)
    assert not upstream.transport.is_reading()
    client.transport.unstick()
    assert upstream.transport.is_reading()
    upstream.transport.stuck = True
    client.sends(b"y" * 70_000)
    assert not client.transport.is_reading()
    upstream.transport.unstick()
    assert client.transport.is_reading()
