"""Connections that iptables led to the sidecar: HTTP is served with budgets; and what leads nowhere, or back."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.behaviours import answer, echo, stall
from tests.support.callers import Caller, call, chunked, render
from tests.support.ports import free_port
from tests.support.upstream import Upstream
from tests.support.waiting import eventually, now_ms
from tests.ways.apart import UID, Redirected, Space
from tests.ways.redirection import CAP, CLIENT_HELLO, FIRST, opaque_ones, shown, to
from tests.ways.tunnels import reset_when_spoken_to

SLACK = 1500.0


# -- HTTP ----------------------------------------------------------------------------------------------------------


def test_http_is_served_with_budgets(led: Redirected, budget: str, inside: str) -> None:
    """Several requests on one connection; each goes where iptables took it from, whatever name it gives."""
    with Upstream(echo(), host=inside) as upstream, to(upstream) as caller:
        for number, (method, headers, body) in enumerate(
            [
                ("GET", {}, b""),
                ("POST", {}, b"tea"),
                ("PUT", {"Transfer-Encoding": "chunked"}, chunked(b"te", b"a")),
                ("GET", {"Host": upstream.authority}, b""),
            ],
            start=1,
        ):
            stated = {"Host": "named.example", "Budget-Id": budget, "Budget-Remaining-Ms": 60_000} | headers
            told = caller.request(method, f"/orders?{number}", stated, body).answer(method)
            assert (told.status, told.body) == (200, b"tea" if body else b"")
            assert told.get("budget-id") == budget
            assert told.get("budget-allowed-ms") == (
                "5000" if stated["Host"] == "named.example" else told.get("budget-allowed-ms")
            )
            record = led.record(told.record)
            assert record["target"] == f"http://{stated['Host']}/orders?…"
            assert record["step"] == number
        assert len(upstream.connections) == 2, "one for each name"
        assert [request.get("host") for request in upstream.whole] == ["named.example"] * 3 + [
            upstream.authority
        ]
        assert all(0 < int(request.get("budget-remaining-ms") or "") <= 60_000 for request in upstream.whole)
        assert not upstream.malformed


def test_http_without_host(led: Redirected, inside: str) -> None:
    """HTTP/1.0 needs none: the destination says it all."""
    with Upstream(answer(), host=inside) as upstream, to(upstream) as caller:
        caller.send(b"GET /old HTTP/1.0\r\n\r\n")
        assert caller.answer().status == 200
        assert upstream.requests[0].get("host") == shown(inside, upstream.port)


def test_http_is_cut_at_its_time(led: Redirected, inside: str) -> None:
    with Upstream(stall(), host=inside) as upstream, to(upstream) as caller:
        told = caller.request("GET", "/slow", {"Host": "a", "Budget-Remaining-Ms": 250}).answer()
        assert (told.status, told.outcome.reason) == (504, "budget_remaining")
        assert 250 <= told.after < 250 + SLACK
        upstream.then(answer())
        assert caller.request("GET", "/next", {"Host": "a"}).answer().status == 200


def test_http_that_comes_late(led_hastily: Redirected) -> None:
    """A client that connects long before it speaks. The server was given the chance to speak first, and did not."""
    with Upstream(answer(b"late"), host=led_hastily.inside6) as upstream, to(upstream) as caller:
        upstream.wait(lambda up: up.connections)
        time.sleep(1.2 * CAP / 1000)
        told = caller.request("GET", "/late", {"Host": "tool.example"}).answer()
        assert (told.status, told.body) == (200, b"late")
        assert told.get("budget-allowed-ms") == str(CAP), "all of it: time runs from the request"
        told = caller.request("GET", "/again", {"Host": "tool.example"}).answer()
        assert told.status == 200
        upstream.then(stall())
        told = caller.request("GET", "/slow", {"Host": "tool.example"}).answer()
        assert (told.status, told.outcome.reason) == (504, "route_cap")
        record = led_hastily.record(told.record)
        assert (record["kind"], record["method"]) == ("read", "GET")


def test_http_in_pieces(led: Redirected) -> None:
    """Until it is clear what it is, nothing is lost."""
    with Upstream(echo(), host=led.inside) as upstream, to(upstream) as caller:
        request = render("REPORT", "/x", {"Host": "tool.example"}, b"tea")
        caller.send(b"")
        for octet in request:
            caller.add(bytes([octet]))
            time.sleep(0.002)
        told = caller.answer("REPORT")
        assert (told.status, told.body) == (200, b"tea")


def test_http_that_asks_and_ends_its_side(led: Redirected, inside: str) -> None:
    """It waits for its answer, and is no client that has left."""
    with Upstream(answer(b"here", after=0.2), host=inside) as upstream, to(upstream) as caller:
        caller.request("GET", "/x", {"Host": "a"}).half_close()
        assert caller.answer().body == b"here"


def test_http_that_is_malformed(led: Redirected) -> None:
    with Upstream(answer(), host=led.inside) as upstream, to(upstream) as caller:
        caller.send(b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert caller.answer().status == 400
        assert upstream.requests == []


def test_a_client_that_gives_up_its_question(led: Redirected, budget: str) -> None:
    with Upstream(stall(), host=led.inside) as upstream, to(upstream) as caller:
        caller.request("GET", "/x", {"Host": "a", "Budget-Id": budget})
        upstream.wait(lambda up: up.whole)
        caller.leave()
        (record,) = led.records_of(budget)
        assert record["outcome"] == "client_gone"
        upstream.wait(lambda up: not up.open)


@pytest.mark.parametrize("authority", ["safe.internal", "safe.internal:80"])
def test_tls_is_spoken_where_a_route_says_so(
    led: Redirected, ca: trustme.CA, inside: str, authority: str
) -> None:
    """From port 80 to port 443 of the same address, under the name that the request gives."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("safe.internal").configure_cert(context)
    with (
        Upstream(answer(b"safe"), host=inside, port=443, tls=context) as upstream,
        Caller((inside, 80)) as caller,
    ):
        told = caller.request("GET", "/x", {"Host": authority}).answer()
        assert (told.status, told.body) == (200, b"safe")
        assert upstream.requests[0].get("host") == "safe.internal"
        assert led.record(told.record)["target"] == "https://safe.internal/x"


def test_the_usual_ports(led: Redirected, ca: trustme.CA, inside: str) -> None:
    """Here they are free, so that the forward proxy can be tried on them as well."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(inside).configure_cert(context)
    bare = f"[{inside}]" if ":" in inside else inside
    with (
        Upstream(answer(b"80"), host=inside, port=80) as plain,
        Upstream(answer(), host=inside, port=443, tls=context),
    ):
        assert call(led, "GET", f"http://{bare}/x").body == b"80"
        assert plain.requests[0].get("host") == bare
        told = call(led, "GET", f"https://{bare}/x")
        assert (told.status, told.outcome.reason) == (502, "tls_certificate_error"), "found, but not trusted"
        with Caller((inside, 80)) as caller:
            told = caller.request("GET", "/x", {"Host": "tool.example"}).answer()
            assert told.body == b"80"
            assert led.record(told.record)["target"] == "http://tool.example/x"


# -- nobody there, or oneself --------------------------------------------------------------------------------------


def test_nobody_there(led: Redirected, inside: str) -> None:
    """HTTP is told so. The others see a reset, since a FIN would be an empty answer."""
    port = free_port()
    with Caller((inside, port)) as caller:
        told = caller.request("POST", "/x", {"Host": "tool.example"}, b"{}").answer("POST")
        assert (told.status, told.outcome.outcome, told.outcome.reason) == (
            502,
            "connect_failed",
            "connection_refused",
        )
        assert told.outcome.effect == "none"
    for number, said in enumerate((b"*1\r\n$4\r\nPING\r\n", b""), start=1):
        with Caller((inside, port)) as caller:
            begun = now_ms()
            caller.send(said)
            assert caller.rest() == b""
            assert caller.ended_by == "reset"
            assert now_ms() - begun < FIRST + SLACK
        *_, record = opaque_ones(led, inside, port, number)
        assert (record["outcome"], record["reason"], record["effect"]) == (
            "connect_failed",
            "connection_refused",
            "none",
        )


def test_a_server_that_resets(led: Redirected) -> None:
    with Upstream(talk=reset_when_spoken_to, host=led.inside) as upstream, to(upstream) as caller:
        caller.send(b"\x00")
        assert caller.rest() == b""
        assert caller.ended_by == "reset"


@pytest.mark.parametrize("port", ["outbound", "control"])
def test_a_loop_ends_at_once(led: Redirected, inside: str, port: str) -> None:
    """Who calls the sidecar's own port by an address of the pod is led back to it, and no further."""
    place = (inside, getattr(led, port))
    with Caller(place) as caller:
        told = caller.request("GET", "/x", {"Host": "tool.example"}).answer()
        assert (told.status, told.outcome.reason, told.outcome.effect) == (508, "loop", "none")
        assert told.after < 1000
    for number, said in enumerate((b"*1\r\n$4\r\nPING\r\n", CLIENT_HELLO, b""), start=1):
        with Caller(place) as caller:
            begun = now_ms()
            assert caller.send(said).rest() == b""
            assert now_ms() - begun < FIRST + 1000
        *_, record = opaque_ones(led, *place, number)
        assert (record["outcome"], record["reason"]) == ("refused", "loop")


@pytest.fixture(scope="module")
def led_in_a_circle(space: Space) -> Iterator[Redirected]:
    """A sidecar whose own user is not exempt, so that all that it opens comes back to it."""
    with space.sidecar(uid=UID + 1) as sidecar:
        yield sidecar
        sidecar.at_rest()
        assert not sidecar.faults


def test_a_redirect_loop_ends_at_once(led_in_a_circle: Redirected) -> None:
    """After one round, whatever is spoken; who speaks HTTP is told what is to be done about it."""
    led_in_a_circle.at_rest()
    before = led_in_a_circle.open_files()
    for place in ((led_in_a_circle.inside, 8080), (led_in_a_circle.inside6, 8080)):
        with Caller(place) as caller:
            told = caller.request("POST", "/x", {"Host": "tool.example"}, b"{}").answer("POST")
            assert (told.status, told.problem["reason"], told.problem["effect"]) == (
                508,
                "redirect_loop",
                "none",
            )
            assert f"user id ({UID + 1})" in told.problem["detail"]
            assert told.after < 1000
            first = led_in_a_circle.record(told.record)
            second = led_in_a_circle.record(told.problem["record"])
            assert (first["outcome"], first["status"]) == ("completed", 508)
            assert (second["outcome"], second["reason"]) == ("refused", "redirect_loop")
        for number, said in enumerate((b"*1\r\n$4\r\nPING\r\n", CLIENT_HELLO, b""), start=1):
            with Caller(place) as caller:
                begun = now_ms()
                assert caller.send(said).rest() == b""
                assert caller.ended_by == "reset" or not said
                assert now_ms() - begun < 2 * FIRST + 1000
            records = opaque_ones(led_in_a_circle, *place, 2 * number)
            assert [record["reason"] for record in records].count("redirect_loop") == number
    led_in_a_circle.at_rest()
    eventually(lambda: led_in_a_circle.open_files() <= before + 2, what="as many descriptors as before")


def test_the_sidecars_own_user_is_let_through(led: Redirected, inside: str) -> None:
    """Or else each of its calls would come back to it. Others are led to it."""
    with open(f"/proc/{led.pid}/status") as status:  # noqa: PTH123 - no path of ours
        uids = next(line for line in status if line.startswith("Uid:"))
    assert uids.split()[1:] == [str(UID)] * 4
    ask = (
        "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10);"
        "s.sendall(b'GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n'); s.recv(1000)"
    )
    with Upstream(answer(), host=inside) as upstream:
        command: list[str | Path] = [sys.executable, "-c", ask, inside, str(upstream.port)]
        subprocess.run([*led.as_user, *command], check=True)
        subprocess.run(command, check=True)
        direct, redirected = upstream.requests
        assert direct.get("via") is None
        assert (redirected.get("via") or "").startswith("1.1 waterclock-")
        assert len(upstream.connections) == 2
