"""Writes: sent once, known when they are in doubt, and not repeated while they are."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.behaviours import answer, cut_after, drip, hang_up, stall, stall_after_head
from tests.support.callers import Answer, Caller, call, chunked, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Upstream
from tests.support.waiting import eventually

SLACK = 1500.0
WRITE = {"Content-Type": "application/json"}


def _closes_idle_after(seconds: float) -> Behaviour:
    """Answer, and close the connection when nothing has come for so long."""
    answers = answer()

    async def behave(exchange: Exchange) -> None:
        await answers(exchange)
        loop_time = time.monotonic()
        wire = exchange.wire
        while time.monotonic() - loop_time < seconds:
            if wire.arrived or wire.ended:
                return
            # Fine steps only at the end, so that it happens when it should.
            await exchange.sleep(min(0.01, max(0.0002, seconds - (time.monotonic() - loop_time))))
        if not wire.arrived:
            exchange.keep = False

    return behave


def test_keepalive_race() -> None:
    """Writes that meet the closing of an idle connection are lost or made, never made twice (golang/go#22158)."""
    idle = 0.2
    with Sidecar("writes: {linger: 100ms}") as sidecar:

        def writer(number: int) -> list[tuple[str, Answer]]:
            chance = random.Random(number)
            answers = []
            with Upstream(_closes_idle_after(idle)) as upstream, Caller(sidecar) as caller:
                headers = WRITE | {"Budget-Remaining-Ms": 2000}
                for turn in range(9):
                    unit = f"{number}-{turn}"
                    body = json.dumps({"unit": unit}).encode()
                    answers.append(
                        (unit, caller.request("POST", upstream.url(), headers, body).answer("POST"))
                    )
                    time.sleep(idle + chance.uniform(-0.001, 0.001))
                seen = [json.loads(request.body)["unit"] for request in upstream.whole]
                assert len(seen) == len(set(seen)), "none was sent twice"
                for unit, told in answers:
                    # The one kind of honest answer to each: it happened, or nobody knows.
                    assert told.status in (200, 424), told
                    assert told.status != 200 or unit in seen
                    assert told.status == 200 or told.outcome.effect == "uncertain"
            return answers

        with ThreadPoolExecutor(16) as threads:
            answers = list(itertools.chain(*threads.map(writer, range(16))))
        assert len(answers) == 144
        sidecar.at_rest()


CLOSINGS: dict[str, Behaviour] = {
    "FIN": hang_up(),
    "RST": hang_up(reset=True),
    "FIN after a while": hang_up(after=0.05),
    "in the middle of the answer": cut_after(1, 2, framing="length"),
}


@pytest.mark.parametrize("how", CLOSINGS)
@pytest.mark.parametrize("reused", [False, True], ids=["fresh connection", "reused connection"])
def test_no_hidden_resend(sidecar: Sidecar, how: str, reused: bool) -> None:
    """What a server has read and not answered is not sent again behind anybody's back (aio-libs/aiohttp#7363)."""
    methods = ["PUT", "DELETE", "POST", "PATCH", "PROPPATCH", "LOCK", "MKCALENDAR", "FROBNICATE"]
    with Upstream() as upstream:
        for method in methods:
            if reused:
                upstream.then(answer())
                assert call(sidecar, "GET", upstream.url("/before")).status == 200
            upstream.then(CLOSINGS[how])
            path = f"/{method}"
            told = call(sidecar, method, upstream.url(path), headers=WRITE, body=b"{}")
            idempotent = method in ("PUT", "DELETE")
            # What has been passed on of an answer cannot be taken back; a write's is held until it is whole.
            assert told.status == (502 if idempotent else 424) or (idempotent and not told.complete), method
            assert told.status in (200, 502, 424)
            assert len(upstream.seen(path)) == 1, method


def test_no_hidden_resend_of_a_read_beyond_the_first(sidecar: Sidecar) -> None:
    """Only a read that met a connection closed for idleness is asked again, once, on a fresh one."""
    with Upstream(answer(), hang_up()) as upstream:
        assert call(sidecar, "GET", upstream.url("/before")).status == 200
        told = call(sidecar, "GET", upstream.url("/x"))
        assert told.status == 502
        assert [request.connection for request in upstream.seen("/x")] == [0, 1]
        assert sidecar.record(told.record)["attempt"] == 2
        upstream.then(answer(b"live"))
        assert call(sidecar, "GET", upstream.url("/y")).body == b"live"


@pytest.mark.parametrize("before_the_cut", [1.0, 5.0, 40.0])
def test_client_leaves_first(sidecar: Sidecar, budget: str, before_the_cut: float) -> None:
    """A client that leaves just before the cut of a write leaves it in doubt all the same (envoyproxy/envoy#6566)."""
    allowed = 150.0
    with Upstream(stall()) as upstream:
        headers = WRITE | {"Budget-Remaining-Ms": int(allowed), "Budget-Id": budget}
        body = json.dumps({"budget": budget}).encode()
        caller = Caller(sidecar).request("POST", upstream.url(), headers, body)
        began = time.monotonic()
        upstream.wait(lambda up: up.whole)
        time.sleep(max(0, began + (allowed - before_the_cut) / 1000 - time.monotonic()))
        caller.leave()
        (record,) = sidecar.records_of(budget)
        # On a busy machine the leave may be seen after the cut was due, and then the cut is what happened.
        if record["elapsed_ms"] < allowed:
            assert (record["outcome"], record["reason"]) == ("client_gone", "client_left")
        else:
            assert record["outcome"] == "deadline_exceeded"
        assert record["effect"] == "uncertain"
        assert record["phase"] == "sent"
        write = sidecar.uncertain(record["record"])
        assert write["state"] == "uncertain"
        again = call(sidecar, "POST", upstream.url(), headers=WRITE, body=body)
        assert again.status == 424
        assert again.problem["record"] == record["record"]
        assert [request.body for request in upstream.whole] == [body]


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
def test_client_leaves_first_at_every_stage(sidecar: Sidecar, budget: str, reset: bool) -> None:
    """Wherever a write's client leaves, the record says how far the write had come, and no more is claimed."""
    with Upstream(stall()) as upstream:
        request = render("POST", upstream.url("/a"), WRITE | {"Budget-Id": budget}, b'{"a": 1}')
        for cut in (10, len(request) - 8, len(request) - 1):
            with Caller(sidecar) as caller:
                caller.send(request[:cut])
                time.sleep(0.03)
                caller.leave(reset=reset)
        # Two of them had a whole head, so they are steps; nothing of them was sent.
        records = sidecar.records_of(budget, 2)
        assert [(record["outcome"], record["phase"], record["effect"]) for record in records] == [
            ("client_gone", "not_sent", "none")
        ] * 2
        assert upstream.connections == []
        caller = Caller(sidecar).send(request)
        upstream.wait(lambda up: up.whole)
        caller.leave(reset=reset)
        last = sidecar.records_of(budget, 3)[-1]
        assert (last["outcome"], last["phase"], last["effect"]) == ("client_gone", "sent", "uncertain")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_client_leaves_first_in_the_middle_of_a_large_write(
    sidecar: Sidecar, budget: str, framing: str
) -> None:
    """A write that streams, since it is too large to be held, is in doubt as soon as a part of it has left."""
    with Upstream(stall()) as upstream, Caller(sidecar) as caller:
        stated = {"Content-Length": 3_000_000} if framing == "length" else {"Transfer-Encoding": "chunked"}
        caller.request("POST", upstream.url(), {"Budget-Id": budget, **stated})
        part = b"x" * 2_000_000
        caller.add(part if framing == "length" else b"%x\r\n%b\r\n" % (len(part), part))
        upstream.wait(lambda up: up.bytes > 1_500_000)
        caller.leave()
        (record,) = sidecar.records_of(budget)
        assert (record["outcome"], record["phase"], record["effect"]) == (
            "client_gone",
            "sending",
            "uncertain",
        )
        assert sidecar.uncertain(record["record"])["phase"] == "sending"
        upstream.wait(lambda up: not up.open)
        assert upstream.whole == []
        assert upstream.malformed == []


LATE: dict[str, Behaviour] = {
    "by length": answer(b'{"id": 7}', 201, after=0.25),
    "chunked": answer(b'{"id": 7}', 201, framing="chunked", after=0.25),
    "until close": answer(b'{"id": 7}', 201, framing="close", after=0.25),
    "a head in time, a body too late": drip([b"", b'{"id": 7}'], every=0.25, framing="length", length=9),
    "dripping": drip([b'{"id"', b": 7", b"}"], every=0.12),
}


@pytest.mark.parametrize("how", LATE)
def test_committed_but_slow(sidecar: Sidecar, budget: str, how: str) -> None:
    """The answer that comes after the cut is kept with the record, and the write was made once (anthropic-sdk-java#370)."""
    with Upstream(LATE[how]) as upstream:
        headers = WRITE | {"Budget-Remaining-Ms": 150, "Budget-Id": budget}
        body = json.dumps({"order": how}).encode()
        told = call(sidecar, "POST", upstream.url("/orders?key=secret"), headers=headers, body=body)
        assert told.status == 424
        assert told.get("x-should-retry") == "false"
        assert told.get("retry-after") is None
        assert (told.outcome.effect, told.outcome.retry) == ("uncertain", "verify")
        # The SDK that resends all the same is refused, with the first record.
        again = call(sidecar, "POST", upstream.url("/orders?key=secret"), headers=WRITE, body=body)
        assert again.status == 424
        assert again.outcome.reason == "unresolved_write"
        assert again.problem["record"] == told.record
        eventually(lambda: sidecar.uncertain(told.record)["state"] == "reported")
        write = sidecar.uncertain(told.record)
        assert write["answer"]["body"] == '{"id": 7}'
        assert write["answer"]["status"] in (200, 201)
        assert write["answer"]["elapsed_ms"] >= 150
        assert "secret" not in write["target"]
        assert len(upstream.whole) == 1
        upstream.wait(lambda up: not up.open)


def test_committed_but_slower_than_the_linger(budget: str) -> None:
    """Nobody waits for ever: after the linger the connection is dropped, and the write stays in doubt."""
    with Sidecar("writes: {linger: 100ms}") as sidecar, Upstream(answer(after=5)) as upstream:
        headers = WRITE | {"Budget-Remaining-Ms": 60, "Budget-Id": budget}
        told = call(sidecar, "POST", upstream.url(), headers=headers, body=b"{}")
        assert told.status == 424
        upstream.wait(lambda up: not up.open, within=3)
        assert sidecar.uncertain(told.record)["state"] == "uncertain"
        assert upstream.connections[0].closed_at is not None
        assert upstream.connections[0].closed_at - upstream.whole[0].at >= 150_000_000


def test_committed_but_slow_and_large(sidecar: Sidecar, budget: str) -> None:
    """Of a large late answer the beginning is kept, and its true size."""
    with Upstream(answer(b"0123456789" * 50_000, after=0.15, framing="chunked")) as upstream:
        headers = WRITE | {"Budget-Remaining-Ms": 60, "Budget-Id": budget}
        told = call(sidecar, "POST", upstream.url(), headers=headers, body=b"{}")
        eventually(lambda: sidecar.uncertain(told.record)["state"] == "reported")
        kept = sidecar.uncertain(told.record)["answer"]
        assert kept["bytes"] == 500_000
        assert kept["truncated"] is True
        assert len(kept["body"]) == 65_536


def _json_rpc(id: int | str, key: str) -> tuple[dict[str, str], bytes]:
    message = {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": "pay", "arguments": {"amount": 5}, "_meta": {"progressToken": id}},
    }
    return WRITE | {"Idempotency-Key": key}, json.dumps(message, indent=int(str(id)[-1])).encode()


def test_replanned_duplicate(sidecar: Sidecar) -> None:
    """The same work under a new key and a new JSON-RPC id is the same work (stripe/ai#402, crewAIInc/crewAI#5802)."""
    with Upstream(stall()) as upstream:
        url = upstream.url("/mcp")
        headers, body = _json_rpc(1, "first-key")
        first = call(sidecar, "POST", url, headers=headers | {"Budget-Remaining-Ms": 60}, body=body)
        assert first.status == 424
        assert first.problem["idempotency_key"] == "first-key"
        upstream.then(answer(b'{"paid": true}'))
        for number in (2, 3, 4):
            headers, body = _json_rpc(number, f"key-{number}")
            again = call(sidecar, "POST", url, headers=headers, body=body)
            assert again.status == 424
            assert again.outcome.outcome == "refused"
            assert again.problem["record"] == first.record
            assert first.record in again.problem["detail"]
        other = call(sidecar, "POST", url, headers=headers, body=body.replace(b"5", b"6"))
        assert other.status == 200, "other work is not held up"
        # Somebody looks, and finds that it did not happen.
        assert sidecar.resolve(first.record, applied=False)["state"] == "not_applied"
        headers, body = _json_rpc(5, "key-5")
        assert call(sidecar, "POST", url, headers=headers, body=body).status == 200
        assert len(upstream.whole) == 3


def test_replanned_duplicate_confirmed_by_the_caller(sidecar: Sidecar) -> None:
    """The caller that has looked itself says so, and is believed."""
    with Upstream(stall(), answer()) as upstream:
        headers = WRITE | {"Idempotency-Key": "k"}
        first = call(
            sidecar, "POST", upstream.url(), headers=headers | {"Budget-Remaining-Ms": 60}, body=b"{}"
        )
        assert first.status == 424
        assert call(sidecar, "POST", upstream.url(), headers=headers, body=b"{}").status == 424
        confirmed = call(
            sidecar, "POST", upstream.url(), headers=headers | {"Budget-Retry": "confirmed"}, body=b"{}"
        )
        assert confirmed.status == 200
        write = sidecar.uncertain(first.record)
        assert (write["state"], write["resolved_by"]) == ("not_applied", "Budget-Retry: confirmed")
        assert len(upstream.whole) == 2


def test_replanned_duplicate_found_applied(sidecar: Sidecar) -> None:
    """What was found to have happened is not sent again, not even on the word of its caller."""
    with Upstream(stall(), answer()) as upstream:
        first = call(sidecar, "POST", upstream.url(), headers=WRITE | {"Budget-Remaining-Ms": 60}, body=b"{}")
        assert sidecar.resolve(first.record, applied=True)["state"] == "applied"
        assert sidecar.resolve(first.record, applied=False)["status"] == 409, (
            "a verdict cannot be turned round"
        )
        for headers in (WRITE, WRITE | {"Budget-Retry": "confirmed"}):
            again = call(sidecar, "POST", upstream.url(), headers=headers, body=b"{}")
            assert (again.status, again.problem["record"]) == (424, first.record)
            assert "was found to have happened" in again.problem["detail"]
        assert len(upstream.whole) == 1


def test_a_repeat_after_the_late_answer(sidecar: Sidecar) -> None:
    """Its caller was told that it is uncertain, and never heard the answer: a blind repeat would book it twice."""
    with Upstream(answer(status=201, after=0.2), answer()) as upstream:
        first = call(sidecar, "POST", upstream.url(), headers=WRITE | {"Budget-Remaining-Ms": 60}, body=b"{}")
        assert first.status == 424
        eventually(lambda: sidecar.uncertain(first.record)["state"] == "reported")
        again = call(sidecar, "POST", upstream.url(), headers=WRITE, body=b"{}")
        assert (again.status, again.problem["record"]) == (424, first.record)
        assert "was answered with status 201" in again.problem["detail"]
        assert "kept with the record" in again.problem["next"]
        confirmed = WRITE | {"Budget-Retry": "confirmed"}
        assert call(sidecar, "POST", upstream.url(), headers=confirmed, body=b"{}").status == 200


def test_replanned_duplicate_while_the_first_is_under_way(sidecar: Sidecar) -> None:
    """A second attempt under the same key, while the first has no answer yet, is refused; other units are not."""
    with Upstream(answer(after=0.3), answer()) as upstream, ThreadPoolExecutor() as threads:
        keyed = WRITE | {"Idempotency-Key": "same"}
        first = threads.submit(call, sidecar, "POST", upstream.url(), headers=keyed, body=b'{"n": 1}')
        upstream.wait(lambda up: up.whole)
        second = call(sidecar, "POST", upstream.url(), headers=keyed, body=b'{"n": 2}')
        assert second.status == 424
        other = call(
            sidecar, "POST", upstream.url(), headers=WRITE | {"Idempotency-Key": "other"}, body=b'{"n": 1}'
        )
        assert other.status == 200
        assert first.result().status == 200
        assert call(sidecar, "POST", upstream.url(), headers=keyed, body=b'{"n": 2}').status == 200


def test_replanned_duplicate_of_a_streamed_write(sidecar: Sidecar) -> None:
    """A body too large to be held is known by its key before, and by its fingerprint afterwards."""
    body = json.dumps({"blob": "x" * 1_500_000}).encode()
    with Upstream(stall()) as upstream:
        headers = WRITE | {"Budget-Remaining-Ms": 800, "Idempotency-Key": "big"}
        first = call(sidecar, "POST", upstream.url(), headers=headers, body=body)
        assert first.status == 424
        assert len(sidecar.uncertain(first.record)["fingerprint"]) == 32
        again = call(sidecar, "POST", upstream.url(), headers=WRITE | {"Idempotency-Key": "big"}, body=body)
        assert again.status == 424
        assert again.problem["record"] == first.record
        assert len(upstream.whole) == 1


@pytest.mark.parametrize("status", [503, 500, 429, 408, 425, 301])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_no_replay_on_503(sidecar: Sidecar, method: str, status: int) -> None:
    """A server's own answer is the answer, whatever it says: relayed, reported, sent once (istio/istio#13851)."""
    behaviour = answer(b"sorry", status, [("Retry-After", "1"), ("Location", "/elsewhere")])
    with Upstream(behaviour) as upstream:
        told = call(sidecar, method, upstream.url(), headers=WRITE, body=b"{}")
        assert (told.status, told.body) == (status, b"sorry")
        assert told.get("retry-after") == "1", "it is the server's to say"
        assert told.outcome.effect == "reported"
        assert len(upstream.whole) == 1
        assert all(str(upstream.port) not in write["origin"] for write in sidecar.uncertain()["writes"])


def test_answers_of_writes_are_held_until_they_are_whole(sidecar: Sidecar) -> None:
    """Nothing is passed on of a short answer before its end, so that a cut can still be told with a status."""
    with Upstream(drip([b"1", b"2", b"3"], every=0.05)) as upstream:
        told = call(sidecar, "POST", upstream.url(), headers=WRITE, body=b"{}")
        assert told.complete
        assert told.body == b"123"
        assert told.outcome.outcome == "completed", "the head was rendered when all was known"
        assert told.head_after >= 95


def test_answers_of_writes_are_not_held_for_longer_than_that(sidecar: Sidecar) -> None:
    """After hold_back.time what there is is passed on, and the rest as it comes."""
    with Upstream(drip([b"1", b"2"], every=0.6)) as upstream:
        told = call(sidecar, "POST", upstream.url(), headers=WRITE, body=b"{}")
        assert told.complete
        assert told.outcome.outcome == "in_progress"
        assert 250 <= told.head_after < 600


@pytest.mark.parametrize("sync", ["normal", "full"])
def test_uncertain_writes_survive_a_kill(sync: str) -> None:
    """A write is on disk before its first byte leaves: killed at any moment, the sidecar knows it when it is back."""
    with Upstream(stall()) as upstream:
        sidecar = Sidecar(f"journal: {{sync: {sync}}}")
        with sidecar, ThreadPoolExecutor(20) as threads:
            bodies = [json.dumps({"n": number}).encode() for number in range(20)]

            def answered(body: bytes) -> bool:
                with contextlib.suppress(OSError):  # the last ones may find nobody there any more
                    return call(sidecar, "POST", upstream.url(), headers=WRITE, body=body).complete
                return False

            calls = [threads.submit(answered, body) for body in bodies]
            upstream.wait(lambda up: len(up.requests) >= 10)
            sidecar.kill()
            assert not any(each.result() for each in calls)
            sent = [request.body for request in upstream.requests if request.body]
            sidecar.restart()
            assert len(sidecar.uncertain()["writes"]) >= len(sent)
            upstream.then(answer())
            for body in sent:
                again = call(sidecar, "POST", upstream.url(), headers=WRITE, body=body)
                assert again.status == 424, "a repeat is refused after the restart too"
                assert again.outcome.reason == "unresolved_write"


def test_the_disk_knows_of_an_answer_before_the_caller_hears() -> None:
    """Killed right after an answer, the sidecar does not take the write for uncertain when it is back."""
    with Upstream(answer()) as upstream, Sidecar() as own:
        for number in range(10):
            body = json.dumps({"n": number}).encode()
            assert call(own, "POST", upstream.url(), headers=WRITE, body=body).status == 200
        own.kill()
        own.restart()
        assert own.uncertain()["uncertain"] == 0


def test_chunked_and_sized_repeats_are_the_same_work(sidecar: Sidecar) -> None:
    """How a body was framed is no part of what it asks for."""
    with Upstream(stall()) as upstream:
        body = b'{"b": 2, "a": 1}'
        first = call(sidecar, "POST", upstream.url(), headers=WRITE | {"Budget-Remaining-Ms": 60}, body=body)
        assert first.status == 424
        framed = WRITE | {"Transfer-Encoding": "chunked"}
        again = call(sidecar, "POST", upstream.url(), headers=framed, body=chunked(b'{"a":1,', b'"b":2}'))
        assert again.status == 424
        assert again.problem["record"] == first.record


def test_reads_in_the_clothes_of_writes_may_be_repeated(sidecar: Sidecar) -> None:
    """A JSON-RPC method that only asks, a GraphQL query: cut as reads are, and never guarded."""
    ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    query = json.dumps({"query": "query { orders { id } }"}).encode()
    with Upstream(stall()) as upstream:
        for path, body in (("/mcp", ask), ("/graphql", query)):
            for _ in range(2):
                headers = WRITE | {"Budget-Remaining-Ms": 50}
                told = call(sidecar, "POST", upstream.url(path), headers=headers, body=body)
                assert (told.status, told.outcome.effect) == (504, "none")
        assert len(upstream.whole) == 4


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_cut_of_a_write_that_was_not_read(sidecar: Sidecar, method: str) -> None:
    """A head without its body: the answer can be told with a status, and says that it is unknown."""
    with Upstream(stall_after_head(201, framing="chunked")) as upstream:
        headers = WRITE | {"Budget-Remaining-Ms": 100}
        told = call(sidecar, method, upstream.url(), headers=headers, body=b"{}")
        assert told.status == 424
        assert told.outcome.phase == "head_received"
        assert 100 <= told.after < 100 + SLACK


def test_threads_of_writes_at_once(sidecar: Sidecar) -> None:
    """Many writes at once, each made once, each reported."""
    with Upstream(answer()) as upstream:
        barrier = threading.Barrier(16)

        def writes(number: int) -> int:
            barrier.wait()
            with Caller(sidecar) as caller:
                return sum(
                    caller.request("POST", upstream.url(), WRITE, b'{"n": %d}' % (100 * number + turn))
                    .answer("POST")
                    .status
                    == 200
                    for turn in range(10)
                )

        with ThreadPoolExecutor(16) as threads:
            assert sum(threads.map(writes, range(16))) == 160
        bodies = [request.body for request in upstream.whole]
        assert len(bodies) == len(set(bodies)) == 160
