"""Sending again: what was sent stays sent, what is sent again is whole, and no attempt meets what another has left."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.calls import Outcome
from proxy.core.policy import Retries, Writes
from proxy.core.units import MILLISECOND, SECOND
from tests.dataplane.trying import BUSY, EVERYTHING, HELD_BYTES, PART, heads_of, trying
from tests.dataplane.world import request, response

HARMLESS: dict[str, tuple[str, bytes, dict[str, Any], bool]] = {
    "GET": ("GET", b"", {}, False),
    "PUT": ("PUT", b"the body", {}, False),
    "POST with an honoured key": ("POST", b"{}", {"Idempotency_Key": "k"}, True),
}


# -- how far the call had come -----------------------------------------------------------------------------------------


def test_a_client_that_leaves_between_two_attempts() -> None:
    """Nothing more is sent, and what was sent before is not forgotten."""
    for method, effect, phase in (("GET", "none", "sent"), ("PUT", "uncertain", "sent")):
        world = trying()
        world.plane.jitter = lambda: 1.0
        client = world.client().asks(method, body=b"x" if method == "PUT" else b"")
        world.upstream().breaks_off()
        world.advance(10)
        client.leaves()
        assert world.loop.armed == 0
        world.advance(5000)
        assert len(heads_of(world)) == 1
        record = world.record
        assert (record.outcome, record.effect, record.phase, record.tries) == (
            "client_gone",
            effect,
            phase,
            1,
        )
        world.at_rest()


@pytest.mark.parametrize("failure", ["a refused connection", "a cut while it is opened", "a reset"])
@pytest.mark.parametrize("call", HARMLESS)
def test_an_earlier_attempt_that_was_sent_stays_sent(call: str, failure: str) -> None:
    """What comes of a later one does not make it undone: a write that may have happened is not said to be `not_sent`."""
    method, body, fields, honoured = HARMLESS[call]
    world = trying(Retries(max=1, outcomes=EVERYTHING.outcomes), honoured=honoured, cap=100 * MILLISECOND)
    client = world.client().asks(method, body=body, Budget_Remaining_Ms=5000, **fields)
    if failure == "a refused connection":
        world.dialer.refused.add("tool")
    elif failure == "a cut while it is opened":
        world.dialer.held = True
    world.upstream().breaks_off()
    world.advance(1)
    if failure == "a reset":
        world.upstream().breaks_off()
    world.advance(100)
    record = world.record
    assert record.phase == "sent"
    assert record.tries == 2
    assert record.outcome == ("deadline_exceeded" if "cut" in failure else "upstream_failed")
    assert record.effect == ("none" if method == "GET" else "uncertain")
    assert b"Nothing was sent" not in client.body
    if method == "POST":
        assert client.statuses == [424]
        assert world.book.pending() == 1
    world.dialer.release()
    world.at_rest()


def test_a_write_that_was_never_sent_is_in_no_doubt() -> None:
    """However often its connection was refused."""
    world = trying()
    world.dialer.refused.add("tool")
    client = world.client().asks("POST", body=b"{}")
    world.advance(1)
    assert client.statuses == [502]
    record = world.record
    assert (record.outcome, record.phase, record.effect, record.tries) == (
        "connect_failed",
        "not_sent",
        "none",
        3,
    )
    assert world.journal.kept == {}
    assert len(world.book) == 0
    world.at_rest()


# -- what can be sent again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "again"), [(HELD_BYTES, True), (HELD_BYTES + 1, False)])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_that_is_not_kept_is_not_sent_again(size: int, again: bool, framing: str) -> None:
    """Past `writes.fingerprint_bytes` it is gone once it has passed."""
    world = trying()
    if framing == "length":
        wire = request("PUT", body=b"x" * size)
    else:
        wire = request("PUT", Transfer_Encoding="chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)
    client = world.client().sends(wire[:70_000]).sends(wire[70_000:])
    held = client.protocol._call.request.body()  # type: ignore[union-attr]
    assert len(held) == (size if again else 0)
    world.upstream().says(BUSY)
    world.advance(1)
    assert len(world.upstreams) == 1 + again
    assert client.statuses == ([] if again else [503])
    if again:
        assert world.upstream().received.count(b"x") == size
        world.upstream().answers()
        assert client.statuses == [200]


@pytest.mark.parametrize("size", [10, 100_000, HELD_BYTES + 100_000])
@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_connection_refused_while_the_body_is_on_its_way(size: int, method: str, framing: str) -> None:
    """Nothing of it was sent, so nothing of it is missing: the next attempt sends all of it, once."""
    world = trying()
    world.plane.jitter = lambda: 0.5
    body = b"x" * size
    if framing == "length":
        wire = request(method, body=body)
    else:
        wire = request(method, Transfer_Encoding="chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
    world.dialer.refused.add("tool")
    client = world.client().sends(wire[: -size // 2])
    if method == "PUT" or (size > HELD_BYTES and framing == "length"):
        assert world.dialer.asked == 1
    world.dialer.refused.clear()
    client.sends(wire[-size // 2 :])
    world.advance(100)
    assert world.upstream().received.count(b"x") - world.upstream().heads[0].count(b"x") == size
    world.upstream().answers()
    assert client.statuses == [200]
    assert world.record.effect == "reported"
    world.at_rest()


def test_an_answer_before_the_end_of_the_body_is_followed_by_another_attempt() -> None:
    """The rest of the body goes to that one; the first connection still waits for it, and is not used again."""
    world = trying()
    wire = request("PUT", body=b"0123456789")
    client = world.client().sends(wire[:-5])
    world.upstream().says(BUSY)
    world.advance(1)
    assert world.upstreams[0].closed
    assert world.upstream().received.endswith(b"01234")
    client.sends(wire[-5:])
    assert world.upstream().received.endswith(b"0123456789")
    world.upstream().answers()
    assert client.statuses == [200]
    assert world.upstreams[0].transport.writes_after_the_end == 0


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_that_was_to_be_asked_for(method: str) -> None:
    """`Expect: 100-continue` holds for each attempt anew, and the client is told once."""
    world = trying(honoured=True)
    key = "k" if method == "POST" else None
    client = world.client().sends(
        request(method, Expect="100-continue", Content_Length=5, Idempotency_Key=key)
    )
    if method == "POST":
        client.sends(b"hello")
    world.upstream().says(BUSY)
    world.advance(1)
    assert world.upstream().field("Expect") == "100-continue"
    assert b"hello" not in world.sent
    world.upstream().says(response(100, b""))
    if method == "PUT":
        client.sends(b"hello")
    assert world.upstream().received.endswith(b"hello")
    assert world.sent.count(b"hello") == 1
    world.upstream().answers()
    assert client.statuses == [100, 200]


# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_large_answer_is_passed_on_and_not_tried_again() -> None:
    """It cannot be held, and half of it cannot be taken back."""
    world = trying(policy={"writes": Writes(hold_back_bytes=100)})
    client = world.client().asks()
    world.upstream().says(b"HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\n" + b"x" * 101)
    assert client.statuses == [503]
    world.upstream().says(b"x" * 899)
    assert client.received.endswith(b"x" * 1000)
    assert world.record.tries == 1
    assert len(heads_of(world)) == 1


@pytest.mark.parametrize("head", [b"Content-Length: 9\r\n\r\n", b"Content-Type: text/event-stream\r\n\r\n"])
def test_a_slow_answer_is_held_no_longer_than_a_writes_would_be(head: bytes) -> None:
    """Its client learns of it while there is time to do something else."""
    world = trying()
    client = world.client().asks()
    world.upstream().says(b"HTTP/1.1 503 Busy\r\n" + head + b"a: b\n\n")
    world.advance(249)
    assert client.received == b""
    world.advance(1)
    assert client.statuses == [503]
    assert world.records == []
    world.upstream().breaks_off()
    assert (world.record.outcome, world.record.tries) == ("upstream_failed", 1)


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize(
    "begun",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        PART,
    ],
    ids=["a stream", "only a head", "a part"],
)
@pytest.mark.parametrize("ending", ["a reset", "the cap"])
def test_what_has_begun_to_be_answered_is_not_tried_again(method: str, begun: bytes, ending: str) -> None:
    """The client has seen some of it."""
    world = trying(cap=100 * MILLISECOND)
    client = world.client().asks(method, body=b"x" if method == "PUT" else b"")
    world.upstream().says(begun)
    assert client.statuses == [200]
    if ending == "a reset":
        world.upstream().breaks_off()
    else:
        world.advance(100)
    world.advance(1000)
    assert len(heads_of(world)) == 1
    assert client.statuses == [200]
    assert client.transport.lost
    record = world.record
    assert (record.outcome, record.reason) == (
        ("upstream_failed", "http_response_incomplete")
        if ending == "a reset"
        else ("deadline_exceeded", "route_cap")
    )


def test_no_byte_of_an_earlier_attempt_reaches_the_client() -> None:
    """Whatever it still has to say."""
    world = trying(cap=100 * MILLISECOND)
    client = world.client().asks()
    first = world.upstream()
    first.says(b"HTTP/1.1 503 Ear")
    world.advance(100)
    first.says(b"ly\r\nContent-Length: 5\r\n\r\nearly")
    world.upstream().says(b"HTTP/1.1 503 Held\r\nContent-Length: 9\r\n\r\nheld")
    second = world.upstream()
    world.advance(100)
    second.says(b" back")
    world.upstream().answers(b"the last")
    assert client.statuses == [200]
    assert client.body == b"the last"
    assert first.closed
    assert second.closed
    assert len(world.upstreams) == 3


def test_a_held_answer_is_passed_on_as_it_was_if_there_is_no_other() -> None:
    """Fields, body, trailers and all."""
    world = trying(Retries(max=1, statuses=frozenset({503})))
    client = world.client().asks()
    for number in (b"1", b"2"):
        world.upstream().says(
            b"HTTP/1.1 503 Busy\r\nX: %b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\nT: %b\r\n\r\n"
            % (number, number)
        )
        world.advance(1)
    assert client.statuses == [503]
    assert client.field("X") == "2"
    assert client.body == b"2\r\nno\r\n0\r\nT: 2\r\n\r\n"


# -- the connection and the journal ------------------------------------------------------------------------------------


def test_a_connection_that_opens_too_late_is_not_used_twice() -> None:
    """The attempt it was opened for is over: there is never more than one under way."""
    world = trying(Retries(max=1, outcomes=frozenset({Outcome.DEADLINE_EXCEEDED})), cap=100 * MILLISECOND)
    world.dialer.held = True
    client = world.client().asks("PUT", body=b"x", Budget_Remaining_Ms=5000)
    world.advance(150)
    assert world.dialer.asked == 2
    world.dialer.release()
    world.dialer.release()
    assert len(heads_of(world)) == 1
    world.upstream().answers()
    assert client.statuses == [200]
    assert world.record.tries == 2
    world.at_rest()


def test_an_intent_that_is_late_holds_each_attempt_back() -> None:
    """No attempt begins before the disk knows of it, so none is over before it has begun."""
    world = trying(honoured=True, cap=100 * MILLISECOND)
    world.journal.held = True
    client = world.client().asks("POST", body=b"{}", Idempotency_Key="k", Budget_Remaining_Ms=5000)
    world.advance(400)
    assert world.dialer.asked == 0
    assert world.observed.retries == []
    world.journal.release()
    assert len(heads_of(world)) == 1
    world.journal.held = False
    world.advance(100)
    assert len(heads_of(world)) == 2
    world.upstream().answers()
    assert client.statuses == [200]
    assert [what for what, _, _ in world.journal.log] == ["intent", "reported", "drop"]
    world.at_rest()


def test_nothing_is_on_record_between_two_attempts_of_which_none_was_sent() -> None:
    """The intent is taken back, and put on disk again before the next one."""
    world = trying()
    world.plane.jitter = lambda: 1.0
    world.dialer.refused.add("tool")
    world.client().asks("POST", body=b"{}", Idempotency_Key="k")
    assert world.journal.kept == {}
    world.journal.held = True
    world.dialer.refused.clear()
    world.advance(100)
    assert world.dialer.asked == 1, "the disk does not know yet"
    world.journal.release()
    (kept,) = world.journal.kept.values()
    assert (kept.state, kept.attempts) == ("intent", 2)
    assert len(heads_of(world)) == 1


@pytest.mark.parametrize("key", [None, "k"])
def test_a_write_is_not_sent_if_its_equal_was_cut_while_it_backed_off(key: str | None) -> None:
    """It is looked at again, like one that has waited for its turn."""
    world = trying(Retries(base=SECOND))
    world.plane.jitter = lambda: 1.0
    world.dialer.refused.add("tool")
    first = world.client().asks("POST", body=b"{}", Idempotency_Key=key)
    world.dialer.refused.clear()
    second = world.client().asks("POST", body=b"{}", Idempotency_Key=key, Accept="text/plain")
    world.upstream().breaks_off()
    assert second.statuses == [424]
    world.advance(1000)
    assert first.statuses == [424]
    assert len(heads_of(world)) == 1
    assert world.records[-1].reason == "unresolved_write"
    world.at_rest()


@pytest.mark.parametrize("status", [200, 503])
def test_a_stale_connection_is_no_attempt_of_the_tools(status: int) -> None:
    """A read that meets one is asked again at once, whatever its route says, and that is counted."""
    world = trying()
    client = world.client().asks()
    world.upstream().answers()
    world.client().asks("GET", "http://tool/x", x_stainless_retry_count=1)
    world.upstream().ends()
    assert len(world.upstreams) == 2
    assert world.observed.retries == []
    world.upstream().answers(status=status)
    world.advance(1)
    if status == 503:
        assert world.observed.retries == ["fallback"]
        world.upstream().answers()
    assert client.statuses == [200]
    record = world.records[-1]
    assert (record.tries, record.attempt) == ((2, 3) if status == 200 else (3, 4))
    world.at_rest()
