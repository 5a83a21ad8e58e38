"""Two sidecars that share answers through a real Redis: what one was answered the other gives, and nothing else that stands there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import openai
import pytest
import redis

from tests.cases.sharing import BODY, JSON, Pods, pods, question
from tests.degrade.chat_transcripts import CHAT_PLAIN
from tests.degrade.sdk import python_readers
from tests.degrade.transcript import EVENTS, TEXT
from tests.support.behaviours import drip
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    """For all tests whose store stands."""
    with pods(tmp_path_factory.mktemp("store")) as found:
        yield found


@pytest.fixture
def two(standing: Pods) -> Iterator[Pods]:
    """The same. A fault that a sidecar reports of itself fails the test in which it did."""
    before = [len(pod.sidecar.faults) for pod in (standing.one, standing.other)]
    yield standing
    for pod, count in zip((standing.one, standing.other), before, strict=True):
        assert not pod.sidecar.faults[count:]


# -- shared -----------------------------------------------------------------------------------------------------------


def test_what_one_was_answered_the_other_gives(two: Pods) -> None:
    asks = question()
    two.keep("/chat/v1", asks)
    before = two.one.asked()
    found = two.other.ask("/chat/v1", json.dumps(json.loads(asks), indent=2).encode())
    assert (found.status, found.body, found.get("content-type")) == (200, BODY, JSON[1])
    hit, ttl = (found.get("cache-status") or "").rsplit("=", 1)
    assert (hit, 500 < int(ttl) <= 593) == ("waterclock; hit; ttl", True)
    assert 7 <= int(found.get("age") or "") < 60
    assert (found.get("budget-degraded"), two.one.asked()) == (None, before)
    record = two.other.sidecar.record(found.record)
    assert (record["cache"], record["outcome"], record["degraded"]) == ("hit", "completed", None)
    assert (record["tries"], record["effect"]) == (0, "none")
    assert two.other.sidecar.samples()['waterclock_cache_lookups_total{result="hit",route="chat"}'] >= 1
    again = two.other.ask("/chat/v1", asks)
    assert (again.status, again.body, two.one.asked()) == (200, BODY, before)


def test_a_rung_finds_it_too(two: Pods) -> None:
    asks = question()
    two.keep("/less/v1", asks, Budget_Remaining_Ms=4000)
    found = two.other.ask("/less/v1", asks, Budget_Remaining_Ms=1000)
    assert (found.status, found.body) == (200, BODY)
    assert found.get("budget-degraded") == "level=1; rung=cached; reason=time"
    sorry = two.other.ask("/less/v1", question(), Budget_Remaining_Ms=1000)
    assert (sorry.status, sorry.body) == (503, b"sorry")
    assert sorry.get("budget-degraded") == "level=2; rung=sorry; reason=time"
    assert two.other.sidecar.record(sorry.record)["cache"] == "miss"


@pytest.mark.parametrize("stranger", ["Bearer bob", "Bearer Alice", "Basic alice", ""])
def test_callers_with_different_keys_never_share(two: Pods, stranger: str) -> None:
    """In either sidecar, unless the route says so."""
    for pod in (two.one, two.other):
        asks = question()
        two.keep("/chat/v1", asks)
        before = pod.asked()
        assert pod.ask("/chat/v1", asks, key=stranger).get("cache-status") == "waterclock; fwd=miss"
        assert pod.asked() == before + 1
    common = question()
    two.keep("/common/v1", common)
    before = two.other.asked()
    assert two.other.ask("/common/v1", common, key=stranger).body == BODY
    assert two.other.asked() == before


def test_no_secret_stands_in_the_store(two: Pods) -> None:
    name = two.keep("/chat/v1", question(), key="Bearer s3cr3t-of-alice", Cookie="id=s3cr3t")
    with two.store.client() as client:
        value = client.get(name)
    assert value is not None
    assert BODY in value
    assert b"s3cr3t" not in name + value


def test_a_stream_is_replayed_as_one_to_a_real_sdk(two: Pods) -> None:
    """Recorded by one sidecar, and read from the other by an SDK that takes it for the model's own."""
    two.one.service.on(
        "/tea/v1/chat/completions", drip(CHAT_PLAIN.pieces, every=0, headers=[("Content-Type", EVENTS)])
    )
    before = two.kept()
    first = python_readers.read("openai chat", f"{two.one.sidecar.proxy_url}/chat/tea")
    eventually(lambda: two.kept() - before)
    asked = two.one.asked()
    second = python_readers.read("openai chat", f"{two.other.sidecar.proxy_url}/chat/tea")
    assert (second.error, second.text, second.reason) == (None, TEXT, "stop")
    assert second == first
    assert two.one.asked() == asked
    with openai.OpenAI(
        api_key="none", base_url=f"{two.other.sidecar.proxy_url}/chat/tea/v1", max_retries=0
    ) as client:
        raw = client.chat.completions.with_raw_response.create(
            model="m", messages=python_readers.QUESTION, stream=True
        )
        assert raw.headers["transfer-encoding"] == "chunked"
        assert raw.headers["cache-status"].startswith("waterclock; hit; ttl=")
        assert b"".join(raw.http_response.iter_raw()) == CHAT_PLAIN.wire


# -- poisoned -----------------------------------------------------------------------------------------------------------

Poison = Callable[["redis.Redis", bytes, bytes], object]


def _put(change: Callable[[bytes], bytes], *, px: int | None = 50_000) -> Poison:
    return lambda client, name, value: client.set(name, change(value), px=px)


def _replaced(kind: str, *values: str) -> Poison:
    def poison(client: redis.Redis, name: bytes, value: bytes) -> None:
        client.delete(name)
        client.execute_command(kind, name, *values)

    return poison


POISON: dict[str, Poison] = {
    "a list": _replaced("RPUSH", "a", "b"),
    "a hash": _replaced("HSET", "status", "200"),
    "a number": _replaced("SET", "7"),
    "json": _put(lambda value: b'{"status": 200, "body": "for you"}'),
    "pickle": _put(lambda value: b"\x80\x04cos\nsystem\n(S'true'\ntR."),
    "a foreign version": _put(lambda value: value.replace(b"WCE\x01", b"WCE\x02")),
    "its first half": _put(lambda value: value[: len(value) // 2]),
    "all but a byte": _put(lambda value: value[:-1]),
    "more than it says": _put(lambda value: value + b" "),
    "too much": _put(lambda value: value + b"x" * 5_000_000),
    "a header that is two": _put(lambda value: value.replace(b"application/json", b"a\r\nSet-Cookie: a")),
    "another status": _put(lambda value: value[:36] + b"\x01\xf7" + value[38:]),
    "never to expire": _put(lambda value: value, px=None),
    "for years": _put(lambda value: value, px=10**12),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_a_poisoned_entry_is_nobodys_answer_and_is_written_over(two: Pods, poison: Poison) -> None:
    """The call goes on as if nothing had been found, is counted as failed by the store, and what it brings takes its place."""
    asks = question()
    name = two.keep("/chat/v1", asks)
    with two.store.client() as client:
        good = client.get(name)
        assert isinstance(good, bytes)
        poison(client, name, good)
        failures, asked = two.other.failures(), two.other.asked()
        found = two.other.ask("/chat/v1", asks)
        assert (found.status, found.body, found.get("cache-status")) == (200, BODY, "waterclock; fwd=miss")
        assert found.get("set-cookie") is None
        assert two.other.asked() == asked + 1
        assert two.other.failures() == failures + 1
        eventually(lambda: client.type(name) == b"string" and client.get(name)[32:36] == b"WCE\x01")


def test_the_entry_of_another_caller_is_not_taken_from_under_ones_own_name(two: Pods) -> None:
    """Whoever can write to the store cannot swap two answers by moving their bytes."""
    asks = question()
    hers = two.keep("/chat/v1", asks, key="Bearer alice")
    his = two.keep("/chat/v1", asks, key="Bearer bob")
    with two.store.client() as client:
        client.copy(hers, his, replace=True)
        failures = two.other.failures()
        assert two.other.ask("/chat/v1", asks, key="Bearer bob").get("cache-status") == "waterclock; fwd=miss"
        assert two.other.failures() == failures + 1
    assert "hit" in (two.other.ask("/chat/v1", asks, key="Bearer alice").get("cache-status") or "")
