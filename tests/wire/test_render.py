"""What is rendered reads back as what it was, and never as more."""

from __future__ import annotations

import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.events import END, Field, RequestHead, ResponseHead, Trailers
from proxy.wire.render import (
    CONTINUE,
    LAST_CHUNK,
    UnsafeLine,
    chunk,
    interim_head,
    last_chunk_with,
    line,
    lines,
    reason_phrase,
    request_head,
    response_head,
)
from tests.wire.feeding import read_requests, read_response, shown

TOKENS = st.text(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~", min_size=1, max_size=20)
NAMES = TOKENS.map(lambda token: b"X-" + token.encode())
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=30).map(
    lambda value: value.encode("latin-1").strip()
)
FIELDS = st.lists(st.builds(lambda name, value: (name.lower(), name, value), NAMES, VALUES), max_size=10)
TARGETS = st.text(string.ascii_letters + string.digits + "/?&=%.~-", max_size=40).map(lambda path: "/" + path)
METHODS = st.sampled_from(["GET", "POST", "PATCH", "LIST"])
BODIES = st.lists(st.binary(max_size=100), max_size=5)
HOST: Field = (b"host", b"Host", b"a")
CHUNKED = line(b"Transfer-Encoding", b"chunked")


def chunked(body: list[bytes], trailers: list[Field]) -> bytes:
    return b"".join(map(chunk, body)) + (last_chunk_with(trailers) if trailers else LAST_CHUNK)


@given(METHODS, TARGETS, FIELDS, BODIES)
def test_request_with_a_length_reads_back(
    method: str, target: str, fields: list[Field], body: list[bytes]
) -> None:
    """Head and body of a request."""
    content = b"".join(body)
    length: Field = (b"content-length", b"Content-Length", b"%d" % len(content))
    every = [HOST, *fields, length]
    events = read_requests([request_head(method, target, lines(every, frozenset())) + content])
    head = events[0]
    assert isinstance(head, RequestHead)
    assert (head.method, head.target, head.fields) == (method, target, every)
    assert events[1:] == ([content, END] if content else [END])


@given(FIELDS, BODIES, FIELDS)
def test_chunked_request_reads_back(fields: list[Field], body: list[bytes], trailers: list[Field]) -> None:
    """A body in chunks with trailers. A piece of nothing makes no chunk, which would be the last one."""
    rendered = [*lines([HOST, *fields], frozenset()), CHUNKED]
    events = read_requests([request_head("POST", "/", rendered) + chunked(body, trailers)])
    content = [b"".join(body)] if any(body) else []
    assert events[1:] == [*content, *([Trailers(trailers)] if trailers else []), END]


@given(st.integers(200, 599), st.text(string.printable[:95]), FIELDS, BODIES, FIELDS)
def test_response_reads_back(
    status: int, reason: str, fields: list[Field], body: list[bytes], trailers: list[Field]
) -> None:
    """Head and body of a response, and its connection is fit for the next."""
    bodiless = status in (204, 304)
    wire = response_head(status, reason, [*lines(fields, frozenset()), *([] if bodiless else [CHUNKED])])
    events, reusable = read_response("GET", [wire + (b"" if bodiless else chunked(body, trailers))])
    head = events[0]
    assert isinstance(head, ResponseHead)
    assert (head.status, head.reason.strip()) == (status, reason.strip())
    assert head.fields[: len(fields)] == fields
    assert events[-1] is END
    assert reusable


def test_lines_leave_out_what_is_dropped() -> None:
    """Order and spelling stay."""
    fields = [HOST, (b"te", b"TE", b"trailers"), (b"x-a", b"x-A", b"")]
    assert lines(fields, frozenset({b"te"})) == [b"Host: a\r\n", b"x-A: \r\n"]


@pytest.mark.parametrize(
    "evil", ["\r\nX-Evil: 1", "\nX-Evil: 1", "\rX-Evil: 1", "\r\n\r\nbody", "\0", "\n\r"]
)
def test_no_value_becomes_a_line(evil: str) -> None:
    """RFC 9110 §5.5: what would end a field early is never sent, wherever in a head it stands."""
    field: Field = (b"x-a", b"X-A", b"a" + evil.encode() + b"b")
    attempts: list[Callable[[], bytes]] = [
        lambda: request_head("GET", "/", lines([HOST, field], frozenset())),
        lambda: request_head("GET", "/" + evil, [b"Host: a\r\n"]),
        lambda: request_head("GET" + evil, "/", [b"Host: a\r\n"]),
        lambda: response_head(200, "OK" + evil, []),
        lambda: response_head(200, "OK", [line(b"X-A", field[2])]),
        lambda: response_head(200, "OK", [line(b"X-A" + evil.encode(), b"")]),
        lambda: last_chunk_with([field]),
    ]
    for attempt in attempts:
        with pytest.raises(UnsafeLine):
            attempt()


@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/a b"), ("GET", ""), ("GET /", "/"), ("GET", "/ä"), ("GÄT", "/")]
)
def test_first_line_is_three_words(method: str, target: str) -> None:
    """A space in the target would make what follows it the version."""
    with pytest.raises(UnsafeLine):
        request_head(method, target, [])


@pytest.mark.parametrize("status", [200, 400, 403, 408, 413, 414, 424, 431, 501, 502, 503, 504, 505, 508])
def test_own_answers_have_a_reason(status: int) -> None:
    """Every status that the sidecar answers with has a phrase, for those who read it."""
    assert reason_phrase(status)
    assert (
        shown(read_response("HEAD", [response_head(status, None, [])]).events)[0]
        == f"{status} {reason_phrase(status)}"
    )


def test_unknown_status_has_no_reason() -> None:
    """The space before it stays (RFC 9112 §4)."""
    assert response_head(299, None, []) == b"HTTP/1.1 299 \r\n\r\n"


def test_interim_responses_are_passed_on_without_what_ends_here() -> None:
    """A 103 keeps its links, and nothing that would frame a body."""
    wire = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\nX: 1\r\nBudget-Foo: 9\r\nContent-Length: 5\r\n\r\n"
    (head,) = read_response("GET", [wire]).events
    assert isinstance(head, ResponseHead)
    assert interim_head(head, b"here") == b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nVia: 1.1 here\r\n\r\n"
    assert response_head(100, None, []) == CONTINUE
