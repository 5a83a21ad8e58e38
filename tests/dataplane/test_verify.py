"""Asking whether an uncertain write has happened: what is asked, when, and what is believed of the answers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from proxy.core.calls import Kind
from proxy.core.policy import Connections, Guard, Idempotency, Verify
from proxy.core.target import Origin
from proxy.core.units import MILLISECOND
from proxy.core.upstream import Upstream
from proxy.core.writes import WriteEvent, WriteState
from tests.dataplane.doubts import NO, YES, at_rest, doubt, last, questions, state, verifying, writes
from tests.dataplane.world import request

# -- what is believed ----------------------------------------------------------------------------------------------


def test_a_yes_is_believed_at_once() -> None:
    """The caller of a repetition is told so."""
    world = verifying()
    assert doubt(world).statuses == [424]
    last(world).answers(YES)
    (record,) = world.book.listed()
    assert (record.state, record.resolved_by) == (WriteState.APPLIED, "verified")
    assert world.journal.kept[record.id] == record
    again = writes(world)
    assert again.statuses == [424]
    assert b"It has happened." in again.body
    assert (world.observed.verifications, at_rest(world)) == (["applied"], True)


def test_a_no_is_believed_the_second_time() -> None:
    """Then the repetition is sent."""
    world = verifying()
    doubt(world)
    last(world).answers(NO)
    assert state(world) is WriteState.UNCERTAIN
    assert writes(world).statuses == [424]
    world.advance(249)
    assert len(questions(world)) == 1
    world.advance(1)
    assert len(questions(world)) == 2
    last(world).answers(b"", 404)
    assert state(world) is WriteState.NOT_APPLIED
    again = writes(world)
    assert world.upstream().heads[-1].startswith(b"POST")
    world.upstream().answers(b"made", 201)
    assert again.statuses == [201]
    assert (world.observed.verifications, at_rest(world)) == (["absent", "absent"], True)


@pytest.mark.parametrize("between", [500, 204, 401, 302])
def test_two_noes_that_are_not_in_a_row(between: int) -> None:
    """An answer that says nothing between them makes the first one old."""
    world = verifying()
    doubt(world)
    for wait, status, body in [(250, 200, NO), (500, between, b""), (1000, 200, NO)]:
        last(world).answers(body, status) if status != 204 else last(world).says(b"HTTP/1.1 204 No\r\n\r\n")
        assert state(world) is WriteState.UNCERTAIN
        world.advance(wait)
    last(world).answers(NO)
    assert state(world) is WriteState.NOT_APPLIED


def test_a_no_is_not_believed_while_somebody_listens_for_the_answer() -> None:
    """The write may be about to happen. A yes would be."""
    world = verifying()
    client = writes(world, Budget_Remaining_Ms=100)
    world.advance(100)
    assert client.statuses == [424]
    tool = world.upstream(0)
    for wait in (250, 500, 1000, 2000):
        last(world).answers(NO)
        world.advance(wait)
    assert (state(world), len(questions(world))) == (WriteState.UNCERTAIN, 5)
    last(world).answers(NO)
    world.advance(4000)
    assert tool.closed, "nobody listens any more"
    for _ in range(2):
        assert state(world) is WriteState.UNCERTAIN
        last(world).answers(NO)
        world.advance(10_000)
    assert state(world) is WriteState.NOT_APPLIED


def test_a_yes_is_believed_while_somebody_listens() -> None:
    """An answer that comes after it is kept beside it."""
    world = verifying()
    writes(world, Budget_Remaining_Ms=100)
    world.advance(100)
    tool = world.upstream(0)
    last(world).answers(YES)
    assert state(world) is WriteState.APPLIED
    tool.answers(b"made", 201)
    (record,) = world.book.listed()
    assert (record.state, record.resolved_by) == (WriteState.APPLIED, "verified")
    assert record.answer is not None
    assert record.answer.status == 201


@pytest.mark.parametrize("how", ["late answer", "operator, applied", "operator, absent", "forgotten"])
@pytest.mark.parametrize("asked", [True, False], ids=["asked just now", "between questions"])
def test_a_write_that_is_settled_otherwise(how: str, asked: bool) -> None:
    """What a question still finds changes nothing, and no further one is asked."""
    world = verifying()
    writes(world, Budget_Remaining_Ms=100)
    world.advance(100)
    if not asked:
        last(world).answers(NO)
    (record,) = world.book.listed()
    if how == "late answer":
        world.upstream(0).answers(b"made", 201)
    elif how == "forgotten":
        world.book.drop(record.id)
    else:
        event = WriteEvent.FOUND_APPLIED if how.endswith("applied") else WriteEvent.FOUND_ABSENT
        world.plane.keep(record.after(event)._replace(resolved_by="operator"))
    before = world.book.listed()
    if asked:
        last(world).answers(YES if how != "operator, applied" else NO)
    world.advance(60_000)
    assert world.book.listed() == before
    assert (len(questions(world)), at_rest(world)) == (1, True)


def test_the_distance_between_questions_grows() -> None:
    """Up to half a minute, until the write's hold is over."""
    world = verifying()
    doubt(world)
    at = [0]
    begun = world.loop.now
    while len(world.plane.verifier):
        last(world).answers(b"", 503)
        known = len(questions(world))
        while len(world.plane.verifier) and len(questions(world)) == known:
            world.advance(50)
            world.plane.attend()
        at.append((world.loop.now - begun) // MILLISECOND)
    waits = [later - sooner for sooner, later in itertools.pairwise(at)]
    assert waits[:10] == [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    assert 900_000 <= at[-1] <= 931_000
    assert (state(world), at_rest(world)) == (WriteState.DEAD_LETTERED, True)


def test_a_write_that_has_used_up_its_attempts_is_still_asked_about() -> None:
    """It is attempted no more, but what became of it can be known."""
    world = verifying(max_attempts=1)
    doubt(world)
    assert state(world) is WriteState.DEAD_LETTERED
    last(world).answers(YES)
    assert state(world) is WriteState.APPLIED
    assert b"It has happened." in writes(world).body


# -- what is asked -------------------------------------------------------------------------------------------------


def test_it_is_asked_as_the_write_was() -> None:
    """With its credentials, without what belongs to its body or to itself, and without what would make it no read."""
    world = verifying()
    doubt(
        world,
        Authorization="Bearer secret",
        Cookie="a=b",
        X_Api_Key="k2",
        Accept="application/json",
        Accept_Encoding="gzip, br",
        Content_Type="application/json",
        Content_Language="en",
        Expect="100-continue",
        If_Match='"x"',
        Range="bytes=0-1",
        X_HTTP_Method_Override="DELETE",
        Budget_Id="job",
        Budget_Remaining_Ms=1000,
        Proxy_Authorization="Basic am9iOjE=",
        Connection="keep-alive, X-Hop",
        X_Hop="1",
        Te="trailers",
    )
    (head,) = questions(world)
    assert head.decode().split("\r\n") == [
        "GET /orders?key=k HTTP/1.1",
        "Host: tool",
        "Authorization: Bearer secret",
        "Cookie: a=b",
        "X-Api-Key: k2",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Via: 1.1 waterclock-w",
        "",
    ]
    assert last(world).received.endswith(b"\r\n\r\n")


def test_the_key_is_not_sent_again_under_its_own_header() -> None:
    """A server that keeps what it has answered under a key would take the question for the write."""
    world = verifying(idempotency=Idempotency(b"x-request-key"))
    doubt(world, None, X_Request_Key="k")
    (head,) = questions(world)
    assert head.startswith(b"GET /orders?key=k HTTP/1.1\r\n")
    assert b"x-request-key" not in head.lower()


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a/b?c&d=e#f", "/o/a%2Fb%3Fc%26d%3De%23f"),
        ("100% {record} \\", None),
        ("with space", "/o/with%20space"),
        ("..", None),
        ("a..b", "/o/a..b"),
        (None, None),
    ],
)
def test_keys_of_any_kind(key: str | None, path: str | None) -> None:
    """They are written so that they lead to one place only, or not asked about at all."""
    world = verifying(Verify("/o/{idempotency_key}"))
    doubt(world, key)
    asked = [head.split(b" ")[1].decode() for head in questions(world)]
    if key == "100% {record} \\":
        assert asked == ["/o/100%25%20%7Brecord%7D%20%5C"]
    else:
        assert asked == ([path] if path is not None else [])
    assert len(world.plane.verifier) == len(asked)


def test_what_else_a_path_can_name() -> None:
    """The job, and the record; of a write without a budget there is no job to name."""
    world = verifying(Verify("/jobs/{budget_id}/{record}", method="HEAD"))
    doubt(world, None, Budget_Id="run-1")
    (record,) = world.book.listed()
    assert questions(world)[0].startswith(f"HEAD /jobs/run-1/{record.id} HTTP/1.1\r\n".encode())
    last(world).says(b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n")
    assert state(world) is WriteState.APPLIED


def test_a_base_url_route_asks_where_it_leads() -> None:
    """Below the path of its upstream."""
    upstream = Upstream("https", "api.internal", 8443, "/v2")
    world = verifying(prefix="/shop", upstream=upstream, ca="/ca.pem")
    client = world.client().sends(
        request("POST", "/shop/orders", b"{}", Host="127.0.0.1:10800", Idempotency_Key="k")
    )
    world.upstream().breaks_off()
    assert client.statuses == [424]
    assert last(world).heads[0].startswith(b"GET /v2/orders?key=k HTTP/1.1\r\nHost: api.internal:8443\r\n")
    assert last(world).origin == Origin("https", "api.internal", 8443, None, "/ca.pem")


def test_tls_that_the_sidecar_originates_is_spoken_for_the_question_too() -> None:
    """The origin is that of the write."""
    world = verifying(originate_tls=True)
    doubt(world)
    assert last(world).origin.scheme == "https"
    assert last(world).origin.port == 443


def test_a_parent_proxy_is_asked_in_absolute_form() -> None:
    """With the credentials that the policy has for it."""
    world = verifying()
    world.plane.policy = replace(
        world.plane.policy,
        connections=Connections(proxy=Upstream("http", "parent", 3128, userinfo="u:p")),
    )
    world.dialer.via_parent = True
    doubt(world)
    (head,) = questions(world)
    assert head.startswith(b"GET http://tool/orders?key=k HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic dTpw\r\n" in head


@pytest.mark.parametrize(
    "route", [{"verify": None}, {"effect": Kind.IDEMPOTENT}], ids=["no question", "no doubt"]
)
def test_nothing_is_asked_without_need(route: dict[str, Any]) -> None:
    """Only of writes, and only where the route names a read."""
    world = verifying(**route)
    doubt(world)
    world.advance(60_000)
    assert (questions(world), len(world.plane.verifier)) == ([], 0)


def test_nothing_is_asked_about_a_write_that_was_not_sent() -> None:
    """Or that was answered."""
    world = verifying()
    world.dialer.refused.add("tool")
    assert writes(world).statuses == [502]
    world.dialer.refused.clear()
    client = writes(world, "other")
    world.upstream().answers()
    assert client.statuses == [200]
    world.advance(60_000)
    assert (questions(world), len(world.plane.verifier)) == ([], 0)


def test_the_guard_does_not_matter() -> None:
    """A job wants to know of its writes though their repetitions are let through."""
    world = verifying(guard=Guard.NONE)
    doubt(world)
    last(world).answers(YES)
    assert state(world) is WriteState.APPLIED
