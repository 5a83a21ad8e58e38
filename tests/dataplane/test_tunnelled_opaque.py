"""What comes through a CONNECT tunnel and is no HTTP passes as it is, in its time, though it was listened to first."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import Policy, Route, Tunnel
from proxy.core.units import MILLISECOND, SECOND
from proxy.dataplane.tunnelled import STOPPED_SECONDS
from tests.dataplane.tunnelling import connect, seen, through
from tests.dataplane.world import FakeClient, World

STOPPED_MS = STOPPED_SECONDS * 1000
CLIENT_HELLO = b"\x16\x03\x01\x00\xf8\x01\x00\x00\xf4\x03\x03" + bytes(40)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


# -- what it is ----------------------------------------------------------------------------------------------------


def opaque(world: World, client: FakeClient, passed: bytes) -> None:
    """It is a tunnel as tunnels are, through which this has passed."""
    assert world.sent == passed
    assert client.received.partition(b"\r\n\r\n")[2] == b""
    world.upstream().says(b"\xffanswer")
    client.sends(b"more")
    assert client.received.endswith(b"\r\n\r\n\xffanswer")
    assert world.sent == passed + b"more"
    assert (world.observed.opened, world.plane.clients, len(world.plane.relays)) == (["connect"], set(), 1)
    world.upstream().says(b"bye" * 300)
    world.advance(300)
    client.leaves()
    record = world.record
    assert (record.method, record.kind, record.outcome) == ("CONNECT", "opaque", "completed")
    assert (record.target, record.record) == ("tcp://tool:80", seen(client))
    assert world.observed.budgets_opened == 1
    world.at_rest()


OTHERS = {
    "TLS": CLIENT_HELLO,
    "HTTP/2": PREFACE,
    "a line that is no request": b"GET key\r\n",
    "bytes": b"\x00\x01",
    "a CONNECT to a proxy behind it": connect("far:443"),
    "a request to a proxy behind it": b"GET http://far/ HTTP/1.1\r\nHost: far\r\n\r\n",
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("how", ["at once", "byte by byte", "with the CONNECT"])
def test_what_is_not_for_us_passes_untouched(what: str, how: str) -> None:
    world, said = World(), OTHERS[what]
    client = through(world, said=said if how == "with the CONNECT" else b"")
    for piece in [said[at : at + 1] for at in range(len(said))] if how == "byte by byte" else [said]:
        if how != "with the CONNECT":
            client.sends(piece)
    opaque(world, client, said)


@pytest.mark.parametrize("said", [b"", b"QUIT"])
def test_a_server_that_speaks_first(said: bytes) -> None:
    """It is heard at once, whatever its client has begun to say."""
    world = World()
    client = through(world, said=said)
    world.upstream().says(b"220 ready\r\n")
    assert client.received.endswith(b"\r\n\r\n220 ready\r\n")
    assert world.sent == said
    assert world.observed.opened == ["connect"]
    client.sends(b"GET / HTTP/1.1\r\nHost: tool\r\n\r\n")
    assert world.sent.endswith(b"GET / HTTP/1.1\r\nHost: tool\r\n\r\n"), "it is too late for that"


@pytest.mark.parametrize("word", [b"ruok", b"G", b"GET ", b"\x16", b"\r\n"])
def test_a_word_in_which_the_client_stops_is_passed_on(word: bytes) -> None:
    world = World()
    client = through(world).sends(word)
    assert world.sent == b""
    world.advance(STOPPED_MS + 1)
    opaque(world, client, word)


def test_session_tickets_answer_nothing() -> None:
    """What a TLS server sends of its own accord: the client still waits."""
    world = World()
    client = through(world).sends(CLIENT_HELLO)
    world.upstream().says(bytes(255))
    world.advance(300)
    client.leaves()
    assert (world.record.outcome, world.record.effect) == ("client_gone", "uncertain")


@pytest.mark.parametrize("said", [b"", b"QUIT"])
def test_a_client_that_ends_its_side_early(said: bytes) -> None:
    """That was all of its question."""
    world = World()
    client = through(world).sends(said).ends() if said else through(world).ends()
    assert world.sent == said
    assert world.upstream().transport.eof_sent
    world.upstream().says(b"answer").ends()
    assert client.received.endswith(b"\r\n\r\nanswer")
    assert (world.record.kind, world.record.outcome) == ("opaque", "completed")


def test_a_client_that_ends_its_side_before_the_tunnel_stands() -> None:
    world = World()
    world.dialer.held = True
    client = world.client().sends(connect()).ends()
    world.dialer.release()
    assert client.statuses == [200]
    assert world.upstream().transport.eof_sent


# -- time, while nobody knows ----------------------------------------------------------------------------------------


def test_a_burst_is_timed_from_its_first_byte() -> None:
    """Also where that was held back for a moment."""
    world = World(Policy(fallback=Route("fallback", cap=200 * MILLISECOND)))
    client = through(world)
    world.advance(1000)
    client.sends(b"ruok")
    world.advance(199)
    assert world.records == []
    world.advance(1)
    assert client.transport.lost
    assert (world.record.outcome, world.record.reason, world.record.effect) == (
        "deadline_exceeded",
        "route_cap",
        "uncertain",
    )


@pytest.mark.parametrize("budget", [{"Budget_Remaining_Ms": 400}, {}])
def test_silence_ends_as_in_any_tunnel(budget: dict[str, Any]) -> None:
    world = World(Policy(tunnel=Tunnel(idle=SECOND)))
    client = through(world, **budget)
    world.advance(1000)
    assert client.transport.lost
    expected = ("deadline_exceeded", "budget_remaining") if budget else ("completed", "idle")
    assert (world.record.outcome, world.record.reason) == expected
    assert (world.record.kind, world.record.effect) == ("opaque", "reported")
    assert world.observed.opened == ["connect"]
    world.at_rest()


@pytest.mark.parametrize(("said", "outcome"), [(b"", "completed"), (b"QUI", "client_gone")])
def test_a_client_that_leaves_without_a_word(said: bytes, outcome: str) -> None:
    """Or in the middle of one: then somebody waited for an answer."""
    world = World()
    client = through(world, said=said)
    client.leaves()
    assert (world.record.outcome, world.record.kind, world.sent) == (outcome, "opaque", b"")
    assert world.upstream().closed
    world.advance(1000)
    assert (world.plane.clients, world.plane.relays, world.observed.opened) == (set(), set(), ["connect"])


def test_a_client_that_is_on_its_way_out_when_the_tunnel_stands() -> None:
    world = World()
    world.dialer.held = True
    client = world.client().sends(connect())
    client.transport.closing = True
    world.dialer.release()
    assert (world.record.outcome, world.record.reason) == ("client_gone", "client_left")
    assert world.upstream().closed
