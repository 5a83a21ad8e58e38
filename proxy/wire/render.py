"""From heads, chunks and trailers to bytes. What is rendered here always reads back as the one message it was.

Values come from the wire, where they were checked, and from the program itself, which puts names of routes, ids and
what a client said into fields of its own. A line break among them would end the field and begin another (RFC 9110
§5.5), so every line is looked over once before it leaves: where it is made (`line`, `lines`, `via`), or with its head.

What repeats from message to message is rendered once and remembered, up to a bound: never a query, nor a line that may
hold a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from proxy.wire.events import Field, RequestHead, ResponseHead
from proxy.wire.fields import HOP_BY_HOP, dropped, relayed_trailers
from proxy.wire.plain import LONGEST_REMEMBERED, may_be_remembered, remember

LAST_CHUNK: Final = b"0\r\n\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_NOT_INTERIM: Final = HOP_BY_HOP | {b"content-length"}
# As numbers: CPython takes many times as long to look for `b"\n"` in bytes.
_NUL: Final = 0x00
_LF: Final = 0x0A
_CR: Final = 0x0D
_UNSAFE: Final = "a header field may not hold CR, LF or NUL"

# Any: compiled, a tuple whose length is known is taken apart and made anew each time that it is handed on, and a key that
# is the same object is found without a look at what is in it.
_known: Final[dict[Any, bytes]] = {}  # field lines, by fields
_beginnings: Final[dict[Any, bytes]] = {}  # of requests, by method, target and host
_status_lines: Final[dict[Any, bytes]] = {}  # by status and reason
# For HTTP/1.0 and for 1.1, by pseudonym, of which there is one in a process.
_vias: Final[dict[bytes, tuple[bytes, bytes]]] = {}

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


def request_head(
    method: str, target: str, lines: Sequence[bytes], made: Sequence[bytes] = (), host: str | None = None
) -> bytes:
    """Render a request head from its field lines. `made`: those that were looked over, after `host` and before the others."""
    words: Any = (method, target, host)
    return _head(_beginnings.get(words) or _beginning(method, target, host), made, lines)


def _beginning(method: str, target: str, host: str | None) -> bytes:
    """Render the request line, and the host where it is given."""
    first = f"{method} {target} HTTP/1.1"
    if not target or first.count(" ") != 2 or not first.isascii():
        raise UnsafeLine("the method and the target of a request are one ASCII word each")
    begin = safe(first) + b"\r\n"
    if host is not None:
        begin += b"Host: %b\r\n" % safe(host)
    if "?" not in target and len(begin) <= LONGEST_REMEMBERED:
        remember(_beginnings, (method, target, host), begin)
    return begin


def response_head(
    status: int, reason: str | None, lines: Sequence[bytes], made: Sequence[bytes] = ()
) -> bytes:
    """Render a response head from its field lines. Without a reason of its own it gets the usual one.

    `made`: those that were looked over, before the others.
    """
    words: Any = (status, reason)
    return _head(_status_lines.get(words) or _status_line(status, reason), made, lines)


def _status_line(status: int, reason: str | None) -> bytes:
    phrase = reason_phrase(status) if reason is None else reason
    first = b"HTTP/1.1 %d %b\r\n" % (status, safe(phrase))
    if len(first) <= LONGEST_REMEMBERED:
        remember(_status_lines, (status, reason), first)
    return first


def interim_head(head: ResponseHead, pseudonym: bytes) -> bytes:
    """Render a 1xx response as it is passed on (RFC 9110 §15.2). It has no body, whatever it says."""
    passed = lines(head.fields, dropped(head, _NOT_INTERIM))
    return response_head(head.status, head.reason, [*passed, via(head, pseudonym)])


def line(name: bytes, value: bytes) -> bytes:
    """Render one field line."""
    text = b"%b: %b" % (name, value)
    _look_over(text)
    return text + b"\r\n"


def safe(text: str) -> bytes:
    """Return a text as it can stand in a line. What Latin-1 does not have is a question mark there."""
    octets = text.encode("latin-1", "replace")
    _look_over(octets)
    return octets


def via(head: RequestHead | ResponseHead, pseudonym: bytes) -> bytes:
    """Render the line by which this hop says that a message passed it, and in which version it came (RFC 9110 §7.6.3).

    It goes behind the Via lines that the message has: together they are one list.
    """
    made = _vias.get(pseudonym)
    if made is None:
        made = line(b"Via", b"1.0 " + pseudonym), line(b"Via", b"1.1 " + pseudonym)
        _vias[pseudonym] = made
    return made[head.minor]


def lines(fields: Sequence[Field], drop: frozenset[bytes]) -> list[bytes]:
    """Render the field lines that are passed on, in their order and spelling. `Budget-*` is for this hop to say."""
    found: list[bytes] = []
    every: Any = fields
    for each in every:
        rendered = _known.get(each)
        if rendered is None:
            rendered = _passed_on(each)
        if rendered and each[0] not in drop:
            found.append(rendered)
    return found


def _passed_on(field: Any) -> bytes:
    """Render a field line, or nothing where it ends here whatever else holds. It is remembered as its field is."""
    lower: bytes = field[0]
    rendered = b"" if lower[:7] == b"budget-" else line(field[1], field[2])
    if may_be_remembered(lower, len(rendered)):
        remember(_known, field, rendered)
    return rendered


def chunk(data: bytes) -> bytes:
    """Render one chunk. No data makes no chunk: an empty one would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def last_chunk_with(trailers: Sequence[Field], own: Sequence[bytes] = ()) -> bytes:
    """Render the end of a chunked body, with those of its trailers that may be passed on, and lines of our own."""
    return _head(b"0\r\n", lines(relayed_trailers(trailers), frozenset()), own)


def _head(first: bytes, made: Sequence[bytes], own: Sequence[bytes]) -> bytes:
    """Join a head. Lines that were not looked over have one end each: one more would be a line that nobody meant."""
    if not own:
        return first + b"".join(made) + b"\r\n"
    added = b"".join(own)
    if added.count(b"\n") != len(own) or added.count(b"\r") != len(own) or _NUL in added:
        raise UnsafeLine(_UNSAFE)
    return b"".join([first, *made, added, b"\r\n"])


def _look_over(text: bytes) -> None:
    if _LF in text or _CR in text or _NUL in text:
        raise UnsafeLine(_UNSAFE)
