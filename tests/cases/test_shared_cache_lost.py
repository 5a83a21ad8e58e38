"""Sidecars that share answers through a real Redis which hangs, dies and comes back, or is another by now."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cases.sharing import BODY, BUDGET_MS, JSON, Pod, Pods, pods, policy, question
from tests.degrade.cache.stores import redis_server
from tests.support.behaviours import answer
from tests.support.callers import Answer
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Pods]:
    """Two whose store has 100 ms for a question, and is the test's own."""
    with pods(tmp_path, "100ms") as found:
        yield found


# -- gone -----------------------------------------------------------------------------------------------------------------


def ask_many(pod: Pod, count: int = 40) -> list[Answer]:
    """Many calls at a time, each with a question of its own."""
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda body: pod.ask("/chat/v1", body), [question() for _ in range(count)]))


def finds_again(two: Pods) -> None:
    """What one keeps, the other finds: soon, for a place that failed is left alone for a while."""

    def found() -> bool:
        asks, before = question(), two.kept()
        two.one.ask("/chat/v1", asks)
        with contextlib.suppress(AssertionError):
            eventually(lambda: two.kept() - before, within=0.5)
        return "hit" in (two.other.ask("/chat/v1", asks).get("cache-status") or "")

    eventually(found, within=60, what="a hit in the other")


def test_a_store_that_hangs_costs_calls_little_and_none_its_answer(hasty: Pods) -> None:
    """Each has its answer, well within its budget; the store is asked now and then; when it is back it is used again."""
    asks = question()
    hasty.keep("/chat/v1", asks)
    hasty.store.signal(signal.SIGSTOP)
    answers = ask_many(hasty.other)
    hung = hasty.other.ask("/chat/v1", asks)
    for each in [*answers, hung]:
        assert (each.status, each.body, each.get("cache-status")) == (200, BODY, "waterclock; fwd=miss")
        assert each.after < BUDGET_MS
    assert 0 < hasty.other.failures() < len(answers)
    rung = hasty.other.ask("/less/v1", question(), Budget_Remaining_Ms=1000)
    assert (rung.status, rung.body) == (503, b"sorry")
    hasty.store.signal(signal.SIGCONT)
    finds_again(hasty)
    hasty.other.sidecar.at_rest()


def test_a_store_that_is_killed_in_the_middle_and_comes_back(hasty: Pods) -> None:
    with ThreadPoolExecutor(2) as pool:
        going = [pool.submit(ask_many, pod, 120) for pod in (hasty.one, hasty.other)]
        eventually(lambda: len(hasty.one.service.requests) > 60)
        hasty.store.kill()
        answers = [each for many in going for each in many.result()]
    assert {(each.status, each.body) for each in answers} == {(200, BODY)}
    assert max(each.after for each in answers) < BUDGET_MS
    ask_many(hasty.other, 4)
    assert hasty.one.failures() + hasty.other.failures() > 0
    hasty.store.start()
    finds_again(hasty)


def test_a_store_that_was_never_there(tmp_path: Path) -> None:
    """Calls go on at once, and memory serves."""
    with redis_server(tmp_path) as gone, Upstream(answer(BODY, headers=[JSON])) as service:
        gone.kill()
        with Sidecar(policy(service.url(""), gone.url)) as sidecar:
            pod = Pod(sidecar, service)
            asks = question()
            assert pod.ask("/chat/v1", asks).get("cache-status") == "waterclock; fwd=miss"
            assert "hit" in (pod.ask("/chat/v1", asks).get("cache-status") or "")
            assert pod.failures() >= 1
        gone.start()


# -- another policy -------------------------------------------------------------------------------------------------------


def goes_over(pod: Pod, store: str | None) -> None:
    """Put a policy in force that names this store."""

    def reloads() -> int:
        return sum(event["event"] == "reloaded" for event in pod.sidecar.events)

    before = reloads()
    pod.sidecar.write_policy(policy(pod.service.url(""), store))
    pod.sidecar.signal(signal.SIGHUP)
    eventually(lambda: reloads() > before)


def test_a_reload_adds_a_store_puts_another_in_its_place_and_takes_it_away(tmp_path: Path) -> None:
    """Each time calls go on, and what stands in the store that is named by then is found."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(redis_server(folder)) for folder in folders]
        service = stack.enter_context(Upstream(answer(BODY, headers=[JSON])))
        one, other = (
            Pod(stack.enter_context(Sidecar(policy(service.url(""), store))), service)
            for store in (None, stores[0].url)
        )

        for store in (*stores, stores[0]):
            for pod in (one, other):
                goes_over(pod, store.url)
            body = question()
            Pods(one, other, store).keep("/chat/v1", body)
            assert "hit" in (other.ask("/chat/v1", body).get("cache-status") or "")
            assert one.failures() == other.failures() == 0
        for pod in (one, other):
            goes_over(pod, None)
        before = [len(Pods(one, other, store).kept()) for store in stores]
        body = question()
        for pod in (one, other):
            assert pod.ask("/chat/v1", body).get("cache-status") == "waterclock; fwd=miss"
            assert "hit" in (pod.ask("/chat/v1", body).get("cache-status") or "")
        for store in stores:
            with store.client() as client:
                eventually(lambda: int(client.info("clients")["connected_clients"]) == 1)
        assert [len(Pods(one, other, store).kept()) for store in stores] == before


def test_a_call_that_waits_for_a_store_goes_on_when_that_is_taken_away(tmp_path: Path) -> None:
    """It is not left waiting for what nobody reads any more."""
    with (
        redis_server(tmp_path) as store,
        Upstream(answer(BODY, headers=[JSON])) as service,
        Sidecar(policy(service.url(""), store.url, "4s")) as sidecar,
        ThreadPoolExecutor(1) as pool,
    ):
        pod = Pod(sidecar, service)
        pod.ask("/chat/v1", question())
        store.signal(signal.SIGSTOP)
        try:
            waiting = pool.submit(pod.ask, "/chat/v1", question())
            eventually(lambda: sidecar.gauges()["steps_in_flight"] == 1)
            goes_over(pod, None)
            told = waiting.result()
        finally:
            store.signal(signal.SIGCONT)
        assert (told.status, told.body) == (200, BODY)
        assert told.after < 4000
        sidecar.at_rest()


def test_without_the_library_it_is_said_once_and_calls_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the password of the store is not part of what is said."""
    (tmp_path / "redis.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Upstream(answer(BODY, headers=[JSON])) as service:
        document = policy(service.url(""), "redis://user:s3cr3t@cache.test:6379/3")
        with Sidecar(document) as sidecar:
            pod = Pod(sidecar, service)
            body = question()
            assert pod.ask("/chat/v1", body).get("cache-status") == "waterclock; fwd=miss"
            assert "hit" in (pod.ask("/chat/v1", body).get("cache-status") or "")
            document["routes"].append({"name": "more", "match": {"host": "a"}})
            sidecar.write_policy(document)
            sidecar.signal(signal.SIGHUP)
            sidecar.event("reloaded")
            assert "hit" in (pod.ask("/chat/v1", body).get("cache-status") or "")
            assert pod.failures() == 0
        (said,) = [event for event in sidecar.events if event["event"] == "cache_store_unavailable"]
        assert said["remedy"] == "pip install 'waterclock[redis]'"
        assert "cache.test" in said["store"]
        assert "s3cr3t" not in json.dumps([*sidecar.events, *sidecar.records])
