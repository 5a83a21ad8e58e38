"""A call to a denied place is refused whichever way it came, and nothing is opened: decided in the data plane, without sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from proxy.config import parse
from proxy.core.calls import Kind, Outcome
from proxy.core.degrading import Rung
from proxy.core.policy import Address, Idempotency, Inbound, Listen, Match, Mode, Policy, Retries, Route
from proxy.core.units import MILLISECOND
from proxy.core.upstream import Upstream
from proxy.dataplane.redirected import Redirected
from tests.dataplane.doubts import doubt, verifying
from tests.dataplane.laddered import asks, laddered
from tests.dataplane.tunnelling import asked, connect, through
from tests.dataplane.world import FakeClient, Socket, Transport, World, request

EGRESS = parse("egress: {deny: [metadata, 10.0.0.0/8, secret.example]}").egress
METADATA = ("169.254.169.254", 80)


def denying(**policy: Any) -> World:
    """A world in which some places are denied; `rebound` is a name of one of them, beside a good address."""
    world = World(Policy(egress=EGRESS, **policy))
    world.dialer.addresses = {"rebound": ["192.0.2.1", "10.0.0.7"], "tool": ["192.0.2.1"]}
    return world


def refused(world: World, client: FakeClient) -> dict[str, Any]:
    """It says what a refusal says, and nothing was opened; returns its problem."""
    problem: dict[str, Any] = json.loads(client.body)
    assert client.statuses[-1] == 403
    assert (problem["outcome"], problem["reason"]) == ("refused", "egress_denied")
    assert (problem["effect"], problem["phase"]) == ("none", "not_sent")
    assert "egress.deny" in problem["detail"]
    assert problem["next"].startswith("Nothing was sent.")
    assert client.field("x-should-retry") == client.field("stripe-should-retry") == "false"
    assert client.field("Proxy-Status") == "waterclock; error=http_request_denied"
    assert client.field("Retry-After") is None
    assert world.upstreams == []
    record = world.records[-1]
    assert (record.outcome, record.reason, record.retry) == ("refused", "egress_denied", "never")
    assert (record.effect, record.phase, record.status) == ("none", "not_sent", 403)
    world.at_rest()
    return problem


# -- the ways in -----------------------------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[World], FakeClient]] = {
    "absolute form": lambda world: world.client().asks("GET", "http://169.254.169.254/latest/"),
    "absolute form with https": lambda world: world.client().asks("GET", "https://169.254.169.254/"),
    "a number": lambda world: world.client().asks("GET", "http://2852039166/latest/"),
    "another address in it": lambda world: world.client().asks("GET", "http://[64:ff9b::a9fe:a9fe]/"),
    "a name that is denied": lambda world: world.client().asks("GET", "http://SECRET.example./"),
    "a name with an address that is": lambda world: world.client().asks("GET", "http://rebound/"),
    "Host": lambda world: world.client().asks("GET", "/latest", Host="169.254.169.254"),
    "a WebSocket": lambda world: world.client().asks("GET", "ws://10.0.0.7/", Upgrade="websocket", Connection="Upgrade"),
    "an upgrade": lambda world: world.client().asks("GET", "http://rebound/", Upgrade="websocket", Connection="Upgrade"),
    "a subscription": lambda world: world.client().asks("GET", "http://10.0.0.7/", Accept="text/event-stream"),
    "a write": lambda world: world.client().asks("POST", "http://rebound/", b"{}"),
    "a write with a key": lambda world: world.client().asks("PUT", "http://10.0.0.7/", b"{}", Idempotency_Key="k"),
    "CONNECT": lambda world: world.client().sends(connect("169.254.169.254:443")),
    "CONNECT to a name": lambda world: world.client().sends(connect("rebound:443")),
    "CONNECT to another spelling": lambda world: world.client().sends(connect("0xa9.0xfea9fe:443")),
    "a redirected connection": lambda world: world.client(METADATA).sends(asked(host="tool")),
    "a redirected one, by its Host": lambda world: world.client(("192.0.2.1", 80)).sends(asked(host="secret.example")),
    "a redirected one, mapped": lambda world: world.client(("::ffff:169.254.169.254", 80)).sends(asked()),
    "a redirected one with a zone": lambda world: world.client(("fe80::1%2", 80)).sends(asked()),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_way_in_is_shut(form: str) -> None:
    world = denying()
    client = FORMS[form](world)
    world.loop.settle()
    refused(world, client)
    assert world.journal.kept == {}, "nothing of a write is left in doubt"


@pytest.mark.parametrize("upstream", ["rebound", "tool"])
def test_a_base_url_route_is_shut_when_its_upstream_leads_there(upstream: str) -> None:
    """The policy names a good host; what that stands for is known when it is dialled."""
    route = Route("api", Match(), prefix="/api", upstream=Upstream("http", upstream, 80))
    world = denying(routes=(route,))
    client = world.client().asks("GET", "/api/x", Host="127.0.0.1:10800")
    if upstream == "tool":
        assert len(world.upstreams) == 1
    else:
        refused(world, client)


def test_a_tls_route_is_shut_too() -> None:
    route = Route("tls", Match(), originate_tls=True)
    refused(world := denying(routes=(route,)), world.client().asks("GET", "http://rebound/"))


def test_what_comes_through_a_tunnel_goes_where_that_leads() -> None:
    """By another place's name too: the tunnel's place is good, and nothing else is opened for it."""
    world = denying()
    client = through(world, "tool:80")
    client.sends(asked(host="169.254.169.254"))
    assert [str(upstream.origin) for upstream in world.upstreams] == ["tcp://tool:80"]


class Led:
    """A redirected connection of which nobody knows yet what it is."""

    def __init__(self, world: World, place: tuple[str, int]) -> None:
        self.transport = Transport(world.loop, Socket())
        protocol = Redirected(world.plane, place)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)


@pytest.mark.parametrize(
    "said", [b"\x16\x03\x01\x00\xf8\x01\x00\x00\xf4\x03\x03" + bytes(40), b"SSH-2.0-x\r\n", None], ids=["TLS", "SSH", "server first"]
)  # fmt: skip
@pytest.mark.parametrize("place", [METADATA, ("10.1.2.3", 443), ("fe80::1%2", 25)])
def test_a_redirected_connection_that_is_no_http_is_closed(
    said: bytes | None, place: tuple[str, int]
) -> None:
    """Also one whose server would speak first, to find out which it is dialled."""
    world = denying()
    led = Led(world, place)
    if said is not None:
        led.transport.arrive(said)
    world.advance(500)
    assert (led.transport.closing, world.upstreams) == (True, [])
    record = world.record
    assert (record.outcome, record.reason, record.kind) == ("refused", "egress_denied", "opaque")


# -- what the sidecar does by itself ---------------------------------------------------------------------------------------


def test_a_denied_place_is_tried_once() -> None:
    """Not by the retries of a route, whatever they are for."""
    retries = Retries(max=5, outcomes=frozenset({Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED}))
    world = denying(fallback=Route("fallback", retries=retries))
    client = world.client().asks("GET", "http://rebound/")
    world.advance(5_000)
    refused(world, client)
    assert (world.dialer.asked, world.observed.retries) == (1, [])


def test_a_rung_that_leads_there_is_passed_over() -> None:
    """The next one answers, and says that it is less."""
    rungs = (
        Rung("full", 500 * MILLISECOND),
        Rung("small", 100 * MILLISECOND, upstream=Upstream("http", "rebound", 80)),
        Rung("other", 0, upstream=Upstream("http", "tool", 80)),
    )
    world = laddered(*rungs, policy={"egress": EGRESS})
    world.dialer.addresses = {"rebound": ["10.0.0.7"]}
    asks(world.client(), 300)
    assert [str(upstream.origin) for upstream in world.upstreams] == ["http://tool:80"]


def test_a_call_whose_own_place_is_denied_gets_no_less_instead() -> None:
    """A ladder is for what time does not allow."""
    world = laddered(policy={"egress": parse("egress: {deny: [model]}").egress})
    client = asks(world.client(), 1_000)
    refused(world, client)


def test_the_question_about_a_write_is_not_asked_there() -> None:
    """After a reload that denies the place of a write in doubt, nobody is asked; it stays in doubt."""
    world = verifying()
    doubt(world)
    before = len(world.upstreams)
    world.upstream().breaks_off()
    place = world.upstream().origin.host
    world.plane.adopt(replace(world.plane.policy, egress=parse(f"egress: {{deny: [{place}]}}").egress))
    world.advance(5_000)
    assert len(world.upstreams) == before
    assert world.book.pending() == 1


def test_the_app_is_no_denied_place_to_entry_requests() -> None:
    """They come in, and the app is behind the loopback."""
    inbound = Inbound(Address("0.0.0.0", 10801), Address("127.0.0.1", 8080))
    world = World(
        Policy(listen=Listen(inbound=inbound), egress=parse("egress: {deny: [127.0.0.0/8]}").egress)
    )
    entry = world.entry_client().asks("GET", "/run", Host="agent")
    world.upstream().answers(b"done")
    assert entry.statuses == [200]
    step = world.client().asks("GET", "http://127.0.0.1:8080/run")
    assert step.statuses == [403], "by a call it is one, though a connection to it lies idle"


# -- observe, reload, the pool ---------------------------------------------------------------------------------------------

OBSERVED = {name: FORMS[name] for name in ("absolute form", "a name with an address that is", "a write", "a redirected connection", "an upgrade")}  # fmt: skip


@pytest.mark.parametrize("form", OBSERVED)
def test_observed_it_passes_and_is_recorded(form: str) -> None:
    """With `would=refuse`, whether it was known before the dial or only by it."""
    world = denying(mode=Mode.OBSERVE)
    client = OBSERVED[form](world)
    world.upstream().answers(b"there")
    assert client.statuses[-1] == 200
    assert "would=refuse" in str(client.field("Budget-Outcome"))
    assert (world.record.outcome, world.record.would) == ("completed", "refuse")


def test_observed_a_tunnel_passes_and_is_recorded() -> None:
    world = denying(mode=Mode.OBSERVE)
    client = through(world, "rebound:443")
    client.sends(b"\x16\x03\x01\x00\x05hello")
    client.leaves()
    assert world.record.would == "refuse"


def test_observed_a_redirected_connection_passes_and_is_recorded() -> None:
    world = denying(mode=Mode.OBSERVE)
    led = Led(world, METADATA)
    led.transport.arrive(b"SSH-2.0-x\r\n")
    world.loop.settle()
    assert world.upstream().received == b"SSH-2.0-x\r\n"
    world.upstream().ends()
    led.transport.arrive(None)
    assert world.record.would == "refuse"


def test_what_is_allowed_is_not_recorded_as_denied() -> None:
    world = denying(mode=Mode.OBSERVE)
    world.client().asks("GET", "http://tool/")
    world.upstream().answers()
    assert world.record.would is None


def test_a_reload_takes_hold_of_connections_that_lie_idle() -> None:
    """They lead to where none may any more."""
    world = World()
    world.client().asks("GET", "http://tool/")
    world.upstream().answers()
    world.plane.adopt(replace(world.plane.policy, egress=parse("egress: {deny: [127.0.0.0/8]}").egress))
    assert world.upstream().closed
    client = world.client().asks("GET", "http://tool/")
    assert client.statuses == [403]
    assert len(world.upstreams) == 1


def test_a_reload_takes_hold_of_connections_that_are_in_use() -> None:
    """The call that has begun ends well; its connection is not used for another."""
    world = World()
    first = world.client().asks("GET", "http://tool/")
    world.plane.adopt(replace(world.plane.policy, egress=parse("egress: {deny: [127.0.0.0/8]}").egress))
    world.upstream().answers()
    assert first.statuses == [200]
    world.loop.settle()
    assert world.upstream().closed
    assert world.client().asks("GET", "http://tool/").statuses == [403]


def test_a_reload_takes_hold_of_connections_that_are_being_opened() -> None:
    """They were judged by the rules of before, so they are judged anew."""
    world = World()
    world.dialer.held = True
    client = world.client().asks("GET", "http://tool/")
    world.loop.settle()
    world.plane.adopt(replace(world.plane.policy, egress=parse("egress: {deny: [10.0.0.0/8]}").egress))
    world.dialer.addresses = {"tool": ["10.0.0.7"]}
    world.dialer.held = False
    policy, world.plane.policy = world.plane.policy, Policy()
    world.dialer.waiting[0].set_result(None)
    world.dialer.waiting.clear()
    world.loop.call_soon(lambda: setattr(world.plane, "policy", policy))
    world.loop.settle()
    assert world.sent == b""
    assert client.statuses == [403]


def test_enforcing_what_was_observed_takes_hold() -> None:
    """A connection that was let pass is none for the calls that come after."""
    world = denying(mode=Mode.OBSERVE)
    world.client().asks("GET", "http://rebound/")
    world.upstream().answers()
    world.plane.adopt(replace(world.plane.policy, mode=Mode.ENFORCE))
    assert world.client().asks("GET", "http://rebound/").statuses == [403]
    assert world.upstream().closed


def test_denials_are_counted_among_the_steps() -> None:
    """One record each, like any other step, and a budget that may go on with others."""
    world = denying()
    client = world.client().asks("GET", "http://rebound/", Budget_Id="b", Budget_Remaining_Ms=1000)
    client.asks("GET", "http://tool/", Budget_Id="b")
    world.upstream().answers()
    assert [record.reason for record in world.records] == ["egress_denied", None]
    assert client.statuses == [403, 200]


def test_the_kind_and_the_rest_of_it_are_recorded() -> None:
    """As of any step."""
    world = denying(fallback=Route("fallback", idempotency=Idempotency(honoured=True)))
    world.client().sends(request("POST", "http://10.0.0.7/order?token=hidden", b"{}"))
    assert (world.record.kind, world.record.target) == (Kind.WRITE, "http://10.0.0.7/order?token=…")
