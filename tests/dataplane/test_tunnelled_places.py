"""Where what comes through a CONNECT tunnel leads, by which route, and what is known of a write in it."""

from __future__ import annotations

import re

import pytest

from proxy.core.policy import Idempotency, Match, Policy, Route, Verify
from proxy.core.target import Origin
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteBook, WriteState
from tests.dataplane.tunnelling import asked, connect, through
from tests.dataplane.world import World

CAP = 400 * MILLISECOND
ROUTES = (
    Route("tool", match=Match(host=re.compile("tool")), cap=7 * SECOND),
    Route("other", match=Match(host=re.compile("other")), cap=SECOND, propagate=True),
)


# -- writes --------------------------------------------------------------------------------------------------------


def test_a_write_is_on_disk_before_its_first_byte_leaves() -> None:
    world = World()
    world.journal.held = True
    through(world, said=asked("POST", "/orders", b"tea"))
    assert [(what, sent) for what, _, sent in world.journal.log] == [("intent", 0)]
    assert world.sent == b""
    world.journal.release()
    assert world.sent.endswith(b"tea")


def test_a_write_in_doubt_is_not_repeated_by_whatever_way() -> None:
    world = World(Policy(fallback=Route("fallback", cap=CAP)))
    client = through(world).sends(asked("POST", "/orders", b"tea"))
    world.loop.settle()
    world.advance(400)
    assert (client.statuses, client.field("x-should-retry")) == ([200, 424], "false")
    first = world.record
    assert (first.outcome, first.effect, first.phase) == ("deadline_exceeded", "uncertain", "sent")
    assert world.journal.kept[first.record].state is WriteState.UNCERTAIN
    assert client.sends(asked("POST", "/orders", b"tea")).statuses[-1] == 424
    assert world.client().asks("POST", "http://tool/orders", b"tea").statuses == [424]
    assert world.client(original=None).sends(connect() + asked("POST", "/orders", b"tea")).statuses == [
        200,
        424,
    ]
    assert {record.reason for record in world.records[1:]} == {"unresolved_write"}
    assert world.sent.count(b"tea") == 1


def test_two_equal_writes_under_one_key_have_one_answer() -> None:
    """Whichever way they come."""
    world = World()
    wire = asked("POST", "/orders", b"tea", Idempotency_Key="k")
    first, second = through(world).sends(wire), through(world).sends(wire)
    third = world.client().asks("POST", "http://tool/orders", b"tea", Idempotency_Key="k")
    world.loop.settle()
    assert world.sent.count(b"POST ") == 1
    next(upstream for upstream in world.upstreams if upstream.received).answers(b"done")
    assert [client.body for client in (first, second, third)] == [b"done"] * 3


# -- places --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["tool", "TOOL.", "tool:80", None])
def test_the_same_place_by_whatever_spelling(host: str | None) -> None:
    """The tool is told the name that the client has given it."""
    world = World(Policy(routes=ROUTES))
    version = "1.1" if host else "1.0"
    client = through(world, "Tool:80").sends(asked(host=host, version=version))
    assert world.upstream().field("Host") == (host or "tool")
    world.upstream().answers()
    assert (world.record.route, world.record.target) == ("tool", f"http://{host or 'tool'}/")
    assert client.field("Budget-Allowed-Ms") == "7000"


@pytest.mark.parametrize("authority", ["tool:8080", "[fd00::1]:80", "127.0.0.1:9"])
def test_another_name_leads_nowhere_else(authority: str) -> None:
    """Not to another place, nor to the route of another. The place is told of it, as it would be without a sidecar."""
    world = World(Policy(routes=ROUTES))
    through(world, authority).sends(asked("GET", "/x?k=v", host="other"))
    (upstream,) = world.upstreams
    assert upstream.field("Host") == "other"
    upstream.answers()
    record, place = world.record, authority.removesuffix(":80")
    assert record.target == f"http://other@{place}/x?k=…"
    assert record.route == ("tool" if authority.startswith("tool") else "fallback")
    assert upstream.connection.origin.port == int(authority.rpartition(":")[2])


def test_another_name_is_another_unit() -> None:
    """What is in doubt under the one says nothing of the others, nor of the same name at another place."""
    world = World(Policy(fallback=Route("fallback", cap=CAP)))
    wire = {host: asked("POST", "/", b"tea", host=host) for host in ("a", "b", "10.0.0.5")}
    first = through(world, "10.0.0.5:80").sends(wire["a"])
    world.loop.settle()
    world.advance(400)
    assert first.statuses == [200, 424]
    others = [
        through(world, "10.0.0.5:80").sends(wire["b"]),
        through(world, "10.0.0.5:80").sends(wire["10.0.0.5"]),
        through(world, "elsewhere:80").sends(wire["a"]),
        world.client().asks("POST", "http://a/", b"tea"),
    ]
    world.loop.settle()
    assert world.sent.count(b"POST ") == 1 + len(others)
    assert through(world, "10.0.0.5:80").sends(wire["a"]).statuses == [200, 424]


def test_a_question_about_a_write_asks_by_the_same_name() -> None:
    """Also after a restart: what the wrong host does not know says nothing."""
    verify = Verify("/orders/{idempotency_key}")
    policy = Policy(routes=(Route("orders", verify=verify, cap=CAP, idempotency=Idempotency()),))
    world = World(policy)
    through(world, "10.0.0.5:80").sends(asked("POST", "/", b"tea", host="shop", Idempotency_Key="k"))
    world.loop.settle()
    world.upstream().breaks_off()
    question = b"GET /orders/k HTTP/1.1\r\nHost: shop\r\n"
    assert world.upstream().heads[0].startswith(question)
    later = World(policy, WriteBook(world.book.listed()))
    later.plane.verifier.resume()
    later.loop.settle()
    assert later.upstream().heads[0].startswith(question)
    assert later.upstream().origin == Origin("http", "10.0.0.5", 80, tunnelled=True)


ELSEWHERE = {
    "absolute form": b"GET http://far/ HTTP/1.1\r\nHost: far\r\n\r\n",
    "https": b"GET https://tool/ HTTP/1.1\r\nHost: tool\r\n\r\n",
    "another port": b"GET http://tool:81/ HTTP/1.1\r\nHost: tool:81\r\n\r\n",
    "CONNECT": b"CONNECT far:443 HTTP/1.1\r\nHost: far:443\r\n\r\nGET / HTTP/1.1\r\nHost: far\r\n\r\n",
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_a_later_request_for_elsewhere_is_refused(what: str) -> None:
    """With the first words it would have been somebody else's conversation; now it is nobody's."""
    world = World()
    client = through(world).sends(asked())
    world.upstream().answers()
    client.sends(ELSEWHERE[what])
    assert client.statuses == [200, 200, 400]
    assert client.field("Connection") == "close"
    assert world.records[-1].reason == "malformed"
    assert len(world.upstreams) == 1


def test_a_later_request_in_absolute_form_may_name_the_same_place() -> None:
    world = World()
    client = through(world).sends(asked())
    world.upstream().answers()
    client.sends(b"GET http://tool:80/x HTTP/1.1\r\nHost: other\r\n\r\n")
    assert world.upstream().heads[-1].startswith(b"GET /x HTTP/1.1\r\nHost: tool:80\r\n")


def test_no_prefix_and_no_other_way_in() -> None:
    """In a tunnel a path is a path of the tool, whatever routes the sidecar has for its own."""
    world = World(Policy(routes=(Route("base", prefix="/tool"),)))
    through(world).sends(asked("GET", "/tool/x"))
    assert world.upstream().heads[0].startswith(b"GET /tool/x HTTP/1.1\r\nHost: tool\r\n")


def test_a_tunnel_that_was_asked_of_another_proxy() -> None:
    """A pod that has one of its own, on a connection that was redirected on the way there."""
    world = World()
    client = world.client(("10.0.0.9", 3128)).sends(connect() + asked())
    assert world.upstream().heads[0].startswith(b"GET / HTTP/1.1\r\nHost: tool\r\n")
    world.upstream().answers()
    assert (client.statuses, world.record.target) == ([200, 200], "http://tool/")


def test_a_parent_proxy_is_asked_for_a_tunnel_each_time() -> None:
    """As the client has asked for one; it is never given an absolute form that it would read its own way."""
    world = World()
    client = through(world).sends(asked())
    world.upstream().answers(Connection="close")
    client.sends(asked())
    assert [upstream.origin for upstream in world.upstreams] == [
        Origin("tcp", "tool", 80),
        Origin("http", "tool", 80, tunnelled=True),
    ]
    assert [upstream.tunnel for upstream in world.upstreams] == [True, True]
    world.client().asks()
    assert not world.upstream().tunnel
