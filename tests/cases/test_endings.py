"""How an answer ends that does not end well: never so that a client could take it for whole."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases.clients import CLIENTS
from tests.support.behaviours import (
    LAST_CHUNK,
    Framing,
    answer,
    chunk,
    cut_after,
    drip,
    events,
    hang_up,
    head,
    raw,
    stall_after_head,
)
from tests.support.callers import Answer, Caller, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Upstream
from tests.support.waiting import eventually

SLACK = 1500.0


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_cut_body_is_not_clean(sidecar: Sidecar, client: str, framing: Framing) -> None:
    """A body that drips past the allowance ends as a broken one, to every client (envoyproxy/envoy#17186)."""
    with Upstream(drip(every=0.01, framing=framing)) as upstream:
        fetched = CLIENTS[client](sidecar, upstream.url(), 100)
        assert fetched.status == 200
        assert not fetched.complete
        # These two keep to themselves what came before the break.
        assert b"piece 0\n" in fetched.body or client in ("aiohttp", "requests")
        assert b"piece 30\n" not in fetched.body


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_a_whole_body_is_clean(sidecar: Sidecar, client: str, framing: Framing) -> None:
    """The other half of it: what ended well is not made to look broken."""
    pieces = [b"piece %d\n" % number for number in range(5)]
    with Upstream(drip(pieces, every=0.01, framing=framing, length=len(b"".join(pieces)))) as upstream:
        fetched = CLIENTS[client](sidecar, upstream.url(), 5000)
        assert fetched == (200, True, b"".join(pieces))


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_close_delimited_cut(sidecar: Sidecar, method: str, framing: Framing, version: str) -> None:
    """Where the end of the connection is the end of the body, a cut is a reset, or no FIN at all."""
    with Upstream(drip(every=0.01, framing=framing)) as upstream:
        headers = {"Budget-Remaining-Ms": 100}
        body = b"" if method == "GET" else b"{}"
        told = call(sidecar, method, upstream.url(), headers=headers, body=body, version=version)
        assert 100 <= told.after < 100 + SLACK
        if method == "POST":  # held back, so it can still be told the truth
            assert (told.status, told.complete, told.outcome.effect) == (424, True, "uncertain")
            return
        assert told.status == 200
        assert not told.complete
        assert told.ended == ("reset" if version == "1.0" and framing != "length" else "fin")
        assert sidecar.record(told.record)["bytes"] == len(told.body)


CUT_SHORT: dict[str, Behaviour] = {
    "40 of 60 chunks, then FIN": cut_after(40, 60),
    "40 of 60 chunks, then RST": cut_after(40, 60, reset=True),
    "within a chunk": raw(head(200, [("Transfer-Encoding", "chunked")]), b"a\r\n12345", every=0.01),
    "before the last line": raw(
        head(200, [("Transfer-Encoding", "chunked")]), b"1\r\na\r\n0\r\n", every=0.01
    ),
    "in one piece with its head": raw(head(200, [("Transfer-Encoding", "chunked")]) + chunk(b"a")),
    "40 of 60 pieces of a length, then FIN": cut_after(40, 60, framing="length"),
    "40 of 60 pieces of a length, then RST": cut_after(40, 60, framing="length", reset=True),
    "until close, but reset": cut_after(40, 60, framing="close", reset=True),
    "until close, but reset at once": raw(head(200) + b"only a part", then="reset"),
    "a bad chunk": raw(head(200, [("Transfer-Encoding", "chunked")]), chunk(b"a") + b"x\r\n", every=0.01),
}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("how", CUT_SHORT)
def test_upstream_cut_is_not_clean(sidecar: Sidecar, version: str, how: str) -> None:
    """A server that breaks off does not become a clean 200 (Portkey-AI/gateway#1797)."""
    effects = {"GET": "none", "PUT": "uncertain", "POST": "uncertain"}
    with Upstream(CUT_SHORT[how]) as upstream:
        answers = {
            method: call(
                sidecar, method, upstream.url(), body=b"" if method == "GET" else b"{}", version=version
            )
            for method in effects
        }
        for method, told in answers.items():
            assert told.status in ({200, 502} if method != "POST" else {424})
            assert told.complete == (told.status != 200)
            record = sidecar.record(told.record)
            assert record["outcome"] == "upstream_failed"
            assert record["effect"] == effects[method]
        assert answers["POST"].outcome.retry == "verify"
        upstream.wait(lambda up: not up.open)
        assert len(upstream.whole) == 3


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_upstream_cut_is_not_clean_to_any_client(sidecar: Sidecar, client: str, framing: Framing) -> None:
    """The same, as real clients see it."""
    with Upstream(cut_after(40, 60, framing=framing)) as upstream:
        fetched = CLIENTS[client](sidecar, upstream.url(), 5000)
        # What arrives in one piece with its break never becomes an answer; what came before it has been passed on.
        assert fetched.status == 502 or not fetched.complete
        assert len(fetched.body) < 60_000


NO_ANSWER: dict[str, Behaviour] = {
    "FIN": hang_up(),
    "RST": hang_up(reset=True),
    "half a head": raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.2\r\n", then="stall"),
    "another version": raw(b"HTTP/2.0 200 OK\r\n\r\n", then="stall"),
    "two lengths": raw(head(200, [("Content-Length", "1"), ("Content-Length", "2")]) + b"ab", then="stall"),
    "both lengths": raw(
        head(200, [("Content-Length", "5"), ("Transfer-Encoding", "chunked")]) + LAST_CHUNK, then="stall"
    ),
    "a huge head": raw(head(200, [("X", "y" * 100_000)]), then="stall"),
    "only interim": raw(head(100) + head(103)),
    "a status of two digits": raw(b"HTTP/1.1 20 OK\r\n\r\n", then="stall"),
    "101 unasked": raw(
        head(101, [("Upgrade", "websocket"), ("Connection", "upgrade")]) + b"xyz", then="stall"
    ),
}


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize("how", NO_ANSWER)
def test_upstream_cut_before_an_answer(sidecar: Sidecar, method: str, how: str) -> None:
    """No answer, or none that could be one, is 502 at once; for a write that was sent it is 424."""
    with Upstream(NO_ANSWER[how]) as upstream:
        told = call(sidecar, method, upstream.url(), body=b"{}" if method == "POST" else b"")
        assert told.complete
        assert told.status == (424 if method == "POST" else 502)
        assert told.outcome.outcome == "upstream_failed"
        assert told.after < 2000
        assert "waterclock; error=" in (told.get("proxy-status") or "")
        upstream.wait(lambda up: not up.open, within=3)
        assert len(upstream.whole) == 1, "nothing was sent again on a fresh connection"


def _events_of(told: Answer) -> list[tuple[str, str]]:
    """The events of a stream: name and data."""
    found = []
    for block in told.body.decode().split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.split("\n") if line)
        if lines:
            found.append((lines.get("event", "message"), lines["data"]))
    return found


STALLS: dict[str, Behaviour] = {
    "after the first event": events(['{"n": 0}'], then="stall"),
    "after its head": stall_after_head(headers=[("Content-Type", "text/event-stream")], framing="chunked"),
    "after many events": events([f'{{"n": {n}}}' for n in range(200)], then="stall"),
    "dripping on": events([f'{{"n": {n}}}' for n in range(300)], every=0.01),
    "without a length": events(['{"n": 0}'], framing="close", then="stall"),
}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("how", STALLS)
def test_stall_after_first_byte(sidecar: Sidecar, how: str, method: str, version: str) -> None:
    """A stream that is cut ends in its own form, within the allowance, and not cleanly (tensorzero/tensorzero#6328)."""
    with Upstream(STALLS[how]) as upstream:
        headers = {"Budget-Remaining-Ms": 120, "Accept": "text/event-stream"}
        body = b'{"stream": true}' if method == "POST" else b""
        told = call(sidecar, method, upstream.url(), headers=headers, body=body, version=version)
        assert told.status == 200
        assert not told.complete, "to a client that does not know the event, it broke off"
        *before, (name, data) = _events_of(told)
        assert name == "error"
        error = json.loads(data)["error"]
        assert error["type"] == "deadline_exceeded"
        assert error["effect"] == ("none" if method == "GET" else "uncertain")
        assert all(name == "message" for name, _ in before), "the events before it are whole"
        assert [json.loads(data)["n"] for _, data in before] == list(range(len(before))), (
            "and none is missing"
        )
        # Sent before the allowance ends, so that it is there when the caller's own timer fires.
        assert 110 <= told.after < 120 + SLACK
        assert sidecar.record(told.record)["elapsed_ms"] >= 110


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_stall_within_an_event(sidecar: Sidecar, version: str) -> None:
    """What has come of an event that is not whole is not shown: the client would take it for one."""
    sse = head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
    with Upstream(raw(sse + chunk(b'data: 1\n\ndata: {"half'), then="stall")) as upstream:
        told = call(sidecar, "GET", upstream.url(), headers={"Budget-Remaining-Ms": 100}, version=version)
        assert not told.complete
        assert told.body.startswith(b"data: 1\n\n")
        assert b"half" not in told.body


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("then", ["close", "reset"])
def test_stream_that_breaks_off_says_so_in_its_own_form(sidecar: Sidecar, then: str, method: str) -> None:
    """The same for a stream whose server goes away."""
    with Upstream(events(["1", "2", "3"], every=0.01, then=then)) as upstream:  # type: ignore[arg-type]
        told = call(sidecar, method, upstream.url(), body=b"{}" if method == "POST" else b"")
        assert told.status == 200
        assert not told.complete
        *before, (name, data) = _events_of(told)
        assert before == [("message", "1"), ("message", "2"), ("message", "3")]
        assert name == "error"
        assert json.loads(data)["error"]["type"] == "upstream_failed"


def test_event_stream_that_ends_well_is_untouched(sidecar: Sidecar) -> None:
    """Nothing is added to a stream that was whole, and its unfinished last event is the server's own affair."""
    sse = head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
    body = b": hello\n\nid: 7\ndata: 1\n\ndata: never finished"
    with Upstream(raw(sse + chunk(body) + LAST_CHUNK, then="keep")) as upstream:
        told = call(sidecar, "POST", upstream.url(), body=b"{}")
        assert told.complete
        assert told.body == body


@pytest.mark.parametrize("kind", ["text/event-stream", "application/x-ndjson", "application/json-seq"])
def test_streams_of_writes_are_not_held_back(sidecar: Sidecar, kind: str) -> None:
    """An answer that is made to be read as it comes is never held."""
    with Upstream(drip([b"{}\n\n"] * 3, every=0.15, headers=[("Content-Type", kind)])) as upstream:
        told = call(sidecar, "POST", upstream.url(), body=b"{}")
        assert told.complete
        assert told.head_after < 150


def test_connection_after_a_cut_is_another_one(sidecar: Sidecar) -> None:
    """A client that goes on after a broken answer does so on a new connection; the old one is really closed."""
    with Upstream(drip(every=0.01)) as upstream, Caller(sidecar) as caller:
        caller.request("GET", upstream.url(), {"Budget-Remaining-Ms": 50})
        assert not caller.answer().complete
        assert caller.rest() == b""
        upstream.wait(lambda up: not up.open, within=3)
        upstream.then(answer(b"fresh"))
        assert call(sidecar, "GET", upstream.url()).body == b"fresh"
        assert len(upstream.connections) == 2


def test_many_cut_bodies_leave_nothing_behind() -> None:
    """Cutting answers of every kind at once leaves no step, connection or descriptor."""
    with Sidecar() as sidecar, Upstream(drip(every=0.002)) as upstream:
        sidecar.at_rest()
        before = sidecar.open_files()
        framings: list[Framing] = ["chunked", "length", "close"]
        for number, framing in enumerate(framings):
            upstream.on(f"/{number}", drip(every=0.002, framing=framing))

        def cut(number: int) -> bool:
            headers = {"Budget-Remaining-Ms": 20 + number % 50}
            version = "1.0" if number % 2 else "1.1"
            told = call(sidecar, "GET", upstream.url(f"/{number % 3}"), headers=headers, version=version)
            return told.complete == (told.status == 504)  # on a busy machine the first byte may come too late

        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(cut, range(150)))
        sidecar.at_rest()
        upstream.wait(lambda up: not up.open)
        eventually(lambda: sidecar.open_files() <= before)
