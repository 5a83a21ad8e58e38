"""The inbound side between real sockets: an entry request, the app behind it, and what each sees of the other."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest

from tests.support.behaviours import (
    answer,
    chunk,
    deaf,
    drip,
    early,
    echo,
    events,
    hang_up,
    head,
    interim,
    raw,
    stall,
    stall_after_head,
)
from tests.support.callers import Answer, Caller, call, chunked, render
from tests.support.pod import Pod
from tests.support.ports import free_port
from tests.support.upstream import Behaviour, Upstream
from tests.support.waiting import eventually

SLACK = 1500.0
TOTAL = 2000
POLICY = "budget: {default: 2s, reserve: 200ms}"


@pytest.fixture(scope="module")
def standing() -> Iterator[Pod]:
    """One pod for the tests that need nothing special of it."""
    with Pod(answer(), policy=POLICY) as pod:
        yield pod


@pytest.fixture
def pod(standing: Pod) -> Pod:
    """The same, with an app that has forgotten what it was asked before."""
    standing.app.requests.clear()
    return standing


def verdict(told: Answer) -> str | None:
    """The verdict of an answer."""
    return told.get("budget-verdict")


# -- there and back ------------------------------------------------------------------------------------------------


def test_what_each_side_is_told(pod: Pod) -> None:
    """The app its budget, the caller the verdict, and neither what the other made up."""
    forged = [("Budget-Verdict", "complete"), ("Budget-Id", "mine"), ("Budget-Steps", "total=9")]
    pod.app.then(answer(b"done", headers=forged))
    told = call(
        pod,
        "POST",
        "/run",
        headers={
            "Budget-Id": "told",
            "Budget-Remaining-Ms": 1500,
            "Budget-Anything": "x",
            "budget-stage": "s",
        },
        body=b"{}",
    )
    assert (told.status, told.body) == (200, b"done")
    assert verdict(told) == "complete; on_time"
    assert told.get("budget-steps") == "total=0, completed=0, deadline_exceeded=0, uncertain=0"
    assert told.get("budget-id") == "told"
    (request,) = pod.app.requests
    own = sorted(name for name, _ in request.fields if name.startswith("budget-"))
    assert own == ["budget-depth", "budget-id", "budget-remaining-ms"]
    assert request.get("budget-id") == "told"
    assert 500 < int(request.get("budget-remaining-ms") or 0) <= 1500
    (entry,) = pod.entries("told")
    assert (entry["budget_id"], entry["total_ms"], entry["verdict"]) == ("told", 1500.0, "complete; on_time")
    assert pod.budget("told")["closed_by"] == "entry"


@pytest.mark.parametrize(("method", "status"), [("GET", 504), ("PUT", 504), ("POST", 424)])
@pytest.mark.parametrize("how", ["silent", "deaf", "half an answer"])
def test_it_is_cut_at_the_end_of_the_total(pod: Pod, budget: str, method: str, status: int, how: str) -> None:
    """Not at the beginning of the reserve; and the app sees its connection close."""
    ways = {"silent": stall(), "deaf": deaf(), "half an answer": stall_after_head(length=9)}
    pod.app.then(ways[how])
    body = b"" if method == "GET" else b"{}"
    stated = {"Budget-Id": budget, "Budget-Remaining-Ms": 600}
    told = call(pod, method, "/run", headers=stated, body=body)
    assert 599 <= told.after < 600 + SLACK
    (entry,) = pod.entries(budget)
    assert (entry["outcome"], entry["reason"]) == ("deadline_exceeded", "budget_remaining")
    timely = "on_time" if entry["late_ms"] <= 50 else "late"
    assert entry["verdict"] == pod.budget(budget)["verdict"] == f"incomplete; {timely}"
    if told.complete:
        assert (told.status, verdict(told)) == (status, entry["verdict"])
        assert told.problem["budget_id"] == budget
    else:
        assert (told.status, verdict(told)) == (200, "in_progress")
    pod.sidecar.at_rest()
    connection = pod.app.connections[pod.app.requests[-1].connection]
    eventually(lambda: connection.closed_at or how == "deaf")  # who does not read does not see it


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("behaviour", [stall(), drip(every=0.01)], ids=["silent", "dripping"])
def test_the_app_sees_that_its_caller_has_left(
    pod: Pod, budget: str, method: str, reset: bool, behaviour: Behaviour
) -> None:
    """At once, as if nobody stood between them."""
    pod.app.then(behaviour)
    stated = {"Budget-Id": budget, "Budget-Remaining-Ms": 60_000}
    caller = Caller(pod).request(method, "/run", stated, b"" if method == "GET" else b"{}")
    pod.app.wait(lambda app: app.requests)
    time.sleep(0.05)
    left = time.monotonic_ns()
    caller.leave(reset=reset)
    connection = pod.app.connections[pod.app.requests[-1].connection]
    closed_at = eventually(lambda: connection.closed_at)
    assert (closed_at - left) / 1e6 < SLACK
    (entry,) = pod.entries(budget)
    assert (entry["outcome"], entry["verdict"]) == ("client_gone", "incomplete; on_time")
    pod.sidecar.at_rest()


@pytest.mark.parametrize(("method", "status"), [("GET", 502), ("POST", 424)])
@pytest.mark.parametrize("reset", [False, True])
def test_an_app_that_hangs_up(pod: Pod, method: str, status: int, reset: bool) -> None:
    """Nothing is repeated, and what is known is said."""
    pod.app.then(hang_up(reset=reset))
    told = call(pod, method, "/run", body=b"" if method == "GET" else b"{}")
    assert (told.status, verdict(told)) == (status, "incomplete; on_time")
    assert told.get("proxy-status") is not None
    assert len(pod.app.requests) == 1


def test_an_app_that_does_not_listen() -> None:
    """Nothing was sent, so that the caller may come again; when the app is there, it is served."""
    port = free_port()
    with Pod(policy=POLICY, app_port=port) as pod:
        told = call(pod, "POST", "/run", headers={"Budget-Id": "job"}, body=b"{}")
        assert (told.status, verdict(told)) == (502, "incomplete; on_time")
        assert told.outcome.effect == "none"
        assert told.get("x-should-retry") == "true"
        with Upstream(answer(), port=port):
            again = call(pod, "POST", "/run", headers={"Budget-Id": "job"}, body=b"{}")
            assert (again.status, verdict(again)) == (200, "complete; on_time")
            assert pod.budget("job")["verdict"] == "complete; on_time"


def test_an_app_that_answers_before_it_has_read_everything(pod: Pod) -> None:
    """Its answer arrives whole, though the body never does."""
    pod.app.then(early(b"too large", 413, close=True))
    with Caller(pod) as caller:
        caller.request("POST", "/run", {"Content-Length": 50_000_000}, b"x" * 100_000)
        told = caller.answer("POST")
    assert (told.status, told.body, told.complete) == (413, b"too large", True)
    assert verdict(told) == "complete; on_time"


def test_large_bodies_both_ways(pod: Pod, budget: str) -> None:
    """They stream, and no more of them is held than the answer's verdict is worth."""
    pod.app.then(echo())
    body = b"0123456789abcdef" * 2**20
    before = pod.sidecar.memory_mib()
    stated = {"Budget-Id": budget, "Budget-Remaining-Ms": 60_000}
    told = call(pod, "POST", "/run", headers=stated, body=body)
    assert told.body == body
    assert verdict(told) == "in_progress", "it was too large to be held"
    assert pod.sidecar.memory_mib() - before < 40
    (entry,) = pod.entries(budget)
    assert (entry["bytes"], entry["verdict"]) == (len(body), "complete; on_time")


# -- forms of answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_trailers_tell_what_the_head_could_not(pod: Pod, framing: str) -> None:
    """An answer without a length that passes as it comes; the head announces them."""
    pieces = drip([b"a", b"b"], every=0.4, framing=framing)  # type: ignore[arg-type]
    pod.app.then(pieces)
    told = call(pod, "POST", "/run", body=b"{}")
    assert (told.body, told.complete, verdict(told)) == (b"ab", True, "in_progress")
    assert told.get("trailer") == "Budget-Steps, Budget-Verdict"
    assert dict(told.trailers) == {
        "budget-steps": "total=0, completed=0, deadline_exceeded=0, uncertain=0",
        "budget-verdict": "complete; on_time",
    }


def test_event_streams_pass_event_by_event(pod: Pod) -> None:
    """Their verdict comes behind the last one; cut, they end in their own form, and without one."""
    pod.app.then(events(["1", "2"], every=0.05))
    told = call(pod, "POST", "/run", body=b"{}")
    assert told.body == b"data: 1\n\ndata: 2\n\n"
    assert told.head_after < 40 + SLACK
    assert dict(told.trailers)["budget-verdict"] == "complete; on_time"
    pod.app.then(events(["1"], then="stall"))
    cut = call(pod, "POST", "/run", headers={"Budget-Remaining-Ms": 400}, body=b"{}")
    assert not cut.complete
    assert b"event: error\ndata: " in cut.body
    assert not cut.trailers


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_clients_of_http_1_0(pod: Pod, framing: str) -> None:
    """The verdict is in the head of what could be held; what comes slowly has no place for it."""
    pod.app.then(answer(b"old", framing=framing))  # type: ignore[arg-type]
    told = call(pod, "GET", "/run", version="1.0")
    assert (told.status, told.body, verdict(told)) == (200, b"old", "complete; on_time")
    pod.app.then(drip([b"a", b"b"], every=0.4, framing=framing, length=2))  # type: ignore[arg-type]
    slow = call(pod, "GET", "/run", version="1.0")
    assert (slow.body, verdict(slow), slow.get("trailer")) == (b"ab", "in_progress", None)


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304), ("OPTIONS", 200)])
def test_answers_without_a_body(pod: Pod, method: str, status: int) -> None:
    """The connection serves on behind each of them."""
    pod.app.then(raw(head(status, [("Content-Length", "0")] if status == 200 else []), then="keep"))
    with Caller(pod) as caller:
        for _ in range(2):
            told = caller.request(method, "/run").answer(method)
            assert (told.status, told.body, verdict(told)) == (status, b"", "complete; on_time")


def test_interim_answers_pass(pod: Pod) -> None:
    """With nothing in them about budgets that the app made up."""
    hints = interim(103, then=answer(b"then"), headers=[("Link", "</x>"), ("Budget-Verdict", "complete")])
    pod.app.then(hints)
    with Caller(pod) as caller:
        caller.request("GET", "/run")
        seen = caller.until(b"\r\n\r\n")
        assert b"103" in seen
        assert b"Link: </x>" in seen
        assert b"udget" not in seen
        assert caller.answer().body == b"then"


@pytest.mark.parametrize("asks", [True, False], ids=["the app asks", "the app says nothing"])
def test_expect_100_continue(pod: Pod, asks: bool) -> None:
    """It is between the caller and the app."""
    pod.app.then(interim(100, then=echo()) if asks else answer(b"no", 403))
    with Caller(pod) as caller:
        caller.send(render("POST", "/run", {"Expect": "100-continue", "Content-Length": 5}))
        if asks:
            assert b"HTTP/1.1 100 " in caller.until(b"\r\n\r\n")
        caller.add(b"hello")
        told = caller.answer("POST")
    assert (told.status, told.body) == ((200, b"hello") if asks else (403, b"no"))


def test_chunked_requests_and_pipelines(pod: Pod) -> None:
    """Answered in order, each with a budget of its own."""
    pod.app.then(echo())
    with Caller(pod) as caller:
        fields = {"Transfer-Encoding": "chunked"}
        caller.send(b"".join(render("POST", f"/{n}", fields) + chunked(b"a%d" % n, b"b") for n in range(5)))
        told = [caller.answer("POST") for _ in range(5)]
    assert [each.body for each in told] == [b"a%db" % n for n in range(5)]
    assert len({each.get("budget-id") for each in told}) == 5
    assert chunk(b"a0") in bytes(pod.app.connections[pod.app.requests[0].connection].received)


# -- what is no entry request --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wire",
    [
        b"CONNECT tool:443 HTTP/1.1\r\nHost: tool:443\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"GET /run HTTP/1.1\r\n\r\n",
        b"GET /run HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /run HTTP/1.1\r\nHost: a\r\nBudget-Remaining-Ms: -5\r\n\r\n",
        b"GET /run HTTP/1.1\r\nHost: a\r\nBudget-Id: a b\r\n\r\n",
        b"GET /run HTTP/1.1\r\nHost: a\r\nBudget-Remaining-Ms: 5\r\nBudget-Remaining-Ms: 6\r\n\r\n",
        b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_what_cannot_be_read_is_400(pod: Pod, wire: bytes) -> None:
    """And its connection is closed; nothing of it reaches the app."""
    with Caller(pod) as caller:
        told = caller.send(wire).answer()
        status = 505 if told.status == 505 else 400
        assert told.status == status
        assert told.problem["reason"] == "malformed"
        assert caller.rest() == b""
    assert pod.app.requests == []


def test_probes_are_no_jobs(pod: Pod) -> None:
    """However many come; nothing that their app does is held to them."""
    before = pod.sidecar.samples()["waterclock_budgets_opened_total"]
    for _ in range(5):
        told = call(pod, "GET", "/healthz", headers={"User-Agent": "kube-probe/1.31"})
        assert (told.status, verdict(told), told.get("budget-id")) == (200, None, None)
    assert not [name for request in pod.app.requests for name, _ in request.fields if name[:7] == "budget-"]
    assert pod.sidecar.samples()["waterclock_budgets_opened_total"] == before


def test_measured_transit_is_taken_off_what_is_stated() -> None:
    """On the loopback it is small, and it is there."""
    with Pod(answer(), policy=POLICY, measure_transit=True) as pod:
        call(pod, "GET", "/run", headers={"Budget-Remaining-Ms": 1500})
        call(pod, "GET", "/run")
        stated, default = pod.entries(count=2)
    assert 1000 < stated["total_ms"] < 1500
    assert default["total_ms"] == 2000.0


def test_an_address_of_either_family() -> None:
    """The app's too."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    port = free_port()
    with Pod(answer(), policy=POLICY, address=f"[::1]:{port}") as pod:
        told = call(("::1", port), "GET", "/run")
        assert (told.status, verdict(told)) == (200, "complete; on_time")
        assert re.search(r"Host: localhost", bytes(pod.app.connections[0].received).decode())
