"""One descent at a time: whatever fails, is slow, or is looked for elsewhere meanwhile, the caller gets one answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from proxy.core.calls import Outcome
from proxy.core.degrading import CachePolicy, CacheUse, Change, FixedAnswer, RouteCache, Rung
from proxy.core.policy import Retries
from proxy.core.reasons import Reason
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.upstream import Upstream
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.entry import Entry
from proxy.degrade.cache.remote import Brought
from tests.dataplane.laddered import APOLOGY, ASKED, CACHED, FAST, FULL, MINIMAL, asks, laddered, sent
from tests.dataplane.world import World

SLOW_503 = b"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\nabc"


class Store:
    """A store that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Brought], None]] = []
        self.withdrawn = 0
        self.within: list[int] = []

    def find(
        self, asked: Asked, use: CacheUse, within: int, done: Callable[[Brought], None]
    ) -> Callable[[], None]:
        self.asked.append(done)
        self.within.append(within)
        return self._withdraw

    def _withdraw(self) -> None:
        self.withdrawn += 1

    def keep(self, asked: Asked, entry: Entry) -> None:
        """It keeps nothing."""

    def forget(self, keys: Iterable[str]) -> None:
        """It has nothing."""

    def close(self) -> None:
        """It has no connections."""


def _with_store(*ladder: Rung, **route: Any) -> tuple[World, Store]:
    world = laddered(*ladder, policy={"cache": CachePolicy(timeout=10 * SECOND)}, **route)
    store = Store()
    world.plane.cache.adopt(store, None)
    return world, store


# -- a failure that is slow to be told ----------------------------------------------------------------------------------


def test_a_failure_whose_body_does_not_come_is_followed_by_less() -> None:
    world = laddered(FULL, FAST, APOLOGY)
    client = asks(world.client(), 900)
    world.upstream().says(SLOW_503)
    world.advance(251)
    assert world.upstreams[0].closed
    assert sent(world)["model"] == "mini"
    world.upstreams[-1].answers(b"{}")
    assert client.statuses == [200]
    assert client.field("Budget-Degraded") == "level=1; rung=fast; reason=failed"


def test_a_failure_that_is_passed_on_as_it_comes_is_followed_by_nothing() -> None:
    world = laddered(FULL, CACHED)
    asks(world.client(), 900)
    world.upstream().answers(b"kept")
    client = asks(world.client(), 900)
    world.upstreams[-1].says(b"HTTP/1.1 400 No\r\nContent-Length: 10\r\n\r\nabc")
    world.advance(901)
    assert client.statuses == [400]
    assert client.transport.lost


def test_what_is_passed_on_after_all_says_how_much_less_it_is() -> None:
    world = laddered(FULL, FAST, CACHED)
    client = asks(world.client(), 900)
    world.upstream().answers(b"one", 503)
    world.upstreams[-1].answers(b"two", 503)
    assert (client.statuses, client.body) == ([503], b"two")
    assert client.field("Budget-Degraded") == "level=1; rung=fast; reason=failed"
    record = world.observed.records[-1]
    assert (record.rung, record.degraded is not None, record.phase) == ("fast", True, "complete")


def test_the_last_event_of_a_failure_is_passed_on_too() -> None:
    world = laddered(FULL, CACHED)
    client = asks(world.client(), 900)
    head = b"HTTP/1.1 503 Busy\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    world.upstream().says(head + b"7\r\ndata: x\r\n0\r\n\r\n")
    assert b"data: x" in client.body


# -- looked for elsewhere ------------------------------------------------------------------------------------------------


def test_while_the_store_is_asked_after_a_failure_nothing_else_goes_on() -> None:
    world, store = _with_store(
        FULL, CACHED, FAST, retries=Retries(max=1, outcomes=frozenset()), cap=600 * MILLISECOND
    )
    client = asks(world.client(), 950)
    world.advance(601)
    assert len(store.asked) == 1
    assert world.upstreams[0].closed
    store.asked[0](None)
    world.loop.settle()
    assert sent(world)["model"] == "mini"
    world.upstreams[-1].answers(b"{}")
    assert client.statuses == [200]


def test_a_cut_by_the_cap_stays_one_when_the_store_has_nothing() -> None:
    world, store = _with_store(
        FULL, CACHED, retries=Retries(max=1, outcomes=frozenset()), cap=600 * MILLISECOND
    )
    client = asks(world.client(), 950)
    world.advance(601)
    store.asked[0](None)
    world.loop.settle()
    record = world.observed.records[-1]
    assert client.statuses == [504]
    assert (record.outcome, record.reason) == (Outcome.DEADLINE_EXCEEDED, "route_cap")


def test_an_attempt_that_answers_ends_the_search_for_something_else() -> None:
    world, store = _with_store(FULL, CACHED)
    client = asks(world.client(), 900)
    world.advance(896)
    assert len(store.asked) == 1
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    assert store.withdrawn == 1
    world.upstream().says(b"cd")
    assert client.body == b"abcd"
    world.advance(100)
    assert client.statuses == [200]


def test_a_retry_ends_the_search_that_was_made_meanwhile() -> None:
    retries = Retries(max=1, statuses=frozenset({503}), base=20 * MILLISECOND)
    world, store = _with_store(FULL, replace(CACHED, needs=380 * MILLISECOND), MINIMAL, retries=retries)
    world.plane.jitter = lambda: 0.99
    client = asks(world.client(), 900)
    world.advance(521)
    assert len(store.asked) == 1
    world.upstream().answers(b"busy", 503)
    assert store.withdrawn == 1
    world.advance(25)
    world.upstreams[-1].answers(b"{}")
    assert client.statuses == [200]


def test_a_search_leaves_the_next_rung_what_it_needs() -> None:
    """A store that says nothing costs the call no more than the rung that it was asked for."""
    world, store = _with_store(FULL, CACHED, replace(MINIMAL, needs=30 * MILLISECOND), APOLOGY)
    client = asks(world.client(), 100)
    assert [round(within / MILLISECOND) for within in store.within] == [70]
    store.asked[0](None)
    world.loop.settle()
    assert world.upstream().origin.host == "small"
    assert client.statuses == []


def test_a_search_before_anything_else_takes_half_of_what_is_left_at_most() -> None:
    world, store = _with_store(FULL, cache=RouteCache(first=True))
    asks(world.client(), 30)
    assert [round(within / MILLISECOND) for within in store.within] == [15]


def test_a_search_is_given_up_with_its_caller() -> None:
    world, store = _with_store(CACHED, APOLOGY)
    client = asks(world.client(), 900)
    client.leaves()
    assert store.withdrawn == 1
    world.at_rest()


# -- time ---------------------------------------------------------------------------------------------------------------


def test_the_cap_of_an_attempt_holds_once_it_has_begun_to_answer() -> None:
    retries = Retries(max=1, outcomes=frozenset())
    world = laddered(FULL, FAST, retries=retries, cap=800 * MILLISECOND)
    client = asks(world.client(), 1000)
    world.advance(600)
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    world.advance(201)
    assert client.transport.lost
    assert world.observed.records[-1].reason == "route_cap"


def test_each_rung_has_retries_of_its_own() -> None:
    retries = Retries(max=1, statuses=frozenset({503}), base=0)
    world = laddered(FULL, FAST, retries=retries)
    client = asks(world.client(), 900)
    for body in (b"1", b"2", b"3", b"4"):
        world.upstreams[-1].answers(body, 503)
        world.advance(1)
    assert (world.sent.count(b"POST "), world.sent.count(b'"mini"')) == (4, 2)
    assert client.body == b"4"


def test_a_lower_rung_is_no_retry_of_the_one_above() -> None:
    retries = Retries(max=1, statuses=frozenset({503}), base=0)
    world = laddered(FULL, FAST, retries=retries)
    asks(world.client(), 900)
    for body in (b"1", b"2", b"3", b"4"):
        world.upstreams[-1].answers(body, 503)
        world.advance(1)
    assert world.observed.records[-1].tries == 4
    assert world.observed.retries == ["fallback", "fallback"]


def test_one_that_was_overtaken_in_vain_is_measured_to_its_end() -> None:
    world = laddered(Rung("full", None), replace(FAST, needs=200 * MILLISECOND))
    asks(world.client(), 1000, b"no json")
    world.advance(950)
    world.upstreams[0].answers(b"{}")
    assert world.observed.rungs_tried == [("fallback", "full", 950 * MILLISECOND)]


# -- whose answer it is ------------------------------------------------------------------------------------------------


def test_a_call_that_joins_another_is_given_less_only_by_its_own_time() -> None:
    world = laddered(FULL, FAST, APOLOGY)
    first = asks(world.client(), 400, Idempotency_Key="k")
    second = asks(world.client(), 5000, Idempotency_Key="k")
    world.upstream().answers(b"{}")
    assert first.field("Budget-Degraded") is not None
    assert second.statuses == []
    assert sent(world) == ASKED
    world.upstreams[-1].answers(b'{"whole":1}')
    assert (second.body, second.field("Budget-Degraded")) == (b'{"whole":1}', None)


def test_the_mark_in_a_body_and_its_length_agree_for_all_who_get_it() -> None:
    world = laddered(FULL, FAST, degraded_body=True)
    client = asks(world.client(), 400, Idempotency_Key="k")
    world.upstream().answers(b'{"id":1}', Content_Type="application/json")
    assert int(client.field("Content-Length") or "") == len(client.body)
    assert json.loads(client.body)["degraded"] is True


SECRETS = {
    "Authorization": "a",
    "Cookie": "b",
    "X-Vault-Token": "c",
    "Private-Token": "d",
    "X-Functions-Key": "e",
    "X-Goog-Api-Key": "f",
    "X-Forwarded-Access-Token": "g",
    "CF-Access-Client-Secret": "h",
}


@pytest.mark.parametrize("name", SECRETS)
def test_no_header_that_tells_who_is_asking_reaches_another_upstream(name: str) -> None:
    world = laddered(FULL, MINIMAL)
    fields: dict[str, Any] = {name.replace("-", "_"): "secret-value"}
    asks(world.client(), 200, **fields)
    assert b"secret-value" not in world.upstream().received
    assert world.upstream().origin.host == "small"


@pytest.mark.parametrize(
    "query", ["key=s3cret", "a=1&access_token=s3cret", "sig=s3cret&b=2", "X-Amz-Signature=s3cret"]
)
def test_nor_does_a_key_in_the_url(query: str) -> None:
    world = laddered(Rung("other", upstream=Upstream("http", "small", 80)))
    world.client().asks("GET", f"http://model/find?{query}")
    assert b"s3cret" not in world.upstream().received


def test_a_rung_may_bring_a_key_of_its_own() -> None:
    rung = replace(MINIMAL, change=Change(headers=(("authorization", "Bearer own"),)))
    world = laddered(FULL, rung)
    asks(world.client(), 200, Authorization="Bearer theirs")
    assert world.upstream().field("Authorization") == "Bearer own"


# -- not to be had, and not to be kept --------------------------------------------------------------------------------


def test_what_cannot_be_changed_is_named_in_the_refusal() -> None:
    world = laddered(FULL, FAST)
    client = asks(world.client(), 400, b"no json")
    assert client.statuses == [403]
    assert b"cannot be changed" in client.body


def test_a_body_of_very_many_values_is_not_read() -> None:
    world = laddered(FULL, FAST, APOLOGY)
    client = asks(world.client(), 400, b"[" + b"1," * 100_000 + b"1]")
    assert client.statuses == [503]
    assert world.dialer.asked == 0


def test_a_work_that_the_cache_has_done_leaves_no_dead_letter() -> None:
    world = laddered(FULL, CACHED, max_attempts=2)
    asks(world.client(), 900, Budget_Id="b")
    world.upstream().answers(b"kept")
    for _ in range(4):
        client = asks(world.client(), 900, Budget_Id="b")
        world.upstreams[-1].answers(b"busy", 503)
        assert (client.statuses, client.body) == ([200], b"kept")


def test_an_upgrade_is_never_answered_from_the_cache() -> None:
    world = laddered(FULL, cache=RouteCache(first=True))
    world.client().asks("GET", "http://model/ws", Budget_Remaining_Ms=900)
    world.upstream().answers(b"a page")
    client = world.client().asks(
        "GET", "http://model/ws", Budget_Remaining_Ms=900, Connection="Upgrade", Upgrade="websocket"
    )
    assert client.statuses == []


def test_an_agreement_to_upgrade_on_a_lower_rung_is_on_record_as_less() -> None:
    world = laddered(FULL, replace(MINIMAL, change=None))
    world.client().asks(
        "GET", "http://model/ws", Budget_Remaining_Ms=200, Connection="Upgrade", Upgrade="websocket"
    )
    world.upstream().says(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    world.advance(201)
    record = world.observed.records[-1]
    assert record.degraded is not None
    assert record.degraded.rung == "minimal"


def test_a_fixed_answer_without_a_body_has_no_length() -> None:
    nothing = Rung("nothing", answer=FixedAnswer(204))
    world = laddered(FULL, nothing)
    client = asks(world.client(), 1)
    assert client.statuses == [204]
    assert client.field("Content-Length") is None


@pytest.mark.parametrize("reason", [Reason.LOOP, Reason.BUSY, Reason.CONNECTION_REFUSED])
def test_where_a_rung_cannot_even_be_tried_the_next_one_is(reason: Reason) -> None:
    world = laddered(FULL, APOLOGY)
    world.dialer.refused.add("model")
    world.dialer.fails_as = reason
    client = asks(world.client(), 900)
    assert client.statuses == [503]
    assert (client.field("Budget-Degraded") or "").startswith("level=1; rung=sorry")


def test_bodies_are_let_go_of_once_an_answer_is_on_its_way() -> None:
    world = laddered(FULL, FAST)
    asks(world.client(), 400, {"model": "x", "text": "y" * 100_000})
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    call: Any = world.clients[-1].protocol._call
    assert (call.request.body(), call.request.instead, call.descent.changed) == (b"", None, None)


# -- no time taken from anybody ----------------------------------------------------------------------------------------


def test_an_answer_that_is_held_for_its_mark_is_not_given_up() -> None:
    world = laddered(FULL, FAST, MINIMAL, APOLOGY, degraded_body=True)
    client = asks(world.client(), 460)
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{")
    world.advance(455)
    world.upstream().says(b'"id":1}')
    assert client.statuses == [200]
    assert client.field("Budget-Degraded") == "level=1; rung=fast; reason=time"


def test_what_was_kept_back_of_a_failure_that_is_passed_on_is_passed_on_too() -> None:
    world = laddered(FULL)
    client = asks(world.client(), 900)
    head = b"HTTP/1.1 503 Busy\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    world.upstream().says(head + b"7\r\ndata: x\r\n0\r\n\r\n")
    assert b"data: x" in client.body


def test_a_retry_that_its_rung_no_longer_has_the_time_for_is_a_step_down() -> None:
    retries = Retries(max=1, statuses=frozenset({503}), base=0)
    world = laddered(FULL, FAST, retries=retries)
    client = asks(world.client(), 900)
    world.advance(450)
    world.upstream().answers(b"busy", 503)
    assert sent(world)["model"] == "mini"
    world.upstreams[-1].answers(b"{}")
    assert client.field("Budget-Degraded") == "level=1; rung=fast; reason=failed"


def test_a_slow_failure_is_passed_on_where_nothing_better_is_sure() -> None:
    world = laddered(FULL, CACHED)
    client = asks(world.client(), 900)
    world.upstream().says(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbu")
    world.advance(260)
    world.upstream().says(b"sy")
    assert (client.statuses, client.field("Retry-After")) == ([503], "7")


def test_a_timer_that_is_let_go_of_never_brings_the_cut_nearer() -> None:
    world = World()
    client = world.client().asks(Budget_Id="b", Budget_Remaining_Ms=1000, X_Stainless_Read_Timeout="0.5")
    world.client().asks(Budget_Id="b", Budget_Remaining_Ms=150)
    world.advance(200)
    world.upstreams[0].says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    world.upstreams[0].says(b"cd")
    assert client.body == b"abcd"
