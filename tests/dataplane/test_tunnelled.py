"""Plain HTTP through a CONNECT tunnel is served like any other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.policy import Connections, Mode, Policy, Route, Tunnel
from proxy.core.target import Origin
from tests.dataplane.tunnelling import asked, connect, seen, through
from tests.dataplane.world import World, response

PLACE = Origin("http", "tool", 80, tunnelled=True)


# -- HTTP ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_the_connect", [False, True])
def test_a_request_is_a_call_like_any_other(with_the_connect: bool) -> None:
    """On the connection that the CONNECT has opened. Its record is the one that the CONNECT was told of."""
    world = World()
    wire = asked("GET", "/x?key=1", Via="1.0 fred", Proxy_Connection="keep-alive")
    client = through(world, said=wire) if with_the_connect else through(world).sends(wire)
    (upstream,) = world.upstreams
    assert upstream.origin.scheme == "tcp"
    assert upstream.heads[0].startswith(b"GET /x?key=1 HTTP/1.1\r\nHost: tool\r\n")
    assert upstream.field("Proxy-Connection") is None
    assert upstream.field("Budget-Remaining-Ms") is not None
    upstream.answers(b"here")
    assert client.statuses == [200, 200]
    assert (client.body, client.field("Budget-Outcome")) == (
        b"here",
        "completed; effect=none; retry=safe; phase=complete",
    )
    record = world.record
    assert (record.method, record.target, record.kind) == ("GET", "http://tool/x?key=…", "read")
    assert (record.outcome, record.step, record.tries) == ("completed", 1, 1)
    assert record.record == seen(client) == client.field("Budget-Record")
    assert (world.observed.opened, world.plane.relays) == ([], set())
    assert world.plane.pool.counts() == {"idle": 1, "active": 0, "opening": 0}
    world.at_rest()


def test_several_requests_on_one_connection() -> None:
    """Each has its record, and all go over the one connection that there is."""
    world = World()
    client = through(world)
    for number, method in enumerate(["GET", "POST", "PUT", "HEAD"]):
        client.sends(asked(method, f"/{number}", b"tea" if method[0] == "P" else b""))
        world.loop.settle()
        world.upstream().says(response(200, b"" if method == "HEAD" else b"ok", Content_Length=2))
    assert client.statuses == [200] * 5
    assert [record.target for record in world.records] == [f"http://tool/{number}" for number in range(4)]
    assert len({record.record for record in world.records}) == len(world.records)
    assert len(world.upstreams) == 1
    assert world.upstream().connection.origin == PLACE
    client.ends()
    assert client.transport.closing
    world.at_rest()


def converse(pieces: list[bytes]) -> tuple[Any, ...]:
    """Two requests through a tunnel, said in these pieces; what comes of it."""
    world = World()
    client = world.client()
    for piece in pieces:
        client.sends(piece)
        world.loop.settle()
    for body in (b"first", b"second"):
        world.upstream().answers(body)
        world.loop.settle()
    assert client.statuses == [200, 200, 200]
    client.ends()
    world.at_rest()
    return client.received, world.sent, world.records, world.observed.opened, len(world.upstreams)


CONVERSATION = connect() + asked("POST", "/a", b'{"item": "tea"}') + asked("GET", "/b")
WHOLE = converse([CONVERSATION])


def test_byte_by_byte() -> None:
    assert converse([CONVERSATION[at : at + 1] for at in range(len(CONVERSATION))]) == WHOLE


@given(st.lists(st.integers(0, len(CONVERSATION)), max_size=12))
def test_in_any_pieces(cuts: list[int]) -> None:
    """Nothing of what is told, sent, recorded or counted depends on how the bytes arrive."""
    ends = [0, *sorted(cuts), len(CONVERSATION)]
    assert converse([CONVERSATION[a:b] for a, b in pairwise(ends)]) == WHOLE


def test_what_comes_while_the_tunnel_is_being_opened_waits() -> None:
    world = World()
    world.dialer.held = True
    client = world.client().sends(connect() + asked("GET", "/early"))
    client.ends()
    assert client.received == b""
    world.dialer.release()
    world.upstream().answers(b"here")
    assert (client.statuses, client.body) == ([200, 200], b"here")
    assert client.transport.closing
    assert world.record.outcome == "completed"


def test_a_client_that_asks_and_ends_its_side_is_answered() -> None:
    world = World()
    client = through(world).sends(asked()).ends()
    world.upstream().answers(b"here")
    assert client.body == b"here"
    assert client.transport.closing
    assert (world.record.outcome, world.observed.opened) == ("completed", [])


def test_a_client_that_leaves_in_the_middle() -> None:
    world = World()
    client = through(world).sends(asked("POST", "/", b"tea"))
    world.loop.settle()
    client.leaves()
    assert (world.record.outcome, world.record.effect) == ("client_gone", "uncertain")


def test_an_upgrade_is_one_as_without_a_tunnel() -> None:
    """A WebSocket client opens a tunnel even for `ws://`."""
    world = World()
    client = through(world, Budget_Id="b").sends(
        asked("GET", "/ws", Upgrade="websocket", Connection="Upgrade")
    )
    world.upstream().says(response(101, b"", Upgrade="websocket", Connection="Upgrade") + b"hello")
    client.sends(b"ping")
    assert (client.statuses, client.body) == ([200, 101], b"hello")
    assert world.sent.endswith(b"ping")
    assert len(world.plane.relays) == 1
    world.upstream().ends()
    client.ends()
    assert (world.record.method, world.record.kind, world.record.status) == ("GET", "opaque", 101)
    assert world.observed.opened == []


def test_what_is_malformed_is_told() -> None:
    world = World()
    client = through(world).sends(b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
    assert client.statuses == [200, 400]
    assert (world.records, world.sent) == ([], b"")
    world.at_rest()


# -- the connection that stands ------------------------------------------------------------------------------------


def test_a_write_does_not_go_out_on_one_that_has_stood_idle() -> None:
    """A tunnel that was opened long before it is used: a fresh one for the write, and the old one for a read."""
    world = World()
    client = through(world)
    world.advance(3000)
    client.sends(asked("POST", "/", b"tea"))
    world.loop.settle()
    assert [bool(upstream.received) for upstream in world.upstreams] == [False, True]
    assert world.upstream().origin == PLACE
    world.upstream().answers(Connection="close")
    client.sends(asked("GET", "/x"))
    assert world.upstream(0).heads[0].startswith(b"GET /x ")
    world.upstream(0).answers()
    assert client.statuses == [200, 200, 200]


def test_of_several_the_freshest_is_used() -> None:
    """A tunnel that has stood for long does not hide those that have not."""
    world = World()
    old = through(world)
    world.advance(3000)
    through(world).sends(asked())
    world.upstream().answers()
    old.sends(asked("POST", "/", b"tea"))
    world.loop.settle()
    assert [len(upstream.heads) for upstream in world.upstreams] == [0, 2]


def test_one_that_speaks_while_it_waits_is_dropped() -> None:
    """`408`, say: it would be taken for the answer of whoever comes next."""
    world = World()
    client = through(world)
    world.advance(3000)
    client.sends(asked("POST", "/", b"tea"))
    world.upstream(0).says(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert world.upstream(0).closed


def test_one_that_nobody_needs_is_closed() -> None:
    """Its request goes elsewhere: the route speaks TLS."""
    world = World(Policy(fallback=Route("tls", originate_tls=True)))
    through(world, "tool:8443", said=asked(host="tool:8443"))
    first, second = world.upstreams
    assert second.origin == Origin("https", "tool", 8443)
    assert (first.received, first.closed) == (b"", True)


def test_one_that_is_used_by_nobody_is_closed_after_a_while() -> None:
    """As any that lies idle."""
    world = World()
    client = through(world)
    world.advance(3000)
    client.sends(asked("POST", "/", b"tea"))
    world.loop.settle()
    world.upstream().answers()
    assert not world.upstream(0).closed
    world.advance(100_000)
    assert world.upstream(0).closed


def test_one_on_which_the_other_side_has_spoken_is_not_used() -> None:
    """The client has asked, in HTTP; whoever answers before he is asked does not speak it."""
    world = World()
    world.dialer.early = b"220 ready\r\n"
    through(world, said=asked())
    first, second = world.upstreams
    assert (first.closed, first.received) == (True, b"")
    assert second.heads[0].startswith(b"GET / ")


def test_there_is_no_more_than_there_may_be() -> None:
    """`connections.max` holds for what tunnels bring too."""
    world = World(Policy(connections=Connections(max=1)))
    first, second = through(world), world.client().sends(connect())
    first.sends(asked("GET", "/1"))
    world.loop.settle()
    assert second.statuses == [200], "to the tunnel: that of the first is none any more"
    second.sends(asked("GET", "/2"))
    assert world.upstream(1).closed
    world.upstream(0).answers(b"1")
    world.loop.settle()
    world.upstream(0).answers(b"2")
    assert (first.body, second.body) == (b"1", b"2")


# -- while the sidecar stops ---------------------------------------------------------------------------------------


def test_a_tunnel_that_nobody_has_used_is_closed_when_draining() -> None:
    world = World()
    client = through(world)
    world.plane.drain()
    world.loop.settle()
    assert client.transport.lost
    assert world.plane.quiet.is_set()


def test_requests_are_answered_while_draining_and_then_it_closes() -> None:
    world = World()
    client = through(world).sends(asked())
    world.plane.drain()
    assert not world.plane.quiet.is_set()
    world.upstream().answers(b"here")
    assert (client.body, client.field("Connection")) == (b"here", "close")
    assert client.transport.lost
    assert world.plane.quiet.is_set()


def test_a_tunnel_opened_while_draining_counts_as_long_as_what_comes_through() -> None:
    world = World()
    world.plane.in_flight += 1  # something else keeps it up
    world.plane.drain()
    client = through(world)
    world.plane.in_flight -= 1
    client.sends(asked())
    assert not world.plane.quiet.is_set()
    world.upstream().answers()
    assert world.plane.quiet.is_set()


def test_half_a_head_keeps_nobody_from_stopping() -> None:
    world = World()
    world.plane.in_flight += 1
    world.plane.drain()
    client = through(world)
    world.plane.in_flight -= 1
    client.sends(b"GET / HT")
    assert world.plane.quiet.is_set()


# -- who may open one ----------------------------------------------------------------------------------------------


def test_what_the_policy_says_of_tunnels_holds() -> None:
    world = World(Policy(tunnel=Tunnel(ports=frozenset({443}))))
    client = world.client().sends(connect() + asked())
    assert client.statuses == [403]
    assert (world.record.reason, world.upstreams) == ("tunnel_denied", [])
    assert world.observed.opened == ["connect"]


def test_in_observe_it_is_said_of_what_comes_through() -> None:
    """It would not have come through."""
    world = World(Policy(mode=Mode.OBSERVE, tunnel=Tunnel(ports=frozenset({443}))))
    client = through(world).sends(asked())
    world.upstream().answers()
    client.sends(asked())
    world.upstream().answers()
    assert [(record.method, record.would) for record in world.records] == [("GET", "refuse")] * 2


def test_what_cannot_be_opened_is_told_as_ever() -> None:
    world = World()
    world.dialer.refused.add("tool")
    client = world.client().sends(connect() + asked())
    assert client.statuses == [502]
    assert (world.record.method, world.record.outcome, world.observed.opened) == (
        "CONNECT",
        "connect_failed",
        ["connect"],
    )
    world.at_rest()
