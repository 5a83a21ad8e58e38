"""Streams that run out of time between real sockets: what is closed, what is broken off, and what everybody is told of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases.clients import CLIENTS, Fetched
from tests.cases.closing import CAP_MS, CLOSED, Place, routes, standing_place, trailers
from tests.degrade.chat_transcripts import CHAT_CALLING, CHAT_COUNTING, CHAT_PLAIN, chat_chunk
from tests.degrade.other_transcripts import GEMINI_CALLING, MESSAGES_PLAIN
from tests.degrade.sdk.served import Shelf
from tests.degrade.transcript import EVENTS, MARK, data
from tests.degrade.whole import read
from tests.support.behaviours import LAST_CHUNK, chunk, drip, head
from tests.support.callers import Caller, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Upstream
from tests.support.waiting import eventually

Client = Callable[[Sidecar, str, int], Fetched]


@pytest.fixture(scope="module")
def standing() -> Iterator[Place]:
    """One for all these tests."""
    with standing_place() as place:
        yield place


@pytest.fixture
def place(standing: Place) -> Iterator[Place]:
    """The same, where nothing is left of the test before."""
    before = len(standing.sidecar.faults)
    yield standing
    assert not standing.sidecar.faults[before:]
    assert not standing.upstream.malformed


# -- what is said --------------------------------------------------------------------------------------------------------


def test_the_client_has_a_whole_message_and_trailers_that_say_what_it_is(place: Place) -> None:
    answer = place.ask(CHAT_PLAIN, 3)
    assert (answer.status, answer.complete) == (200, True)
    assert answer.get("trailer") == "Budget-Degraded, Budget-Outcome"
    assert trailers(answer) == {
        "budget-degraded": "level=1; rung=truncated; reason=truncated",
        "budget-outcome": "deadline_exceeded; effect=none; retry=safe; reason=route_cap; phase=head_received",
    }
    whole = read(CHAT_PLAIN, answer.body)
    assert (whole.reasons, whole.texts[0][-len(CLOSED) :]) == ({0: "length"}, CLOSED)
    assert answer.after < CAP_MS


def test_the_record_the_log_and_the_metrics_say_the_same(place: Place, budget: str) -> None:
    counted = 'waterclock_degraded_steps_total{reason="truncated",route="plain",rung="truncated"}'
    before = place.sidecar.samples().get(counted, 0)
    answer = place.ask(CHAT_COUNTING, 3, Budget_Id=budget, Budget_Remaining_Ms=60_000)
    record = place.sidecar.record(answer.record)
    said = {"level": 1, "rung": "truncated", "reason": "truncated", "stage": None}
    assert (record["outcome"], record["reason"], record["degraded"]) == (
        "deadline_exceeded",
        "route_cap",
        said,
    )
    assert (record["phase"], record["effect"], record["status"]) == ("head_received", "none", 200)
    assert record["bytes"] == len(answer.body)
    assert 0 < record["elapsed_ms"] <= record["allowed_ms"] == CAP_MS
    event = next(event for event in place.sidecar.events if event.get("record") == answer.record)
    assert {name: event[name] for name in said} == said
    assert (event["event"], event["budget_id"], event["total_ms"]) == ("degraded", budget, 60_000)
    assert place.sidecar.samples()[counted] == before + 1
    job = place.sidecar.ask(f"/budgets/{budget}/close", {})
    assert job["verdict"] == "incomplete; on_time; degraded=1"


def test_a_ladder_names_its_rung_and_stage(place: Place) -> None:
    answer = place.ask(CHAT_PLAIN, 3, route="laddered", Budget_Remaining_Ms=1200)
    assert answer.get("budget-degraded") == "level=1; rung=fast; stage=llm; reason=time"
    assert trailers(answer)["budget-degraded"] == "level=1; rung=fast; stage=llm; reason=truncated"
    assert json.loads(place.upstream.requests[-1].body) == {"model": "small"}
    assert read(CHAT_PLAIN, answer.body).reasons == {0: "length"}
    assert place.sidecar.record(answer.record)["degraded"]["reason"] == "truncated"


def test_usage_is_told_as_far_as_it_is_known(place: Place) -> None:
    streams = [(CHAT_COUNTING, 4), (CHAT_PLAIN, 4), (MESSAGES_PLAIN, 5)]
    with ThreadPoolExecutor(3) as pool:
        answers = pool.map(lambda stream: read(stream[0], place.ask(*stream).body), streams)
    counting, plain, messages = (whole.usage for whole in answers)
    assert counting is not None
    assert counting["completion_tokens"] == 3
    assert plain is None
    assert messages is not None
    assert messages["output_tokens"] == 3


def test_an_operator_has_a_mark_of_their_own(place: Place) -> None:
    answer = place.ask(CHAT_PLAIN, 3, route="marked")
    assert read(CHAT_PLAIN, answer.body).texts[0].endswith(MARK)


def test_an_operator_has_a_margin_of_their_own(place: Place) -> None:
    """Two of four seconds before the allowance is over, but never in the first half of it."""
    answer = place.ask(CHAT_PLAIN, 3, route="early")
    assert answer.complete
    assert 1990 <= answer.after < 4000
    shorter = place.ask(CHAT_PLAIN, 3, route="early", Budget_Remaining_Ms=2000)
    assert shorter.complete
    assert 900 <= shorter.after < 2000


# -- who is let go ---------------------------------------------------------------------------------------------------------


def test_the_upstream_is_left_at_once_and_the_client_is_kept(place: Place) -> None:
    """Nobody pays for words that nobody reads, and the next request of the client finds its connection."""
    eventually(lambda: not place.upstream.open)
    target = f"/plain/{place.shelf.put(CHAT_PLAIN, 3, then='stall')}{CHAT_PLAIN.path}"
    with Caller(place.sidecar) as caller:
        first = caller.request("POST", target, body=b"{}").answer("POST")
        assert first.complete
        eventually(lambda: not place.upstream.open, what="the connection to the upstream is closed")
        assert caller.request("POST", target, body=b"{}").answer("POST").complete
    place.sidecar.at_rest()


def test_a_client_that_reads_nothing_until_long_after_gets_all_of_it_and_the_end(place: Place) -> None:
    """What is on its way when the time is over is whole events, and the end stands behind them."""
    said = data(chat_chunk({"content": "tea " * 200}))

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.send(head(200, [("Content-Type", EVENTS), ("Transfer-Encoding", "chunked")]))
        while True:
            await exchange.send(chunk(said * 20))

    place.upstream.on("/endless", behave)
    with Caller(place.sidecar) as caller:
        caller.request("POST", "/plain/endless", body=b"{}")
        eventually(lambda: any(each["target"].endswith("/endless") for each in place.sidecar.records))
        answer = caller.answer("POST")
    assert answer.complete
    assert len(answer.body) > 100_000
    assert read(CHAT_PLAIN, answer.body).texts[0].endswith(CLOSED)
    assert trailers(answer)["budget-degraded"].endswith("reason=truncated")


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_every_client_takes_it_for_complete(place: Place, client: Client) -> None:
    """Trailers or no."""
    name = place.shelf.put(CHAT_PLAIN, 3, CHAT_PLAIN.pieces[3][:-9], then="stall")
    got = client(place.sidecar, place.upstream.url(f"/{name}{CHAT_PLAIN.path}"), 1000)
    assert (got.status, got.complete, read(CHAT_PLAIN, got.body).reasons) == (200, True, {0: "length"})


def test_an_old_client_sees_the_end_of_its_connection(place: Place) -> None:
    name = place.shelf.put(CHAT_PLAIN, 3, then="stall")
    with Caller(place.sidecar) as caller:
        caller.send(render("POST", f"/plain/{name}{CHAT_PLAIN.path}", {"Host": "a"}, b"{}", version="1.0"))
        answer = caller.answer("POST")
        assert caller.ended_by == "fin"
    assert answer.get("trailer") is None
    assert read(CHAT_PLAIN, answer.body).reasons == {0: "length"}


# -- what is left alone ------------------------------------------------------------------------------------------------


def test_a_stream_that_has_ended_but_for_its_framing_is_whole(place: Place) -> None:
    answer = place.ask(CHAT_PLAIN, len(CHAT_PLAIN.pieces))
    assert (answer.complete, answer.body, trailers(answer)) == (True, CHAT_PLAIN.wire, {})
    record = place.sidecar.record(answer.record)
    assert (record["outcome"], record["reason"], record["degraded"]) == ("completed", None, None)


def test_a_stream_that_ends_about_when_its_time_does_is_whole_or_says_that_it_is_not(place: Place) -> None:
    """Whoever comes first: nobody hears two ends, or none."""

    def ends(after: float) -> Behaviour:
        async def behave(exchange: Exchange) -> None:
            await exchange.read_all()
            await exchange.send(head(200, [("Content-Type", EVENTS), ("Transfer-Encoding", "chunked")]))
            await exchange.send(chunk(b"".join(CHAT_PLAIN.pieces[:-2])))
            await exchange.sleep(after)
            await exchange.send(chunk(b"".join(CHAT_PLAIN.pieces[-2:])) + LAST_CHUNK)

        return behave

    closes = (CAP_MS - 200) / 1000
    for number in range(24):
        place.upstream.on(f"/race/{number}", ends(closes + (number - 20) / 2000))
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda number: place.get(f"/plain/race/{number}"), range(24)))
    for answer in answers:
        whole, record = read(CHAT_PLAIN, answer.body), place.sidecar.record(answer.record)
        cut = record["outcome"] == "deadline_exceeded"
        assert answer.complete
        assert whole.reasons == {0: "length" if cut else "stop"}
        assert whole.texts[0].endswith(CLOSED) is ("budget-degraded" in trailers(answer)) is cut
        assert (record["degraded"] is not None) is cut


def test_a_call_that_becomes_whole_within_the_margin_is_not_broken_off(place: Place) -> None:
    """Its stream goes on for as long as any other that cannot be closed."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.send(head(200, [("Content-Type", EVENTS), ("Transfer-Encoding", "chunked")]))
        await exchange.send(chunk(b"".join(CHAT_CALLING.pieces[:5])))
        await exchange.sleep(2.8)
        await exchange.send(chunk(b"".join(CHAT_CALLING.pieces[5:])) + LAST_CHUNK)

    place.upstream.on("/calling", behave)
    answer = place.get("/early/calling")
    assert (answer.complete, answer.body, trailers(answer)) == (True, CHAT_CALLING.wire, {})
    assert place.sidecar.record(answer.record)["outcome"] == "completed"


def test_packed_streams_are_not_asked_for_and_not_closed(place: Place) -> None:
    """Nobody here can read one. It passes as it is, and breaks off."""
    place.ask(CHAT_PLAIN, 3, Accept_Encoding="gzip, deflate, br, zstd", TE="gzip")
    assert place.upstream.requests[-1].get("accept-encoding") == "identity"
    assert "gzip" not in (place.upstream.requests[-1].get("te") or "")
    packed = gzip.compress(CHAT_PLAIN.wire)[:40]
    fields = [("Content-Type", EVENTS), ("Content-Encoding", "gzip")]
    place.upstream.on("/packed", drip([packed], headers=fields, then="stall"))
    answer = place.get("/plain/packed", Accept_Encoding="gzip")
    assert (answer.complete, answer.body, answer.get("content-encoding")) == (False, packed, "gzip")
    assert answer.get("trailer") is None


def test_an_answer_of_a_known_length_is_cut_as_ever(place: Place) -> None:
    said = b"".join(CHAT_PLAIN.pieces[:3])
    place.upstream.on(
        "/sized", drip([said], framing="length", headers=[("Content-Type", EVENTS)], then="stall")
    )
    answer = place.get("/plain/sized")
    assert (answer.complete, answer.body) == (False, said)


def test_a_stream_that_is_to_break_off_does(place: Place) -> None:
    """`on_cut: error`, with what the client has asked for of its coding."""
    answer = place.ask(CHAT_PLAIN, 3, route="broken", Accept_Encoding="gzip")
    assert not answer.complete
    assert answer.body.startswith(b"".join(CHAT_PLAIN.pieces[:3]) + b"event: error\ndata: ")
    assert place.upstream.requests[-1].get("accept-encoding") == "gzip"
    assert place.sidecar.record(answer.record)["degraded"] is None


@pytest.mark.parametrize("route", ["plain", "broken"])
def test_gemini_is_told_of_a_failure_in_its_own_form(place: Place, route: str) -> None:
    """Its clients stumble over the name of an event. So too where nobody follows the stream."""
    answer = place.ask(GEMINI_CALLING, 3, route=route)
    assert not answer.complete
    error = json.loads(answer.body.removeprefix(b"".join(GEMINI_CALLING.pieces[:3])).removeprefix(b"data: "))[
        "error"
    ]
    assert (error["code"], error["status"], error["reason"]) == (504, "DEADLINE_EXCEEDED", "route_cap")
    assert "was cut then" in error["message"]


def test_an_event_that_has_passed_in_part_has_no_end(place: Place) -> None:
    long = data(chat_chunk({"content": "x" * 100_000}))
    answer = place.ask(CHAT_PLAIN, 3, long[:90_000])
    assert not answer.complete
    assert answer.body == b"".join(CHAT_PLAIN.pieces[:3]) + long[:90_000]


def test_what_was_closed_is_nobody_elses_answer(place: Place) -> None:
    """Only the whole stream is kept."""
    name = place.shelf.put(CHAT_PLAIN, 3, then="stall")
    for _ in range(2):
        answer = place.get(f"/kept/{name}{CHAT_PLAIN.path}")
        assert answer.complete
        assert answer.get("cache-status") == "waterclock; fwd=miss"
    assert len(place.upstream.seen(f"/{name}{CHAT_PLAIN.path}")) == 2


def test_under_observation_nothing_is_closed() -> None:
    """The record says what would have been."""
    shelf = Shelf()
    late = drip(CHAT_PLAIN.pieces, every=0.1, headers=[("Content-Type", EVENTS)])
    with Upstream(shelf.behave).on("/late", late) as upstream:
        plain = routes(upstream.url(""))[0] | {"cap": "300ms"}
        with Sidecar({"mode": "observe", "routes": [plain]}) as sidecar:
            answer = Place(sidecar, upstream, shelf).get("/plain/late")
            record = sidecar.record(answer.record)
    assert (answer.complete, answer.body, trailers(answer)) == (True, CHAT_PLAIN.wire, {})
    assert (record["would"], record["degraded"]) == ("cut", None)
