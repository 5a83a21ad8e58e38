"""The outbound port answers the pod and nobody else, and both ports let in only as many as leave room for what they call."""

from __future__ import annotations

import contextlib
import resource
import socket
from typing import Any

import pytest

from proxy.config import parse
from proxy.config.remarks import remarks
from proxy.core.policy import Address, Inbound, Listen, Policy
from proxy.core.units import MINUTE
from proxy.dataplane.client import Client
from proxy.dataplane.door import Door, Why
from proxy.dataplane.entrance import Entrance, InboundEntrance
from proxy.net import descriptors
from tests.dataplane.world import Socket, Transport, World
from tests.support.behaviours import answer
from tests.support.callers import Caller, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually
from tests.ways.apart import run, within
from tests.ways.podnet import POD, WORLD, pod_network

NEIGHBOUR = ("203.0.113.9", 40000)


class NotRedirected(Socket):
    """A socket of which iptables knows nothing."""

    def getsockname(self) -> tuple[str, int]:
        raise OSError


class From(Transport):
    """A connection from somewhere."""

    def __init__(self, world: World, peer: tuple[Any, ...] | None) -> None:
        self.kernel = NotRedirected()
        super().__init__(world.loop, self.kernel)
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else super().get_extra_info(name, default)


class Watched:
    """A door, and what it tells."""

    def __init__(self, inside: int = 0) -> None:
        inbound = Inbound(Address("0.0.0.0", 10801), Address("127.0.0.1", 8080))
        self.world = World(Policy(listen=Listen(inbound=inbound)))
        self.told: list[tuple[str, str, int]] = []
        self.inside = inside
        self.door = Door(lambda: self.inside, self.world.loop.clock, lambda *said: self.told.append(said))

    def enters(self, peer: tuple[Any, ...] | None, kind: Any = Entrance) -> From:
        """Somebody connects, and asks at once."""
        transport = From(self.world, peer)
        entrance = kind(self.world.plane, self.door)
        transport.set_protocol(entrance)
        entrance.connection_made(transport)
        if not transport.closing:
            transport.arrive(b"GET http://tool/ HTTP/1.1\r\nHost: tool\r\n\r\n")
        self.world.loop.settle()
        return transport


@pytest.fixture
def own_address() -> str:
    """An address of this machine's that is not of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            pytest.skip("this machine has the loopback only")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(
    "peer", [("127.0.0.1", 1), ("::1", 1, 0, 0), ("127.8.9.10", 1), ("::ffff:127.0.0.1", 1, 0, 0)]
)
def test_the_pod_is_let_in(peer: tuple[Any, ...]) -> None:
    watched = Watched()
    assert not watched.enters(peer).closing
    assert len(watched.world.upstreams) == 1


def test_a_redirected_connection_comes_from_the_pods_own_address(own_address: str) -> None:
    """iptables leaves its source as it was."""
    watched = Watched()
    assert not watched.enters((own_address, 40000)).closing
    assert not watched.enters((f"::ffff:{own_address}", 40000, 0, 0)).closing


@pytest.mark.parametrize(
    "peer", [NEIGHBOUR, ("::ffff:203.0.113.9", 1, 0, 0), ("2001:db8::9", 1, 0, 0), ("fe80::dead", 1, 0, 1)]
)  # fmt: skip
def test_anybody_else_is_hung_up_on(peer: tuple[Any, ...]) -> None:
    """With a reset, without an answer, and nothing is opened for what was asked."""
    watched = Watched()
    transport = watched.enters(peer)
    assert (transport.closing, transport.kernel.resets_on_close, len(transport.sent)) == (True, True, 0)
    assert (watched.world.upstreams, watched.world.plane.clients, watched.world.records) == ([], set(), [])
    assert watched.door.turned_away == {"outside": 1, "crowded": 0}


def test_who_has_no_address_any_more_is_not_guessed() -> None:
    """A connection that was reset already may have left a request to be read."""
    watched = Watched()
    assert watched.enters(None).closing
    assert (watched.world.upstreams, watched.told) == ([], [])


def test_it_is_told_once_a_minute_and_always_counted() -> None:
    """Whoever knocks a million times writes no million lines."""
    watched = Watched()
    for _ in range(1000):
        watched.enters(NEIGHBOUR)
    assert watched.told == [(Why.OUTSIDE, "203.0.113.9", 1)]
    watched.world.loop.now += MINUTE
    watched.enters(NEIGHBOUR)
    assert watched.told[1:] == [(Why.OUTSIDE, "203.0.113.9", 1000)]
    assert watched.door.turned_away["outside"] == 1001


def test_clients_leave_room_for_what_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the descriptors for them; on the inbound side, which anybody reaches, nobody comes in beyond a quarter."""
    monkeypatch.setattr(descriptors, "limit", lambda: 100)
    watched = Watched(inside=24)
    assert not watched.enters(NEIGHBOUR, InboundEntrance).closing
    watched.inside = 25
    assert watched.enters(NEIGHBOUR, InboundEntrance).closing
    assert not watched.enters(("127.0.0.1", 1)).closing
    watched.inside = 50
    assert watched.enters(("127.0.0.1", 1)).closing
    assert watched.door.turned_away == {"outside": 0, "crowded": 2}
    assert [said[0] for said in watched.told] == [Why.CROWDED]


def test_the_inbound_side_is_for_everybody() -> None:
    """Entry requests come from outside the pod; what they may do is another matter."""
    watched = Watched()
    transport = From(watched.world, NEIGHBOUR)
    entrance = InboundEntrance(watched.world.plane, watched.door)
    transport.set_protocol(entrance)
    entrance.connection_made(transport)
    assert isinstance(transport.get_protocol(), Client)


def test_descriptors_are_taken_as_far_as_they_are_allowed() -> None:
    """The soft limit is for programs that select()."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 512), before[1]))
        descriptors.raise_limit()
        assert descriptors.limit() == min(before[1] if before[1] > 0 else 1 << 20, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# -- the real thing --------------------------------------------------------------------------------------------------------


def test_by_default_nobody_else_can_even_connect() -> None:
    """Each of the two ports that are for the pod alone is of the loopback, unless a policy says so of the first."""
    listen = Policy().listen
    assert (listen.outbound.host, listen.control.host) == ("127.0.0.1", "127.0.0.1")
    assert [*remarks(Policy())] == []


@pytest.mark.parametrize("address", ["0.0.0.0:10800", "[::]:10800", "10.1.2.3:10800"])
def test_a_policy_that_opens_the_port_is_remarked(address: str) -> None:
    """`waterclock check` says what it means, and what is enough."""
    [remark] = remarks(parse(f"listen: {{outbound: '{address}'}}"))
    assert remark == (
        f"listen.outbound: {address} can be reached from outside the pod, and whoever calls from there is turned away; "
        "127.0.0.1:10800 is enough, for redirected connections too."
    )


def link_local(device: str) -> str:
    """An IPv6 address that is known by its interface only."""
    run("ip", "-6", "address", "add", "fe80::77/64", "dev", device, "nodad")
    return f"fe80::77%{device}"


def test_in_a_pod_only_its_own_come_in() -> None:
    """Opened to all: from the pod itself, by each of its addresses, calls pass; from beyond they are reset."""
    with pod_network() as pod, pod.in_the_world(Upstream(answer(), host=WORLD[4])) as tool:
        sidecar = Sidecar()
        sidecar.write_policy({"listen": {"outbound": f"0.0.0.0:{sidecar.outbound}"}})  # and so in IPv6
        own = ["127.0.0.1", "::1", *POD.values(), link_local("eth0")]
        with sidecar:
            for address in own:
                with Caller((address, sidecar.outbound)) as caller:
                    assert caller.request("GET", tool.url()).answer().status == 200, address
            for address in POD.values():
                with (
                    within(pod.world),
                    contextlib.suppress(ConnectionError),
                    socket.create_connection((address, sidecar.outbound), 5) as outsider,
                ):
                    outsider.sendall(f"GET {tool.url()} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                    assert outsider.recv(100) == b""
            assert len(tool.requests) == len(own)
            refused = 'waterclock_clients_refused_total{why="outside"}'
            eventually(lambda: sidecar.samples()[refused] == len(POD))
            event = sidecar.event("client_refused")
            assert (event["why"], event["peer"]) == ("outside", WORLD[4])


def test_a_real_flood_leaves_room() -> None:
    """Beyond half of the descriptors connections are reset; a call on one that stands still finds another one."""
    with Sidecar() as sidecar, Upstream(answer()) as upstream, Caller(sidecar) as caller:
        assert caller.request("GET", upstream.url()).answer().status == 200
        resource.prlimit(sidecar.pid, resource.RLIMIT_NOFILE, (100, 4096))
        with contextlib.ExitStack() as stack:
            for _ in range(70):
                with contextlib.suppress(ConnectionError):
                    stack.enter_context(socket.create_connection(sidecar.address, 5))
            eventually(lambda: sidecar.samples()['waterclock_clients_refused_total{why="crowded"}'] > 0)
            assert sidecar.gauges()["client_connections"] <= 50
            with Upstream(answer()) as another:
                assert caller.request("GET", another.url()).answer().status == 200
        sidecar.event("client_refused")
        eventually(lambda: sidecar.gauges()["client_connections"] <= 1)
        assert call(sidecar, "GET", upstream.url()).status == 200
