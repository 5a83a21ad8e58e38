"""Clusters whose only way out is a parent proxy: what goes through it and how, and what goes past it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from tests.support.behaviours import answer, echo, head, stall, upgrade
from tests.support.callers import Caller, call
from tests.support.ports import nobody_at
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import now_ms
from tests.ways.apart import apart
from tests.ways.names import Names
from tests.ways.parents import Parent
from tests.ways.tunnels import Tunnel, report
from tests.ways.tunnels import echo as parrot

SLACK = 1500.0


class Place(NamedTuple):
    """A sidecar, its parent proxy, and the tools behind its base URLs."""

    sidecar: Sidecar
    parent: Parent
    plain: Upstream
    safe: Upstream


@pytest.fixture(scope="module")
def place(names: Names, ca: trustme.CA, ca_file: Path) -> Iterator[Place]:
    names.know("direct.example", "orders.shop.svc", "svc.example", "sub.direct.example")
    known = {"ca": str(ca_file)}
    with (
        Parent() as parent,
        Upstream(answer()) as plain,
        Upstream(answer(), tls=speaking_tls(ca, "tool.example")) as safe,
    ):
        originated = {"host": "*.example", "path": "/originate/**"}
        policy = {
            "connections": {"proxy": parent.url, "no_proxy": [".svc", "direct.example"]},
            "fallback": known,
            "routes": [
                {"name": "plain", "prefix": "/plain", "upstream": f"http://tool.example:{plain.port}/v1"},
                {"name": "safe", "prefix": "/safe", "upstream": f"https://tool.example:{safe.port}", **known},
                {"name": "originated", "match": originated, "tls": "originate", **known},
            ],
        }
        with Sidecar(policy, nameserver=names.address) as sidecar:
            yield Place(sidecar, parent, plain, safe)


@pytest.fixture
def sidecar(place: Place) -> Iterator[Sidecar]:
    before = len(place.sidecar.faults)
    yield place.sidecar
    assert not place.sidecar.faults[before:]


@pytest.fixture
def parent(place: Place) -> Iterator[Parent]:
    """A parent proxy that opens whatever it is asked for, and was not asked for anything yet."""
    place.parent.heads.clear()
    place.parent.connections.clear()
    yield place.parent
    place.parent.answers = None


def speaking_tls(ca: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names).configure_cert(context)
    return context


# -- through it ----------------------------------------------------------------------------------------------------


def test_http_goes_to_it_in_absolute_form(sidecar: Sidecar, parent: Parent, names: Names) -> None:
    """It finds the name itself: nobody else may know it."""
    with Upstream(echo()) as upstream, Caller(sidecar) as caller:
        place = f"far-away.example:{upstream.port}"
        for method, body in (("GET", b""), ("POST", b"tea"), ("PUT", b"x" * 200_000)):
            told = caller.request(method, f"http://{place}/x?y", body=body).answer(method)
            assert (told.status, told.body) == (200, body)
            assert sidecar.record(told.record)["target"] == f"http://{place}/x?…"
        assert parent.asked == [f"GET http://{place}/x?y"], "one connection for all three"
        assert [request.target for request in upstream.whole] == [f"http://{place}/x?y"] * 3
        assert {request.get("host") for request in upstream.whole} == {place}
    assert "far-away.example" not in names.asked


@pytest.mark.parametrize(("host", "shown"), [("far-away.example", False), ("orders.internal", True)])
def test_a_budget_is_not_its_business(
    sidecar: Sidecar, parent: Parent, budget: str, host: str, shown: bool
) -> None:
    """`Budget-*` goes on to names of our own side, wherever the parent itself may be."""
    with Upstream(answer()) as upstream:
        headers = {"Budget-Id": budget, "Budget-Remaining-Ms": 5000}
        assert call(sidecar, "GET", f"http://{host}:{upstream.port}/x", headers=headers).status == 200
        assert upstream.requests[0].get("budget-id") == (budget if shown else None)
        assert (upstream.requests[0].get("budget-remaining-ms") is not None) == shown


def test_https_goes_through_a_tunnel_of_its(sidecar: Sidecar, parent: Parent, ca: trustme.CA) -> None:
    """TLS is spoken with the tool, whose certificate is checked; the parent sees its name, and no more."""
    with Upstream(echo(), tls=speaking_tls(ca, "tool.example")) as upstream, Caller(sidecar) as caller:
        url = f"https://tool.example:{upstream.port}/secret"
        for _ in range(2):
            told = caller.request("POST", url, body=b"tea").answer("POST")
            assert (told.status, told.body) == (200, b"tea")
        assert parent.asked == [f"CONNECT tool.example:{upstream.port}"]
        assert parent.fields() == {"host": f"tool.example:{upstream.port}"}
        assert b"secret" not in parent.connections[0].received


def test_certificates_are_checked_through_it(sidecar: Sidecar, parent: Parent, ca: trustme.CA) -> None:
    with Upstream(answer(), tls=speaking_tls(ca, "other.example")) as upstream:
        told = call(sidecar, "GET", f"https://tool.example:{upstream.port}/x")
        assert (told.status, told.outcome.outcome, told.outcome.reason) == (
            502,
            "connect_failed",
            "tls_certificate_error",
        )
        assert "is for another name" in told.problem["detail"]
        assert upstream.requests == []


def test_originated_tls_goes_through_a_tunnel_too(sidecar: Sidecar, parent: Parent, ca: trustme.CA) -> None:
    with Upstream(answer(b"safe"), tls=speaking_tls(ca, "tool.example")) as upstream:
        told = call(sidecar, "GET", f"http://tool.example:{upstream.port}/originate/x")
        assert (told.status, told.body) == (200, b"safe")
        assert parent.asked == [f"CONNECT tool.example:{upstream.port}"]


def test_base_urls_go_through_it(place: Place, parent: Parent) -> None:
    for path in ("/plain/x", "/safe/x"):
        headers = {"Host": f"127.0.0.1:{place.sidecar.outbound}"}
        assert call(place.sidecar, "GET", path, headers=headers).status == 200
    url = f"http://tool.example:{place.plain.port}/v1/x"
    assert parent.asked == [f"GET {url}", f"CONNECT tool.example:{place.safe.port}"]
    assert [place.plain.requests[0].target, place.safe.requests[0].target] == [url, "/x"]


def test_tunnels_go_through_it(sidecar: Sidecar, parent: Parent, budget: str) -> None:
    """A tunnel within a tunnel; what the client says of its job stays here."""
    user = base64.b64encode(f"{budget}:60000".encode()).decode()
    headers = {"Budget-Id": budget, "Proxy-Authorization": f"Basic {user}"}
    with Upstream(talk=report) as upstream:
        place = f"far-away.example:{upstream.port}"
        with Tunnel(sidecar, place, headers, first=b"early ") as tunnel:
            assert tunnel.status == 200
            tunnel.add(b"x" * 500_000).half_close()
            assert tunnel.rest() == b"500006"
        assert parent.asked == [f"CONNECT {place}"]
        assert parent.fields() == {"host": place}


def test_a_server_that_speaks_first_through_it(sidecar: Sidecar, parent: Parent) -> None:
    """Its first words come in one piece with the parent's answer."""

    async def greet(wire: Any) -> None:
        await wire.send(b"220 ready\r\n")
        await parrot(wire)

    with Upstream(talk=greet) as upstream, Tunnel(sidecar, f"far-away.example:{upstream.port}") as tunnel:
        assert tunnel.until(b"\r\n") == b"220 ready\r\n"
        tunnel.add(b"x")
        assert tunnel.exactly(1) == b"x"


def test_upgrades_go_through_it(sidecar: Sidecar, parent: Parent) -> None:
    with Upstream(upgrade()) as upstream, Caller(sidecar) as caller:
        asks = {"Upgrade": "websocket", "Connection": "Upgrade"}
        caller.request("GET", f"http://far-away.example:{upstream.port}/ws", asks)
        assert caller.answer().status == 101
        caller.add(b"hello")
        assert caller.exactly(5) == b"hello"
        assert parent.asked == [f"GET http://far-away.example:{upstream.port}/ws"]


def test_time_counts_on_the_way_through_it(sidecar: Sidecar, parent: Parent, ca: trustme.CA) -> None:
    with Upstream(stall(), tls=speaking_tls(ca, "tool.example")) as upstream:
        told = call(
            sidecar, "GET", f"https://tool.example:{upstream.port}/x", headers={"Budget-Remaining-Ms": 300}
        )
        assert (told.status, told.outcome.reason, told.outcome.phase) == (504, "budget_remaining", "sent")
        assert 300 <= told.after < 300 + SLACK


# -- past it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["direct.example", "DIRECT.example", "sub.direct.example", "orders.shop.svc", "127.0.0.1", "localhost"],
)
@pytest.mark.parametrize("way", ["http", "CONNECT"])
def test_what_goes_past_it(sidecar: Sidecar, parent: Parent, host: str, way: str) -> None:
    """A name and what is below it, a suffix, and whatever is on this host."""
    if way == "http":
        with Upstream(answer()) as upstream:
            assert call(sidecar, "GET", f"http://{host}:{upstream.port}/x").status == 200
            assert upstream.requests[0].target == "/x", "in origin form"
    else:
        with (
            Upstream(talk=parrot) as upstream,
            Tunnel(sidecar, f"{host}:{upstream.port}", first=b"x") as tunnel,
        ):
            assert tunnel.exactly(1) == b"x"
    assert parent.heads == []


@pytest.mark.parametrize("host", ["svc.example", "indirect.example", "direct.example.org", "svc"])
def test_what_only_looks_like_it(sidecar: Sidecar, parent: Parent, host: str) -> None:
    """Names are compared from label to label, and a suffix is more than its own name."""
    with Upstream(answer()) as upstream:
        assert call(sidecar, "GET", f"http://{host}:{upstream.port}/x").status == 200
        assert len(parent.heads) == 1


def test_addresses_and_networks() -> None:
    """In a namespace, where there are addresses besides the loopback's. What is redirected goes past it always."""
    with apart() as space, Parent(answers=head(200, [("Content-Length", "6")]) + b"parent") as parent:
        entries = ["10.9.1.2", "10.8.0.0/16", "fd09:1::/32"]
        with space.sidecar({"connections": {"proxy": parent.url, "no_proxy": entries}}) as sidecar:
            direct = answer(b"direct", keep=False)
            with Upstream(direct, host="10.9.1.2") as four, Upstream(direct, host="fd09:1::2") as six:
                told = {
                    place: call(sidecar, "GET", f"http://{place}/x").body
                    for place in (
                        four.authority,
                        six.authority,
                        f"10.9.1.3:{four.port}",
                        f"10.8.1.1:{four.port}",
                        f"[fd10::1]:{six.port}",
                    )
                }
                assert list(told.values())[:3] == [b"direct", b"direct", b"parent"]
                assert b"destination" in told[f"10.8.1.1:{four.port}"], (
                    "there is no way there, and no other was tried"
                )
                assert told[f"[fd10::1]:{six.port}"] == b"parent"
                assert len(parent.heads) == 2
                sidecar.write_policy({"connections": {"proxy": parent.url}})
                sidecar.signal(1)
                sidecar.event("reloaded")
                assert call(sidecar, "GET", f"http://{four.authority}/x").body == b"parent"
                with Caller((four.host, four.port)) as caller:
                    assert caller.request("GET", "/x", {"Host": "tool.example"}).answer().body == b"direct"


def test_the_environment_is_not_asked(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that lead clients to the sidecar are in its own environment too, and would lead it to itself."""
    names.know("direct.example")
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Sidecar(nameserver=names.address) as sidecar, Upstream(answer()) as upstream:
        monkeypatch.undo()
        assert call(sidecar, "GET", f"http://direct.example:{upstream.port}/x").status == 200


# -- when it will not ----------------------------------------------------------------------------------------------

REFUSALS = {
    "forbids": (
        head(403, [("Content-Length", "0")], reason="Forbidden"),
        "answered 403 Forbidden; check its access rules",
    ),
    "asks for credentials": (
        head(407, [("Proxy-Authenticate", "Basic"), ("Content-Length", "0")]),
        "asks for credentials (407); put them in the URL of `connections.proxy`",
    ),
    "cannot reach it": (
        head(502, [("Content-Length", "0")], reason="Bad Gateway"),
        "answered 502 Bad Gateway",
    ),
    "speaks no HTTP": (b"220 mail.example ready\r\n\r\n", "did not answer as an HTTP proxy"),
}


@pytest.mark.parametrize("how", REFUSALS)
@pytest.mark.parametrize("way", ["https", "CONNECT"])
def test_it_refuses(sidecar: Sidecar, parent: Parent, how: str, way: str) -> None:
    """Nothing was sent to the tool, and the answer says who it was that refused."""
    parent.answers, words = REFUSALS[how]
    if way == "https":
        told = call(sidecar, "POST", "https://far-away.example/x", body=b"{}")
    else:
        told = call(sidecar, "CONNECT", "far-away.example:443", headers={"Host": "a"})
    assert (told.status, told.outcome.outcome) == (502, "connect_failed")
    assert (told.outcome.reason, told.outcome.effect) == ("parent_proxy_refused", "none")
    assert told.outcome.phase == "not_sent"
    detail = told.problem["detail"]
    assert words in detail
    assert detail.startswith(f"No way to far-away.example:443: the parent proxy {parent.authority} ")
    assert len(parent.heads) == 1
    parent.wait(lambda up: up.connections[-1].closed_at)


def test_it_asks_for_credentials_of_a_plain_call(sidecar: Sidecar, parent: Parent) -> None:
    """A 407 from it is not for the caller, who would take it for the sidecar's own question."""
    parent.answers = REFUSALS["asks for credentials"][0]
    told = call(sidecar, "GET", "http://far-away.example/x")
    assert told.status == 502
    assert told.outcome.reason == "parent_proxy_refused"


def test_it_is_not_there() -> None:
    with nobody_at() as port, Sidecar(f"connections: {{proxy: http://127.0.0.1:{port}}}") as sidecar:
        for method, target in (
            ("GET", "http://far-away.example/x"),
            ("GET", "https://far-away.example/x"),
            ("CONNECT", "far-away.example:443"),
        ):
            told = call(sidecar, method, target, headers={"Host": "far-away.example"})
            assert (told.status, told.outcome.outcome) == (502, "connect_failed")
            assert told.outcome.reason == "connection_refused"
            assert f"The parent proxy 127.0.0.1:{port} refuses connections" in told.problem["detail"]


def test_it_says_nothing(sidecar: Sidecar, parent: Parent) -> None:
    """It has the time that the call has, and no more."""
    parent.answers = b""
    for method, target in (("GET", "https://far-away.example/x"), ("CONNECT", "far-away.example:443")):
        begun = now_ms()
        headers = {"Host": "far-away.example", "Budget-Remaining-Ms": 200}
        told = call(sidecar, method, target, headers=headers)
        assert (told.status, told.outcome.outcome) == (504, "deadline_exceeded")
        assert told.outcome.phase == "not_sent"
        assert 200 <= now_ms() - begun < 200 + SLACK
    sidecar.at_rest()


# -- credentials ---------------------------------------------------------------------------------------------------


def test_its_credentials(names: Names, ca: trustme.CA, ca_file: Path) -> None:
    """On each request and each CONNECT; nobody else is told, neither the tool nor the log."""
    with Parent() as parent:
        proxy = f"http://me%40corp:s%3Acret@{parent.authority}"
        policy = {"connections": {"proxy": proxy}, "fallback": {"ca": str(ca_file)}}
        expected = "Basic " + base64.b64encode(b"me@corp:s:cret").decode()
        with (
            Sidecar(policy, nameserver=names.address) as sidecar,
            Upstream(answer()) as plain,
            Upstream(answer(), tls=speaking_tls(ca, "tool.example")) as safe,
            Upstream(talk=parrot) as opaque,
        ):
            mine = {"Proxy-Authorization": "Basic cnVuLTQyOjUwMDA="}
            told = call(sidecar, "GET", f"http://tool.example:{plain.port}/x", headers=mine)
            assert (told.status, told.get("budget-id")) == (200, "run-42")
            assert call(sidecar, "GET", f"https://tool.example:{safe.port}/x", headers=mine).status == 200
            with Tunnel(sidecar, f"tool.example:{opaque.port}", mine, first=b"x") as tunnel:
                assert tunnel.exactly(1) == b"x"
            assert [parent.fields(number)["proxy-authorization"] for number in range(3)] == [expected] * 3
            assert safe.requests[0].get("proxy-authorization") is None
            assert "cret" not in str(sidecar.records) + str(sidecar.events)
