"""What is sent by those who mean no good: bytes that two hops could read in two ways, and more of everything than fits."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from pathlib import Path

import pytest

from tests.support.behaviours import LAST_CHUNK, answer, chunk, head, raw
from tests.support.callers import Caller, call, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

# A request that must never reach the server by itself: it stands where one hop may see a body and another a request.
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /first HTTP/1.1\r\nHost: HOST\r\n"

REQUESTS: dict[str, bytes] = {
    "both lengths": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, the other way round": POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nX",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "two equal lengths": POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": POST + b"Content-Length: 4, 4\r\n\r\nabcd",
    "a signed length": POST + b"Content-Length: +4\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -4\r\n\r\nabcd",
    "a hexadecimal length": POST + b"Content-Length: 0x4\r\n\r\nabcd",
    "a length with an underscore": POST + b"Content-Length: 1_0\r\n\r\n0123456789",
    "an endless length": POST + b"Content-Length: 99999999999999999999\r\n\r\nabcd",
    "an empty length": POST + b"Content-Length: \r\n\r\nabcd",
    "a folded field": POST + b"X: a\r\n Content-Length: 4\r\n\r\nabcd",
    "a field that begins with space": POST + b" Content-Length: 4\r\n\r\nabcd",
    "space before the colon": POST + b"Content-Length : 4\r\n\r\nabcd",
    "tab before the colon": POST + b"Transfer-Encoding\t: chunked\r\n\r\n" + LAST_CHUNK,
    "no colon": POST + b"Content-Length 4\r\n\r\nabcd",
    "an empty name": POST + b": chunked\r\n\r\n",
    "a bare CR in a field": POST + b"X: a\rContent-Length: 4\r\n\r\nabcd",
    "a bare LF in a field": POST + b"X: a\nTransfer-Encoding: chunked\r\n\r\n" + LAST_CHUNK,
    "a NUL in a field": POST + b"X: a\0b\r\nContent-Length: 4\r\n\r\nabcd",
    "a NUL in a name": POST + b"Content-Length\0: 4\r\n\r\nabcd",
    "a control character in a field": POST + b"X: a\x01b\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + LAST_CHUNK,
    "chunked and identity": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + LAST_CHUNK,
    "gzip, then chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + LAST_CHUNK,
    "identity": POST + b"Transfer-Encoding: identity\r\nContent-Length: 4\r\n\r\nabcd",
    "almost chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + LAST_CHUNK,
    "chunked in quotes": POST + b'Transfer-Encoding: "chunked"\r\n\r\n' + LAST_CHUNK,
    "chunked with a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + LAST_CHUNK,
    "a chunk size with a sign": POST + b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n" + LAST_CHUNK,
    "a negative chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n" + LAST_CHUNK,
    "a chunk size with 0x": POST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n" + LAST_CHUNK,
    "a chunk size with an underscore": POST + b"Transfer-Encoding: chunked\r\n\r\n0_1\r\na\r\n" + LAST_CHUNK,
    "a chunk size with a space": POST + b"Transfer-Encoding: chunked\r\n\r\n 1\r\na\r\n" + LAST_CHUNK,
    "a chunk size that overflows": POST
    + b"Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n"
    + LAST_CHUNK,
    "an empty chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\n\r\na\r\n" + LAST_CHUNK,
    "a chunk longer than it says": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n" + LAST_CHUNK,
    "a bare LF after a chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n" + LAST_CHUNK,
    "a bare CR in a chunk extension": POST
    + b"Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\na\r\n"
    + LAST_CHUNK,
    "a bare LF in a chunk extension": POST
    + b"Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n"
    + LAST_CHUNK,
    "a NUL after the chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\n1\0\r\na\r\n" + LAST_CHUNK,
    "HTTP/1.0 with chunked": POST.replace(b"1.1", b"1.0")
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + LAST_CHUNK,
    "a folded trailer": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\r\n b\r\n\r\n",
    "a trailer without a colon": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n",
    "no Host": b"POST /first HTTP/1.1\r\n\r\n",
    "two Hosts": POST + b"Host: other\r\n\r\n",
    "two Hosts in one": b"POST /first HTTP/1.1\r\nHost: HOST, other\r\n\r\n",
    "a Host with a path": b"POST /first HTTP/1.1\r\nHost: HOST/x\r\n\r\n",
    "a Host with user information": b"POST /first HTTP/1.1\r\nHost: a@HOST\r\n\r\n",
    "a tab in the target": b"POST /first\tx HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a space in the target": b"POST /first x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a NUL in the target": b"POST /first\0x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a bare CR in the request line": b"POST /first\rHTTP/1.1\r\nHost: HOST\r\n\r\n",
    "another byte in the target": b"POST /\xff HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "no version": b"POST /first\r\nHost: HOST\r\n\r\n",
    "a version of the future": b"POST /first HTTP/1.2\r\nHost: HOST\r\n\r\n",
    "a space first": b" POST /first HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a lower-case method": b"post /first HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a lower-case version": b"POST /first http/1.1\r\nHost: HOST\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /first\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "CONNECT with a body": b"CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nhello",
    "user information in the target": b"GET http://user:secret@HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "another scheme": b"GET ftp://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a target without a host": b"GET http:///x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a target with a bad port": b"GET http://a:99999/x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "random bytes": bytes(range(128, 256)) * 10,
}


@pytest.mark.parametrize("pieces", ["whole", "in pieces"])
@pytest.mark.parametrize("how", REQUESTS)
def test_smuggling(sidecar: Sidecar, how: str, pieces: str) -> None:
    """A request that could be read in two ways is refused, and nothing that stands behind it is a request."""
    with Upstream(answer()) as upstream, Caller(sidecar) as caller:
        wire = REQUESTS[how].replace(b"HOST", upstream.authority.encode()) + SMUGGLED
        if pieces == "whole":
            caller.send(wire)
        else:
            for at in range(0, len(wire), 7):
                caller.add(wire[at : at + 7])
        told = caller.answer()
        assert told.status in (0, 400, 501, 505), told
        assert told.status == 0 or told.get("connection") == "close"
        began = time.monotonic()
        rest = caller.rest()
        assert b"HTTP/1.1 2" not in rest
        assert time.monotonic() - began < 1, "the connection is closed"
        # A body may have been on its way when its framing broke; that request then never became whole.
        assert upstream.whole == []
        assert upstream.seen("/smuggled") == []
    assert not sidecar.faults


UNUSUAL: dict[str, tuple[bytes, bytes]] = {
    "empty lines first": (b"\r\n\r\n" + POST + b"Content-Length: 4\r\n\r\nabcd", b"abcd"),
    "a chunk extension": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nabcd\r\n" + LAST_CHUNK,
        b"abcd",
    ),
    "leading zeros in a chunk size": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n0004\r\nabcd\r\n" + LAST_CHUNK,
        b"abcd",
    ),
    "CHUNKED": (POST + b"Transfer-Encoding: CHUNKED\r\n\r\n4\r\nabcd\r\n" + LAST_CHUNK, b"abcd"),
    "a trailer": (POST + b"Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nX-Sum: 1\r\n\r\n", b"abcd"),
    "space around a length": (POST + b"Content-Length: \t 4 \t\r\n\r\nabcd", b"abcd"),
    "bytes beyond ASCII in a field": (POST + b"X: \xe4\xff\r\nContent-Length: 4\r\n\r\nabcd", b"abcd"),
    "two spaces": (POST.replace(b" /first", b"  /first") + b"Content-Length: 4\r\n\r\nabcd", b"abcd"),
    "a method nobody knows": (POST.replace(b"POST", b"X-BREW") + b"Content-Length: 4\r\n\r\nabcd", b"abcd"),
    "a query with odd characters": (
        POST.replace(b"/first", b"/first?a=[b]|{c}") + b"Content-Length: 4\r\n\r\nabcd",
        b"abcd",
    ),
}


@pytest.mark.parametrize("how", UNUSUAL)
def test_smuggling_is_not_seen_where_there_is_none(sidecar: Sidecar, how: str) -> None:
    """What is unusual and clear passes, is framed anew where it has to be, and the next request is the next request."""
    wire, body = UNUSUAL[how]
    with Upstream(answer()) as upstream, Caller(sidecar) as caller:
        caller.send(
            wire.replace(b"HOST", upstream.authority.encode()) + render("GET", upstream.url("/second"))
        )
        assert caller.answer("POST").status == 200
        assert caller.answer().status == 200
        first, second = upstream.whole
        assert (first.body, second.target) == (body, "/second")
        assert upstream.malformed == []


ANSWERS: dict[str, bytes] = {
    "both lengths": head(200, [("Content-Length", "5"), ("Transfer-Encoding", "chunked")]) + LAST_CHUNK,
    "two lengths": head(200, [("Content-Length", "2"), ("Content-Length", "3")]) + b"abc",
    "a folded field": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    "a bare CR in a field": b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 9\r\nContent-Length: 2\r\n\r\nok",
    "space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    "a NUL in a field": b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 2\r\n\r\nok",
    "a NUL in the reason": b"HTTP/1.1 200 O\0K\r\nContent-Length: 2\r\n\r\nok",
    "a signed chunk size": head(200, [("Transfer-Encoding", "chunked")]) + b"+2\r\nok\r\n" + LAST_CHUNK,
    "a chunk size with an underscore": head(200, [("Transfer-Encoding", "chunked")])
    + b"0_2\r\nok\r\n"
    + LAST_CHUNK,
    "a chunk size that overflows": head(200, [("Transfer-Encoding", "chunked")])
    + b"fffffffffffffffff\r\nok\r\n",
    "gzip, then chunked": head(200, [("Transfer-Encoding", "gzip, chunked")]) + chunk(b"ok") + LAST_CHUNK,
    "HTTP/1.0 with chunked": head(200, [("Transfer-Encoding", "chunked")], version="1.0")
    + chunk(b"ok")
    + LAST_CHUNK,
    "a status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("how", ANSWERS)
def test_smuggling_in_answers(sidecar: Sidecar, how: str) -> None:
    """The same from the other side: such an answer is none, and its connection is not used again."""
    with Upstream(raw(ANSWERS[how], then="keep")) as upstream, Caller(sidecar) as caller:
        told = caller.request("GET", upstream.url("/first")).answer()
        assert told.status == 502 or not told.complete
        upstream.then(answer(b"mine"))
        assert call(sidecar, "GET", upstream.url("/second")).body == b"mine"
        assert upstream.seen("/second")[0].connection == 1


def test_smuggling_by_splitting_an_answer(sidecar: Sidecar) -> None:
    """What a server says in a field cannot become a field of its own."""
    fields = [
        ("X-A", "a"),
        ("Connection", "X-A, Content-Length, Budget-Record, Via"),
        ("Content-Length", "2"),
    ]
    with Upstream(raw(head(200, fields) + b"ok", then="keep")) as upstream:
        told = call(sidecar, "GET", upstream.url())
        assert (told.get("x-a"), told.get("content-length"), told.body) == (None, "2", b"ok")
        assert told.record
        assert told.get("via")


HEADS: dict[str, tuple[bytes, int]] = {
    "a field of 10 MB": (POST + b"X: " + b"a" * 10_000_000 + b"\r\n\r\n", 431),
    "a head of 10 MB": (POST + b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 250_000 + b"\r\n", 431),
    "100,000 fields": (POST + b"X: a\r\n" * 100_000 + b"\r\n", 431),
    "101 fields": (POST + b"X: a\r\n" * 100 + b"\r\n", 431),
    "a target of 10 MB": (b"GET /" + b"a" * 10_000_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n", 414),
    "a method of 10 MB": (b"A" * 10_000_000 + b" / HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "10 MB of empty lines": (b"\r\n" * 5_000_000, 0),
    "trailers of 10 MB": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: aaaaaaaaaaaaaaaaaaa\r\n" * 400_000 + b"\r\n",
        400,
    ),
    "10 MB of chunk extensions": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1;" + b"a" * 10_000_000 + b"\r\nx\r\n" + LAST_CHUNK,
        400,
    ),
    "a chunk for each of 70,000 octets": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 70_000 + LAST_CHUNK,
        200,
    ),
}


@pytest.fixture(scope="module")
def flooded() -> object:
    """A sidecar of this module's own, whose memory is looked at."""
    with Sidecar("writes: {fingerprint_bytes: 64KiB}") as sidecar, Upstream(answer()) as upstream:
        call(sidecar, "GET", upstream.url())
        yield sidecar, upstream


@pytest.mark.parametrize("how", HEADS)
def test_flood_of_one(flooded: tuple[Sidecar, Upstream], how: str) -> None:
    """A message that is too large in any of its parts is refused with bounded memory, and others are unharmed."""
    sidecar, upstream = flooded
    wire, status = HEADS[how]
    before = sidecar.memory_mib()
    with Caller(sidecar) as caller:
        caller.socket.settimeout(5)
        caller.send(wire.replace(b"HOST", upstream.authority.encode()))
        if status:
            told = caller.answer("POST")
            assert told.status == status
            assert status == 200 or told.get("connection") == "close"
        assert call(sidecar, "GET", upstream.url()).after < 1500
    assert sidecar.memory_mib() - before < 25
    assert not sidecar.faults


def test_flood_of_connections_that_say_nothing(flooded: tuple[Sidecar, Upstream]) -> None:
    """5,000 connections that say nothing, or one byte at a time: bounded memory, and other calls go on."""
    sidecar, upstream = flooded
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    number = min(5000, most - 500)
    before = sidecar.memory_mib()
    silent = []
    try:
        for each in range(number):
            sock = socket.create_connection(sidecar.address, 5)
            silent.append(sock)
            if each % 2:
                sock.send(b"G")
        eventually(lambda: sidecar.gauges()["client_connections"] >= number)
        for sock in silent[1::50]:
            sock.send(b"E")
        answers = [call(sidecar, "GET", upstream.url()) for _ in range(20)]
        assert {told.status for told in answers} == {200}
        assert sorted(told.after for told in answers)[10] < 100
        grown = sidecar.memory_mib() - before
        assert grown / number < 0.03, f"{grown / number * 1024:.0f} KiB for each"
    finally:
        for sock in silent:
            sock.close()
    sidecar.at_rest()


def test_flood_of_pipelined_requests(flooded: tuple[Sidecar, Upstream]) -> None:
    """A client that sends requests without end is read no faster than it is answered."""
    sidecar, upstream = flooded
    before = sidecar.memory_mib()
    with Caller(sidecar) as caller:
        many = render("GET", upstream.url()) * 20_000

        async def both() -> int:
            reader, writer = await asyncio.open_connection(sock=caller.socket)
            answered = 0
            writer.write(many)
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                data = await reader.read(65_536)
                assert data
                answered += data.count(b"HTTP/1.1 200 ")
                assert sidecar.memory_mib() - before < 25
            writer.transport.abort()
            await asyncio.sleep(0.01)
            return answered

        assert asyncio.run(both()) > 100
    sidecar.at_rest()


def test_flood_of_tiny_chunks(flooded: tuple[Sidecar, Upstream]) -> None:
    """A body that is held takes no more than its size, however small the pieces in which it comes."""
    _, upstream = flooded
    with Sidecar() as sidecar:
        assert call(sidecar, "GET", upstream.url()).status == 200
        before = sidecar.memory_mib()
        callers = [Caller(sidecar) for _ in range(4)]
        for caller in callers:
            caller.send(render("POST", upstream.url(), {"Transfer-Encoding": "chunked"}))
            caller.add(b"2\r\nxy\r\n" * 400_000)
        time.sleep(0.2)
        grown = sidecar.memory_mib() - before
        assert grown < 20, f"{grown:.0f} MiB for 4 bodies of 800 kB"
        for caller in callers:
            caller.leave()
        sidecar.at_rest()


def test_flood_of_refusals_is_answered_in_order(flooded: tuple[Sidecar, Upstream]) -> None:
    """Thousands of pipelined requests that are all refused at once neither nest nor pile up."""
    sidecar, upstream = flooded
    with Caller(sidecar) as caller:
        caller.send(render("GET", upstream.url(), {"Budget-Remaining-Ms": 0}) * 3000)
        for _ in range(3000):
            assert caller.answer().status == 403
    assert not sidecar.faults


def test_flood_that_takes_the_last_descriptor() -> None:
    """Without a descriptor left nothing can be opened: said as 503, nothing was sent, and it passes."""
    with Sidecar() as sidecar, Upstream(answer()) as upstream, Caller(sidecar) as caller:
        assert caller.request("GET", upstream.url(), {"Budget-Remaining-Ms": 0}).answer().status == 403

        def descriptors() -> set[int] | None:
            """Those that are open, once none comes or goes any more."""
            seen = [{int(entry.name) for entry in Path(f"/proc/{sidecar.pid}/fd").iterdir()}]
            for _ in range(4):
                time.sleep(0.05)
                seen.append({int(entry.name) for entry in Path(f"/proc/{sidecar.pid}/fd").iterdir()})
            return seen[0] if all(each == seen[0] for each in seen) else None

        taken = eventually(descriptors)
        # The limit is on the number of a new descriptor, so every lower one has to be in use.
        lowest = next(number for number in range(4096) if number not in taken)
        resource.prlimit(sidecar.pid, resource.RLIMIT_NOFILE, (lowest, 4096))
        for method in ("GET", "POST", "CONNECT"):
            target = upstream.authority if method == "CONNECT" else upstream.url()
            told = caller.request(method, target, {"Host": "a"}, b"{}" if method == "POST" else b"").answer(
                method
            )
            assert (told.status, told.outcome.outcome, told.outcome.reason) == (503, "shed", "busy")
            assert (told.outcome.effect, told.outcome.phase) == ("none", "not_sent")
            assert "file descriptors" in told.problem["detail"]
        resource.prlimit(sidecar.pid, resource.RLIMIT_NOFILE, (1024, 4096))
        assert call(sidecar, "POST", upstream.url(), body=b"{}").status == 200
        assert len(upstream.whole) == 1
        caller.leave()
        sidecar.at_rest()
