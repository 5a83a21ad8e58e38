"""Subscriptions: a GET that accepts nothing but an event stream is a standing ear, unless it states a budget."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.support.behaviours import Framing, answer, drip, events, stall, stall_after_head
from tests.support.callers import Caller, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

SLACK = 1500.0
CAP, DEFAULT, IDLE = 200, 250, 500
LISTENS = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    policy = {
        "budget": {"default": f"{DEFAULT}ms"},
        "fallback": {"cap": f"{CAP}ms"},
        "subscription": {"idle": f"{IDLE}ms"},
    }
    with Sidecar(policy) as sidecar:
        yield sidecar


@pytest.fixture
def brief(running: Sidecar) -> Iterator[Sidecar]:
    """Short caps, a short default budget, and a little patience with silence."""
    before = len(running.faults)
    yield running
    assert not running.faults[before:]


def test_it_outlives_caps_and_the_default_budget(brief: Sidecar) -> None:
    """Every event arrives, and the stream ends when its server ends it."""
    payloads = [f"news {number}" for number in range(8)]
    with Upstream(events(payloads, every=0.09)) as upstream:
        told = call(brief, "GET", upstream.url("/news"), headers=LISTENS)
        assert (told.status, told.complete) == (200, True)
        assert told.body == b"".join(f"data: {payload}\n\n".encode() for payload in payloads)
        assert told.after > 600 > 2 * DEFAULT > CAP
        assert told.get("budget-allowed-ms") is told.get("budget-id") is None
        record = brief.record(told.record)
        assert (record["outcome"], record["effect"], record["kind"]) == ("completed", "none", "read")
        assert record["allowed_ms"] is record["budget_id"] is None
        assert upstream.requests[0].get("budget-remaining-ms") is None


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_it_ends_after_a_long_silence(brief: Sidecar, framing: Framing) -> None:
    """Counted from the last event, and not so that it looks whole."""
    with Upstream(events(["one", "two"], every=0.2, framing=framing, then="stall")) as upstream:
        told = call(brief, "GET", upstream.url("/news"), headers=LISTENS)
        assert told.status == 200
        assert not told.complete
        assert 200 + IDLE <= told.after < 200 + IDLE + SLACK
        assert told.body.startswith(b"data: one\n\ndata: two\n\n")
        record = brief.record(told.record)
        assert (record["reason"], record["effect"]) == ("idle", "none")
        upstream.wait(lambda up: not up.open)
    brief.at_rest()


def test_comments_keep_it_open(brief: Sidecar) -> None:
    """A server that only says that it is still there is not silent."""
    kind = [("Content-Type", "text/event-stream")]
    beats = [b": still here\n\n"] * 7 + [b"data: at last\n\n"]
    with Upstream(drip(beats, every=0.1, headers=kind)) as upstream:
        told = call(brief, "GET", upstream.url("/news"), headers=LISTENS)
        assert told.complete
        assert told.body.endswith(b"data: at last\n\n")
        assert told.after > 690 > IDLE


@pytest.mark.parametrize("silence", ["before its head", "after its head"])
def test_it_may_be_silent_from_the_start(brief: Sidecar, silence: str) -> None:
    """The same patience holds before the first event. Without a head there is still an answer to be given."""
    kind = [("Content-Type", "text/event-stream")]
    behaviour = stall() if silence == "before its head" else stall_after_head(headers=kind, framing="chunked")
    with Upstream(behaviour) as upstream:
        told = call(brief, "GET", upstream.url("/news"), headers=LISTENS)
        assert IDLE <= told.after < IDLE + SLACK
        assert told.status == (504 if silence == "before its head" else 200)
        assert brief.record(told.record)["reason"] == "idle"


NO_EARS = {
    "another method": ("POST", LISTENS),
    "an answer of any kind": ("GET", {"Accept": "*/*"}),
    "an event stream among others": ("GET", {"Accept": "application/json, text/event-stream"}),
    "nothing said": ("GET", {}),
}


@pytest.mark.parametrize("what", NO_EARS)
def test_what_is_none(brief: Sidecar, what: str) -> None:
    """Anything that is asked for more than a stream is a call, and cut like one."""
    method, headers = NO_EARS[what]
    with Upstream(events((f"news {number}" for number in range(100)), every=0.05)) as upstream:
        told = call(brief, method, upstream.url("/news"), headers=headers)
        assert told.get("budget-allowed-ms") == str(CAP)
        assert not told.complete
        assert told.after < CAP + SLACK
        assert brief.record(told.record)["reason"] == "route_cap"


STATED = {
    "a remainder": {"Budget-Remaining-Ms": "150"},
    "a budget's name": {"Budget-Id": "named"},
    "the proxy's user": {"Proxy-Authorization": "Basic cnVuLWVhcjoxNTA="},
}


@pytest.mark.parametrize("what", STATED)
def test_with_a_stated_budget_it_is_a_step(brief: Sidecar, what: str) -> None:
    """It ends at its allowance, with the event that LLM clients raise on, between two others."""
    with Upstream(events((f"news {number}" for number in range(100)), every=0.02)) as upstream:
        told = call(brief, "GET", upstream.url("/news"), headers=LISTENS | STATED[what])
        assert (told.status, told.complete) == (200, False)
        allowed = int(told.get("budget-allowed-ms") or "")
        assert allowed == (CAP if what == "a budget's name" else 150)
        assert told.after < allowed + SLACK
        *news, last, rest = told.body.decode().split("\n\n")
        assert rest == ""
        assert all(piece.startswith("data: news ") for piece in news)
        assert news
        first, second = last.split("\n")
        assert first == "event: error"
        error = json.loads(second.removeprefix("data: "))["error"]
        assert (error["type"], error["effect"]) == ("deadline_exceeded", "none")
        record = brief.record(told.record)
        assert error["record"] == record["record"]
        assert record["outcome"] == "deadline_exceeded"
        assert record["reason"] == ("route_cap" if what == "a budget's name" else "budget_remaining")
        upstream.wait(lambda up: not up.open)


def test_a_spent_budget_hears_nothing(brief: Sidecar) -> None:
    with Upstream(events(["one"])) as upstream:
        told = call(brief, "GET", upstream.url("/news"), headers=LISTENS | {"Budget-Remaining-Ms": "0"})
        assert (told.status, told.outcome.reason) == (403, "budget_exhausted")
        assert upstream.connections == []


def test_a_client_that_stops_listening(brief: Sidecar) -> None:
    """The server hears of it, and the record says so."""
    with (
        Upstream(events((f"news {number}" for number in range(1000)), every=0.02)) as upstream,
        Caller(brief) as caller,
    ):
        caller.request("GET", upstream.url("/news"), LISTENS)
        seen = caller.until(b"news 3")
        caller.leave()
        upstream.wait(lambda up: not up.open)
        id = seen.split(b"Budget-Record: ")[1].split(b"\r\n")[0].decode()
        assert brief.record(id)["outcome"] == "client_gone"
    brief.at_rest()


def test_a_server_that_breaks_off(brief: Sidecar) -> None:
    """It is no end: the client is told, in the stream's own words."""
    with Upstream(events(["one", "two"], then="reset", every=0.05)) as upstream:
        told = call(brief, "GET", upstream.url("/news"), headers=LISTENS)
        assert not told.complete
        assert brief.record(told.record)["outcome"] == "upstream_failed"


def test_it_may_be_refused_by_its_server(brief: Sidecar) -> None:
    with Upstream(answer(b"no", 404)) as upstream, Caller(brief) as caller:
        for _ in range(2):
            assert caller.request("GET", upstream.url("/news"), LISTENS).answer().status == 404


def test_many_ears_at_once(brief: Sidecar) -> None:
    """They wait without any timer of a call, and leave nothing behind."""
    with Upstream(events(["one"], then="stall")) as upstream:
        callers = [Caller(brief).request("GET", upstream.url("/news"), LISTENS) for _ in range(40)]
        for caller in callers:
            assert b"data: one\n\n" in caller.until(b"data: one\n\n")
        assert brief.gauges()["steps_in_flight"] == 40
        time.sleep(CAP / 1000)
        assert brief.gauges()["steps_in_flight"] == 40
        for caller in callers:
            caller.leave()
        brief.at_rest()
        upstream.wait(lambda up: not up.open)
