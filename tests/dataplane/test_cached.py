"""A route with a cache: what is kept of its answers, who is given them, and what is said of that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.core.calls import Kind, Outcome
from proxy.core.degrading import CachePolicy, RouteCache
from proxy.core.policy import Match, Policy, Route
from proxy.core.units import SECOND
from tests.dataplane.laddered import APOLOGY, ASKED, CACHED, FAST, FULL, asks, laddered
from tests.dataplane.world import FakeClient, World

ANSWER = b'{"id":"1","choices":[]}'


def _filled(world: World, body: Any = None, answer: bytes = ANSWER, **fields: Any) -> None:
    """Let the first rung answer once."""
    asks(world.client(), 900, body, **fields)
    world.upstreams[-1].answers(answer)


def _ladder(**route: Any) -> World:
    return laddered(FULL, CACHED, APOLOGY, **route)


# -- as a rung ------------------------------------------------------------------------------------------------------


def test_a_kept_answer_is_given_when_there_is_no_time_for_another() -> None:
    world = _ladder()
    _filled(world)
    asked = world.dialer.asked
    client = asks(world.client(), 100)
    assert (client.statuses, client.body) == ([200], ANSWER)
    assert client.field("Budget-Degraded") == "level=1; rung=cached; reason=time"
    assert (client.field("Cache-Status") or "").startswith("waterclock; hit; ttl=")
    assert client.field("Age") == "0"
    assert world.dialer.asked == asked
    record = world.observed.records[-1]
    assert (record.cache, record.rung, record.outcome, record.tries) == (
        "hit",
        "cached",
        Outcome.COMPLETED,
        0,
    )


def test_what_is_not_kept_is_missed_and_said_so() -> None:
    world = _ladder()
    client = asks(world.client(), 100)
    assert client.field("Budget-Degraded") == "level=2; rung=sorry; reason=time"
    assert world.observed.records[-1].cache == "miss"


def test_the_same_question_in_other_words_of_json_is_the_same() -> None:
    world = _ladder()
    _filled(world, b'{"a": 1,  "b": [2]}')
    assert asks(world.client(), 100, b'{"b":[2],"a":1}').statuses == [200]
    assert asks(world.client(), 100, b'{"b":[2],"a":2}').statuses == [503]


@pytest.mark.parametrize("name", ["Authorization", "Cookie", "X_Api_Key", "Api_Key", "X_Goog_Api_Key"])
def test_nobody_is_given_what_was_anothers(name: str) -> None:
    world = _ladder()
    alice: dict[str, Any] = {name: "alice"}
    _filled(world, **alice)
    assert asks(world.client(), 100, **{name: "bob"}).statuses == [503]
    assert asks(world.client(), 100).statuses == [503]
    assert asks(world.client(), 100, **alice).statuses == [200]


def test_unless_the_route_shares_them_on_purpose() -> None:
    world = _ladder(cache=RouteCache(share=True))
    _filled(world, Authorization="Bearer alice")
    assert asks(world.client(), 100, Authorization="Bearer bob").statuses == [200]


def test_headers_that_the_route_names_tell_questions_apart() -> None:
    world = _ladder(cache=RouteCache(headers=("x-flavour",)))
    _filled(world, X_Flavour="mild")
    assert asks(world.client(), 100, X_Flavour="hot").statuses == [503]
    assert asks(world.client(), 100, X_Flavour="mild").statuses == [200]


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 200 OK\r\nVary: *\r\nContent-Length: 2\r\n\r\nno",
    ],
)
def test_only_what_may_be_kept_is(says: bytes) -> None:
    world = _ladder()
    asks(world.client(), 900)
    world.upstream().says(says)
    assert asks(world.client(), 100).statuses == [503]


def test_half_an_answer_is_never_kept() -> None:
    world = _ladder()
    client = asks(world.client(), 900)
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    world.upstream().breaks_off()
    assert client.transport.lost
    assert asks(world.client(), 100).statuses == [503]


def test_an_answer_that_is_less_is_not_kept() -> None:
    world = laddered(FULL, FAST, CACHED, APOLOGY)
    asks(world.client(), 400)
    world.upstream().answers(ANSWER)
    assert asks(world.client(), 100).statuses == [503]


@pytest.mark.parametrize("policy", [CachePolicy(entry_bytes=1000), CachePolicy(bytes=1000)])
def test_an_answer_that_is_larger_than_the_bound_is_passed_on_and_not_kept(policy: CachePolicy) -> None:
    world = _ladder(policy={"cache": policy})
    _filled(world, answer=b"x" * 5000)
    assert asks(world.client(), 100).statuses == [503]
    assert world.plane.cache.bytes == 0


def test_a_stale_answer_serves_only_where_that_was_allowed() -> None:
    for stale in (0, 60):
        world = _ladder(cache=RouteCache(ttl=10 * SECOND, stale_if_error=stale * SECOND))
        _filled(world)
        world.advance(20_000)
        client = asks(world.client(), 100)
        assert client.statuses == ([200] if stale else [503])
        if stale:
            assert client.field("Cache-Status") == "waterclock; hit; ttl=-10; detail=stale"
            assert client.field("Age") == "20"
            assert world.observed.records[-1].cache == "stale"


def test_a_failed_attempt_is_followed_by_what_was_kept() -> None:
    world = _ladder()
    _filled(world)
    client = asks(world.client(), 900)
    world.upstream().answers(b"busy", 503)
    assert (client.statuses, client.body) == ([200], ANSWER)
    assert client.field("Budget-Degraded") == "level=1; rung=cached; reason=failed"


def test_one_that_says_nothing_is_given_up_for_what_was_kept_and_for_nothing_less() -> None:
    world = _ladder()
    _filled(world)
    client, other = asks(world.client(), 900), asks(world.client(), 900, {"model": "other"})
    world.advance(896)
    assert client.field("Budget-Degraded") == "level=1; rung=cached; reason=slow"
    assert other.statuses == []
    world.upstreams[-1].answers(b"in time")
    assert other.body == b"in time"
    assert other.field("Budget-Degraded") is None


# -- before anything else ----------------------------------------------------------------------------------------------


def _caching(**cache: Any) -> World:
    route = Route("reads", Match(), effect=Kind.READ, cache=RouteCache(first=True, **cache))
    return World(Policy(routes=(route,)))


def test_a_fresh_answer_is_given_first_where_the_route_says_so() -> None:
    world = _caching()
    world.client().asks(target="http://tool/x")
    world.upstream().answers(b"one", Cache_Control="max-age=10")
    client = world.client().asks(target="http://tool/x")
    assert client.body == b"one"
    assert client.field("Cache-Status") == "waterclock; hit; ttl=10"
    assert client.field("Budget-Degraded") is None
    assert world.observed.records[-1].degraded is None
    world.advance(11_000)
    stale = world.client().asks(target="http://tool/x")
    assert stale.statuses == []
    world.upstream().answers(b"two")
    assert stale.field("Cache-Status") == "waterclock; fwd=miss"


def test_who_wants_nothing_that_was_kept_is_asked_for_anew() -> None:
    world = _caching()
    world.client().asks()
    world.upstream().answers(b"one", Cache_Control="max-age=10")
    client = world.client().asks(Cache_Control="no-cache")
    assert client.statuses == []


def test_a_write_makes_what_was_kept_of_its_target_untrue() -> None:
    route = Route("reads", Match(), cache=RouteCache(first=True))
    world = World(Policy(routes=(route,)))
    world.client().asks(target="http://tool/x")
    world.upstream().answers(b"one", Cache_Control="max-age=10")
    world.client().asks("PUT", "http://tool/x", b"new")
    world.upstream().answers(b"done")
    client = world.client().asks(target="http://tool/x")
    assert client.statuses == []


def test_a_recorded_stream_is_replayed_as_a_stream() -> None:
    world = _caching()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'data: {"object":"chat.completion.chunk","id":"1","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    done = b"data: [DONE]\n\n"
    world.client().asks(Budget_Remaining_Ms=5000)
    stream = b"%x\r\n%b\r\n" % (len(event), event) + b"%x\r\n%b\r\n" % (len(done), done)
    world.upstream().says(head + stream + b"0\r\n\r\n")
    client = world.client().asks(Budget_Remaining_Ms=5000)
    assert client.field("Transfer-Encoding") == "chunked"
    assert client.field("Cache-Status") is not None
    assert event in client.body
    assert client.body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("end", [b"", b'data: {"error":{"message":"no"}}\n\n', b"event: error\ndata: {}\n\n"])
def test_a_stream_that_failed_or_never_came_to_its_end_is_not_replayed(end: bytes) -> None:
    world = _caching()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'data: {"object":"chat.completion.chunk","id":"1","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
    world.client().asks(Budget_Remaining_Ms=5000)
    data = event + end
    world.upstream().says(head + b"%x\r\n%b\r\n" % (len(data), data) + b"0\r\n\r\n")
    client = world.client().asks(Budget_Remaining_Ms=5000)
    assert client.statuses == []


# -- said in the body --------------------------------------------------------------------------------------------------


def _marked(client: FakeClient) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.body)
    return found


def test_a_route_may_want_it_said_in_the_json_too() -> None:
    world = laddered(FULL, FAST, CACHED, APOLOGY, degraded_body=True)
    full = asks(world.client(), 900)
    world.upstream().answers(ANSWER, Content_Type="application/json")
    assert full.body == ANSWER
    world.advance(1)
    fast = asks(world.client(), 400)
    world.advance(7)
    world.upstream().answers(ANSWER, Content_Type="application/json")
    assert _marked(fast) == json.loads(ANSWER) | {"degraded": True, "degradation_level": 1, "latency_ms": 7}
    assert int(fast.field("Content-Length") or "") == len(fast.body)
    cached = asks(world.client(), 100)
    assert _marked(cached)["degradation_level"] == 2
    sorry = asks(world.client(), 1)
    assert _marked(sorry)["degradation_level"] == 3


@pytest.mark.parametrize("body", [b"[1]", b"no json", b'"text"', b""])
def test_what_is_no_json_object_is_left_as_it_is(body: bytes) -> None:
    world = laddered(FULL, FAST, degraded_body=True)
    client = asks(world.client(), 400)
    world.upstream().answers(body, Content_Type="application/json")
    assert client.body == body
    assert client.field("Budget-Degraded") is not None
    assert ASKED


def test_an_event_stream_that_is_not_to_be_cached_by_others_is_kept_where_the_route_says_so() -> None:
    """Servers put `no-cache` on every stream; in answer to a POST it says nothing that its route has not decided."""
    world = laddered(FULL, CACHED, APOLOGY)
    asks(world.client(), 900)
    world.upstream().answers(b"said", Cache_Control="no-cache")
    assert asks(world.client(), 100).body == b"said"


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 200 OK\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\x1f\x8b\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: 1\n\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nBudget-Verdict: incomplete; on_time\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nBudget-Degraded: level=1; rung=a; reason=truncated\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBudget-Verdict: complete; on_time; degraded=1\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=[
        "until close",
        "a packed stream",
        "a stream with a length",
        "an incomplete job",
        "a truncated one",
        "a degraded job",
    ],
)
def test_what_may_be_less_than_the_whole_is_not_kept(says: bytes) -> None:
    world = _ladder()
    asks(world.client(), 900)
    world.upstream().says(says)
    world.upstream().ends()
    assert asks(world.client(), 100).statuses == [503]


@pytest.mark.parametrize("how", ["whole", "broken off", "cut", "under another name"])
def test_whatever_becomes_of_a_write_its_target_is_asked_for_anew(how: str) -> None:
    route = Route("reads", Match(), cache=RouteCache(first=True))
    world = World(Policy(routes=(route,)))
    world.client().asks(target="http://tool/x")
    world.upstream().answers(b"one", Cache_Control="max-age=100")
    target = "http://TOOL:80/x" if how == "under another name" else "http://tool/x"
    world.client().asks("PUT", target, b"new", Connect_Timeout_Ms=50)
    if how == "cut":
        world.advance(60)
    elif how == "broken off":
        world.upstreams[-1].says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nha")
        world.upstreams[-1].breaks_off()
    else:
        world.upstreams[-1].answers(b"done")
    assert world.client().asks(target="http://tool/x").statuses == []


def test_an_answer_that_was_asked_for_before_a_write_is_not_kept_after_it() -> None:
    route = Route("reads", Match(), cache=RouteCache(first=True))
    world = World(Policy(routes=(route,)))
    world.client().asks(target="http://tool/x")
    early = world.upstream()
    world.client().asks("PUT", "http://tool/x", b"new")
    world.upstreams[-1].answers(b"done")
    early.answers(b"old", Cache_Control="max-age=100")
    assert world.client().asks(target="http://tool/x").statuses == []


def test_one_name_at_two_addresses_is_two_places() -> None:
    route = Route("reads", Match(), cache=RouteCache(first=True))
    world = World(Policy(routes=(route,)))
    ask = b"GET /x HTTP/1.1\r\nHost: api\r\n\r\n"
    world.client(original=("10.0.0.1", 80)).sends(ask)
    world.upstream().answers(b"one", Cache_Control="max-age=100")
    client = world.client(original=("10.0.0.2", 80)).sends(ask)
    assert client.statuses == []
