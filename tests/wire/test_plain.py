"""What is read at a glance is read as httptools reads it, and what is not plain is left to that."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.wire import plain
from proxy.wire.events import END, Event, RequestHead, ResponseHead
from proxy.wire.limits import Limits
from proxy.wire.parser import RequestParser, ResponseParser
from proxy.wire.plain import REMEMBERED, read_request, read_response
from tests.wire.feeding import byte_by_byte, joined, read_requests
from tests.wire.feeding import read_response as exchange

TARGET = st.from_regex(
    r"(http://[0-9A-Za-z.-]{1,9}(:[0-9]{1,5})?)?/[0-9A-Za-z._~!$&'()*+,;=:@%/?#\"<-]{0,20}", fullmatch=True
)
METHOD = st.sampled_from(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "LIST", "get"]
)
NAME = st.sampled_from(
    [
        "Accept",
        "Authorization",
        "Budget-Id",
        "Connection",
        "Content-Length",
        "Cookie",
        "Expect",
        "Host",
        "Host",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Transfer-Encoding",
        "Upgrade",
        "X-A",
        "X-A",
        "x_b",
        "X|c:",
    ]
) | st.text("ab-_^`|~!#$%&'*+.:( \t\"", min_size=1, max_size=6)
VALUE = st.sampled_from(
    [
        "a",
        "a:80",
        "close",
        "keep-alive",
        "Keep-Alive",
        "keep-alive, x-a",
        "upgrade",
        "chunked",
        "0",
        "5",
        "05",
        "+5",
        "5, 5",
        "",
    ]
) | st.text(st.characters(codec="latin-1"), max_size=12)
SPACE = st.sampled_from(["", " ", " ", "  ", "\t"])
FIELD = st.tuples(NAME, SPACE, VALUE, SPACE).map(lambda parts: f"{parts[0]}:{parts[1]}{parts[2]}{parts[3]}")
BODY = st.sampled_from(["", "", "hello", "hello!", "hell", "\r\n", "GET / HTTP/1.1\r\n\r\n"])
VERSION = st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1"])
END_OF_LINE = st.sampled_from(["\r\n"] * 12 + ["\n", "\r", "\r\r\n"])


@st.composite
def messages(draw: st.DrawFn, first: st.SearchStrategy[str]) -> bytes:
    """A message that is plain, or nearly so."""
    lines = [draw(first), *draw(st.lists(FIELD, max_size=6))]
    if draw(st.booleans()):
        lines.insert(1, "Host: a")
    if draw(st.booleans()):
        lines.append("Content-Length: 5")
    return (
        "".join([line + draw(END_OF_LINE) for line in [*lines, ""]]).encode("latin-1") + draw(BODY).encode()
    )


REQUESTS = messages(st.tuples(METHOD, TARGET, VERSION).map(" ".join))
RESPONSES = messages(
    st.tuples(
        VERSION, st.sampled_from(["200", "404", "204", "304", "100", "101", "205", "500", "99", "600"]), VALUE
    ).map(" ".join)
)


def slowly(wire: bytes) -> list[Event]:
    """What httptools makes of it: a head that comes in pieces is never plain."""
    return read_requests(byte_by_byte(wire))


@given(REQUESTS)
@example(b"GET http://a:1/ HTTP/1.1\r\nHost: a\r\n\r\n")
@example(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello")
def test_a_request_is_the_same_at_a_glance(wire: bytes) -> None:
    """Events and framing; and what comes next on the connection is read as the next request."""
    if read_request(wire, Limits()) is None:
        return
    assert read_requests([wire]) == slowly(wire)
    parser = RequestParser()
    if parser.feed(wire)[-1] is END:
        assert parser.feed(b"GET /next HTTP/1.1\r\nHost: b\r\n\r\n")[-1] is END


@given(RESPONSES, st.sampled_from(["GET", "POST", "HEAD", "CONNECT"]), st.booleans())
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "GET", False)
def test_a_response_is_the_same_at_a_glance(wire: bytes, method: str, eof: bool) -> None:
    """Events, and whether the connection can carry another exchange."""
    if read_response(method, wire, Limits()) is None:
        return
    assert exchange(method, [wire], eof=eof) == exchange(method, byte_by_byte(wire), eof=eof)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_body_may_follow_in_parts(cut: int) -> None:
    """The head is plain as long as it came whole; its body is counted."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
    parser = ResponseParser()
    parser.start("GET")
    events = parser.feed(head + b"x" * cut)
    assert isinstance(events[0], ResponseHead)
    in_the_middle = parser.reusable
    assert joined([*events[1:], *parser.feed(b"x" * (12 - cut))]) == [b"x" * 12, END]
    assert (in_the_middle, parser.reusable) == (False, True)
    requests = RequestParser()
    events = requests.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n" + b"x" * cut)
    assert isinstance(events[0], RequestHead)
    assert requests.mid_message
    assert joined([*events[1:], *requests.feed(b"x" * (12 - cut) + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")])[
        :2
    ] == [b"x" * 12, END]


def test_what_comes_behind_a_response_spoils_its_connection() -> None:
    """Nobody asked for it; the response itself is whole."""
    parser = ResponseParser()
    parser.start("GET")
    events = parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
    assert [*events[1:], *parser.feed(b"llo?")] == [b"he", b"llo", END]
    assert not parser.reusable


def test_a_response_that_breaks_off_is_a_fault() -> None:
    """As with any other that has a length."""
    parser = ResponseParser()
    parser.start("GET")
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
    assert [event.reason for event in parser.eof()] == ["closed_in_body"]  # type: ignore[union-attr]


def test_limits_hold() -> None:
    """What is too large is for httptools to refuse."""
    wire = b"GET /long HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\r\n"
    assert read_request(wire, Limits()) is not None
    for limits in (Limits(head_bytes=20), Limits(field_count=1), Limits(target_bytes=4)):
        assert read_request(wire, limits) is None
        assert read_requests([wire], limits) == read_requests(byte_by_byte(wire), limits)


def test_nothing_secret_is_remembered() -> None:
    """Lines are kept by their names, and a request line without its query."""
    secrets = [
        b"Authorization: Bearer s3cret",
        b"Cookie: id=s3cret",
        b"X-Api-Key: s3cret",
        b"X-Auth-Token: s3cret",
    ]
    wire = b"GET /?key=s3cret HTTP/1.1\r\nHost: a\r\n" + b"\r\n".join(secrets) + b"\r\n\r\n"
    assert read_request(wire, Limits()) is not None
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: id=s3cret\r\n\r\n"
    assert read_response("GET", answer, Limits()) is not None
    assert b"s3cret" not in repr((plain._request_lines, plain._status_lines, plain._fields)).encode()


def test_what_is_remembered_is_bounded() -> None:
    """Whatever callers and servers send."""
    for number in range(3 * REMEMBERED):
        read_request(b"GET /%d HTTP/1.1\r\nHost: a\r\nX-A: %d\r\n\r\n" % (number, number), Limits())
        read_response(
            "GET", b"HTTP/1.1 200 No%d\r\nContent-Length: 0\r\nX-A: %d\r\n\r\n" % (number, number), Limits()
        )
    for known in (plain._request_lines, plain._status_lines, plain._fields):
        assert 0 < len(known) <= REMEMBERED
