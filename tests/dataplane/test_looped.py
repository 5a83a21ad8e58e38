"""A redirect that leads the sidecar's own connections back to it: each loop ends where it comes in again."""

from __future__ import annotations

import json

import pytest

from proxy.core.policy import Mode, Policy
from proxy.dataplane.redirected import Redirected
from tests.dataplane.world import Socket, Transport, World, request

PLACE = ("10.0.0.5", 80)
OWN = "1.0 fred, 1.1 waterclock-w"


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("own", [True, None])
def test_a_request_that_comes_back_is_refused(own: bool | None, mode: Mode) -> None:
    """At once, under no budget of its own, and with what has to be done about it."""
    world = World(Policy(mode=mode))
    world.kernel.own = own
    client = world.client(PLACE).sends(request("POST", "/x", b"{}", Host="tool", Via=OWN, Budget_Id="b"))
    assert client.statuses == [508]
    said = json.loads(client.body)
    assert (said["reason"], said["effect"], said["outcome"]) == ("redirect_loop", "none", "refused")
    assert "exempt its user id" in said["detail"]
    assert "Do not repeat this call" in said["next"]
    assert client.field("Proxy-Status") == "waterclock; error=proxy_loop_detected"
    assert client.field("Connection") == "close", "the other end of it is in the pool"
    assert (world.upstreams, world.record.reason, world.record.budget_id) == ([], "redirect_loop", None)
    assert list(world.plane.budgets.listed()) == []
    world.at_rest()


@pytest.mark.parametrize("via", [None, "1.1 fred", "1.1 waterclock-w2", "1.1 waterclock", "waterclock-w"])
def test_others_are_served(via: str | None) -> None:
    world = World()
    world.kernel.own = True
    world.client(PLACE).asks("GET", "/x", Host="tool", Via=via)
    assert len(world.upstream().heads) == 1


def test_an_app_may_pass_on_what_it_was_told() -> None:
    """A request that came in by the inbound port has passed here, and the app in between is a proxy itself."""
    world = World()
    world.kernel.own = False
    world.client(PLACE).asks("GET", "/x", Host="tool", Via=OWN)
    assert len(world.upstream().heads) == 1
    world.kernel.own = None
    world.client().asks("GET", "http://tool/x", Via=OWN)
    assert len(world.upstreams) == 2, "nothing has redirected that one"


@pytest.mark.parametrize("said", [b"\x16\x03\x01", b"*1\r\n$4\r\nPING\r\n", b""])
def test_what_is_no_http_is_broken_off(said: bytes) -> None:
    """Nobody can be told, so it is a reset; and nothing is opened for it."""
    world = World()
    world.kernel.own = True
    transport = Transport(world.loop, Socket())
    protocol = Redirected(world.plane, PLACE)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if said:
        transport.arrive(said)
    world.advance(150)
    assert (transport.lost, world.upstreams) == (True, [])
    assert (world.record.outcome, world.record.reason, world.record.effect) == (
        "refused",
        "redirect_loop",
        "none",
    )
    world.advance(1000)
    assert (world.plane.clients, world.plane.in_flight, world.loop.armed) == (set(), 0, 0)
