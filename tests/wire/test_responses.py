"""Responses as they come, and whether their connection can carry another one (promise 12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.events import END, ResponseHead, WireFault
from proxy.wire.parser import ResponseParser
from tests.wire.feeding import Case, byte_by_byte, named, pieces, read_response, shown

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"
FORGED = b"HTTP/1.1 200 Forged\r\nContent-Length: 0\r\n\r\n"


class Answer(Case):
    """A row: the answer to a GET unless the name begins with another method."""

    @property
    def method(self) -> str:
        first = self.name.partition(" ")[0]
        return first if first in ("HEAD", "CONNECT", "POST") else "GET"


REUSABLE = [
    Answer("a length", OK + b"Content-Length: 5\r\n\r\nhello", ["200 OK length=5", "body hello", "END"]),
    Answer("a length of nothing", EMPTY, ["200 OK length=0", "END"]),
    Answer(
        "a body that ends in a line end",
        OK + b"Content-Length: 7\r\n\r\nhello\r\n",
        ["200 OK length=7", "body hello\r\n", "END"],
    ),
    Answer(
        "chunks and trailers",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nDigest: 1\r\n\r\n",
        ["200 OK chunked", "body hi", "trailers Digest: 1", "END"],
    ),
    Answer(
        "chunks of nothing", OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ["200 OK chunked", "END"]
    ),
    Answer(
        "HTTP/1.0 that persists",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
        ["200 OK 1.0 length=2", "body hi", "END"],
    ),
    Answer(
        "interim responses",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n\r\n"
        + EMPTY,
        ["100 Continue", "103 Early Hints", "200 OK length=0", "END"],
    ),
    Answer("HEAD with a length", OK + b"Content-Length: 5\r\n\r\n", ["200 OK", "END"]),
    Answer("HEAD with chunked", OK + b"Transfer-Encoding: chunked\r\n\r\n", ["200 OK", "END"]),
    Answer("HEAD that states nothing", OK + b"\r\n", ["200 OK", "END"]),
    Answer(
        "HEAD behind an interim response",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + EMPTY,
        ["103 Early Hints", "200 OK", "END"],
    ),
    Answer("204", b"HTTP/1.1 204 No Content\r\n\r\n", ["204 No Content", "END"]),
    Answer(
        "204 with a length",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
        ["204 No Content", "END"],
    ),
    Answer(
        "304 with a length",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        ["304 Not Modified", "END"],
    ),
    Answer(
        "304 with chunked",
        b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        ["304 Not Modified", "END"],
    ),
    Answer(
        "CONNECT that is refused",
        b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno",
        ["403 No length=2", "body no", "END"],
    ),
    Answer("no reason", b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", ["200  length=0", "END"]),
    Answer(
        "a reason in Latin-1",
        b"HTTP/1.1 200 \xdcbel\r\nContent-Length: 0\r\n\r\n",
        ["200 Übel length=0", "END"],
    ),
    Answer("an empty line before it", b"\r\n" + EMPTY, ["200 OK length=0", "END"]),
]

NOT_REUSABLE = [
    Answer(
        "close",
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi",
        ["200 OK length=2 last", "body hi", "END"],
    ),
    Answer(
        "close in Proxy-Connection",
        OK + b"Proxy-Connection: close\r\nContent-Length: 0\r\n\r\n",
        ["200 OK length=0 last", "END"],
    ),
    Answer(
        "HTTP/1.0",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        ["200 OK 1.0 length=2 last", "body hi", "END"],
    ),
    Answer(
        "a body longer than its length",
        OK + b"Content-Length: 2\r\n\r\nhi!",
        ["200 OK length=2", "body hi", "END"],
    ),
    Answer(
        "a line end too many", OK + b"Content-Length: 2\r\n\r\nhi\r\n", ["200 OK length=2", "body hi", "END"]
    ),
    Answer("a line end too many after nothing", EMPTY + b"\r\n", ["200 OK length=0", "END"]),
    Answer(
        "a line end too many after chunks",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\n",
        ["200 OK chunked", "END"],
    ),
    Answer("a second response", EMPTY + FORGED, ["200 OK length=0", "END"]),
    Answer("HEAD with a body", OK + b"Content-Length: 5\r\n\r\nhello", ["200 OK", "END"]),
    Answer(
        "HEAD with a body of chunks",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ["200 OK", "END"],
    ),
    Answer("HEAD with half a chunk size", OK + b"Transfer-Encoding: chunked\r\n\r\n5", ["200 OK", "END"]),
    Answer(
        "HEAD with a body that is a response",
        OK + b"Content-Length: %d\r\n\r\n" % len(FORGED) + FORGED,
        ["200 OK", "END"],
    ),
    Answer(
        "204 with a body",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        ["204 No Content", "END"],
    ),
    Answer(
        "304 with a body that is a response",
        b"HTTP/1.1 304 Not Modified\r\n\r\n" + FORGED,
        ["304 Not Modified", "END"],
    ),
    Answer(
        "101",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
        ["101 Switching Protocols", "END", "UPGRADED \x81\x00"],
    ),
    Answer(
        "101 that announces a body",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nraw",
        ["101 Switching Protocols", "END", "UPGRADED raw"],
    ),
    Answer("CONNECT that succeeds", OK + b"\r\n\x16\x03\x01", ["200 OK", "END", "UPGRADED \x16\x03\x01"]),
    Answer(
        "CONNECT that succeeds and announces a body",
        OK + b"Content-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        ["200 OK", "END", "UPGRADED HTTP/1.1 200 OK\r\n\r\n"],
    ),
    Answer(
        "CONNECT that succeeds and announces chunks",
        OK + b"Transfer-Encoding: chunked\r\n\r\n\r\n\r\nraw",
        ["200 OK", "END", "UPGRADED \r\n\r\nraw"],
    ),
    Answer("half a response", OK + b"Content-Length: 5\r\n\r\nhel", ["200 OK length=5", "body hel"]),
    Answer("half a head", OK + b"Conten", []),
]

CASES = REUSABLE + NOT_REUSABLE

AT_EOF = [
    Answer(
        "a body that ends with the connection", OK + b"\r\nhello", ["200 OK until close", "body hello", "END"]
    ),
    Answer(
        "HTTP/1.0 as it was", b"HTTP/1.0 200 OK\r\n\r\nhello", ["200 OK 1.0 until close", "body hello", "END"]
    ),
    Answer(
        "an upgrade that is only offered",
        OK + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\nhello",
        ["200 OK until close", "body hello", "END"],
    ),
    Answer("no response", b"", ["FAULT 502 closed_before_response"]),
    Answer(
        "only an interim one",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        ["100 Continue", "FAULT 502 closed_before_response"],
    ),
    Answer("half a head", b"HTTP/1.1 200", ["FAULT 502 closed_in_head"]),
    Answer(
        "half a body",
        OK + b"Content-Length: 3\r\n\r\nhi",
        ["200 OK length=3", "body hi", "FAULT 502 closed_in_body"],
    ),
    Answer(
        "chunks without their end",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        ["200 OK chunked", "body hi", "FAULT 502 closed_in_body"],
    ),
    Answer("a whole response", EMPTY, ["200 OK length=0", "END"]),
]


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
def test_whole_and_byte_by_byte(case: Answer) -> None:
    """A table of what arrives, what it means, and whether the connection is fit for more."""
    whole = read_response(case.method, [case.wire])
    assert shown(whole.events) == case.events
    assert whole.reusable is (case in REUSABLE)
    assert read_response(case.method, byte_by_byte(case.wire)) == whole


@given(st.sampled_from(CASES).flatmap(lambda case: st.tuples(st.just(case), pieces(case.wire))))
def test_cut_anywhere(case_and_pieces: tuple[Answer, list[bytes]]) -> None:
    """Where the network cuts the bytes makes no difference."""
    case, cut = case_and_pieces
    exchange = read_response(case.method, cut)
    assert shown(exchange.events) == case.events
    assert exchange.reusable is (case in REUSABLE)


@pytest.mark.parametrize("case", AT_EOF, ids=named(AT_EOF))
def test_the_server_closes(case: Answer) -> None:
    """Only a body that is meant to end with the connection ends well that way."""
    whole = read_response(case.method, [case.wire], eof=True)
    assert shown(whole.events) == case.events
    assert not whole.reusable
    assert read_response(case.method, byte_by_byte(case.wire), eof=True) == whole


@pytest.mark.parametrize("case", REUSABLE, ids=named(REUSABLE))
def test_next_exchange(case: Answer) -> None:
    """What a parser went through leaves no trace in the next response."""
    parser = ResponseParser()
    for _ in range(2):
        for method, wire, events in (
            (case.method, case.wire, case.events),
            ("GET", EMPTY, ["200 OK length=0", "END"]),
        ):
            parser.start(method)
            said = [event for data in byte_by_byte(wire) for event in parser.feed(data)]
            assert said[-1] is END
            assert shown(said)[0] == events[0]
            assert parser.reusable


def test_bytes_outside_an_exchange() -> None:
    """A response that nobody asked for is never the answer to the next request."""
    parser = ResponseParser()
    parser.start("GET")
    parser.feed(EMPTY)
    fit = [parser.reusable]
    assert parser.feed(FORGED) == []
    fit.append(parser.reusable)
    assert fit == [True, False]
    with pytest.raises(RuntimeError):
        parser.start("GET")


def test_close_outside_an_exchange() -> None:
    """A server that hangs up on an idle connection breaks nothing, and the connection is gone."""
    parser = ResponseParser()
    parser.start("GET")
    parser.feed(EMPTY)
    assert parser.eof() == []
    assert not parser.reusable


def test_one_exchange_at_a_time() -> None:
    """Two at once, and one after a last one, are mistakes of the caller's."""
    parser = ResponseParser()
    assert not parser.reusable
    parser.start("GET")
    with pytest.raises(RuntimeError):
        parser.start("GET")
    parser.feed(OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(RuntimeError):
        parser.start("GET")


def test_nothing_is_said_after_a_fault() -> None:
    """A connection that broke the rules once is not listened to again."""
    parser = ResponseParser()
    parser.start("GET")
    assert isinstance(parser.feed(b"SSH-2.0-x\r\n")[-1], WireFault)
    assert parser.feed(EMPTY) == []
    assert parser.eof() == []
    assert not parser.reusable


def test_interim_heads_are_told_apart() -> None:
    """101 is the one 1xx that is final."""
    events = read_response("GET", [b"HTTP/1.1 100 Continue\r\n\r\n" + EMPTY]).events
    assert [event.interim for event in events if isinstance(event, ResponseHead)] == [True, False]
    (switching, *_) = read_response(
        "GET", [b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"]
    ).events
    assert isinstance(switching, ResponseHead)
    assert not switching.interim
