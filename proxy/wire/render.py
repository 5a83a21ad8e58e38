"""From heads, chunks and trailers to bytes. What is rendered here always reads back as the one message it was.

Values come from the wire, where they were checked, and from the program itself, which puts names of routes, ids and
what a client said into fields of its own. A line break among them would end the field and begin another (RFC 9110
§5.5), so every head is looked over once, as a whole, before it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from http import HTTPStatus
from typing import Final

from proxy.wire.events import Field, ResponseHead
from proxy.wire.fields import dropped, relayed_trailers, via

LAST_CHUNK: Final = b"0\r\n\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_NOT_INTERIM: Final = frozenset({b"content-length"})

# As RFC 9110 §15 spells them; the standard library has older names for some, depending on its version.
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
}


class UnsafeLine(ValueError):
    """Something that was to be rendered holds a line break, NUL or a space where it would change the message."""


def reason_phrase(status: int) -> str:
    """Give the usual reason phrase; an unknown status has none, as RFC 9112 §4 allows."""
    return _REASONS.get(status, "")


def request_head(method: str, target: str, lines: Sequence[bytes]) -> bytes:
    """Render a request head from its field lines."""
    first = f"{method} {target} HTTP/1.1\r\n"
    if not target or first.count(" ") != 2 or not first.isascii():
        raise UnsafeLine("the method and the target of a request are one ASCII word each")
    return _head(first.encode("ascii"), lines)


def response_head(status: int, reason: str | None, lines: Sequence[bytes]) -> bytes:
    """Render a response head from its field lines. Without a reason of its own it gets the usual one."""
    phrase = reason_phrase(status) if reason is None else reason
    return _head(b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode("latin-1", "replace")), lines)


def interim_head(head: ResponseHead, pseudonym: bytes) -> bytes:
    """Render a 1xx response as it is passed on (RFC 9110 §15.2). It has no body, whatever it says."""
    passed = lines(head.fields, dropped(head, _NOT_INTERIM))
    return response_head(head.status, head.reason, [*passed, via(head, pseudonym)])


def line(name: bytes, value: bytes) -> bytes:
    """Render one field line."""
    return name + b": " + value + b"\r\n"


def lines(fields: Sequence[Field], drop: Set[bytes]) -> list[bytes]:
    """Render the field lines that are passed on, in their order and spelling. `Budget-*` is for this hop to say."""
    return [
        name + b": " + value + b"\r\n"
        for lower, name, value in fields
        if lower not in drop and lower[:7] != b"budget-"
    ]


def chunk(data: bytes) -> bytes:
    """Render one chunk. No data makes no chunk: an empty one would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def last_chunk_with(trailers: Sequence[Field], own: Sequence[bytes] = ()) -> bytes:
    """Render the end of a chunked body, with those of its trailers that may be passed on, and lines of our own."""
    return _head(b"0\r\n", [*lines(relayed_trailers(trailers), frozenset()), *own])


def _head(first: bytes, field_lines: Sequence[bytes]) -> bytes:
    """Join a head, and see that it has as many line ends as lines: one more would be a line that nobody meant."""
    head = first + b"".join(field_lines) + b"\r\n"
    expected = len(field_lines) + 2
    if head.count(b"\n") != expected or head.count(b"\r") != expected or b"\0" in head:
        raise UnsafeLine("a header field may not hold CR, LF or NUL")
    return head
