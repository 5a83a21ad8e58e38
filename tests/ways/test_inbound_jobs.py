"""Jobs between real sockets: whose a call is, what becomes of a delegated job, and what an operator sees and stops."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.behaviours import answer, hang_up, stall
from tests.support.callers import Answer, Caller, call
from tests.support.pod import Job, Pod, Reply, runs
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

POLICY: dict[str, Any] = {"budget": {"default": "5s"}}
BY_TRACE = {"budget": {"default": "5s", "correlate": ["budget-id", "traceparent", "sole"]}}
_numbers = itertools.count(1)


def verdict(told: Answer) -> str | None:
    return told.get("budget-verdict")


def trace() -> str:
    """A trace of its own."""
    return f"00-{next(_numbers):032x}-b7ad6b7169203331-01"


# -- whose a call is -----------------------------------------------------------------------------------------------


def test_calls_without_a_word_belong_to_the_one_job_that_is_open() -> None:
    """And to none while two are; each of these still gets its answer."""
    both = threading.Barrier(2, timeout=10)

    def work(job: Job) -> Reply:
        if job.request.get("x-together"):
            both.wait()
        seen = job.call("GET", tool.url("/facts"), named=False)
        if job.request.get("x-together"):
            both.wait()
        return Reply((seen.get("budget-id") or "").encode())

    with Upstream(answer()) as tool, Pod(runs(work), policy=POLICY) as pod, ThreadPoolExecutor(2) as threads:
        alone = call(pod, "POST", "/run", headers={"Budget-Id": "alone"})
        assert alone.body == b"alone"
        assert alone.get("budget-steps") == "total=1, completed=1, deadline_exceeded=0, uncertain=0"
        headers = [{"Budget-Id": f"both-{n}", "X-Together": "1"} for n in range(2)]
        told = list(threads.map(lambda each: call(pod, "POST", "/run", headers=each), headers))
        assert not {each.body for each in told} & {b"alone", b"both-0", b"both-1"}
        assert [each.get("budget-steps") for each in told] == [
            "total=0, completed=0, deadline_exceeded=0, uncertain=0"
        ] * 2


@pytest.mark.parametrize("by", ["id", "trace"])
def test_many_jobs_at_once_keep_their_calls_apart(by: str) -> None:
    """By the id that each app was told, or by the trace that it passes on."""

    def work(job: Job) -> Reply:
        mine = {"traceparent": job.request.get("traceparent")}
        for number in range(3):
            told = job.call("GET", tool.url(f"/{number}"), mine, named=by == "id")
            assert told.get("budget-id") == job.budget
        return Reply(job.budget.encode())

    with Upstream(answer(after=0.01)) as tool, Pod(runs(work), policy=BY_TRACE) as pod:

        def one(_: int) -> Answer:
            return call(pod, "POST", "/run", headers={"traceparent": trace()}, body=b"{}")

        with ThreadPoolExecutor(12) as threads:
            told = list(threads.map(one, range(60)))
        assert {each.status for each in told} == {200}
        assert {verdict(each) for each in told} == {"complete; on_time"}
        steps = "total=3, completed=3, deadline_exceeded=0, uncertain=0"
        assert {each.get("budget-steps") for each in told} == {steps}
        assert len({each.body for each in told}) == 60
        pod.sidecar.at_rest()
        samples = pod.sidecar.samples()
        assert samples["waterclock_budgets_opened_total"] == 60
        assert samples['waterclock_budgets_closed_total{complete="true",on_time="true"}'] == 60


def test_concurrent_entry_requests_of_one_budget() -> None:
    """They share its clock; each answer says how the job stands, and the last one closes it."""
    gate = threading.Event()

    def work(job: Job) -> Reply:
        if job.request.target == "/slow":
            gate.wait(10)
        job.call("GET", tool.url("/facts"))
        return Reply(str(job.left).encode())

    stated = {"Budget-Id": "job", "Budget-Remaining-Ms": 4000}
    with Upstream(answer()) as tool, Pod(runs(work), policy=POLICY) as pod, ThreadPoolExecutor(1) as threads:
        slow = threads.submit(call, pod, "POST", "/slow", headers=stated)
        eventually(lambda: pod.sidecar.samples()["waterclock_budgets_open"] == 1)
        time.sleep(0.05)
        quick = call(pod, "POST", "/quick", headers={**stated, "Budget-Remaining-Ms": 9000})
        assert int(quick.body) < 3960
        record = pod.budget("job")
        assert (record["state"], record["entries"], record["extensions_ignored"]) == ("open", 1, 1)
        gate.set()
        assert verdict(slow.result(10)) == "complete; on_time"
        record = pod.budget("job")
        assert (record["state"], record["closed_by"], record["counts"]["completed"]) == ("closed", "entry", 2)
        again = call(pod, "POST", "/quick", headers=stated)
        assert int(again.body) < 3960, "a closed budget gets no fresh clock"


# -- how it went ---------------------------------------------------------------------------------------------------


def test_what_a_job_did_is_said_of_it() -> None:
    """Of steps that were done, repeated, cut, refused, in doubt, and still under way."""
    left: list[Caller] = []

    def work(job: Job) -> Reply:
        what = job.request.target[1:]
        if what == "repeated":
            job.call("GET", tool.url("/flaky"))
            job.call("GET", tool.url("/flaky"))
        elif what == "cut":
            job.call("GET", tool.url("/slow/x"))
        elif what == "refused":
            job.call("GET", tool.url("/facts"), {"Budget-Depth": 99})
        elif what == "doubt":
            job.call("POST", tool.url("/broken"), {"Idempotency-Key": job.budget}, b"{}")
        elif what == "underway":
            left.append(Caller(job.sidecar).request("GET", tool.url("/slow/y"), {"Budget-Id": job.budget}))
            eventually(lambda: tool.seen("/slow/y"))
        return Reply()

    policy = {
        "budget": {"default": "5s", "depth": 5},
        "routes": [{"name": "slow", "match": {"path": "/slow/*"}, "cap": "300ms"}],
        "writes": {"linger": "0s"},
    }
    with Upstream(answer()) as tool, Pod(runs(work), policy=policy) as pod:
        tool.on("/flaky", hang_up(), answer()).on("/slow/x", stall()).on("/slow/y", stall()).on(
            "/broken", hang_up()
        )
        expected = {
            "nothing": ("total=0, completed=0, deadline_exceeded=0, uncertain=0", "complete"),
            "repeated": (
                "total=2, completed=1, deadline_exceeded=0, upstream_failed=1, uncertain=0",
                "complete",
            ),
            "cut": ("total=1, completed=0, deadline_exceeded=1, uncertain=0", "incomplete"),
            "refused": ("total=1, completed=0, deadline_exceeded=0, refused=1, uncertain=0", "incomplete"),
            "doubt": (
                "total=1, completed=0, deadline_exceeded=0, upstream_failed=1, uncertain=1",
                "incomplete",
            ),
            "underway": (
                "total=1, completed=0, deadline_exceeded=0, in_flight=1, uncertain=0",
                "incomplete",
            ),
        }
        for what, (steps, complete) in expected.items():
            told = call(pod, "POST", f"/{what}", headers={"Budget-Id": what})
            assert (told.get("budget-steps"), verdict(told)) == (steps, f"{complete}; on_time"), what
        record = pod.budget("doubt")
        (write,) = record["writes"]
        pod.sidecar.resolve(write["id"], applied=True)
        record = pod.budget("doubt")
        assert (record["verdict"], record["writes"][0]["resolved_by"]) == ("complete; on_time", "operator")
        for caller in left:
            caller.leave()


@pytest.mark.parametrize("as_it_comes", [False, True], ids=["in its head", "in its trailers"])
def test_a_delegated_job_that_is_incomplete(as_it_comes: bool) -> None:
    """Agent A asks agent B. B runs short: A sees B's verdict on the answer, and A's own says incomplete."""

    def b(job: Job) -> Reply:
        if job.request.target == "/short":
            job.call("GET", tool.url("/slow"))
        kind = (("Content-Type", "application/x-ndjson"),) if as_it_comes else ()
        return Reply(b"some of it", headers=kind, chunked=as_it_comes)

    seen: list[Answer] = []

    def a(job: Job) -> Reply:
        seen.append(job.call("POST", agent_b.url(job.request.target), body=b"{}"))
        return Reply(seen[-1].body)

    policy_b = {"budget": {"default": "5s"}, "fallback": {"cap": "200ms"}}
    with (
        Upstream(answer()) as tool,
        Pod(runs(b), policy=policy_b) as agent_b,
        Pod(runs(a), policy=POLICY) as agent_a,
    ):
        tool.on("/slow", stall())
        for path, complete in (("/short", "incomplete"), ("/all", "complete")):
            told = call(agent_a, "POST", path, headers={"Budget-Id": path[1:], "Budget-Depth": 3}, body=b"{}")
            assert verdict(told) == f"{complete}; on_time"
            assert told.get("budget-steps") == "total=1, completed=1, deadline_exceeded=0, uncertain=0"
            theirs = dict(seen[-1].trailers).get("budget-verdict") if as_it_comes else verdict(seen[-1])
            assert theirs == f"{complete}; on_time"
            request = agent_b.app.requests[-1]
            assert (request.get("budget-id"), request.get("budget-depth")) == (path[1:], "4")
            (step,) = agent_a.sidecar.records_of(path[1:])
            assert (step["outcome"], step["partial"]) == ("completed", complete == "incomplete")
        assert agent_b.budget("short")["verdict"] == "incomplete; on_time"


def test_agents_that_call_one_another_in_a_circle() -> None:
    """End at the depth that the policy allows, and each of them says that it is incomplete."""

    def again(job: Job) -> Reply:
        told = job.call("POST", pods[len(pods) - 1 - pods.index(of(job))].url("/run"), body=b"{}")
        return Reply(told.body if told.status == 200 else f"{told.status}".encode())

    def of(job: Job) -> Pod:
        return next(pod for pod in pods if pod.sidecar is job.sidecar)

    policy = {"budget": {"default": "5s", "depth": 3}}
    with Pod(runs(again), policy=policy) as one, Pod(runs(again), policy=policy) as other:
        pods = [one, other]
        told = call(one, "POST", "/run", headers={"Budget-Id": "circle"}, body=b"{}")
        assert (told.status, told.body, verdict(told)) == (200, b"403", "incomplete; on_time")
        depths = [int(request.get("budget-depth") or 0) for request in one.app.requests + other.app.requests]
        assert sorted(depths) == [0, 1, 2, 3]
        assert one.budget("circle")["entries"] == 0


# -- the operator --------------------------------------------------------------------------------------------------


def test_what_the_control_port_shows_and_does_during_an_entry_request() -> None:
    """A job that somebody has closed by hand is closed; its entry request still gets its answer, and the verdict."""
    gate = threading.Event()

    def work(job: Job) -> Reply:
        job.call("GET", tool.url("/facts"))
        gate.wait(10)
        return Reply()

    with Upstream(answer()) as tool, Pod(runs(work), policy=POLICY) as pod, ThreadPoolExecutor(1) as threads:
        running = threads.submit(call, pod, "POST", "/run", headers={"Budget-Id": "job"})
        eventually(lambda: tool.whole)
        eventually(lambda: pod.budget("job")["counts"]["completed"] == 1)
        record = pod.budget("job")
        assert (record["state"], record["entries"], record["complete"]) == ("open", 1, None)
        closed = pod.sidecar.ask("/budgets/job/close", {})
        assert (closed["state"], closed["closed_by"], closed["verdict"]) == (
            "closed",
            "request",
            "complete; on_time",
        )
        gate.set()
        assert verdict(running.result(10)) == "complete; on_time"
        assert pod.budget("job")["closed_by"] == "request"
        eventually(lambda: pod.sidecar.gauges()["steps_in_flight"] == 0)
        samples = pod.sidecar.samples()
        assert samples["waterclock_budgets_opened_total"] == 1
        assert samples['waterclock_budgets_closed_total{complete="true",on_time="true"}'] == 1


def test_observing() -> None:
    """Nothing is cut, and the answer says what would have been."""
    with Pod(answer(after=0.4), policy={"mode": "observe", **POLICY}) as pod:
        told = call(pod, "POST", "/run", headers={"Budget-Id": "job", "Budget-Remaining-Ms": 200}, body=b"{}")
        assert (told.status, told.outcome.would, verdict(told)) == (200, "cut", "complete; late")
        (entry,) = pod.entries("job")
        assert (entry["outcome"], entry["would"], entry["verdict"]) == ("completed", "cut", "complete; late")


def test_a_stop_lets_an_entry_request_end() -> None:
    """With the calls that its app still has to make."""
    gate = threading.Event()

    def work(job: Job) -> Reply:
        gate.wait(10)
        return Reply(job.call("GET", tool.url("/facts")).body)

    with Upstream(answer(b"a fact")) as tool, Pod(runs(work), policy=POLICY) as pod, Caller(pod) as caller:
        caller.request("POST", "/run", {"Budget-Id": "job"})
        eventually(lambda: pod.app.whole)
        pod.sidecar.signal(signal.SIGTERM)
        pod.sidecar.event("draining")
        gate.set()
        told = caller.answer("POST")
        assert (told.status, told.body, verdict(told)) == (200, b"a fact", "complete; on_time")
        assert told.get("connection") == "close"
        assert pod.sidecar.stop() == 0


def test_a_stop_that_cannot_wait() -> None:
    """An entry request that is open at the end of the grace is told so."""
    with Pod(stall(), policy={**POLICY, "shutdown": {"grace": "200ms"}}) as pod, Caller(pod) as caller:
        caller.request("POST", "/run", {"Budget-Id": "job"}, b"{}")
        eventually(lambda: pod.app.whole)
        pod.sidecar.signal(signal.SIGTERM)
        told = caller.answer("POST")
        assert (told.status, told.outcome.reason) == (424, "shutting_down")
        assert verdict(told) == "incomplete; on_time"
        assert pod.sidecar.stop() == 0


def test_a_reload_moves_no_port_and_no_clock() -> None:
    """Where the inbound side is, and what it leads to, is fixed at the start; what an entry request may take is not."""
    with Pod(answer(), policy=POLICY) as pod:
        elsewhere = {"inbound": {"address": "127.0.0.1:1", "app": "127.0.0.1:2"}}
        pod.sidecar.write_policy({"budget": {"default": "1s"}, "listen": elsewhere})
        pod.sidecar.signal(signal.SIGHUP)
        reloaded = pod.sidecar.event("reloaded")
        assert reloaded["needs_restart"] == ["listen"]
        told = call(pod, "GET", "/run")
        assert (told.status, told.get("budget-allowed-ms")) == (200, "1000")
