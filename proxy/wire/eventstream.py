"""Answers that are read as they come, and where an event stream can be cut.

The grammar is that of the HTML standard, §9.2.5 "Parsing an event stream": lines end in CRLF, LF or CR, and an empty
line ends an event. A client acts on an event only when it is complete, so a stream that is cut between two of them can
be ended with one more, and one that is cut inside an event cannot.
"""

from __future__ import annotations

from typing import Final

from proxy.wire.boundary import HELD, Boundary

_LINE_ENDS: Final = b"\r\n"

# Every way to write two line ends in a row holds one of these pairs; CR LF alone is a single line end.
_EMPTY_LINES: Final = (b"\n\n", b"\n\r", b"\r\r")

_READ_AS_THEY_COME: Final = frozenset(
    {
        b"text/event-stream",
        b"application/json-lines",
        b"application/json-seq",
        b"application/jsonl",
        b"application/jsonlines",
        b"application/ndjson",
        b"application/stream+json",
        b"application/vnd.amazon.eventstream",
        b"application/x-json-stream",
        b"application/x-jsonl",
        b"application/x-jsonlines",
        b"application/x-ndjson",
        b"multipart/x-mixed-replace",
    }
)
_READ_AS_THEY_COME_FAMILIES: Final = (b"application/grpc", b"application/connect+")

# GraphQL sends a first result and then the deferred parts; without one of these, `multipart/mixed` is any batch.
_INCREMENTAL_PARTS: Final = (b"deferspec=", b"subscriptionspec=")


def read_as_it_comes(content_type: bytes) -> bool:
    """Say whether an answer of this Content-Type is made to be read before it is complete."""
    kind, _, parameters = content_type.lower().partition(b";")
    kind = kind.strip()
    if kind == b"multipart/mixed":
        return any(part in parameters for part in _INCREMENTAL_PARTS)
    return kind in _READ_AS_THEY_COME or kind.startswith(_READ_AS_THEY_COME_FAMILIES)


def error_event(payload: bytes) -> bytes:
    """Render the event that ends a stream which was cut. JSON on one line needs no further care."""
    return b"event: error\ndata: " + payload + b"\n\n"


class EventBoundary(Boundary):
    """Lets whole events pass and keeps the beginning of the next one back."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """Take a piece of the stream, and return what may be passed on now."""
        tail = self._tail
        buffer = tail + data if tail else data
        # Of what was kept back, only a last line end can be part of the empty line that is looked for.
        end = _last_event_end(buffer, max(len(tail) - 1, 0))
        if not self._inside and not end:
            # Line ends before an event are empty lines too, or the second half of the CR LF that ended the last one.
            end = len(buffer) - len(buffer.lstrip(_LINE_ENDS))
        if end:
            self._inside = False
        if len(buffer) - end > HELD:
            # The line ends at the very end stay: an empty line may begin with them.
            end = len(buffer.rstrip(_LINE_ENDS))
            self._inside = True
        self._tail = buffer[end:]
        return buffer[:end]


def _last_event_end(buffer: bytes, start: int) -> int:
    """Find the end of the last empty line, or 0."""
    end = max(buffer.rfind(pair, start) for pair in _EMPTY_LINES) + 2
    if end < 2:
        return 0
    # The empty line may itself end in CR LF.
    return end + 1 if buffer[end - 1 : end + 1] == b"\r\n" else end
