"""Requests that ask to leave HTTP: agreed to, refused, never answered, or never meant (h2c from Java)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.behaviours import answer, echo, head, interim, stall, upgrade
from tests.support.callers import Caller, call, chunked, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Upstream

SLACK = 1500.0
ASKS = {"Upgrade": "websocket", "Connection": "Upgrade"}
# What java.net.http.HttpClient says in each first request to a plain-text server.
JAVA = {
    "Upgrade": "h2c",
    "Connection": "Upgrade, HTTP2-Settings",
    "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
}


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sidecar]:
    """Little time for anything."""
    policy = "{budget: {default: 400ms}, fallback: {cap: 300ms}, subscription: {idle: 600ms}, writes: {linger: 100ms}}"
    with Sidecar(policy) as sidecar:
        yield sidecar


# -- agreed to -----------------------------------------------------------------------------------------------------


def test_what_is_asked_and_what_is_told(sidecar: Sidecar, budget: str) -> None:
    """Both ends see an upgrade as if nobody stood between them."""
    with Upstream(upgrade("chat/2", greeting=b"welcome")) as upstream, Caller(sidecar) as caller:
        headers = {"Upgrade": "chat/1, chat/2", "Connection": "keep-alive, Upgrade", "Budget-Id": budget}
        told = caller.request("GET", upstream.url("/x"), headers).answer()
        assert (told.status, told.get("upgrade"), told.get("connection")) == (101, "chat/2", "Upgrade")
        assert caller.exactly(7) == b"welcome"
        caller.add(b"hello")
        assert caller.exactly(5) == b"hello"
        assert caller.half_close().rest() == b""
        (request,) = upstream.requests
        assert (request.get("upgrade"), request.get("connection")) == ("chat/1, chat/2", "Upgrade")
        (record,) = sidecar.records_of(budget)
        assert (record["kind"], record["status"], record["outcome"]) == ("opaque", 101, "completed")
        assert record["bytes"] >= 12
        sidecar.at_rest()


@pytest.mark.parametrize("size", [1, 5, 100_000])
def test_bytes_that_come_with_the_request(sidecar: Sidecar, size: int) -> None:
    """They are the other protocol's, and arrive there whole, however early they came."""
    early = bytes(range(256)) * (size // 256 + 1)
    with Upstream(upgrade()) as upstream, Caller(sidecar) as caller:
        caller.send(render("GET", upstream.url("/x"), ASKS) + early[:size])
        assert caller.answer().status == 101
        caller.add(early[size:])
        assert caller.exactly(len(early)) == early


def test_bytes_that_come_before_it_is_agreed_to(sidecar: Sidecar) -> None:
    async def agree_late(exchange: Exchange) -> None:
        await exchange.sleep(0.2)
        await upgrade()(exchange)

    with Upstream(agree_late) as upstream, Caller(sidecar) as caller:
        caller.send(render("GET", upstream.url("/x"), ASKS) + b"one ")
        time.sleep(0.05)
        caller.add(b"two ")
        time.sleep(0.05)
        caller.add(b"three").half_close()
        assert caller.answer().status == 101
        assert caller.rest() == b"one two three"


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("body", [b"", b'{"stdin": true}'])
def test_an_upgrade_with_a_body(sidecar: Sidecar, budget: str, method: str, body: bytes) -> None:
    """As container runtimes do it for `attach` and `exec`: a POST that becomes a stream. Nothing of it stays in doubt."""
    headers = {"Upgrade": "tcp", "Connection": "Upgrade", "Content-Length": len(body), "Budget-Id": budget}
    with Upstream(upgrade("tcp")) as upstream, Caller(sidecar) as caller:
        caller.send(render(method, upstream.url("/attach"), headers, body) + b"ls\n")
        assert caller.answer(method).status == 101
        assert caller.exactly(3) == b"ls\n"
        assert upstream.requests[0].body == body
        caller.half_close()
        assert caller.rest() == b""
        (record,) = sidecar.records_of(budget)
        assert (record["kind"], record["outcome"], record["effect"]) == ("opaque", "completed", "reported")
    assert "/attach" not in str(sidecar.uncertain())
    assert sidecar.samples()["waterclock_uncertain_writes"] == 0


def test_it_is_no_call_that_the_guard_knows(sidecar: Sidecar) -> None:
    """The same upgrade twice is two conversations, and no write that is repeated."""
    with Upstream(upgrade("tcp")) as upstream:
        for _ in range(2):
            with Caller(sidecar) as caller:
                headers = {"Upgrade": "tcp", "Connection": "Upgrade"}
                caller.request("POST", upstream.url("/exec"), headers, b"sh")
                assert caller.answer("POST").status == 101
                caller.leave()
        upstream.wait(lambda up: not up.open)
        assert len(upstream.whole) == 2


# -- refused -------------------------------------------------------------------------------------------------------

REFUSALS: dict[str, tuple[Behaviour, int]] = {
    "200": (answer(b"a page"), 200),
    "400": (answer(b"no", 400), 400),
    "403 without a body": (answer(b"", 403), 403),
    "426": (answer(b"h2c, please", 426, [("Upgrade", "h2c"), ("Connection", "Upgrade")]), 426),
    "404 in chunks": (answer(b"not here", 404, framing="chunked"), 404),
    "after a while": (answer(b"no", 400, after=0.15), 400),
    "after an early hint": (interim(103, then=answer(b"no", 400)), 400),
}


@pytest.mark.parametrize("how", REFUSALS)
@pytest.mark.parametrize("budgeted", [False, True])
def test_refused_is_not_the_end_of_http(sidecar: Sidecar, how: str, budgeted: bool) -> None:
    """The answer passes, and the connection serves the next request: one that comes then, or came already."""
    behaviour, status = REFUSALS[how]
    headers = ASKS | ({"Budget-Remaining-Ms": "9000"} if budgeted else {})
    with Upstream().on("/ws", behaviour).on("/next", echo()) as upstream, Caller(sidecar) as caller:
        asked = render("GET", upstream.url("/ws"), headers)
        after = render("POST", upstream.url("/next"), body=b"tea")
        caller.send(asked)
        assert caller.answer().status == status
        for _ in range(2):
            caller.send(after)
            told = caller.answer("POST")
            assert (told.status, told.body) == (200, b"tea")
        caller.send(asked + after)  # at once
        assert caller.answer().status == status
        assert caller.answer("POST").body == b"tea"
        caller.send(asked)
        time.sleep(0.05)
        caller.add(after[:30])  # in the meantime, and in pieces
        assert caller.answer().status == status
        caller.add(after[30:])
        assert caller.answer("POST").body == b"tea"
        assert len(upstream.whole) == 7
        assert not upstream.malformed


@pytest.mark.parametrize("how", ["Upgrade without Connection", "Connection without Upgrade", "HTTP/1.0"])
def test_what_asks_for_no_upgrade(sidecar: Sidecar, how: str) -> None:
    """RFC 9110 §7.8: it takes both fields, and HTTP/1.1. Otherwise neither is passed on."""
    headers = dict(ASKS)
    headers.pop(
        {"Upgrade without Connection": "Connection", "Connection without Upgrade": "Upgrade"}.get(how, ""),
        None,
    )
    with Upstream(answer()) as upstream:
        version = "1.0" if how == "HTTP/1.0" else "1.1"
        told = call(sidecar, "GET", upstream.url(), headers=headers, version=version)
        assert told.status == 200
        assert told.get("budget-allowed-ms") == "300000", "a call like any other"
        assert upstream.requests[0].get("upgrade") is None


def test_agreed_to_without_being_asked(sidecar: Sidecar, budget: str) -> None:
    """A server that leaves HTTP by itself has broken it."""

    async def leave_http(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.send(head(101, [("Upgrade", "any"), ("Connection", "Upgrade")]) + b"surprise")
        exchange.keep = False

    with Upstream(leave_http) as upstream:
        told = call(sidecar, "GET", upstream.url(), headers={"Budget-Id": budget})
        assert (told.status, told.outcome.outcome) == (502, "upstream_failed")
        assert b"surprise" not in told.body
        upstream.wait(lambda up: not up.open)


# -- never answered ------------------------------------------------------------------------------------------------


def test_never_answered_is_cut_at_its_stated_time(sidecar: Sidecar, budget: str) -> None:
    """With a budget it is a step like any other; the connection goes on in HTTP."""
    with Upstream().on("/ws", stall()).on("/next", answer()) as upstream, Caller(sidecar) as caller:
        headers = ASKS | {"Budget-Id": budget, "Budget-Remaining-Ms": "250"}
        told = caller.request("GET", upstream.url("/ws"), headers).answer()
        assert (told.status, told.outcome.outcome, told.outcome.reason) == (
            504,
            "deadline_exceeded",
            "budget_remaining",
        )
        assert 250 <= told.after < 250 + SLACK
        (record,) = sidecar.records_of(budget)
        assert (record["kind"], record["effect"]) == ("read", "none")
        assert caller.request("GET", upstream.url("/next")).answer().status == 200
    sidecar.at_rest()


def test_never_answered_and_never_told_a_budget(hasty: Sidecar) -> None:
    """Patience with it is that with silence, not the default budget nor the cap."""
    with Upstream(stall()) as upstream:
        told = call(hasty, "GET", upstream.url("/ws"), headers=ASKS)
        assert (told.status, told.outcome.reason) == (504, "idle")
        assert 600 <= told.after < 600 + SLACK
        hasty.at_rest()


def test_a_client_that_stops_waiting(sidecar: Sidecar) -> None:
    with Upstream(stall()) as upstream, Caller(sidecar) as caller:
        caller.request("GET", upstream.url("/ws"), ASKS)
        upstream.wait(lambda up: up.whole)
        caller.leave()
        upstream.wait(lambda up: not up.open)
    sidecar.at_rest()


# -- never meant ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("size", [0, 5, 200_000])
def test_h2c_with_a_body(sidecar: Sidecar, framing: str, size: int) -> None:
    """The body is read, whatever the request asks for, and what follows it is the next request."""
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    headers = JAVA | ({"Transfer-Encoding": "chunked"} if framing == "chunked" else {"Content-Length": size})
    sent = chunked(*([body] if body else [])) if framing == "chunked" else body
    with Upstream(echo()) as upstream, Caller(sidecar) as caller:
        for _ in range(2):
            caller.send(render("POST", upstream.url("/orders"), headers, sent))
            told = caller.answer("POST")
            assert (told.status, told.body) == (200, body)
        caller.request("GET", upstream.url("/next"))
        assert caller.answer().status == 200
        assert [request.body for request in upstream.whole] == [body, body, b""]
        assert all(request.get("http2-settings") is None for request in upstream.whole)
        assert not upstream.malformed


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_h2c_is_no_standing_ear(hasty: Sidecar, method: str) -> None:
    """A Java client asks for it in each call that it makes first: these are calls, and held to their time."""
    with Upstream(stall()) as upstream:
        told = call(hasty, method, upstream.url(), headers=JAVA, body=b"" if method == "GET" else b"{}")
        assert told.outcome.reason == "route_cap"
        assert 300 <= told.after < 300 + SLACK
        assert told.get("budget-allowed-ms") == "300"
        assert told.get("budget-id")
