"""A tunnel to port 80 of a place with which the route speaks TLS, on port 443: nobody may listen on port 80."""

from __future__ import annotations

import pytest

from proxy.core.policy import Policy, Route, Tunnel
from proxy.core.target import Origin
from proxy.core.units import SECOND
from tests.dataplane.tunnelling import asked, connect, seen, through
from tests.dataplane.world import World

TLS = Route("tls", originate_tls=True, ca="/ca.pem")
SAFE = Origin("https", "tool", 443, None, "/ca.pem")
PLAIN = Origin("tcp", "tool", 80)


def world_of(idle: int = 300) -> World:
    """A sidecar that speaks TLS for its callers. Nothing is opened before it is known for what."""
    world = World(Policy(fallback=TLS, tunnel=Tunnel(idle=idle * SECOND)))
    world.dialer.held = True
    return world


@pytest.mark.parametrize("with_the_connect", [False, True])
def test_a_request_goes_where_the_route_says(with_the_connect: bool) -> None:
    """And nothing else is opened."""
    world = world_of()
    client = through(world, said=asked(host="tool:80")) if with_the_connect else through(world)
    if not with_the_connect:
        client.sends(asked(host="tool:80"))
    world.dialer.release()
    (upstream,) = world.upstreams
    assert (upstream.origin, upstream.tunnel, upstream.field("Host")) == (SAFE, False, "tool")
    upstream.answers(b"here")
    assert (client.statuses, client.body) == ([200, 200], b"here")
    assert (world.record.target, world.record.record) == ("https://tool/", seen(client))
    assert world.observed.opened == []
    world.at_rest()


def test_whom_nobody_can_reach_is_told_of_in_the_answer_to_the_request() -> None:
    world = world_of()
    world.dialer.refused.add("tool")
    client = through(world, said=asked())
    world.dialer.release()
    assert client.statuses == [200, 502]
    assert (world.record.outcome, world.record.method) == ("connect_failed", "GET")


def test_anything_else_is_passed_on_when_it_can_be() -> None:
    """What comes meanwhile waits, and so does the end of the client's side."""
    world = world_of()
    client = through(world).sends(b"\x00one ").sends(b"two")
    client.ends()
    assert (world.sent, world.observed.opened) == (b"", ["connect"])
    world.dialer.release()
    (upstream,) = world.upstreams
    assert (upstream.origin, upstream.tunnel) == (PLAIN, True)
    assert (upstream.received, upstream.transport.eof_sent) == (b"\x00one two", True)
    upstream.says(b"answer").ends()
    assert client.received.endswith(b"\r\n\r\nanswer")
    assert (world.record.kind, world.record.outcome, world.record.effect) == (
        "opaque",
        "completed",
        "reported",
    )
    world.at_rest()


def test_much_that_comes_meanwhile_makes_the_client_wait() -> None:
    world = world_of()
    client = through(world).sends(b"\x00")
    for _ in range(9):
        client.sends(bytes(10_000))
    assert client.transport.is_reading() is False
    world.dialer.release()
    assert client.transport.is_reading() is True
    assert len(world.sent) == 90_001


def test_a_place_that_cannot_be_reached_breaks_it_off() -> None:
    """Nothing was sent; and the client, which was told that it can, sees a reset."""
    world = world_of()
    world.dialer.refused.add("tool")
    client = through(world).sends(b"\x00one")
    world.dialer.release()
    assert (client.transport.lost, client.socket.resets_on_close) == (True, True)
    record = world.record
    assert (record.outcome, record.reason, record.effect) == ("connect_failed", "connection_refused", "none")
    world.at_rest()


@pytest.mark.parametrize("said", [b"", b"QU", b"\x00one"])
def test_who_leaves_leaves_nothing_behind(said: bytes) -> None:
    world = world_of(idle=1)
    through(world, said=said).leaves()
    world.dialer.release()
    assert world.record.outcome == ("client_gone" if said else "completed")
    world.advance(2000)
    assert world.plane.pool.counts() == {"idle": 0, "active": 0, "opening": 0}
    assert (world.plane.clients, world.plane.relays, world.loop.armed) == (set(), set(), 0)
    world.at_rest()


def test_who_leaves_before_the_answer_is_told_nothing() -> None:
    world = world_of()
    client = world.client()
    client.transport.arrive(connect()[:-1])
    client.protocol.data_received(b"\n")
    client.leaves()
    assert (world.record.outcome, client.received) == ("client_gone", b"")


def test_silence_is_held_to_its_time() -> None:
    """With nobody on the other side, too."""
    world = world_of(idle=1)
    client = through(world)
    world.advance(1000)
    assert client.transport.lost
    assert (world.record.outcome, world.record.reason) == ("completed", "idle")
    world.advance(2000)
    assert world.loop.armed == 0
