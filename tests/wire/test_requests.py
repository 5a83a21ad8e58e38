"""Requests as they come: every row is fed whole, byte by byte and cut anywhere, and means the same each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.events import END, Event, RequestHead, Upgraded, WireFault
from proxy.wire.parser import RequestParser
from tests.wire.feeding import Case, byte_by_byte, named, pieces, read_requests, shown

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"

PLAIN = [
    Case("no body", GET + b"\r\n", ["GET /", "END"]),
    Case("a length", POST + b"Content-Length: 5\r\n\r\nhello", ["POST / length=5", "body hello", "END"]),
    Case("a length of nothing", POST + b"Content-Length: 0\r\n\r\n", ["POST / length=0", "END"]),
    Case(
        "leading zeros", POST + b"Content-Length: 005\r\n\r\nhello", ["POST / length=5", "body hello", "END"]
    ),
    Case(
        "space around a length",
        POST + b"Content-Length:\t 2 \t\r\n\r\nhi",
        ["POST / length=2", "body hi", "END"],
    ),
    Case(
        "chunks",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n",
        ["POST / chunked", "body abc0123456789", "END"],
    ),
    Case(
        "chunked, in capitals",
        POST + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
        ["POST / chunked", "END"],
    ),
    Case(
        "chunk extensions are read over",
        POST + b'Transfer-Encoding: chunked\r\n\r\n1;a=b;c="d;e"\r\nx\r\n0;last\r\n\r\n',
        ["POST / chunked", "body x", "END"],
    ),
    Case(
        "trailers",
        POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nDigest: 1 \r\nEmpty:\r\n\r\n" + NEXT,
        ["POST / chunked", "body x", "trailers Digest: 1, Empty: ", "END", "GET /next", "END"],
    ),
    Case("GET with content", GET + b"Content-Length: 2\r\n\r\nhi", ["GET / length=2", "body hi", "END"]),
    Case("empty lines before a request", b"\r\n\r\n" + GET + b"\r\n\r\n", ["GET /", "END"]),
    Case("absolute form", b"GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", ["GET http://a/b?c", "END"]),
    Case("asterisk form", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", ["OPTIONS *", "END"]),
    Case(
        "one request after another",
        GET + b"\r\n" + POST + b"Content-Length: 2\r\n\r\nhi" + NEXT,
        ["GET /", "END", "POST / length=2", "body hi", "END", "GET /next", "END"],
    ),
    Case(
        "a request, then an error",
        GET + b"\r\nGET / HTTP/1.1\r\nHost : a\r\n\r\n" + NEXT,
        ["GET /", "END", "FAULT 400 bad_field"],
    ),
    Case("half a head", GET + b"Accept: ", []),
    Case("half a body", POST + b"Content-Length: 5\r\n\r\nhel", ["POST / length=5", "body hel"]),
]

PERSISTENCE = [
    Case("1.1 persists", GET + b"\r\n", ["GET /", "END"]),
    Case("1.1 with close", GET + b"Connection: close\r\n\r\n", ["GET / last", "END"]),
    Case("close among others", GET + b"Connection: te, Close\r\n\r\n", ["GET / last", "END"]),
    Case(
        "close in a second line", GET + b"Connection: te\r\nConnection: close\r\n\r\n", ["GET / last", "END"]
    ),
    Case(
        "closer is not close",
        GET + b"Connection: closer\r\n\r\n" + NEXT,
        ["GET /", "END", "GET /next", "END"],
    ),
    Case("1.0 ends", b"GET / HTTP/1.0\r\n\r\n", ["GET / 1.0 last", "END"]),
    Case(
        "1.0 with keep-alive",
        b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" + NEXT,
        ["GET / 1.0", "END", "GET /next", "END"],
    ),
    Case(
        "1.0 with Proxy-Connection, which RFC 9112 C.2.2 tells to disregard",
        b"GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n" + NEXT,
        ["GET / 1.0 last", "END"],
    ),
    Case("close in Proxy-Connection", GET + b"Proxy-Connection: close\r\n\r\n" + NEXT, ["GET / last", "END"]),
    # RFC 9112 §9.6: the server must not process what comes after.
    Case("nothing is read after a close", GET + b"Connection: close\r\n\r\n" + NEXT, ["GET / last", "END"]),
    Case("noise after a close", GET + b"Connection: close\r\n\r\n\x00\xff", ["GET / last", "END"]),
]

UPGRADES = [
    Case(
        "a WebSocket",
        GET + b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
        ["GET / upgrade=websocket", "END", "UPGRADED \x81\x05hello"],
    ),
    Case(
        "the body before another protocol is read",
        POST + b"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 2\r\n\r\n{}raw",
        ["POST / length=2 upgrade=tcp", "body {}", "END", "UPGRADED raw"],
    ),
    Case(
        "an upgrade behind a chunked body is ignored",
        POST
        + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nT: 1\r\n\r\n"
        + NEXT,
        ["POST / chunked", "body {}", "trailers T: 1", "END", "GET /next", "END"],
    ),
    Case(
        "an upgrade and a close",
        POST
        + b"Connection: Upgrade, close\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + NEXT,
        ["POST / chunked last", "END"],
    ),
    Case(
        "Upgrade that Connection does not name",
        GET + b"Upgrade: websocket\r\n\r\n" + NEXT,
        ["GET /", "END", "GET /next", "END"],
    ),
    Case(
        "Upgrade that only Proxy-Connection names",
        POST + b"Proxy-Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nhi" + NEXT,
        ["POST / length=2", "body hi", "END", "GET /next", "END"],
    ),
    Case(
        "Upgrade in HTTP/1.0, where RFC 9110 §7.8 has it ignored",
        b"GET / HTTP/1.0\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n" + NEXT,
        ["GET / 1.0", "END", "GET /next", "END"],
    ),
    Case(
        "CONNECT",
        b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n\x16\x03\x01",
        ["CONNECT a:443", "END", "UPGRADED \x16\x03\x01"],
    ),
    Case(
        "CONNECT that announces nothing",
        b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 0\r\n\r\n",
        ["CONNECT a:443 length=0", "END", "UPGRADED"],
    ),
]

EXPECTATIONS = [
    Case(
        "a client that waits",
        POST + b"Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n",
        ["POST / length=2 expects 100"],
    ),
    Case(
        "HTTP/1.0 cannot wait",
        b"POST / HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
        ["POST / 1.0 length=2 last"],
    ),
]

METHODS = [
    Case("a method of WebDAV", b"PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n", ["PROPFIND /", "END"]),
    Case("M-SEARCH", b"M-SEARCH * HTTP/1.1\r\nHost: a\r\n\r\n", ["M-SEARCH *", "END"]),
    Case(
        "a method that httptools does not know",
        b"LIST /v1/secret HTTP/1.1\r\nHost: vault\r\n\r\n" + NEXT,
        ["LIST /v1/secret", "END", "GET /next", "END"],
    ),
    Case(
        "one that begins like another",
        b"\r\nPOSTER / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        ["POSTER / length=2", "body hi", "END"],
    ),
    Case(
        "one that begins an upgrade",
        b"X / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\nraw",
        ["X / upgrade=y", "END", "UPGRADED raw"],
    ),
    Case("capitals matter", b"get / HTTP/1.1\r\nHost: a\r\n\r\n", ["FAULT 400 bad_request_line"]),
    Case("no method", b" / HTTP/1.1\r\nHost: a\r\n\r\n", ["FAULT 400 bad_request_line"]),
    Case("no space", b"GET/ HTTP/1.1\r\nHost: a\r\n\r\n", ["FAULT 400 bad_request_line"]),
    Case("a long word", b"A" * 33 + b" / HTTP/1.1\r\nHost: a\r\n\r\n", ["FAULT 400 bad_request_line"]),
    # Cut behind `get`, it is not yet the method in small letters that it would be.
    Case(
        "small letters that begin like another method",
        b"getter / HTTP/1.1\r\nHost: a\r\n\r\n",
        ["getter /", "END"],
    ),
    Case("a method of RTSP", b"SETUP / HTTP/1.1\r\nHost: a\r\n\r\n", ["FAULT 501 unknown_method"]),
]

CASES = PLAIN + PERSISTENCE + UPGRADES + EXPECTATIONS + METHODS


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
def test_whole_and_byte_by_byte(case: Case) -> None:
    """A table of what arrives, and what it means."""
    whole = read_requests([case.wire])
    assert shown(whole) == case.events
    assert read_requests(byte_by_byte(case.wire)) == whole


@given(st.sampled_from(CASES).flatmap(lambda case: st.tuples(st.just(case), pieces(case.wire))))
def test_cut_anywhere(case_and_pieces: tuple[Case, list[bytes]]) -> None:
    """Where the network cuts the bytes makes no difference."""
    case, cut = case_and_pieces
    assert shown(read_requests(cut)) == case.events


def test_fields_keep_their_order_and_spelling() -> None:
    """A head keeps every line as it came; the index is for looking up."""
    (head, _) = read_requests([GET + b"x-B: 1 \r\nX-a:\t2\r\nX-B: \r\nX-B: 3\r\n\r\n"])
    assert isinstance(head, RequestHead)
    assert head.fields == [
        (b"host", b"Host", b"a"),
        (b"x-b", b"x-B", b"1"),
        (b"x-a", b"X-a", b"2"),
        (b"x-b", b"X-B", b""),
        (b"x-b", b"X-B", b"3"),
    ]
    assert head.get(b"x-b") == b"1, , 3"
    assert head.get(b"x-c") is None


def test_unknown_method_behind_another_request_in_one_feed() -> None:
    """httptools does not say where in a feed it stumbled, so a method that it does not know must stand at the start."""
    wire = GET + b"\r\nLIST / HTTP/1.1\r\nHost: a\r\n\r\n"
    assert shown(read_requests([wire])) == ["GET /", "END", "FAULT 501 unknown_method"]
    assert shown(read_requests(byte_by_byte(wire))) == ["GET /", "END", "LIST /", "END"]


@pytest.mark.parametrize(
    "wire",
    [
        GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        POST + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi",
        b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_proxy_that_does_not_upgrade_reads_on(wire: bytes) -> None:
    """What followed an upgrade is the next request, once it is fed back."""
    parser = RequestParser()
    last = parser.feed(wire + NEXT)[-1]
    assert last == Upgraded(NEXT)
    assert shown(parser.feed(NEXT)) == ["GET /next", "END"]


def test_where_the_parser_stands() -> None:
    """A head that is late is told from a body that is late, and from a connection that is idle."""
    parser = RequestParser()
    stands = []
    for data in (b"\r\n", b"P", b"OST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r", b"\n", b"h", b"i"):
        parser.feed(data)
        stands.append((parser.mid_head, parser.mid_message))
    idle, head, body = (False, False), (True, True), (False, True)
    assert stands == [idle, head, head, body, body, idle]


def test_nothing_is_said_after_a_fault() -> None:
    """A connection that broke the rules once is not listened to again."""
    parser = RequestParser()
    assert isinstance(parser.feed(b"\x00")[-1], WireFault)
    silence: list[Event] = []
    assert parser.feed(NEXT) == silence


def test_faults_name_the_place_and_the_remedy() -> None:
    """The sentence is for whoever has to correct the client."""
    (fault,) = read_requests([b"GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n"])
    assert fault == WireFault(
        400,
        "bad_field",
        "A header field of the request is malformed (Unexpected whitespace after header value); send name, colon, "
        "value on one line, without control characters.",
    )


def test_every_body_piece_is_bytes() -> None:
    """A large feed is read in pieces, and what comes out is no view of it."""
    body = bytes(range(256)) * 1024
    events = RequestParser().feed(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert events[-1] is END
    assert all(type(event) is bytes for event in events[1:-1])
    assert b"".join(event for event in events if isinstance(event, bytes)) == body
