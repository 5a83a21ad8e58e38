"""The forward proxy: requests in absolute form, whose TLS the sidecar speaks where the scheme or a route says so."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.behaviours import answer, echo, head
from tests.support.callers import Caller, call
from tests.support.ports import nobody_at
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream, Wire
from tests.support.waiting import now_ms
from tests.ways.names import Names
from tests.ways.tunnels import silence

SLACK = 1500.0
LAST_YEAR = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def speaking_tls(ca: trustme.CA, *names: str, expired: bool = False) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate of this authority for these names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    day = datetime.timedelta(days=1)
    until = LAST_YEAR if expired else None
    ca.issue_cert(*names, not_before=LAST_YEAR - day, not_after=until).configure_cert(context)
    return context


@pytest.fixture(scope="module")
def running(ca_file: Path, names: Names) -> Iterator[Sidecar]:
    """A sidecar that knows the authority for some places, and speaks TLS to others by itself."""
    names.know("tool.example", "safe.internal", "leads-back.example")
    policy = {
        "routes": [
            {"name": "known", "match": {"host": "tool.example"}, "ca": str(ca_file)},
            {"name": "six", "match": {"path": "/six/**"}, "ca": str(ca_file)},
            {"name": "originated", "match": {"host": "*.internal"}, "tls": "originate", "ca": str(ca_file)},
        ]
    }
    with Sidecar(policy, nameserver=names.address) as sidecar:
        yield sidecar


@pytest.fixture
def proxy(running: Sidecar) -> Iterator[Sidecar]:
    """The same, and nothing that it has to say of itself."""
    before = len(running.faults)
    yield running
    assert not running.faults[before:]


# -- plain ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY"])
def test_absolute_form(proxy: Sidecar, method: str) -> None:
    """What goes on is the same request in origin form; what was for the proxy stays with the proxy."""
    with Upstream(echo()) as upstream:
        body = b"" if method in ("GET", "DELETE", "OPTIONS") else b"order"
        headers = {
            "X-Mine": "kept",
            "Proxy-Connection": "keep-alive",
            "Proxy-Authorization": "Basic cnVuLTE6OTk5OQ==",
        }
        told = call(proxy, method, upstream.url("/a/b?c=d&e"), headers=headers, body=body)
        assert (told.status, told.body) == (200, body)
        assert told.get("budget-id") == "run-1"
        (request,) = upstream.whole
        assert (request.method, request.target, request.body) == (method, "/a/b?c=d&e", body)
        assert request.get("host") == upstream.authority
        assert request.get("x-mine") == "kept"
        assert request.get("proxy-connection") is None
        assert request.get("proxy-authorization") is None
        assert (request.get("via") or "").startswith("1.1 waterclock-")
        assert not upstream.malformed


def test_the_target_names_the_place_whatever_host_says(proxy: Sidecar) -> None:
    """RFC 9112 §3.2.2: a proxy goes by the target, and puts its authority into Host."""
    with Upstream(answer()) as upstream:
        told = call(proxy, "GET", upstream.url("/x"), headers={"Host": "elsewhere.example"})
        assert told.status == 200
        assert upstream.requests[0].get("host") == upstream.authority


@pytest.mark.parametrize(
    ("written", "asked"), [("", "/"), ("/", "/"), ("?q=1", "/?q=1"), ("/?", "/?"), ("//x", "//x")]
)
def test_paths_are_passed_on_as_they_are(proxy: Sidecar, written: str, asked: str) -> None:
    with Upstream(answer()) as upstream:
        headers = {"Host": upstream.authority}
        assert call(proxy, "GET", f"http://{upstream.authority}{written}", headers=headers).status == 200
        assert upstream.requests[0].target == asked


def test_origin_form_with_the_name_of_another_host(proxy: Sidecar) -> None:
    """A client whose connections are led here by other means than a proxy setting."""
    with Upstream(answer()) as upstream:
        told = call(proxy, "GET", "/by-host?q", headers={"Host": upstream.authority})
        assert told.status == 200
        assert upstream.requests[0].target == "/by-host?q"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_ipv6_literals(proxy: Sidecar, method: str) -> None:
    with Upstream(echo(), host="::1") as upstream:
        told = call(proxy, method, upstream.url("/six"), body=b"" if method == "GET" else b"6")
        assert told.status == 200
        assert upstream.requests[0].get("host") == f"[::1]:{upstream.port}"
        assert proxy.record(told.record)["target"] == upstream.url("/six")


BAD_TARGETS = {
    "user information": ("http://me:secret@127.0.0.1:1/x", "send Authorization instead"),
    "a user": ("http://me@127.0.0.1:1/x", "send Authorization instead"),
    "another scheme": ("ftp://127.0.0.1:1/x", "http:// or https://"),
    "port zero": ("http://127.0.0.1:0/x", "port 0 is out of range"),
    "a port that is none": ("http://127.0.0.1:65536/x", "port 65536 is out of range"),
    "a port in letters": ("http://127.0.0.1:http/x", "not a host with an optional port"),
    "no host": ("http:///x", "not a host with an optional port"),
    "a zone": ("http://[fe80::1%25eth0]/x", "not a host with an optional port"),
    "IPv6 without brackets": ("http://::1/x", "not a host with an optional port"),
    "an open bracket": ("http://[::1/x", "not a host with an optional port"),
    "dots alone": ("http://../x", "not a host with an optional port"),
}


@pytest.mark.parametrize("what", BAD_TARGETS)
def test_bad_targets(proxy: Sidecar, what: str) -> None:
    """They are refused in words that help, and nothing is looked up or opened."""
    target, words = BAD_TARGETS[what]
    told = call(proxy, "GET", target, headers={"Host": "127.0.0.1:1"})
    assert (told.status, told.outcome.outcome, told.outcome.reason) == (400, "refused", "malformed")
    assert told.get("connection") == "close"
    # A parser of HTTP may well stop before this proxy has looked at the target.
    detail = told.problem["detail"]
    assert words in detail or "target" in detail
    assert "secret" not in detail


def test_user_information_is_not_repeated_to_anybody(proxy: Sidecar) -> None:
    """A password that somebody put in a target stands neither in the answer nor in the record."""
    told = call(proxy, "GET", "http://me:hunter2@127.0.0.1:1/x", headers={"Host": "127.0.0.1:1"})
    assert told.status == 400
    assert "RFC 9110 §4.2.4" in told.problem["detail"]
    assert b"hunter2" not in told.body
    assert "hunter2" not in str(proxy.record(told.record))


# -- the sidecar itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["outbound", "control", "metrics"])
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
)
def test_the_sidecar_is_no_tool(proxy: Sidecar, port: str, host: str) -> None:
    """Its own ports are not called, whichever of its addresses is named: the outbound one would go round."""
    authority = f"{host}:{getattr(proxy, port)}"
    for target, headers in ((f"http://{authority}/x", {"Host": authority}), ("/x", {"Host": authority})):
        told = call(proxy, "GET", target, headers=headers)
        assert (told.status, told.outcome.outcome, told.outcome.reason) == (508, "refused", "loop")
        assert told.outcome.effect == "none"
        assert "HTTP_PROXY" in told.problem["detail"]


def test_a_name_that_leads_back(proxy: Sidecar) -> None:
    """What only the name server knows is found out before the connection is opened."""
    told = call(proxy, "GET", f"http://leads-back.example:{proxy.outbound}/x")
    assert (told.status, told.outcome.reason) == (508, "loop")
    assert "leads back to the sidecar itself (127.0.0.1" in told.problem["detail"]


# -- TLS -----------------------------------------------------------------------------------------------------------


def test_https_in_absolute_form(proxy: Sidecar, ca: trustme.CA) -> None:
    """A client that speaks no TLS itself is given it, with certificates checked; connections are kept for the next."""
    with Upstream(echo(), tls=speaking_tls(ca, "tool.example")) as upstream, Caller(proxy) as caller:
        url = f"https://tool.example:{upstream.port}/orders"
        for number in range(3):
            told = caller.request("POST", url, body=b"%d" % number).answer("POST")
            assert (told.status, told.body) == (200, b"%d" % number)
            assert proxy.record(told.record)["target"] == url
        assert len(upstream.connections) == 1
        assert [request.get("host") for request in upstream.whole] == [f"tool.example:{upstream.port}"] * 3


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_route_that_originates_tls(proxy: Sidecar, ca: trustme.CA, scheme: str) -> None:
    """The caller says http, or https; the tool is spoken to in TLS, under its name, on the port that was named."""
    seen: list[str | None] = []
    context = speaking_tls(ca, "safe.internal")
    context.sni_callback = lambda _socket, name, _context: seen.append(name)
    with Upstream(echo(), tls=context) as upstream:
        told = call(proxy, "PUT", f"{scheme}://safe.internal:{upstream.port}/x", body=b"tea")
        assert (told.status, told.body) == (200, b"tea")
        assert seen == ["safe.internal"]
        assert upstream.requests[0].get("host") == f"safe.internal:{upstream.port}"
        record = proxy.record(told.record)
        assert (record["route"], record["target"]) == (
            "originated",
            f"https://safe.internal:{upstream.port}/x",
        )


def test_a_budget_goes_on_through_originated_tls(proxy: Sidecar, ca: trustme.CA) -> None:
    """The reason to let the sidecar speak TLS: the calls are seen, timed, and told what is left."""
    with Upstream(answer(after=5), tls=speaking_tls(ca, "safe.internal")) as upstream:
        url = f"http://safe.internal:{upstream.port}/slow"
        told = call(proxy, "GET", url, headers={"Budget-Remaining-Ms": 250, "Budget-Id": "through-tls"})
        assert (told.status, told.outcome.reason) == (504, "budget_remaining")
        assert 250 <= told.after < 250 + SLACK
        assert 0 < int(upstream.requests[0].get("budget-remaining-ms") or "") < 250
        assert upstream.requests[0].get("budget-id") == "through-tls"


def test_tls_with_an_ipv6_literal(proxy: Sidecar, ca: trustme.CA) -> None:
    with Upstream(answer(), host="::1", tls=speaking_tls(ca, "::1")) as upstream:
        assert call(proxy, "GET", upstream.url("/six/x")).status == 200


def test_the_system_store_is_enough(
    ca: trustme.CA, ca_file: Path, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine itself knows the authority, no route has to name it."""
    names.know("tool.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    with (
        Sidecar(nameserver=names.address) as sidecar,
        Upstream(answer(), tls=speaking_tls(ca, "tool.example")) as upstream,
    ):
        assert call(sidecar, "GET", f"https://tool.example:{upstream.port}/").status == 200


def not_trusted(proxy: Sidecar, upstream: Upstream, host: str, method: str) -> str:
    """The call failed before anything of it was sent, and said why. Returns the reason it gave to a person."""
    told = call(proxy, method, f"https://{host}:{upstream.port}/x", body=b"" if method == "GET" else b"{}")
    assert (told.status, told.outcome.outcome, told.outcome.reason) == (
        502,
        "connect_failed",
        "tls_certificate_error",
    )
    assert (told.outcome.phase, told.outcome.effect, told.outcome.retry) == ("not_sent", "none", "safe")
    assert told.get("proxy-status") == "waterclock; error=tls_certificate_error"
    assert upstream.requests == []
    assert f"https://{host}:{upstream.port}" in told.problem["detail"]
    return str(told.problem["detail"])


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_authority_nobody_knows(proxy: Sidecar, ca: trustme.CA, method: str) -> None:
    """Nothing is sent to it; the answer says what would make it known."""
    with Upstream(answer(), tls=speaking_tls(ca, "127.0.0.1")) as upstream:
        detail = not_trusted(proxy, upstream, "127.0.0.1", method)
        assert "is signed by an authority that is not known here" in detail
        assert "set the route's `ca`" in detail


def test_another_authority_than_the_route_names(proxy: Sidecar) -> None:
    stranger = trustme.CA()
    with Upstream(answer(), tls=speaking_tls(stranger, "tool.example")) as upstream:
        assert "set the route's `ca`" in not_trusted(proxy, upstream, "tool.example", "GET")


def test_a_certificate_for_another_name(proxy: Sidecar, ca: trustme.CA) -> None:
    with Upstream(answer(), tls=speaking_tls(ca, "other.example")) as upstream:
        assert "is for another name" in not_trusted(proxy, upstream, "tool.example", "GET")


def test_a_certificate_that_has_expired(proxy: Sidecar, ca: trustme.CA) -> None:
    with Upstream(answer(), tls=speaking_tls(ca, "tool.example", expired=True)) as upstream:
        assert "outside its period of validity" in not_trusted(proxy, upstream, "tool.example", "POST")


def test_a_tool_that_speaks_no_tls(proxy: Sidecar) -> None:
    """It is told apart from a certificate that is wrong."""

    async def answer_in_plain(wire: Wire) -> None:
        await wire.receive()
        await wire.send(head(400))

    with Upstream(talk=answer_in_plain) as upstream:
        told = call(proxy, "POST", f"https://tool.example:{upstream.port}/x", body=b"{}")
        assert (told.status, told.outcome.outcome, told.outcome.reason) == (
            502,
            "connect_failed",
            "tls_protocol_error",
        )
        assert told.outcome.effect == "none"
        assert "does not speak TLS; use http://" in told.problem["detail"]


def test_a_tool_that_leaves_in_the_handshake(proxy: Sidecar) -> None:
    async def leave(wire: Wire) -> None:
        await wire.receive()

    with Upstream(talk=leave) as upstream:
        told = call(proxy, "GET", f"https://tool.example:{upstream.port}/x")
        assert (told.status, told.outcome.reason, told.outcome.phase) == (
            502,
            "tls_protocol_error",
            "not_sent",
        )


def test_a_handshake_that_never_ends_is_cut_at_its_time(proxy: Sidecar) -> None:
    """It counts as waiting: nothing of the call has been sent."""
    with Upstream(talk=silence) as upstream:
        headers = {"Budget-Remaining-Ms": 150}
        for method in ("GET", "POST"):
            begun = now_ms()
            told = call(proxy, method, f"https://tool.example:{upstream.port}/x", headers=headers)
            assert (told.status, told.outcome.outcome) == (504, "deadline_exceeded")
            assert (told.outcome.phase, told.outcome.effect) == ("not_sent", "none")
            assert 150 <= now_ms() - begun < 150 + SLACK
        upstream.wait(lambda up: not up.open)


class HangsUp:
    """A server that closes each connection as soon as it has accepted it. `count`: how many those were."""

    def __init__(self) -> None:
        self.count = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.authority = "{}:{}".format(*self._socket.getsockname())
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.count += 1
                connection.close()

    def __enter__(self) -> HangsUp:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
def test_who_hangs_up_at_once_is_not_called_again_and_again(proxy: Sidecar, method: str) -> None:
    """A load balancer with nothing behind it does that. One call is one connection, or two."""
    with HangsUp() as server:
        for _ in range(20):
            before = server.count
            target = server.authority if method == "CONNECT" else f"http://{server.authority}/x"
            with Caller(proxy) as caller:
                caller.request(method, target, {"Host": server.authority})
                if method == "CONNECT":
                    caller.rest()
                else:
                    assert caller.answer(method).status in (424, 502)
            assert server.count - before <= 2
    proxy.at_rest()


def test_nobody_there(proxy: Sidecar) -> None:
    with nobody_at() as port:
        told = call(proxy, "GET", f"https://tool.example:{port}/x")
    assert (told.status, told.outcome.outcome, told.outcome.reason) == (
        502,
        "connect_failed",
        "connection_refused",
    )
    told = call(proxy, "GET", "http://nobody.example/x")
    assert (told.status, told.outcome.outcome, told.outcome.reason) == (502, "connect_failed", "dns_error")
    assert "No address is known for" in told.problem["detail"]
