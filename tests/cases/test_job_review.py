"""Units of work, joined calls and verdicts between real sockets: each is counted once, answered, and said of rightly."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.behaviours import answer, stall
from tests.support.callers import NOTHING, Answer, Caller, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Exchange, Upstream
from tests.support.waiting import eventually

POLICY = """
budget: {depth: 1, stages: {search: 300ms}}
writes: {linger: 5s}
routes:
  - {name: few, match: {path: /few/**}, max_attempts: 2}
  - {name: capped, match: {path: /capped/**}, cap: 400ms}
  - {name: honoured, match: {path: /honoured/**}, idempotency: {honoured: true}}
  - {name: again, match: {path: /again/**}, retries: {max: 1, "on": [503], backoff: {base: 1ms}}}
"""


@pytest.fixture(scope="module")
def strict() -> Iterator[Sidecar]:
    """A sidecar with a route for each of the cases."""
    with Sidecar(POLICY) as sidecar:
        yield sidecar


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Callers that wait while the test goes on."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


class Gate:
    """A behaviour that answers when the test says so."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.open = False

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.read_all()
        while not self.open:
            await exchange.sleep(0.005)
        await answer(b"made", self.status)(exchange)


def _begins(threads: ThreadPoolExecutor, sidecar: Sidecar, *request: Any, **more: Any) -> Future[Answer]:
    """A call whose answer is waited for elsewhere."""
    return threads.submit(call, sidecar, *request, **more)


def _joined(sidecar: Sidecar, route: str) -> float:
    return sidecar.samples().get(f'waterclock_joined_calls_total{{route="{route}"}}', 0)


def _closed(sidecar: Sidecar, budget: str) -> str:
    """Say that a job is done; what is said of it then."""
    verdict: str = sidecar.ask(f"/budgets/{budget}/close", {})["verdict"]
    return verdict


def _verdict(sidecar: Sidecar, budget: str) -> str:
    verdict: str = sidecar.ask(f"/budgets/{budget}")["verdict"]
    return verdict


def _letters(sidecar: Sidecar, budget: str) -> list[dict[str, Any]]:
    """The units of a job that wait for a decision."""
    letters: list[dict[str, Any]] = sidecar.ask("/dead-letters")["dead_letters"]
    return [
        letter for letter in letters if (letter["budget_id"], letter["state"]) == (budget, "dead_lettered")
    ]


# -- equal calls side by side ------------------------------------------------------------------------------------------


def test_equal_reads_side_by_side_are_as_many_units(
    strict: Sidecar, budget: str, threads: ThreadPoolExecutor
) -> None:
    """None of them is a repetition, and nothing is given up when each succeeds."""
    gate, headers = Gate(), {"Budget-Id": budget}
    with Upstream(gate) as upstream:
        url = upstream.url("/few/a")
        calls = [_begins(threads, strict, "GET", url, headers=headers) for _ in range(3)]
        upstream.wait(lambda up: len(up.whole) == 3)
        gate.open = True
        assert [each.result().status for each in calls] == [200] * 3
        assert call(strict, "GET", url, headers=headers).status == 200
        assert _letters(strict, budget) == []
        job = strict.ask(f"/budgets/{budget}")
        assert (job["attempts"], job["units"], job["amplification"]) == (4, 4, 1.0)
        assert _closed(strict, budget) == "complete; on_time"


def test_no_more_are_started_once_one_has_failed(
    strict: Sidecar, budget: str, threads: ThreadPoolExecutor
) -> None:
    """While the last attempt runs, the others are refused; it becomes the dead letter when it fails."""
    gate, headers = Gate(503), {"Budget-Id": budget}
    with Upstream(answer(b"busy", 503), gate) as upstream:
        url = upstream.url("/few/b")
        assert call(strict, "GET", url, headers=headers).status == 503
        last = _begins(threads, strict, "GET", url, headers=headers)
        upstream.wait(lambda up: len(up.whole) == 2)
        others = [call(strict, "GET", url, headers=headers) for _ in range(3)]
        assert [told.status for told in others] == [424] * 3
        assert _letters(strict, budget) == []
        gate.open = True
        assert last.result().status == 503
        (letter,) = _letters(strict, budget)
        assert (letter["id"], letter["attempts"]) == (last.result().record, 2)
        assert call(strict, "GET", url, headers=headers).problem["record"] == letter["id"]
        assert len(upstream.whole) == 2
        assert _closed(strict, budget) == "incomplete; on_time"


# -- one key -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
def test_calls_of_any_method_under_one_key_are_sent_once(
    strict: Sidecar, budget: str, threads: ThreadPoolExecutor, method: str
) -> None:
    """Those that come while the first is in flight get its answer."""
    gate = Gate()
    headers = {"Budget-Id": budget, "Idempotency-Key": budget}
    body = b"{}" if method in ("PUT", "POST", "PATCH") else b""
    with Upstream(gate) as upstream:
        before = _joined(strict, "fallback")
        calls = [
            _begins(threads, strict, method, upstream.url("/x"), headers=headers, body=body) for _ in range(4)
        ]
        eventually(lambda: _joined(strict, "fallback") == before + 3)
        gate.open = True
        answers = [each.result() for each in calls]
        assert {(told.status, told.body) for told in answers} == {(200, b"made")}
        assert sorted(told.outcome.reason or "" for told in answers) == ["", *["joined"] * 3]
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("ending", ["it is cut", "its caller leaves"])
@pytest.mark.parametrize("path", ["/x", "/honoured/x"])
def test_who_waits_gets_its_answer_whatever_becomes_of_the_first(
    strict: Sidecar, budget: str, threads: ThreadPoolExecutor, path: str, ending: str
) -> None:
    """Late, from the one that was sent; or at once, where keys are honoured, from another."""
    gate, route = Gate(), "honoured" if path != "/x" else "fallback"
    headers = {"Budget-Id": budget, "Idempotency-Key": budget}
    timer = {"Connect-Timeout-Ms": 1000} if ending == "it is cut" else {}
    sent = 2 if route == "honoured" else 1
    with Upstream(gate) as upstream, Caller(strict) as caller:
        before = _joined(strict, route)
        caller.request("POST", upstream.url(path), headers | timer, b"{}")
        upstream.wait(lambda up: up.whole)
        second = _begins(threads, strict, "POST", upstream.url(path), headers=headers, body=b"{}")
        eventually(lambda: _joined(strict, route) == before + 1)
        if timer:
            told = caller.answer("POST")
            assert (told.status, told.outcome.effect) == (424, "uncertain")
        else:
            caller.leave()
        (first,) = strict.records_of(budget)
        assert first["effect"] == "uncertain"
        upstream.wait(lambda up: len(up.whole) == sent)
        assert not second.done()
        gate.open = True
        assert (second.result().status, second.result().body) == (200, b"made")
        assert second.result().outcome.reason == (None if route == "honoured" else "joined")
        assert len(upstream.whole) == sent
        eventually(lambda: strict.uncertain(first["record"])["state"] == "reported")


def test_who_waits_and_runs_out_of_time_is_told_what_it_waited_for(
    strict: Sidecar, budget: str, threads: ThreadPoolExecutor
) -> None:
    """It was cut, not refused, and the first goes on."""
    gate = Gate()
    headers = {"Budget-Id": budget, "Idempotency-Key": budget}
    with Upstream(gate) as upstream:
        first = _begins(threads, strict, "POST", upstream.url(), headers=headers, body=b"{}")
        upstream.wait(lambda up: up.whole)
        told = call(strict, "POST", upstream.url(), headers=headers | {"Connect-Timeout-Ms": 200}, body=b"{}")
        assert (told.status, told.outcome.outcome, told.outcome.effect, told.outcome.retry) == (
            424,
            "deadline_exceeded",
            "none",
            "never",
        )
        gate.open = True
        assert first.result().status == 200
        assert told.problem["record"] == first.result().record != told.record
        assert len(upstream.whole) == 1


# -- what is said of the job -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "said"), [(404, "complete"), (500, "incomplete"), (503, "incomplete")])
def test_a_job_that_was_answered_with_a_failure(strict: Sidecar, budget: str, status: int, said: str) -> None:
    """A whole answer is no work done when it says that the tool has failed."""
    with Upstream(answer(b"", status)) as upstream:
        told = call(strict, "GET", upstream.url(), headers={"Budget-Id": budget})
        assert (told.status, told.outcome.outcome) == (status, "completed")
        assert _closed(strict, budget) == f"{said}; on_time"


def test_what_was_refused_and_then_done_leaves_the_job_complete(strict: Sidecar, budget: str) -> None:
    """Too deep, or out of its stage's share, and done the next time."""
    with Upstream(answer()) as upstream:
        upstream.on("/slow", stall(), answer())
        for method, body in (("GET", b""), ("POST", b"{}")):
            for depth, status in ((5, 403), (0, 200)):
                headers = {"Budget-Id": budget, "Budget-Depth": depth}
                assert (
                    call(strict, method, upstream.url("/deep"), headers=headers, body=body).status == status
                )
        search = {"Budget-Id": budget, "Budget-Stage": "search"}
        cut = call(strict, "GET", upstream.url("/slow"), headers=search)
        assert (cut.status, cut.outcome.reason, cut.outcome.retry) == (504, "stage_share", "never")
        assert (cut.get("x-should-retry"), cut.get("retry-after")) == ("false", None)
        assert call(strict, "GET", upstream.url("/slow"), headers=search).status == 403
        assert call(strict, "GET", upstream.url("/slow"), headers={"Budget-Id": budget}).status == 200
        assert _closed(strict, budget) == "complete; on_time"


def test_what_was_said_of_a_closed_job_stands(
    strict: Sidecar, budget: str, threads: ThreadPoolExecutor
) -> None:
    """Stray calls, and those that end later, change neither the record nor what was counted."""

    def counted() -> dict[str, float]:
        return {
            name: value
            for name, value in strict.samples().items()
            if name.startswith("waterclock_budgets_closed_total")
        }

    gate = Gate()
    late = f"{budget}-late"
    with Upstream(answer()) as upstream:
        upstream.on("/gate", gate)
        assert call(strict, "GET", upstream.url(), headers={"Budget-Id": budget}).status == 200
        under_way = _begins(threads, strict, "GET", upstream.url("/gate"), headers={"Budget-Id": late})
        upstream.wait(lambda up: up.seen("/gate"))
        before = counted()
        assert _closed(strict, budget) == "complete; on_time"
        assert _closed(strict, late) == "incomplete; on_time"
        after = counted()
        assert sum(after.values()) - sum(before.values()) == 2
        assert call(strict, "GET", upstream.url("/stray"), headers={"Budget-Id": budget}).status == 403
        gate.open = True
        assert under_way.result().status == 200
        for each, said in ((budget, "complete; on_time"), (late, "incomplete; on_time")):
            assert (_verdict(strict, each), _closed(strict, each)) == (said, said)
        assert counted() == after
        assert upstream.seen("/stray") == []


def test_a_doubt_that_is_resolved_completes_a_closed_job(strict: Sidecar, budget: str) -> None:
    """What becomes known of a write becomes known of its job."""
    with Upstream(stall()) as upstream:
        told = call(strict, "POST", upstream.url("/capped/x"), headers={"Budget-Id": budget}, body=b"{}")
        assert told.outcome.effect == "uncertain"
        assert _closed(strict, budget) == "incomplete; on_time"
        strict.resolve(told.record, applied=True)
        assert _verdict(strict, budget) == "complete; on_time"


# -- what is tried again, and what would be done -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("date", "tries"), [("Sun, 09 Sep 2001 01:46:40 GMT", 2), (None, 1)], ids=["with Date", "without"]
)
def test_a_date_to_come_again(strict: Sidecar, budget: str, date: str | None, tries: int) -> None:
    """It is reckoned from the answer's own, however wrong that clock is; without one nothing is guessed."""
    fields = [("Retry-After", "Sun, 09 Sep 2001 01:46:41 GMT"), *([("Date", date)] if date else [])]
    with Upstream(answer(b"busy", 503, fields), answer()) as upstream:
        told = call(strict, "GET", upstream.url("/again/x"), headers={"Budget-Id": budget})
        assert len(upstream.whole) == tries
        assert told.status == (200 if tries == 2 else 503)
        assert told.after >= (1000 if tries == 2 else 0)


def test_a_body_that_was_not_kept_is_not_sent_again(strict: Sidecar, budget: str) -> None:
    """The metrics say why."""
    name = 'waterclock_retries_withheld_total{reason="body_too_large",route="again"}'
    before = strict.samples().get(name, 0)
    with Upstream(answer(b"busy", 503), answer()) as upstream:
        body = b"x" * (1_048_576 + 1)
        told = call(strict, "PUT", upstream.url("/again/x"), headers={"Budget-Id": budget}, body=body)
        assert (told.status, len(upstream.whole)) == (503, 1)
        assert strict.samples()[name] == before + 1


def test_what_observing_says_would_be_done(budget: str, threads: ThreadPoolExecutor) -> None:
    """A write over its cap would be cut, whether or not its route retries; one that would join another is nothing."""
    policy = 'mode: observe\nfallback: {cap: 300ms, retries: {"on": [503, 504, connect_failed]}}'
    gate = Gate()
    with Sidecar(policy) as sidecar, Upstream(answer(after=0.6)) as upstream:
        slow = call(sidecar, "POST", upstream.url("/slow"), body=b"{}")
        assert (slow.status, slow.outcome.would) == (200, "cut")
        upstream.on("/gate", gate)
        headers = {"Budget-Id": budget, "Idempotency-Key": "k"}
        both = [
            _begins(threads, sidecar, "POST", upstream.url("/gate"), headers=headers, body=b"{}")
            for _ in range(2)
        ]
        upstream.wait(lambda up: len(up.seen("/gate")) == 2)
        gate.open = True
        assert [each.result().status for each in both] == [200, 200]
        for record in sidecar.records_of(budget, 2):
            assert record["would"] != "refuse"


def test_a_ledger_that_is_full_sheds() -> None:
    """There is room again when a job ends."""
    with Sidecar("ledger: {budgets: 1}") as sidecar, Upstream(answer()) as upstream:
        assert call(sidecar, "GET", upstream.url(), headers={"Budget-Id": "a"}).status == 200
        told = call(sidecar, "GET", upstream.url(), headers={"Budget-Id": "b"})
        assert (told.status, told.outcome.outcome, told.outcome.reason) == (503, "shed", "busy")
        assert int(told.get("retry-after") or 0) >= 1
        assert len(upstream.whole) == 1
        _closed(sidecar, "a")
        assert call(sidecar, "GET", upstream.url(), headers={"Budget-Id": "b"}).status == 200


# -- the end of the sidecar --------------------------------------------------------------------------------------------


def test_stopped_with_calls_that_wait(threads: ThreadPoolExecutor) -> None:
    """For their turn, or for the answer of another: each is answered by the end of the grace, and nothing hangs."""
    policy = """
    shutdown: {grace: 1s}
    routes: [{name: narrow, match: {path: /narrow/**}, concurrency: 1}]
    """
    gate = Gate()
    with Sidecar(policy) as sidecar, Upstream(stall()) as upstream:
        upstream.on("/soon", gate)
        queued = [_begins(threads, sidecar, "GET", upstream.url(f"/narrow/{n}")) for n in range(3)]
        soon, never = (
            [
                _begins(
                    threads,
                    sidecar,
                    "POST",
                    upstream.url(path),
                    headers={"Idempotency-Key": path},
                    body=b"{}",
                )
                for _ in range(3)
            ]
            for path in ("/soon", "/never")
        )
        eventually(lambda: _joined(sidecar, "fallback") == 4)
        eventually(lambda: sidecar.samples()['waterclock_queue_depth{route="narrow"}'] == 2)
        upstream.wait(lambda up: len(up.whole) == 3)
        began = time.monotonic()
        sidecar.signal(signal.SIGTERM)
        assert sidecar.event("draining")["in_flight"] == 9
        gate.open = True
        assert [each.result().body for each in soon] == [b"made"] * 3
        assert sidecar.stop() == 0
        assert 1 <= time.monotonic() - began < 10
        for each in (*queued, *never):
            told = each.result()
            assert told != NOTHING
            assert told.complete
            assert told.status in (424, 504)
        assert [each.result().status for each in queued] == [504] * 3
        (first,) = [told for each in never if (told := each.result()).outcome.effect == "uncertain"]
        assert first.status == 424
        sidecar.restart()
        (known,) = sidecar.uncertain()["writes"]
        assert (known["id"], known["state"]) == (first.record, "uncertain")
        again = call(
            sidecar, "POST", upstream.url("/never"), headers={"Idempotency-Key": "/never"}, body=b"{}"
        )
        assert (again.status, again.problem["record"]) == (424, known["id"])
        assert len(upstream.whole) == 3


def test_killed_with_dead_letters_and_doubts(budget: str, threads: ThreadPoolExecutor) -> None:
    """They are there afterwards, hold their units as before, and can be released."""
    policy = "fallback: {max_attempts: 2}\nwrites: {linger: 0s}"
    headers = {"Budget-Id": budget}
    with Sidecar(policy) as sidecar, Upstream(answer(b"busy", 503)) as upstream:
        upstream.on("/doubt", stall()).on("/flight", stall())
        for _ in range(2):
            assert call(sidecar, "GET", upstream.url("/read"), headers=headers).status == 503
            assert call(sidecar, "POST", upstream.url("/write"), headers=headers, body=b"{}").status == 503
        timer = {"Connect-Timeout-Ms": 200}
        doubt = call(sidecar, "POST", upstream.url("/doubt"), headers=headers | timer, body=b"{}")
        assert doubt.outcome.effect == "uncertain"
        flight = _begins(threads, sidecar, "POST", upstream.url("/flight"), headers=headers, body=b"{}")
        upstream.wait(lambda up: up.seen("/flight") and up.seen("/flight")[0].whole)
        sidecar.kill()
        with pytest.raises((AssertionError, OSError)):
            assert flight.result().complete
        sidecar.restart()
        assert {letter["target"].rpartition("/")[2] for letter in _letters(sidecar, budget)} == {
            "read",
            "write",
        }
        doubts = sidecar.ask("/uncertain?state=uncertain")["writes"]
        assert {each["target"].rpartition("/")[2] for each in doubts} == {"doubt", "flight"}
        sent = len(upstream.whole)
        for path, method in (("/read", "GET"), ("/write", "POST"), ("/doubt", "POST"), ("/flight", "POST")):
            body = b"{}" if method == "POST" else b""
            assert call(sidecar, method, upstream.url(path), headers=headers, body=body).status == 424
        assert len(upstream.whole) == sent
        released = {letter["id"] for letter in _letters(sidecar, budget)}
        for id in released:
            assert sidecar.ask(f"/dead-letters/{id}/release", {})["state"] == "released"
        assert _letters(sidecar, budget) == []
        statuses = [
            call(sidecar, "POST", upstream.url("/write"), headers=headers, body=b"{}").status
            for _ in range(3)
        ]
        assert statuses == [503, 503, 424]
        # The intent of a write is on disk before it is sent, and with it all that was handed to the journal before.
        assert call(sidecar, "POST", upstream.url("/other"), body=b"{}").status == 503
        sidecar.kill()
        sidecar.restart()
        (letter,) = _letters(sidecar, budget)
        assert letter["id"] not in released
