"""Connections on both sides: who leaves, who waits, what is used again, and what is left behind."""

from __future__ import annotations

import itertools
import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.behaviours import (
    LAST_CHUNK,
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
    upgrade,
)
from tests.support.callers import Caller, call, chunked, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Upstream
from tests.support.waiting import eventually

SLACK = 1500.0


def _numbered() -> Behaviour:
    """Answer each request with its own path, many times over, as slowly as the query says, in the framing it says."""

    async def behave(exchange: Exchange) -> None:
        path, _, query = exchange.request.target.partition("?")
        every, framing = query.split("&")
        pieces = [f"<{path}>".encode() * 20] * 10
        length = sum(map(len, pieces))
        await drip(pieces, every=float(every), framing=framing, length=length)(exchange)  # type: ignore[arg-type]

    return behave


def test_no_reply_for_another() -> None:
    """After a cut, nobody sees a byte of somebody else's answer (redis/redis-py#2665)."""
    with Sidecar() as sidecar, Upstream(_numbered()) as upstream:

        def caller(number: int) -> tuple[int, int]:
            chance = random.Random(number)
            cut = whole = 0
            connection = Caller(sidecar)
            for turn in range(60):
                path = f"/{number}-{turn}"
                framing = chance.choice(["chunked", "length"])
                slow = chance.random() < 0.5
                target = upstream.url(f"{path}?{0.003 if slow else 0}&{framing}")
                method = chance.choice(["GET", "PUT", "DELETE"])
                headers = {"Budget-Remaining-Ms": chance.randint(3, 25) if slow else 5000}
                told = connection.request(method, target, headers).answer(method)
                if told.status == 200:
                    expected = f"<{path}>".encode() * 200
                    assert expected.startswith(told.body), "not a byte that is anybody else's"
                    assert not told.complete or told.body == expected  # its last chunk may have come too late
                whole += told.status == 200 and told.complete
                cut += not (told.status == 200 and told.complete)
                if not told.complete or told.get("connection") == "close":
                    connection.leave()
                    connection = Caller(sidecar)
            connection.leave()
            return whole, cut

        with ThreadPoolExecutor(12) as threads:
            counts = list(threads.map(caller, range(24)))
        assert sum(whole for whole, _ in counts) > 100
        assert sum(cut for _, cut in counts) > 100
        assert upstream.malformed == []
        sidecar.at_rest()


EXTRAS: dict[str, bytes] = {
    "bytes after a length": head(200, [("Content-Length", "2")]) + b"ok" + b"<stray>",
    "a second answer": (head(200, [("Content-Length", "2")]) + b"ok") * 2,
    "a body with 204": head(204) + b"<stray>",
    "a body with 304": head(304, [("Content-Length", "7")]) + b"<stray>",
    "bytes after the last chunk": head(200, [("Transfer-Encoding", "chunked")])
    + chunk(b"ok")
    + LAST_CHUNK
    + b"<stray>",
    "an answer to the next request": head(200, [("Content-Length", "2")])
    + b"ok"
    + head(200, [("Content-Length", "7")]),
}


@pytest.mark.parametrize("late", [0.0, 0.02], ids=["at once", "a moment later"])
@pytest.mark.parametrize("extra", EXTRAS)
def test_no_reply_for_another_by_bytes_nobody_asked_for(sidecar: Sidecar, extra: str, late: float) -> None:
    """What a server sends beyond its answer ends the connection, and reaches nobody."""
    wire = EXTRAS[extra]
    pieces = (wire,) if not late else (wire[:-7], wire[-7:])
    with Upstream(raw(*pieces, every=late, then="keep")) as upstream, Caller(sidecar) as caller:
        told = caller.request("GET", upstream.url("/first")).answer()
        assert told.complete
        assert told.body in (b"ok", b"")
        time.sleep(0.05)
        upstream.then(answer(b"mine"))
        assert caller.request("GET", upstream.url("/second")).answer().body == b"mine"
        assert upstream.seen("/second")[0].connection == 1


def test_no_reply_for_another_with_a_body_on_head(sidecar: Sidecar) -> None:
    """A body on the answer to HEAD is the server's mistake, and not the beginning of the next answer."""
    wrong = raw(head(200, [("Content-Length", "7")]) + b"<stray>", then="keep")
    with Upstream(wrong) as upstream, Caller(sidecar) as caller:
        told = caller.request("HEAD", upstream.url("/first")).answer("HEAD")
        assert (told.status, told.body) == (200, b"")
        upstream.then(answer(b"mine"))
        assert caller.request("GET", upstream.url("/second")).answer().body == b"mine"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("slow", [0.0, 0.15], ids=["at once", "later"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_half_close(sidecar: Sidecar, method: str, slow: float, version: str) -> None:
    """A client that ends its side after its request still waits for the answer (agentgateway#2427, uvicorn#1264)."""
    body = b"" if method == "GET" else b"0123456789"
    with Upstream(answer(b"the full response" * 1000, after=slow)) as upstream, Caller(sidecar) as caller:
        caller.request(method, upstream.url(), body=body, version=version).half_close()
        told = caller.answer(method)
        assert (told.status, told.body, told.complete) == (200, b"the full response" * 1000, True)
        assert caller.rest() == b""
        assert caller.ended_by == "fin"
        assert sidecar.record(told.record)["outcome"] == "completed"


def test_half_close_behind_pipelined_requests(sidecar: Sidecar) -> None:
    """Each of several requests sent before the end is answered, in order."""
    with Upstream(echo()) as upstream, Caller(sidecar) as caller:
        requests = [render("PUT", upstream.url(f"/{n}"), body=b"body %d" % n) for n in range(5)]
        caller.send(b"".join(requests)).half_close()
        assert [caller.answer("PUT").body for _ in requests] == [b"body %d" % n for n in range(5)]
        assert caller.rest() == b""


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_half_close_in_the_middle_of_a_body(sidecar: Sidecar, budget: str, method: str) -> None:
    """A body that can never become whole is a client that has gone; nobody waits for the rest."""
    with Upstream(stall()) as upstream, Caller(sidecar) as caller:
        caller.request(
            method, upstream.url(), {"Budget-Id": budget, "Content-Length": 10}, b"01234"
        ).half_close()
        assert caller.rest() == b""
        (record,) = sidecar.records_of(budget)
        assert record["outcome"] == "client_gone"
        assert record["elapsed_ms"] < 1000
        assert upstream.whole == []


def test_half_close_in_the_middle_of_a_pipelined_body(sidecar: Sidecar, budget: str) -> None:
    """The same when it is the second of two requests."""
    with Upstream(answer(after=0.05), stall()) as upstream, Caller(sidecar) as caller:
        first = render("GET", upstream.url("/1"), {"Budget-Id": budget})
        second = render("PUT", upstream.url("/2"), {"Budget-Id": budget, "Content-Length": 10}, b"01234")
        caller.send(first + second).half_close()
        assert caller.answer().status == 200
        assert caller.rest() == b""
        records = sidecar.records_of(budget, 2)
        assert [record["outcome"] for record in records] == ["completed", "client_gone"]
        assert records[1]["elapsed_ms"] < 1000


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize(
    "behaviour",
    [stall(), drip(every=0.01), drip(every=0.01, framing="close"), events(["1"], then="stall")],
    ids=["silent", "dripping", "dripping until close", "events"],
)
def test_client_leaves_a_read(sidecar: Sidecar, budget: str, behaviour: Behaviour, reset: bool) -> None:
    """The server sees at once that nobody waits for a read any more (BerriAI/litellm#9178)."""
    with Upstream(behaviour) as upstream:
        caller = Caller(sidecar).request("GET", upstream.url(), {"Budget-Id": budget})
        upstream.wait(lambda up: up.requests)
        time.sleep(0.05)
        left = time.monotonic_ns()
        caller.leave(reset=reset)
        upstream.wait(lambda up: not up.open, within=5)
        closed_at = upstream.connections[0].closed_at
        assert closed_at is not None
        # 50 ms where the machine is idle.
        assert (closed_at - left) / 1e6 < 250
        (record,) = sidecar.records_of(budget)
        assert (record["outcome"], record["effect"]) == ("client_gone", "none")


def test_client_leaves_a_read_while_its_name_is_looked_up_or_connected() -> None:
    """What was being opened for one who has left is given up."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        with Sidecar() as sidecar:
            callers = [Caller(sidecar).request("GET", "http://{}:{}/".format(*address)) for _ in range(10)]
            eventually(lambda: sidecar.gauges()["opening"] == 10)
            for caller in callers:
                caller.leave()
            sidecar.at_rest(within=3)
            eventually(lambda: len(sidecar.records) == 10)
            assert {(each["outcome"], each["phase"]) for each in sidecar.records} == {
                ("client_gone", "not_sent")
            }
        for each in waiting:
            each.close()


def test_cancelled_calls_leave_nothing() -> None:
    """Clients that leave at random moments leave no step, connection, descriptor or memory (encode/httpcore#1093)."""
    behaviours = [
        stall(),
        drip(every=0.002),
        events(["1"], then="stall"),
        answer(after=0.03),
        deaf(),
        hang_up(after=0.02),
    ]
    with Sidecar("writes: {linger: 50ms}") as sidecar, Upstream(answer(), *[]) as upstream:
        for number, behaviour in enumerate(behaviours):
            upstream.on(f"/{number}", behaviour)
        assert call(sidecar, "GET", upstream.url()).status == 200
        sidecar.at_rest()
        before = sidecar.open_files()
        over = time.monotonic() + 2

        def leave_at_random(number: int) -> int:
            chance = random.Random(number)
            made = 0
            while time.monotonic() < over:
                path = upstream.url(f"/{chance.randrange(len(behaviours))}")
                method = chance.choice(["GET", "PUT", "POST", "HEAD"])
                body = json.dumps({"at": chance.random()}).encode() if method in ("PUT", "POST") else b""
                request = render(method, path, {"Budget-Remaining-Ms": chance.choice([5, 50, 5000])}, body)
                caller = Caller(sidecar).send(
                    request[: chance.choice([len(request), chance.randrange(len(request))])]
                )
                time.sleep(chance.uniform(0, 0.03))
                if chance.random() < 0.3:
                    caller.half_close()
                caller.leave(reset=chance.random() < 0.3)
                made += 1
            return made

        with ThreadPoolExecutor(20) as threads:
            made = sum(threads.map(leave_at_random, range(20)))
        assert made > 200
        sidecar.at_rest()
        assert call(sidecar, "GET", upstream.url()).status == 200
        eventually(
            lambda: sidecar.open_files() <= before + 2
        )  # an idle connection, and the kernel's socket list
        samples = sidecar.samples()
        counted = sum(value for name, value in samples.items() if name.startswith("waterclock_steps_total{"))
        eventually(lambda: len(sidecar.records) == counted, what="the counters equal the records")
        ids = [record["record"] for record in sidecar.records]
        assert len(ids) == len(set(ids)), "each step left one record"


CONTINUES = {"Expect": "100-continue"}


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_expect_continue_with_a_silent_server(sidecar: Sidecar, method: str, framing: str) -> None:
    """(a) Nobody answers: the call ends by its allowance, whoever was waiting for whom (haproxy/haproxy#3316)."""
    with Upstream(deaf()) as upstream, Caller(sidecar) as caller:
        stated = {"Content-Length": 5} if framing == "length" else {"Transfer-Encoding": "chunked"}
        caller.request(method, upstream.url(), CONTINUES | stated | {"Budget-Remaining-Ms": 200})
        if method == "POST":  # held for its fingerprint, so it is the sidecar that asks for it
            assert caller.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            caller.add(b"hello" if framing == "length" else chunked(b"hello"))
        told = caller.answer(method)
        assert told.status == (424 if method == "POST" else 504)
        assert 200 <= told.after < 200 + SLACK
        assert b"hello" not in upstream.connections[0].received


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("size", [5, 200_000])
def test_expect_continue_refused(sidecar: Sidecar, method: str, size: int) -> None:
    """(b) The server says 413 at once: it is relayed, and the body never sent on."""
    with Upstream(early(b"too large", 413)) as upstream, Caller(sidecar) as caller:
        caller.request(method, upstream.url(), CONTINUES | {"Content-Length": size})
        if method == "POST":
            assert caller.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            caller.add(b"x" * size)
        told = caller.answer(method)
        assert (told.status, told.body) == (413, b"too large")
        assert b"x" * size not in upstream.connections[0].received


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("size", [5, 200_000, 1_500_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_expect_continue_continues(sidecar: Sidecar, method: str, size: int, framing: str) -> None:
    """(c) The server says 100 and the call goes through, the body sent once."""
    with Upstream(interim(100, then=echo())) as upstream, Caller(sidecar) as caller:
        stated = {"Content-Length": size} if framing == "length" else {"Transfer-Encoding": "chunked"}
        caller.request(method, upstream.url(), CONTINUES | stated)
        assert caller.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        caller.add(
            b"y" * size if framing == "length" else chunked(b"y" * (size // 2), b"y" * (size - size // 2))
        )
        told = caller.answer(method)
        assert (told.status, told.interim) == (200, []), "it was told to continue once"
        assert told.body == b"y" * size
        assert len(upstream.whole) == 1
        assert told.get("connection") is None
        assert caller.request("GET", upstream.url("/next")).answer().status == 200


def test_expect_continue_from_a_server_that_never_says_so(sidecar: Sidecar) -> None:
    """A server that waits for the body and has never heard of the field gets it after a while."""
    with Upstream(answer()) as upstream, Caller(sidecar) as caller:
        caller.request("POST", upstream.url(), CONTINUES, b"hello")
        told = caller.answer("POST")
        assert (told.status, told.interim) == (200, [100])
        assert upstream.whole[0].body == b"hello"
        assert 1000 <= told.after < 1000 + SLACK


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_expect_continue_in_http_1_0_is_ignored(sidecar: Sidecar, method: str) -> None:
    """HTTP/1.0 has no interim answers (RFC 9110 §10.1.1): none is sent, and the call goes through."""
    with Upstream(interim(100, 103, then=echo())) as upstream:
        told = call(sidecar, method, upstream.url(), headers=CONTINUES, body=b"hello", version="1.0")
        assert (told.status, told.interim, told.body) == (200, [], b"hello")


def test_interim_answers_are_relayed(sidecar: Sidecar) -> None:
    """Early hints and the like pass, as many as there are; a 100 that nobody asked for does not."""
    with Upstream(interim(103, 102, 103, 100, then=answer())) as upstream:
        told = call(sidecar, "GET", upstream.url())
        assert (told.status, told.interim) == (200, [103, 102, 103])


@pytest.mark.parametrize("close", [False, True], ids=["kept open", "closed"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("size", [2 * 1024 * 1024, 9 * 1024 * 1024])
def test_early_answer(sidecar: Sidecar, size: int, framing: str, method: str, close: bool) -> None:
    """An answer that comes before the body was read is relayed, and its connection not used again (envoy#38697)."""
    with Upstream(early(close=close)) as upstream, Caller(sidecar) as caller:
        stated = {} if framing == "length" else {"Transfer-Encoding": "chunked"}
        body = b"x" * size if framing == "length" else chunked(*[b"x" * 65_536] * (size // 65_536))
        caller.request(method, upstream.url("/early"), stated, body)
        told = caller.answer(method)
        assert (told.status, told.body) == (200, b"no need")
        assert told.after < SLACK
        upstream.then(answer(b"next"))
        assert call(sidecar, "GET", upstream.url("/next")).body == b"next"
        (next_request,) = upstream.seen("/next")
        assert next_request.connection == len(upstream.connections) - 1
        assert len(upstream.seen("/early")) == 1
        assert upstream.malformed == []


def test_early_answer_of_a_held_write_is_not_behind_it(sidecar: Sidecar) -> None:
    """A body that was held and given to the kernel all at once may not be read either."""
    with Upstream(early()) as upstream, Caller(sidecar) as caller:
        assert (
            caller.request("POST", upstream.url("/early"), body=b"x" * 1_000_000).answer("POST").status == 200
        )
        upstream.then(answer(b"next"))
        told = call(sidecar, "GET", upstream.url("/next"), headers={"Budget-Remaining-Ms": 3000})
        assert told.body == b"next", "it does not wait behind a body that nobody reads"


@pytest.mark.parametrize("status", [403, 504])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_own_early_answer(sidecar: Sidecar, framing: str, status: int) -> None:
    """The sidecar's own answer reaches a client that is still sending, and is not lost in a reset."""
    with Upstream(deaf()) as upstream, Caller(sidecar) as caller:
        headers = {"Budget-Remaining-Ms": 0 if status == 403 else 100}
        stated = {"Content-Length": 8_000_000} if framing == "length" else {"Transfer-Encoding": "chunked"}
        caller.request("PUT", upstream.url(), headers | stated)
        part = b"x" * 100_000
        with ThreadPoolExecutor() as threads:
            sending = threads.submit(
                lambda: [caller.add(part if framing == "length" else chunk(part)) for _ in range(70)]
            )
            told = caller.answer("PUT")
            sending.result()
        assert (told.status, told.complete) == (status, True)
        assert told.get("connection") == "close"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("asked", ["close", "keep-alive", None])
@pytest.mark.parametrize("own", [False, True], ids=["relayed", "own answer"])
def test_connection_persists_as_asked(sidecar: Sidecar, version: str, asked: str | None, own: bool) -> None:
    """RFC 9112 §9.3, for answers that are relayed and for the sidecar's own: and the end of a connection is seen at once."""
    with Upstream(answer()) as upstream, Caller(sidecar) as caller:
        headers = {"Connection": asked} | ({"Budget-Remaining-Ms": 0} if own else {})
        told = caller.request("GET", upstream.url(), headers, version=version).answer()
        assert told.status == (403 if own else 200)
        stays = asked != "close" and (version == "1.1" or asked == "keep-alive")
        assert (told.get("connection") == "close") == (not stays)
        if stays:
            assert caller.request("GET", upstream.url(), version=version).answer().status == 200
        else:
            began = time.monotonic()
            assert caller.rest() == b""
            assert time.monotonic() - began < 1, "who waits for the end is not kept waiting"


def test_pipelined_requests_are_answered_in_order(sidecar: Sidecar) -> None:
    """Whatever each of them needs: one slow, one refused, one cut, one with a body, one that is no request at all."""
    with Upstream(answer(b"x")) as upstream, Caller(sidecar) as caller:
        upstream.on("/slow", answer(b"slow", after=0.1)).on("/echo", echo()).on("/stall", stall())
        caller.send(
            render("GET", upstream.url("/slow"))
            + render("GET", upstream.url("/"), {"Budget-Remaining-Ms": 0})
            + render("POST", upstream.url("/echo"), body=b"held" * 20_000)
            + render("GET", upstream.url("/stall"), {"Budget-Remaining-Ms": 50})
            + render("PUT", upstream.url("/echo"), {"Transfer-Encoding": "chunked"}, chunked(b"a", b"b"))
            + b"GET / HTTP/1.1\r\nno colon\r\n\r\n"
            + render("GET", upstream.url("/never"))
        )
        answers = [caller.answer() for _ in range(6)]
        assert [told.status for told in answers] == [200, 403, 200, 504, 200, 400]
        assert answers[2].body == b"held" * 20_000
        assert answers[4].body == b"ab"
        assert caller.rest() == b""
        assert upstream.seen("/never") == []


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("size", [10, 300_000, 1_500_000])
def test_pipelined_body_in_pieces(sidecar: Sidecar, method: str, size: int) -> None:
    """A pipelined request whose body arrives only after the first answer is read on to its end."""
    with Upstream(answer(after=0.05), echo()) as upstream, Caller(sidecar) as caller:
        body = b"z" * size
        second = render(method, upstream.url("/2"), {"Budget-Remaining-Ms": 5000}, body)
        caller.send(render("GET", upstream.url("/1")) + second[:-5])
        assert caller.answer().status == 200
        time.sleep(0.05)
        caller.add(second[-5:])
        told = caller.answer(method)
        assert told.status == 200
        assert told.body == body
        assert caller.request("GET", upstream.url("/3")).answer().status == 200


def test_memory_stays_bounded_while_a_slow_client_does_not_read() -> None:
    """A client that does not read makes its server wait; nothing piles up in between."""
    big = b"x" * 65_536
    with (
        Sidecar() as sidecar,
        Upstream(drip(itertools.repeat(big, 4000), every=0, framing="chunked")) as upstream,
    ):
        upstream.on("/small", answer(big))
        assert call(sidecar, "GET", upstream.url("/small")).status == 200
        before = sidecar.memory_mib()
        slow = [Caller(sidecar).request("GET", upstream.url()) for _ in range(4)]
        held = [Caller(sidecar).request("POST", upstream.url(), body=b"{%d}" % n) for n in range(4)]
        # Pipelined ones too: the next answer waits until the last one has been taken.
        pipelined = Caller(sidecar)
        pipelined.socket.setblocking(False)
        many = render("GET", upstream.url("/small")) * 600
        sent = pipelined.socket.send(many)
        assert sent > 1000
        time.sleep(1.0)
        grown = sidecar.memory_mib() - before
        assert grown < 40, f"{grown:.0f} MiB for 9 clients"
        assert len(upstream.seen("/small")) < 300
        assert call(sidecar, "GET", upstream.url("/small")).status == 200
        for caller in [*slow, *held, pipelined]:
            caller.leave()
        sidecar.at_rest()


def test_memory_stays_bounded_while_a_slow_server_does_not_read() -> None:
    """The same in the other direction, for bodies of every kind."""
    with Sidecar() as sidecar, Upstream(deaf()) as upstream:
        before = sidecar.memory_mib()
        callers = []
        for method in ("PUT", "POST", "PUT", "POST"):
            caller = Caller(sidecar).request(method, upstream.url(), {"Content-Length": 200_000_000})
            caller.socket.setblocking(False)
            callers.append(caller)
        sent = 0
        end = time.monotonic() + 1
        while time.monotonic() < end:
            for caller in callers:
                try:
                    sent += caller.socket.send(b"x" * 1_000_000)
                except BlockingIOError:
                    time.sleep(0.01)
        assert sidecar.memory_mib() - before < 40
        assert sent < 120_000_000
        for caller in callers:
            caller.leave()
        sidecar.at_rest()


def test_upgrade_refused_keeps_the_connection(sidecar: Sidecar) -> None:
    """A client that asks for h2c with each request (Java's does) goes on in HTTP/1.1 when nobody wants to."""
    with Upstream(echo()) as upstream, Caller(sidecar) as caller:
        wants = {
            "Upgrade": "h2c",
            "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA",
            "Connection": "Upgrade, HTTP2-Settings",
        }
        for method, body in (("GET", b""), ("POST", b"one"), ("PUT", b"two" * 50_000), ("GET", b"")):
            told = caller.request(method, upstream.url(), wants | {"Budget-Remaining-Ms": 3000}, body).answer(
                method
            )
            assert (told.status, told.body) == (200, body)
        chunks = wants | {"Transfer-Encoding": "chunked", "Budget-Remaining-Ms": 3000}
        assert caller.request("PUT", upstream.url(), chunks, chunked(b"a", b"b")).answer("PUT").body == b"ab"


def test_upgrade_refused_with_a_request_pipelined_behind_it(sidecar: Sidecar) -> None:
    """What stands behind a refused upgrade is the next request, however it was cut into packets."""
    for cut in (None, 5):
        with Upstream(answer(b"1", after=0.05), answer(b"2")) as upstream, Caller(sidecar) as caller:
            first = render("GET", upstream.url(), {"Upgrade": "websocket", "Connection": "Upgrade"})
            second = render("GET", upstream.url("/2"), {"Budget-Remaining-Ms": 3000})
            caller.send(first + second[:cut])
            if cut is not None:
                time.sleep(0.02)
                caller.add(second[cut:])
            assert caller.answer().body == b"1"
            assert caller.answer().body == b"2"


def test_upgrade_of_a_write_leaves_nothing_in_doubt(sidecar: Sidecar) -> None:
    """A write that became another protocol is settled by then: its answer was the agreement."""
    with Upstream(upgrade()) as upstream, Caller(sidecar) as caller:
        headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Idempotency-Key": "k"}
        told = caller.request("POST", upstream.url(), headers, b"{}").answer("POST")
        assert told.status == 101
        assert caller.send(b"ping").exactly(4) == b"ping"
        caller.leave()
        upstream.then(answer())
        again = call(sidecar, "POST", upstream.url(), headers={"Idempotency-Key": "k"}, body=b"{}")
        assert again.status == 200
