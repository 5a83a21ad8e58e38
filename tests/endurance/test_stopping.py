"""SIGTERM: calls under way end within the grace, and what had to be broken off is known afterwards."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.endurance.begun import begun, once
from tests.support.behaviours import answer, drip, stall
from tests.support.callers import Caller, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_under_way_are_ended(threads: ThreadPoolExecutor, number: signal.Signals) -> None:
    """They are answered, nothing waits longer than for them, and the end is a clean one."""
    gate = threading.Event()
    with Upstream() as upstream:
        sidecar = Sidecar().start()
        read = begun(threads, sidecar, upstream, "GET", "/read", once(gate, answer(b"read")))
        write = begun(threads, sidecar, upstream, "POST", "/write", once(gate, answer(b"written")))
        stream = begun(threads, sidecar, upstream, "GET", "/stream", once(gate, drip([b"1", b"2", b"3"])))
        ended = threads.submit(sidecar._end, number)
        assert sidecar.event("draining")["in_flight"] == 3
        began = time.monotonic()
        gate.set()
        assert ended.result() == 0
        assert time.monotonic() - began < 10, "the grace of 30 s is not waited out"
        assert [future.result().body for future in (read, write, stream)] == [b"read", b"written", b"123"]
        assert all(future.result().complete for future in (read, write, stream))
        assert sidecar.event("stopped")
        assert not sidecar.faults


def test_new_calls_while_draining(threads: ThreadPoolExecutor) -> None:
    """The pod's other containers may still be at work: they are served, and told to connect anew for the next call."""
    gate = threading.Event()
    with Upstream() as upstream:
        sidecar = Sidecar().start()
        with Caller(sidecar) as kept:
            upstream.on("/before", answer()).on("/after", answer(b"late"))
            assert kept.request("GET", upstream.url("/before")).answer().complete
            first = begun(threads, sidecar, upstream, "GET", "/read", once(gate, answer()))
            ended = threads.submit(sidecar.stop)
            sidecar.event("draining")
            ready = sidecar._http(f"http://127.0.0.1:{sidecar.metrics}/readyz")
            assert not ready["ready"]
            after = kept.request("GET", upstream.url("/after")).answer()
            assert (after.body, after.get("connection")) == (b"late", "close")
            gate.set()
            assert first.result().complete
        assert ended.result() == 0


def test_end_of_the_grace(threads: ThreadPoolExecutor) -> None:
    """What is not done by then is told so: no answer looks whole, and a write is known when the sidecar is back."""
    with Upstream() as upstream, Sidecar("shutdown: {grace: 300ms}") as sidecar:
        read = begun(threads, sidecar, upstream, "GET", "/read", drip(every=0.02))
        write = begun(threads, sidecar, upstream, "POST", "/write", stall())
        began = time.monotonic()
        assert sidecar.stop() == 0
        assert 0.3 <= time.monotonic() - began < 10
        assert sidecar.event("grace_over")["in_flight"] == 2
        assert not read.result().complete
        told = write.result()
        assert (told.status, told.outcome.effect, told.outcome.reason) == (424, "uncertain", "shutting_down")
        sidecar.restart()
        (known,) = sidecar.uncertain()["writes"]
        assert (known["state"], known["target"]) == ("uncertain", upstream.url("/write"))
        again = call(sidecar, "POST", upstream.url("/write"), body=b"{}")
        assert (again.status, again.problem["record"]) == (424, known["id"])


def test_late_answer_while_draining(threads: ThreadPoolExecutor) -> None:
    """Who listens on for the late answer of a cut write may do so until the grace is over, and keeps it."""
    with Upstream() as upstream, Sidecar("fallback: {cap: 100ms}") as sidecar:
        write = begun(threads, sidecar, upstream, "POST", "/write", answer(b"done", after=0.5))
        cut = write.result()
        assert cut.status == 424
        assert sidecar.stop() == 0
        sidecar.restart()
        known = sidecar.uncertain(cut.record)
        assert (known["state"], known["answer"]["body"]) == ("reported", "done")


def test_the_log_alone_tells_what_became_of_each_uncertain_write(threads: ThreadPoolExecutor) -> None:
    """In a pod that is evicted the journal goes with its volume: what its callers were told is then in the log alone."""
    with Upstream() as upstream, Sidecar("fallback: {cap: 100ms}\nwrites: {linger: 1s}") as sidecar:
        late = begun(threads, sidecar, upstream, "POST", "/late", answer(b"done", after=0.5)).result()
        lost = begun(threads, sidecar, upstream, "POST", "/lost", stall()).result()
        assert sidecar.stop() == 0
        told = {event["record"]: event for event in sidecar.events if event["event"].startswith("write_")}
        assert told.keys() == {late.record, lost.record}
        settled, left = told[late.record], told[lost.record]
        assert (settled["event"], settled["state"], settled["by"], settled["status"]) == (
            "write_settled",
            "reported",
            "late answer",
            200,
        )
        assert (left["event"], left["state"], left["target"]) == (
            "write_unresolved",
            "uncertain",
            upstream.url("/lost"),
        )


def test_nothing_is_left_behind() -> None:
    """One whole journal file, no half-written log, and the ports free again."""
    with Upstream(answer()) as upstream:
        sidecar = Sidecar().start()
        for number in range(20):
            call(sidecar, "POST", upstream.url(f"/{number}"), body=b"{}")
        assert sidecar.stop() == 0
        files = {path.name for path in sidecar.folder.iterdir()}
        assert files <= {"waterclock.yaml", "journal.db", "journal.db.lock"}
        assert len(sidecar.records) == 20
        eventually(lambda: sidecar.restart() is sidecar)
        assert sidecar.stop() == 0
