"""Questions about writes that go wrong, that come too many at once, that a stop ends and a start takes up again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from proxy.core.calls import Phase
from proxy.core.policy import Idempotency, Policy, Route, Verify
from proxy.core.target import Origin
from proxy.core.upstream import Upstream
from proxy.core.writes import WriteBook, WriteEvent, WriteRecord, WriteState
from proxy.dataplane.verify import MOST_AT_ONCE
from tests.dataplane.doubts import NO, VERIFY, YES, at_rest, doubt, last, questions, state, verifying
from tests.dataplane.world import World, response

HUGE = 1024 * 1024


def record(number: int = 1, **fields: Any) -> WriteRecord:
    """A write that is found uncertain when the sidecar starts."""
    known: dict[str, Any] = {
        "id": f"old-{number}",
        "state": WriteState.UNCERTAIN,
        "opened_at": 1_000_000,
        "origin": "http://tool:80",
        "method": "POST",
        "target": "http://tool/orders",
        "route": "orders",
        "budget_id": "job",
        "step": 1,
        "key": f"k{number}",
        "fingerprint": f"f{number}",
        "phase": Phase.SENT,
    }
    return WriteRecord(**known | fields)


# -- answers that say nothing --------------------------------------------------------------------------------------

MUTE: dict[str, bytes] = {
    "a server error": response(500, YES),
    "another status": response(201, YES),
    "no access": response(401, b""),
    "no JSON": response(200, b"<html>"),
    "half of it": response(200, YES[:5]),
    "nothing": response(200, b""),
    "a number": response(200, b"7" * 6000),
    "depth without end": response(200, b"[" * 100_000),
    "packed": response(200, b"\x1f\x8b\x08\x00" + bytes(30), Content_Encoding="gzip"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "too much": response(200, b'{"items": [1], "x": "' + b"x" * HUGE + b'"}'),
    "too much without end": response(200, b"", Content_Length=10**12) + b"x" * (HUGE + 1),
}


@pytest.mark.parametrize("what", MUTE)
def test_answers_that_say_nothing(what: str) -> None:
    """The write stays in doubt, and is asked about again."""
    world = verifying()
    doubt(world)
    last(world).says(MUTE[what])
    assert (state(world), world.observed.verifications) == (WriteState.UNCERTAIN, ["unknown"])
    world.advance(250)
    assert len(questions(world)) == 2
    last(world).answers(YES)
    assert (state(world), at_rest(world)) == (WriteState.APPLIED, True)


@pytest.mark.parametrize(
    "says", [b"", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_question_has_five_seconds(says: bytes) -> None:
    """Then its connection is dropped; the wait before the next one counts from there."""
    world = verifying()
    doubt(world)
    if says:
        last(world).says(says)
    asked = last(world)
    world.advance(4999)
    assert world.observed.verifications == []
    world.advance(1)
    assert (asked.closed, world.observed.verifications) == (True, ["unknown"])
    world.advance(250)
    assert len(questions(world)) == 2


def test_an_answer_that_switches_protocols_or_breaks_off() -> None:
    """It says nothing either."""
    world = verifying()
    doubt(world)
    last(world).says(response(101, b"", Upgrade="x", Connection="Upgrade"))
    world.advance(5250)
    last(world).breaks_off()
    world.advance(500)
    last(world).says(response(103, b"", Link="</x>") + response(200, YES))
    assert (state(world), at_rest(world)) == (WriteState.APPLIED, True)


def test_nobody_to_ask() -> None:
    """It is tried again; an opening that takes too long is given up."""
    world = verifying()
    world.client().asks("POST", "http://tool/orders", b"{}", Idempotency_Key="k")
    world.dialer.refused.add("tool")
    world.upstream().breaks_off()
    assert world.observed.verifications == ["unknown"]
    world.dialer.refused.clear()
    world.dialer.held = True
    world.advance(250)
    assert world.plane.pool.counts()["opening"] == 1
    world.advance(5000)
    assert world.plane.pool.counts()["opening"] == 0
    world.dialer.held = False
    world.advance(500)
    last(world).answers(YES)
    assert (state(world), at_rest(world)) == (WriteState.APPLIED, True)


def test_connections_are_shared_with_the_calls() -> None:
    """One that lies idle is used, and after the answer it lies idle again."""
    world = verifying()
    doubt(world)
    last(world).answers(NO)
    world.advance(250)
    assert len(world.upstreams) == 2
    assert world.plane.pool.counts() == {"idle": 0, "active": 1, "opening": 0}
    last(world).answers(NO)
    assert world.plane.pool.counts()["idle"] == 1


# -- how many ------------------------------------------------------------------------------------------------------


def many(world: World, number: int) -> None:
    """Writes that are in doubt, all of them."""
    for each in range(number):
        doubt(world, f"k{each}")


def under_way(world: World) -> int:
    """How many questions wait for their answers."""
    return len(questions(world)) - len(world.observed.verifications)


def test_few_are_asked_at_once() -> None:
    """The others wait for their turn, in order; none is forgotten."""
    world = verifying()
    many(world, 3 * MOST_AT_ONCE)
    assert len(world.plane.verifier) == 3 * MOST_AT_ONCE
    answered: Counter[int] = Counter()
    while len(world.plane.verifier):
        assert under_way(world) == min(MOST_AT_ONCE, len(world.plane.verifier))
        number = next(
            n for n, up in enumerate(world.upstreams) if up.received.count(b"GET /orders") > answered[n]
        )
        answered[number] += 1
        world.upstream(number).answers(YES)
    assert answered.total() == 3 * MOST_AT_ONCE
    assert {each.state for each in world.book.listed()} == {WriteState.APPLIED}
    assert at_rest(world)


def test_a_turn_that_is_not_needed_any_more_is_passed_on() -> None:
    """Several who waited were settled otherwise; the one behind them is asked about at once."""
    world = verifying()
    many(world, MOST_AT_ONCE + 4)
    for each in world.book.listed()[MOST_AT_ONCE:-1]:
        world.plane.keep(each.after(WriteEvent.FOUND_ABSENT)._replace(resolved_by="operator"))
    assert under_way(world) == MOST_AT_ONCE
    world.upstreams[1].answers(YES)
    assert under_way(world) == MOST_AT_ONCE
    asked = {head.split(b" ")[1] for head in questions(world)}
    assert f"/orders?key=k{MOST_AT_ONCE + 3}".encode() in asked
    assert len(world.plane.verifier) == MOST_AT_ONCE


def test_slow_ones_keep_no_place_for_good() -> None:
    """After their five seconds the next ones are asked."""
    world = verifying()
    many(world, 2 * MOST_AT_ONCE)
    assert under_way(world) == MOST_AT_ONCE
    world.advance(5000)
    assert len(questions(world)) == 2 * MOST_AT_ONCE
    assert under_way(world) == MOST_AT_ONCE


def test_no_more_are_watched_than_can_be_kept() -> None:
    """What is beyond that stays in doubt, as without a question."""
    world = verifying()
    world.plane.verifier.most = 3
    many(world, 5)
    assert len(world.plane.verifier) == len(questions(world)) == 3
    assert world.book.pending() == 5


# -- stop and start ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["asked", "between", "opening"])
def test_a_stop_leaves_nothing(when: str) -> None:
    """No timer, no connection, no place in a queue; and nothing is asked afterwards, whatever becomes of calls."""
    world = verifying()
    many(world, MOST_AT_ONCE + 2)
    late = world.client().asks("POST", "http://tool/orders", b"{}", Idempotency_Key="late")
    if when == "between":
        for upstream in world.upstreams:
            if not upstream.closed and upstream.heads[-1].startswith(b"GET"):
                upstream.answers(NO)
    elif when == "opening":
        world.dialer.held = True
        world.advance(5000)
    asked = len(questions(world))
    world.plane.drain()
    world.plane.close()
    world.advance(0)
    assert late.statuses == [424]
    assert len(world.plane.verifier) == 0
    assert world.plane.pool.counts() == {"idle": 0, "active": 0, "opening": 0}
    world.advance(60_000)
    assert len(questions(world)) == asked
    assert world.book.pending() == MOST_AT_ONCE + 3
    assert world.loop.armed == 0


def resumed(old: WriteRecord, *routes: Route, fallback: Route | None = None) -> World:
    """A sidecar that has just started, with a write on disk that is uncertain."""
    policy = Policy(routes=routes, fallback=fallback if fallback is not None else Route("fallback"))
    world = World(policy, WriteBook([old]))
    world.plane.verifier.resume()
    world.loop.settle()
    return world


def test_a_write_that_was_uncertain_before_is_asked_about() -> None:
    """Without credentials, since those were never on disk."""
    world = resumed(record(), Route("orders", verify=VERIFY))
    (head,) = questions(world)
    assert head.decode().split("\r\n") == [
        "GET /orders?key=k1 HTTP/1.1",
        "Host: tool",
        "Accept-Encoding: identity",
        "Via: 1.1 waterclock-w",
        "",
    ]
    last(world).answers(NO)
    world.advance(250)
    last(world).answers(NO)
    assert (state(world), at_rest(world)) == (WriteState.NOT_APPLIED, True)


ORIGINS = {
    "http://tool:80": ("http", "tool", 80, "tool"),
    "http://tool:8080": ("http", "tool", 8080, "tool:8080"),
    "https://api.internal:443": ("https", "api.internal", 443, "api.internal"),
    "http://[fd00::1]:80": ("http", "fd00::1", 80, "[fd00::1]"),
    "https://[fd00::1]:8443": ("https", "fd00::1", 8443, "[fd00::1]:8443"),
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_it_is_asked_where_the_write_went(origin: str) -> None:
    """Its record says so."""
    scheme, host, port, authority = ORIGINS[origin]
    world = resumed(record(origin=origin), Route("orders", verify=VERIFY, ca="/ca.pem"))
    assert last(world).origin == Origin(scheme, host, port, None, "/ca.pem" if scheme == "https" else None)
    assert last(world).field("Host") == authority


def test_a_base_url_route_keeps_the_path_of_its_upstream() -> None:
    """And the place is that of the record, wherever the route leads by now."""
    upstream = Upstream("http", "new", 80, "/v2")
    world = resumed(record(), Route("orders", prefix="/shop", upstream=upstream, verify=VERIFY))
    assert questions(world)[0].startswith(b"GET /v2/orders?key=k1 HTTP/1.1\r\nHost: tool\r\n")


def test_a_policy_that_names_a_read_by_now_is_enough() -> None:
    """An operator who has writes in doubt can add it; those that are asked about already are not asked twice."""
    world = verifying()
    doubt(world)
    world.plane.verifier.resume()
    assert len(world.plane.verifier) == 1
    silent = verifying(None)
    doubt(silent)
    silent.advance(1000)
    assert questions(silent) == []
    silent.plane.adopt(world.plane.policy)
    silent.advance(0)
    last(silent).answers(YES)
    assert (state(silent), at_rest(silent)) == (WriteState.APPLIED, True)


def test_what_the_fallback_was_used_for_is_asked_about_too() -> None:
    """Its keys are those of any route."""
    world = resumed(record(route="fallback"), fallback=Route("fallback", verify=VERIFY))
    assert len(questions(world)) == 1


@pytest.mark.parametrize(
    "old", [record(route="gone"), record(key=None), record(origin="tcp://tool:80"), record(origin="nonsense")]
)
def test_what_cannot_be_asked_about(old: WriteRecord) -> None:
    """A route that is there no more, a key that was never there, a place that cannot be told."""
    world = resumed(old, Route("orders", verify=VERIFY), Route("other"))
    assert (questions(world), len(world.plane.verifier)) == ([], 0)


def test_a_job_that_is_not_known_is_no_part_of_a_path() -> None:
    """An empty name would ask for all of them, and be told yes."""
    old = record(budget_id="")
    world = resumed(old, Route("orders", verify=Verify("/jobs/{budget_id}"), idempotency=Idempotency()))
    assert (questions(world), len(world.plane.verifier)) == ([], 0)
