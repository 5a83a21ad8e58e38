"""What the sidecar tries again by itself: only what its route asks for, what is safe, and what still fits."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.calls import Outcome
from proxy.core.policy import BudgetDefaults, Mode, OnMissing, Retries
from proxy.core.units import MILLISECOND
from tests.dataplane.trying import BUSY, PART, heads_of, trying
from tests.dataplane.world import FakeClient, World


def _told(world: World) -> list[int]:
    """What the other side was told is left, attempt by attempt."""
    upstreams = [upstream for upstream in world.upstreams if upstream.heads]
    return [int(upstream.field("Budget-Remaining-Ms") or "") for upstream in upstreams]


# -- what is tried again -----------------------------------------------------------------------------------------------


def _refuses(world: World, client: FakeClient) -> None:
    """It was refused when it was asked for."""


def _breaks_off(world: World, client: FakeClient) -> None:
    world.upstream().breaks_off()


def _breaks_off_in_the_answer(world: World, client: FakeClient) -> None:
    # Nothing of an answer has gone to the client only if it is held: that is a write's, or one that may be tried again.
    world.upstream().says(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\npart")
    world.upstream().breaks_off()


def _is_busy(world: World, client: FakeClient) -> None:
    world.upstream().says(BUSY)


def _says_garbage(world: World, client: FakeClient) -> None:
    world.upstream().says(b"\0\0\0\r\n\r\n")


def _stalls(world: World, client: FakeClient) -> None:
    world.advance(100)


FAILURES = {
    "connect_failed": _refuses,
    "a reset": _breaks_off,
    "a reset in the answer": _breaks_off_in_the_answer,
    "503": _is_busy,
    "garbage": _says_garbage,
    "a cut at the cap": _stalls,
}
CALLS: dict[str, tuple[str, bytes, dict[str, Any], bool]] = {
    "GET": ("GET", b"", {}, False),
    "HEAD": ("HEAD", b"", {}, False),
    "OPTIONS": ("OPTIONS", b"", {}, False),
    "DELETE": ("DELETE", b"", {}, False),
    "PUT": ("PUT", b"the body", {}, False),
    "PUT in chunks": ("PUT", b"8\r\nthe body\r\n0\r\n\r\n", {"Transfer_Encoding": "chunked"}, False),
    "POST": ("POST", b"{}", {}, False),
    "POST with a key": ("POST", b"{}", {"Idempotency_Key": "k"}, False),
    "POST with an honoured key": ("POST", b"{}", {"Idempotency_Key": "k"}, True),
    "POST without its honoured key": ("POST", b"{}", {}, True),
}
SAFE = {"GET", "HEAD", "OPTIONS", "DELETE", "PUT", "PUT in chunks", "POST with an honoured key"}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("failure", FAILURES)
def test_what_is_safe_is_tried_again_and_nothing_else(call: str, failure: str) -> None:
    """A write is sent once, unless the other side honours its key; before it was sent, anything may be tried again."""
    method, body, fields, honoured = CALLS[call]
    if (call, failure) == ("HEAD", "a reset in the answer"):
        return  # a head is all of it
    world = trying(honoured=honoured, cap=100 * MILLISECOND)
    world.plane.jitter = lambda: 0.5
    if failure == "connect_failed":
        world.dialer.refused.add("tool")
    client = world.client().asks(method, "http://tool/x", body, Budget_Id="b", **fields)
    world.dialer.refused.clear()
    FAILURES[failure](world, client)
    world.advance(25)
    again = call in SAFE or failure == "connect_failed"
    sent = 1 + again - (failure == "connect_failed")
    assert len(heads_of(world)) == sent
    if not again:
        assert client.statuses == [503 if failure == "503" else 424]
        assert (world.record.tries, world.record.attempt) == (1, 1)
        assert world.observed.withheld == ["not_safe"]
        world.at_rest()
        return
    assert client.received == b""
    assert world.records == []
    second = world.upstream()
    if len(heads_of(world)) == 2:
        told = _told(world)
        assert told == sorted(told, reverse=True)
    if body:
        assert second.received.endswith(body), "it is sent whole"
    second.answers(b"" if method == "HEAD" else b"done", Content_Length=4)
    assert client.statuses == [200]
    record = world.record
    assert (record.outcome, record.tries, record.attempt, record.fresh) == ("completed", 2, 2, 1)
    assert record.effect == ("none" if method in ("GET", "HEAD", "OPTIONS") else "reported")
    assert world.observed.retries == ["fallback"]
    assert world.journal.kept == {}
    assert len(world.book) == 0
    world.at_rest()


@pytest.mark.parametrize("failure", FAILURES)
def test_what_the_route_does_not_ask_for_is_not_tried_again(failure: str) -> None:
    """Each ending is asked for by itself."""
    asked = {
        "connect_failed": Outcome.UPSTREAM_FAILED,
        "a cut at the cap": Outcome.CONNECT_FAILED,
    }.get(failure, Outcome.DEADLINE_EXCEEDED)
    world = trying(Retries(outcomes=frozenset({asked}), statuses=frozenset({500})), cap=100 * MILLISECOND)
    if failure == "connect_failed":
        world.dialer.refused.add("tool")
    client = world.client().asks()
    FAILURES[failure](world, client)
    world.advance(1)
    assert client.statuses[0] >= 500
    assert world.record.tries == 1
    assert world.observed.retries == world.observed.withheld == []


def test_the_route_says_how_often() -> None:
    """Then the last ending is the call's own."""
    world = trying()
    client = world.client().asks()
    for number in range(3):
        assert client.received == b""
        world.upstream().answers(b"%d" % number, 503)
        world.advance(1)
    assert client.statuses == [503]
    assert client.body == b"2"
    assert (world.record.outcome, world.record.tries) == ("completed", 3)
    assert world.observed.retries == ["fallback"] * 2
    assert world.observed.withheld == ["attempts_used_up"]
    assert len(world.upstreams) == 1, "its connection is as good as after any other answer"


def test_observing_tries_nothing_again() -> None:
    """Nothing of a policy is applied, and what comes is passed on as it comes."""
    world = trying(policy={"mode": Mode.OBSERVE}, cap=100 * MILLISECOND)
    client = world.client().asks()
    world.advance(150)
    world.upstream().says(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n")
    assert client.statuses == [503]
    world.upstream().says(b"123456789")
    assert world.record.tries == 1


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("on", [frozenset({504}), frozenset()])
def test_retry_recomputes(jitter: float, on: frozenset[int]) -> None:
    """What is told falls with each attempt, and all of them together end with the budget (envoyproxy/envoy#13196)."""
    outcomes = frozenset() if on else frozenset({Outcome.DEADLINE_EXCEEDED})
    retries = Retries(max=2, outcomes=outcomes, statuses=on, base=10 * MILLISECOND)
    world = trying(retries, cap=100 * MILLISECOND)
    world.plane.jitter = lambda: jitter
    client = world.client().asks(Budget_Remaining_Ms=250)
    world.advance(249)
    assert client.received == b""
    world.advance(2)
    assert client.statuses == [504]
    told = _told(world)
    assert len(told) == 3
    assert told[0] == 100
    assert told[0] > told[1] > told[2]
    assert told[2] <= 50
    assert 250 <= world.record.elapsed_ms < 251
    assert (world.record.allowed_ms, world.record.tries) == (250, 3)
    assert world.record.reason == "budget_remaining"
    assert all(upstream.closed for upstream in world.upstreams)
    world.at_rest()


def test_what_is_told_falls_even_when_no_time_has_passed() -> None:
    """Two attempts in the same millisecond are told apart."""
    world = trying(cap=100 * MILLISECOND)
    world.client().asks(Budget_Remaining_Ms=5000)
    for _ in range(2):
        world.upstream().breaks_off()
        world.advance(0.01)
    assert _told(world) == [100, 99, 98]


def test_the_last_attempt_is_cut_at_the_cap_and_says_so() -> None:
    """It is over before the budget is: the caller can still do something else."""
    world = trying(Retries(max=1, outcomes=frozenset({Outcome.DEADLINE_EXCEEDED})), cap=100 * MILLISECOND)
    client = world.client().asks("PUT", body=b"x", Budget_Remaining_Ms=5000)
    world.advance(200)
    assert client.statuses == [504]
    assert client.field("x-should-retry") == "true"
    assert b"Its last attempt was allowed 100 ms (the cap of its route)" in client.body
    record = world.record
    assert (record.elapsed_ms, record.allowed_ms, record.late_ms) == (200, 5000, None)
    assert (record.outcome, record.reason, record.effect) == ("deadline_exceeded", "route_cap", "uncertain")


def test_each_attempt_has_its_own_cap_without_a_budget_too() -> None:
    """Nothing else limits such a call."""
    retries = Retries(max=1, outcomes=frozenset({Outcome.DEADLINE_EXCEEDED}))
    world = trying(
        retries, policy={"budget": BudgetDefaults(on_missing=OnMissing.PASS)}, cap=100 * MILLISECOND
    )
    client = world.client().asks()
    world.advance(199)
    assert client.received == b""
    assert _told(world) == [100, 99]
    world.advance(1)
    assert client.statuses == [504]


def test_the_callers_own_timer_is_outlived_under_a_cap_too() -> None:
    """Once an answer has begun the timer is no limit any more, but the cap of the attempt is."""
    world = trying(cap=1000 * MILLISECOND)
    client = world.client().asks(X_Stainless_Read_Timeout="0.45")
    world.advance(300)
    world.upstream().says(PART)
    world.advance(699)
    assert world.records == []
    assert client.statuses == [200]
    world.advance(1)
    assert (world.record.outcome, world.record.reason) == ("deadline_exceeded", "route_cap")


@pytest.mark.parametrize(
    ("asked", "again"), [("0", True), ("1", True), ("2", False), ("9", False), ("soon", True)]
)
def test_a_retry_after_is_obeyed_where_it_fits(asked: str, again: bool) -> None:
    """Where it does not, the answer is passed on at once: nothing is won by waiting."""
    world = trying()
    client = world.client().asks(Budget_Remaining_Ms=2000)
    world.upstream().answers(b"busy", 503, Retry_After=asked)
    if not again:
        assert client.statuses == [503]
        assert client.field("Retry-After") == asked
        assert (world.record.elapsed_ms, world.record.outcome) == (0, "completed")
        assert world.observed.withheld == ["no_time"]
        return
    wait = int(asked) * 1000 if asked.isdigit() else 0
    if wait:
        world.advance(wait - 1)
        assert len(heads_of(world)) == 1
    world.advance(1)
    assert len(heads_of(world)) == 2
    world.upstream().answers()
    assert client.statuses == [200]


@pytest.mark.parametrize(
    ("base", "min_start", "again"), [(400, 500, True), (500, 500, True), (501, 500, False)]
)
def test_a_backoff_that_does_not_fit_is_not_begun(base: int, min_start: int, again: bool) -> None:
    """Together with what the route needs to start with."""
    retries = Retries(outcomes=frozenset({Outcome.UPSTREAM_FAILED}), base=base * MILLISECOND)
    world = trying(retries, min_start=min_start * MILLISECOND)
    world.plane.jitter = lambda: 1.0
    client = world.client().asks(Budget_Remaining_Ms=1000)
    world.upstream().breaks_off()
    assert client.statuses == ([] if again else [502])
    world.advance(base)
    assert len(heads_of(world)) == 1 + again


def test_the_backoff_doubles_up_to_its_cap() -> None:
    """Full jitter: a part of it, drawn anew each time."""
    retries = Retries(max=4, statuses=frozenset({503}), base=100 * MILLISECOND, cap=300 * MILLISECOND)
    world = trying(retries)
    world.plane.jitter = lambda: 0.5
    world.client().asks()
    for wait in (50, 100, 150, 150):
        before = len(heads_of(world))
        world.upstream().says(BUSY)
        world.advance(wait - 1)
        assert len(heads_of(world)) == before
        world.advance(1)
        assert len(heads_of(world)) == before + 1


@pytest.mark.parametrize("early", [0, 1_300_000])
def test_a_backoff_to_the_very_end_is_cut_there(early: int) -> None:
    """It fitted, but for the grain of the timers: nothing is sent when nothing is left."""
    world = trying()
    world.loop.early = early
    world.plane.jitter = lambda: 0.99999999
    client = world.client().asks("PUT", body=b"x", Budget_Remaining_Ms=50)
    world.upstream().breaks_off()
    world.advance(50)
    if not early:
        assert client.statuses == [504]
    world.advance(1)
    assert client.statuses == [504]
    assert world.record.effect == "uncertain", "the first attempt was sent"
    assert world.record.elapsed_ms == 50
    world.at_rest()


def test_neither_dialling_nor_backing_off_is_overhead() -> None:
    """What the sidecar itself took is what is left when all waiting is taken off."""
    world = trying()
    world.plane.jitter = lambda: 1.0
    world.dialer.held = True
    world.dialer.refused.add("tool")
    client = world.client().asks("PUT", body=b"x")
    world.advance(20)
    world.dialer.release()
    world.advance(50)
    world.dialer.refused.clear()
    world.advance(30)
    world.dialer.release()
    world.upstream().breaks_off()
    world.advance(200)
    world.dialer.release()
    world.upstream().answers()
    assert client.statuses == [200]
    record = world.record
    assert (record.waited_ms, record.overhead_ms, record.tries) == (100, 0, 3)


def test_a_cut_while_the_second_connection_opens_leaves_the_first_waits_as_they_were() -> None:
    """A wait that never ended is nobody's overhead either."""
    world = trying(cap=100 * MILLISECOND)
    world.client().asks("PUT", body=b"x", Budget_Remaining_Ms=150)
    world.dialer.held = True
    world.advance(150)
    assert (world.record.waited_ms, world.record.overhead_ms) == (0, 0)
    assert world.record.outcome == "deadline_exceeded"


# -- the retry budget --------------------------------------------------------------------------------------------------


def test_a_route_that_fails_is_not_buried_in_retries() -> None:
    """A share of the recent calls, and a few more: what is over that is not tried again."""
    world = trying(Retries(max=1, statuses=frozenset({503}), ratio=20, floor=1))
    for _ in range(40):
        world.client().asks()
        for _ in range(2):
            world.upstream().says(BUSY)
            world.advance(1)
    # 10 at any rate, and one for each fifth call.
    assert len(world.observed.retries) == 18
    assert world.observed.withheld.count("retry_budget") == 22
    assert len(world.records) == 40
    world.advance(11_000)
    world.client().asks()
    world.upstream().says(BUSY)
    world.advance(1)
    assert len(world.observed.retries) == 19
