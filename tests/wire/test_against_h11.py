"""A second opinion: what this parser takes, h11 takes too, with the same heads, the same bodies, the same ends.

Messages are put together from good and bad parts, so that most are nearly right. Where the two differ on purpose:

- This parser refuses much that h11 takes: chunked in HTTP/1.0, obsolete folding, a list of equal lengths, bare LF,
  `get` for a method, a Host that is none. There is nothing to compare then.
- h11 reads Content-Length and Transfer-Encoding even where there can be no body. Here a response to HEAD, a 204 or a
  304 has none whatever it says (RFC 9112 §6.3, step 1), so nothing depends on them, and only there is h11 stricter.
- h11 gives the value of Transfer-Encoding in lower case; a proxy keeps the spelling.
"""

from __future__ import annotations

import h11
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.events import END, Event, Framing, RequestHead, ResponseHead, Trailers, WireFault
from tests.support.opinion import Opinion
from tests.wire.feeding import pieces, read_requests, read_response


def mostly(good: list[bytes], bad: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of the good ones, and now and then a bad one: a message with one mistake is the interesting kind."""
    return st.integers(0, 15).flatmap(lambda die: st.sampled_from(bad if die == 15 else good))


LINE_ENDS = mostly([b"\r\n"], [b"\n", b"\r", b"\r\n\r\n"])
METHODS = mostly([b"GET", b"POST", b"PUT", b"LIST", b"OPTIONS"], [b"GE T", b"get", b""])
TARGETS = mostly([b"/", b"/a?b=c", b"http://a/", b"*", b"/%20", b"/#f"], [b"/a b", b"/\t", b"/\xc3\xa4"])
VERSIONS = mostly(
    [b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"], [b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 "]
)
STATUSES = mostly([b"200", b"201", b"204", b"304", b"404", b"500"], [b"99", b"2000", b"999"])
REASONS = mostly([b" OK", b" ", b"", b" Not Found", b" \xe9"], [b" a\tb", b" a\0b"])

NAMES = mostly(
    [b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"X-A", b"x-a"],
    [b"Host", b"Bad Name", b"", b"X-A "],
)
VALUES = mostly(
    [
        b"a",
        b"5",
        b"0",
        b"",
        b"chunked",
        b"close",
        b"keep-alive",
        b"Close, TE",
        b"100-continue",
        b" a \t",
        b"\xe9",
    ],
    [b"+3", b"3, 3", b"0x3", b"1_0", b"gzip, chunked", b"identity", b"a\0", b"a\r\n b", b"a\nb", b"\x0b"],
)
LENGTH = [b"Content-Length: 5"]
CHUNKED = [b"Transfer-Encoding: chunked"]
FRAMED = st.sampled_from(
    [
        ([], b""),
        (LENGTH, b"hello"),
        (LENGTH, b"hello!"),
        (LENGTH, b"hel"),
        ([b"Content-Length: 005"], b"hello"),
        ([*LENGTH, b"Connection: close"], b"hello"),
        (CHUNKED, b"0\r\n\r\n"),
        (CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"5\r\nhello\r\n0\r\nT: 1\r\n\r\n"),
        (CHUNKED, b"5;x=y\r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"05\r\nhello\r\n00\r\n\r\n"),
        (CHUNKED, b"+5\r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"5 \r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"5\nhello\n0\n\n"),
        (CHUNKED, b"3\r\nhello\r\n0\r\n\r\n"),
        (CHUNKED, b"5\r\nhel"),
        ([*CHUNKED, *LENGTH], b"0\r\n\r\n"),
    ]
)


@st.composite
def messages(draw: st.DrawFn, first_lines: st.SearchStrategy[bytes], *, host: bool) -> bytes:
    """A first line, a few fields, and something that may be a body."""
    framing, body = draw(FRAMED)
    others = draw(st.lists(st.tuples(NAMES, VALUES), max_size=2))
    lines = [b"Host: a"] if host and draw(st.integers(0, 15)) < 15 else []
    lines += [*framing, *(name + b": " + value for name, value in others)]
    wire = draw(first_lines) + draw(LINE_ENDS)
    wire += b"".join(text + draw(LINE_ENDS) for text in draw(st.permutations(lines)))
    return wire + draw(LINE_ENDS) + body


REQUEST_LINES = st.builds(lambda *words: b" ".join(words), METHODS, TARGETS, VERSIONS)
STATUS_LINES = st.builds(
    lambda version, status, reason: version + b" " + status + reason, VERSIONS, STATUSES, REASONS
)


def until_end(events: list[Event]) -> tuple[list[Event], bool]:
    """The events of the first message, and whether it is whole."""
    if END in events:
        return events[: events.index(END)], True
    return [event for event in events if not isinstance(event, WireFault)], False


def agree(head: RequestHead | ResponseHead, events: list[Event], opinion: Opinion) -> None:
    """Compare what both made of the fields and the body."""
    assert opinion.head is not None
    fields = [
        (name, value.lower() if name == b"transfer-encoding" else value) for name, _, value in head.fields
    ]
    assert sorted(fields) == sorted(opinion.head.headers)
    assert b"".join(event for event in events if isinstance(event, bytes)) == opinion.body
    trailers = [field for event in events if isinstance(event, Trailers) for field in event.fields]
    assert [(name, value) for name, _, value in trailers] == opinion.trailers


@given(messages(REQUEST_LINES, host=True), st.data())
def test_requests(wire: bytes, data: st.DataObject) -> None:
    """A request that is taken here is the same request there, and ends at the same octet."""
    said = read_requests(data.draw(pieces(wire)))
    events, ended = until_end(said)
    if not events:
        return
    (head, *_) = events
    assert isinstance(head, RequestHead)
    opinion = Opinion(h11.Connection(h11.SERVER), wire, eof=False)
    if isinstance(said[-1], WireFault) and not ended:
        return
    assert not opinion.refused
    assert isinstance(opinion.head, h11.Request)
    assert opinion.head.method == head.method.encode()
    assert opinion.head.target == head.target.encode()
    assert opinion.head.http_version == b"1.%d" % head.minor
    assert opinion.ended is ended
    agree(head, events, opinion)


@given(messages(STATUS_LINES, host=False), st.sampled_from(["GET", "HEAD"]), st.booleans(), st.data())
def test_responses(wire: bytes, method: str, eof: bool, data: st.DataObject) -> None:
    """The same for a response, whose end may be the end of the connection."""
    said = read_response(method, data.draw(pieces(wire)), eof=eof).events
    events, ended = until_end(said)
    if not events:
        return
    (head, *_) = events
    assert isinstance(head, ResponseHead)
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    opinion = Opinion(connection, wire, eof=eof)
    if isinstance(said[-1], WireFault) and not ended:
        return
    if opinion.refused:
        assert head.framing is Framing.NO_BODY
        assert head.index.keys() & {b"content-length", b"transfer-encoding"}
        return
    assert isinstance(opinion.head, h11.Response)
    assert opinion.head.status_code == head.status
    assert opinion.head.reason == head.reason.encode("latin-1")
    assert opinion.ended is ended
    if head.framing is Framing.NO_BODY:
        assert opinion.body == b""
    agree(head, events, opinion)
