"""Many calls of a job at once: whose turn it is, what is tried again, and that every slot comes back, however a call ends."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.behaviours import answer, hang_up, stall
from tests.support.callers import Answer, Caller, call
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.upstream import Exchange, Upstream
from tests.support.waiting import eventually

SLACK = 1500.0


def _in_use(sidecar: Sidecar) -> dict[str, float]:
    """What admission has given out, and who waits."""
    samples = sidecar.samples()
    names = ("leases_in_flight", "queue_depth", "worker_slots_taken")
    return {
        name: value for name, value in samples.items() if name.removeprefix("waterclock_").startswith(names)
    }


def _all_is_free(sidecar: Sidecar) -> None:
    """Fail if a slot stays taken, or anything else does."""
    sidecar.at_rest()
    eventually(lambda: not any(_in_use(sidecar).values()), what=f"free slots; last {_in_use(sidecar)}")


def _side_by_side(sidecar: Sidecar, upstream: Upstream, count: int) -> None:
    """Fail unless so many calls run at once; one more has to wait for one of them."""
    go = threading.Event()

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        while not go.is_set():
            await exchange.sleep(0.005)
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    upstream.then(behave)
    before = len(upstream.requests)
    with ThreadPoolExecutor(count + 1) as threads:
        try:
            calls = [threads.submit(call, sidecar, "GET", upstream.url()) for _ in range(count + 1)]
            upstream.wait(lambda up: len(up.requests) == before + count)
            eventually(lambda: sum(_in_use(sidecar).values()) == 2 * count + 1)
            assert len(upstream.requests) == before + count
        finally:
            go.set()
        assert [each.result().status for each in calls] == [200] * (count + 1)


# -- slots -------------------------------------------------------------------------------------------------------------


def test_cancelled_calls_free_their_slots() -> None:
    """Clients that leave at any moment take no slot with them (encode/httpcore#1093)."""
    seconds = 5.0
    with Sidecar("fallback: {concurrency: 10}\nwrites: {linger: 50ms}") as sidecar, Upstream() as upstream:
        for number in range(4):
            upstream.on(f"/{number}", answer(b"x" * 10_000, after=0.004 * number))
        end = time.monotonic() + seconds

        def client(number: int) -> tuple[int, int]:
            chance = random.Random(number)
            left = stayed = 0
            while time.monotonic() < end:
                method = chance.choice(["GET", "GET", "PUT", "POST"])
                body = b'{"n": "%d-%d"}' % (number, left + stayed) if method in ("PUT", "POST") else b""
                with Caller(sidecar) as caller:
                    caller.request(method, upstream.url(f"/{chance.randrange(4)}"), body=body)
                    if chance.random() < 0.1:
                        assert caller.answer(method).status == 200
                        stayed += 1
                    else:
                        time.sleep(chance.uniform(0, 0.03))
                        caller.leave(reset=chance.random() < 0.5)
                        left += 1
            return left, stayed

        with ThreadPoolExecutor(20) as threads:
            counts = list(threads.map(client, range(20)))
        left, stayed = (sum(column) for column in zip(*counts, strict=True))
        assert left > 100
        assert stayed > 10
        _all_is_free(sidecar)
        # A client that leaves before its head has arrived was no step.
        assert eventually(lambda: len(sidecar.records) >= stayed)
        assert len(sidecar.records) <= left + stayed
        outcomes = {record["outcome"] for record in sidecar.records}
        assert outcomes <= {"completed", "client_gone"}, outcomes
        _side_by_side(sidecar, upstream, 10)
        _all_is_free(sidecar)


Round = Callable[[Sidecar, Upstream, int], object]


def _succeeds(sidecar: Sidecar, upstream: Upstream, number: int) -> None:
    assert call(sidecar, "GET", upstream.url("/answer")).status == 200


def _times_out(sidecar: Sidecar, upstream: Upstream, number: int) -> None:
    told = call(sidecar, "GET", upstream.url("/stall"), headers={"Budget-Remaining-Ms": 30})
    assert told.status in (403, 504)  # on a busy machine its turn may not come in that time


def _is_reset(sidecar: Sidecar, upstream: Upstream, number: int) -> None:
    assert call(sidecar, "POST", upstream.url("/reset"), body=b'{"n": %d}' % number).status == 424


def _leaves(sidecar: Sidecar, upstream: Upstream, number: int) -> None:
    with Caller(sidecar) as caller:
        before = len(upstream.seen("/leave"))
        caller.request("GET", upstream.url("/leave"))
        if number % 2:
            upstream.wait(lambda up: len(up.seen("/leave")) > before)


def _is_refused(sidecar: Sidecar, upstream: Upstream, number: int) -> None:
    assert call(sidecar, "PUT", f"http://127.0.0.1:{NOBODY}/", body=b"x").status == 502


NOBODY = free_port()
ROUNDS: list[Round] = [_succeeds, _times_out, _is_reset, _leaves, _is_refused]


@pytest.mark.parametrize("at_once", [1, 5])
def test_slots_after_mixed_ends(at_once: int) -> None:
    """Whatever way a call ends, its slot is free afterwards (BerriAI/litellm#20256)."""
    with Sidecar("fallback: {concurrency: 4}\nwrites: {linger: 50ms}") as sidecar, Upstream() as upstream:
        upstream.on("/answer", answer()).on("/stall", stall()).on("/reset", hang_up(reset=True))
        upstream.on("/leave", stall())
        with ThreadPoolExecutor(at_once) as threads:
            rounds = [
                threads.submit(each, sidecar, upstream, 10 * number + turn)
                for number, each in enumerate(ROUNDS)
                for turn in range(10)
            ]
            for each in rounds:
                each.result()
        _all_is_free(sidecar)
        eventually(lambda: len(sidecar.records) == 50, what=f"50 records, not {len(sidecar.records)}")
        outcomes = [record["outcome"] for record in sidecar.records]
        assert outcomes.count("completed") == outcomes.count("upstream_failed") == 10
        assert outcomes.count("client_gone") == outcomes.count("connect_failed") == 10
        _side_by_side(sidecar, upstream, 4)
        _all_is_free(sidecar)


def test_a_call_that_waits_is_told_when_it_cannot_be_started_any_more() -> None:
    """At that moment, and a call that finds the queue full at once; each with the time to come again if there is one."""
    policy = "fallback: {concurrency: 1, queue: {size: 1}, min_start: 200ms}"
    with Sidecar(policy) as sidecar, Upstream(stall()) as upstream, Caller(sidecar) as first:
        first.request("GET", upstream.url())
        upstream.wait(lambda up: up.requests)
        with ThreadPoolExecutor() as threads:
            waits = threads.submit(
                call, sidecar, "GET", upstream.url("/late"), headers={"Budget-Remaining-Ms": 1700}
            )
            eventually(lambda: _in_use(sidecar)['waterclock_queue_depth{route="fallback"}'] == 1)
            full = call(sidecar, "GET", upstream.url("/full"))
            late = waits.result()
        assert (full.status, full.outcome.reason, full.get("retry-after") is not None) == (
            503,
            "queue_full",
            True,
        )
        assert (late.status, late.outcome.reason, late.get("retry-after")) == (403, "queue_deadline", None)
        assert 1499 <= late.after < 1500 + SLACK
        assert sidecar.record(late.record)["queued_ms"] >= 1495
        assert len(upstream.requests) == 1


# -- trying again ------------------------------------------------------------------------------------------------------

AGAIN = 'fallback: {cap: 100ms, retries: {max: 2, "on": [504], backoff: {base: 1ms}}}'


def test_retry_recomputes() -> None:
    """Each attempt is told less than the one before, and all of them end with the budget (envoyproxy/envoy#13196)."""
    with Sidecar(AGAIN) as sidecar, Upstream(stall()) as upstream:
        told = call(sidecar, "GET", upstream.url(), headers={"Budget-Remaining-Ms": 250})
        assert told.status == 504
        assert 250 <= told.after < 250 + SLACK
        left = [int(request.get("budget-remaining-ms") or "") for request in upstream.requests]
        assert 2 <= len(left) <= 3
        assert left[0] <= 100
        assert left == sorted(set(left), reverse=True)
        if len(left) == 3:  # on a busy machine nothing may be left for it
            assert left[2] <= 50
        record = sidecar.record(told.record)
        assert (record["tries"], record["allowed_ms"]) == (len(left), 250)
        assert record["late_ms"] < SLACK
        assert len(sidecar.records) == 1
        upstream.wait(lambda up: not up.open)


def test_an_attempt_that_succeeds_is_all_that_the_caller_sees() -> None:
    """The first two have never been, but for the time that they took."""
    with Sidecar(AGAIN) as sidecar, Upstream(stall(), stall(), answer(b"at last")) as upstream:
        told = call(sidecar, "PUT", upstream.url(), headers={"Budget-Remaining-Ms": 5000}, body=b"the body")
        assert (told.status, told.body, told.complete) == (200, b"at last", True)
        assert told.after >= 200
        assert [request.body for request in upstream.whole] == [b"the body"] * 3
        record = sidecar.record(told.record)
        assert (record["tries"], record["outcome"], record["effect"]) == (3, "completed", "reported")
        samples = sidecar.samples()
        assert samples['waterclock_retries_total{route="fallback"}'] == 2
        assert samples['waterclock_attempts_total{route="fallback"}'] == 3
        assert samples['waterclock_units_total{route="fallback"}'] == 1


# -- one piece of work -------------------------------------------------------------------------------------------------


def test_calls_under_one_key_are_sent_once(sidecar: Sidecar, budget: str) -> None:
    """Those that come while the first is in flight get its answer."""
    with Upstream(answer(b'{"id": 7}', 201, after=0.3)) as upstream:

        def write(_: int) -> Answer:
            headers = {"Idempotency-Key": "k", "Budget-Id": budget}
            return call(sidecar, "POST", upstream.url(), headers=headers, body=b"{}")

        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(write, range(8)))
        assert {(told.status, told.body) for told in answers} == {(201, b'{"id": 7}')}
        assert len(upstream.whole) == 1
        assert sorted(told.outcome.reason or "" for told in answers) == ["", *["joined"] * 7]
        assert sum(record["tries"] for record in sidecar.records_of(budget, 8)) == 1
        sidecar.at_rest()


def test_a_unit_that_has_used_up_its_attempts_is_not_sent_again(budget: str) -> None:
    """Whoever made them: one call that tried twice, and one that tried once more."""
    policy = 'fallback: {max_attempts: 3, retries: {max: 1, "on": [503], backoff: {base: 1ms}}}'
    with Sidecar(policy) as sidecar, Upstream(answer(b"busy", 503)) as upstream:
        headers = {"Budget-Id": budget}
        for seen in (2, 3):
            assert call(sidecar, "GET", upstream.url(), headers=headers).status == 503
            assert len(upstream.whole) == seen
        told = call(sidecar, "GET", upstream.url(), headers=headers)
        assert (told.status, told.outcome.reason, told.get("x-should-retry")) == (
            424,
            "dead_lettered",
            "false",
        )
        assert len(upstream.whole) == 3
        assert sidecar.samples()["waterclock_dead_letters"] == 1
