"""Messages that are plain, read at a glance: a head of the usual form, in one piece, with nothing behind its message.

Nearly all messages are so, and httptools calls back for each part of each field. What is unusual in any way is left to it:
another version, a head that came in pieces, a field that frames or ends the connection, a second message behind the first, a
character that hardly anybody sends. So nothing is refused here, and nothing taken that httptools would refuse, or read in
another way (`tests/wire/test_plain.py` holds the one against the other).

Lines repeat from message to message, so what was read of one is remembered, up to a bound, unless it may hold a secret.
"""

from __future__ import annotations

import re
from typing import Any, Final

from proxy.wire.events import Field, Framing, RequestHead, ResponseHead, WireFault
from proxy.wire.heads import build_request, build_response
from proxy.wire.limits import Limits

_REQUEST_LINE: Final = re.compile(
    rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) "
    rb"((?:http://[0-9A-Za-z.-]+(?::[0-9]{1,5})?)?/[0-9A-Za-z._~!$&'()*+,;=:@%/?-]*) HTTP/1\.1"
)
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) ([!-~][ -~]*)")
_FIELD_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([!-~](?:[\t -~]*[!-~])?)[\t ]*")

_LONGEST: Final = 8192  # of a head: what is longer is hardly plain
_PERSISTS: Final = frozenset({b"keep-alive", b"Keep-Alive"})
_BODILESS: Final = frozenset({204, 304})

_SECRET: Final = re.compile(rb"auth|cookie|credential|key|secret|token")
REMEMBERED: Final = 512
"""How many lines of one kind are remembered. Full, the memory starts anew: the lines that repeat are back at once."""
LONGEST_REMEMBERED: Final = 256
"""How many octets of a line, or of what is made of it, are remembered."""
_LENGTH: Final = Framing.LENGTH

_request_lines: Final[dict[bytes, tuple[str, bytes]]] = {}
_status_lines: Final[dict[bytes, tuple[int, bytes]]] = {}
_fields: Final[dict[bytes, Any]] = {}


def read_request(data: bytes, limits: Limits) -> tuple[RequestHead, int] | None:
    """Read a request that is the first of these octets; return its head and where that ends. None: it is not plain."""
    end = data.find(b"\r\n\r\n", 0, _LONGEST)
    if end < 0 or end + 4 > limits.head_bytes:
        return None
    lines = data[:end].split(b"\r\n")
    first = _request_lines.get(lines[0]) or _request_line(lines[0])
    if first is None or len(first[1]) > limits.target_bytes:
        return None
    fields = _read_fields(lines, limits)
    if fields is None:
        return None
    head = build_request(first[0], first[1], "1.1", fields, leaves_http=False)
    if isinstance(head, WireFault) or not _is_plain(head.index):
        return None
    return (head, end + 4) if len(data) - end - 4 <= (head.length or 0) else None


def read_response(method: str, data: bytes, limits: Limits) -> tuple[ResponseHead, int] | None:
    """Read a response to such a request, with a length; return its head and where that ends. None: it is not plain."""
    end = data.find(b"\r\n\r\n", 0, _LONGEST)
    if end < 0 or end + 4 > limits.head_bytes:
        return None
    lines = data[:end].split(b"\r\n")
    first = _status_lines.get(lines[0]) or _status_line(lines[0])
    if first is None or first[0] in _BODILESS:
        return None
    fields = _read_fields(lines, limits)
    if fields is None:
        return None
    head = build_response(method, first[0], first[1], "1.1", fields)
    if isinstance(head, WireFault) or head.framing is not _LENGTH or not _is_plain(head.index):
        return None
    return (head, end + 4) if len(data) - end - 4 <= (head.length or 0) else None


def _request_line(line: bytes) -> tuple[str, bytes] | None:
    """Read a method and a target. A query is not remembered: it is hardly ever the same, and may hold a secret."""
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        return None
    found = match[1].decode(), match[2]
    if len(line) <= LONGEST_REMEMBERED and b"?" not in line:
        remember(_request_lines, line, found)
    return found


def _status_line(line: bytes) -> tuple[int, bytes] | None:
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        return None
    found = int(match[1]), match[2]
    if len(line) <= LONGEST_REMEMBERED:
        remember(_status_lines, line, found)
    return found


def _read_fields(lines: list[bytes], limits: Limits) -> list[Field] | None:
    """Read the field lines of a head, which come after its first line; None if one of them is not plain."""
    if len(lines) - 1 > limits.field_count:
        return None
    # Any: compiled, a tuple whose length is known is taken apart and made anew each time that it is handed on, and what is
    # made of fields is found by them the faster the more often they are the same object (`render.lines`).
    fields: list[Any] = []
    field: Any
    for at in range(1, len(lines)):
        line = lines[at]
        field = _fields.get(line)
        if field is None:
            field = _field(line)
        if field is None:
            return None
        fields.append(field)
    return fields


def _field(line: bytes) -> Any:
    """Read one field line: a `Field`, or None."""
    match = _FIELD_LINE.fullmatch(line)
    if match is None:
        return None
    name: bytes = match[1]
    field: Any = (name.lower(), name, match[2])
    if may_be_remembered(field[0], len(line)):
        remember(_fields, line, field)
    return field


def remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep what was read or made of something that repeats, up to `REMEMBERED` of a kind."""
    if len(known) >= REMEMBERED:
        known.clear()
    known[key] = value


def may_be_remembered(name: bytes, size: int) -> bool:
    """Say whether a field line with this name and so many octets may be kept after its message has gone."""
    return size <= LONGEST_REMEMBERED and _SECRET.search(name) is None


def _is_plain(index: dict[bytes, bytes]) -> bool:
    """Whether a length, or nothing, frames the message, and the connection goes on after it."""
    if b"transfer-encoding" in index or b"upgrade" in index or b"proxy-connection" in index:
        return False
    connection = index.get(b"connection")
    return connection is None or connection in _PERSISTS
