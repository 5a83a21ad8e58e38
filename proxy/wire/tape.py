"""What httptools calls back, written down as events: one tape for requests, one for responses.

A callback that raises looks to httptools like malformed input. So callbacks append and count, and raise only `Stop`,
to end the reading once they have noted why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, NoReturn, Protocol

from proxy.wire.events import END, Event, Field, Framing, RequestHead, ResponseHead, Trailers, WireFault
from proxy.wire.faults import Side, fault
from proxy.wire.heads import build_request, build_response, size_of
from proxy.wire.limits import Limits

PIECE: Final = 64 * 1024
"""The most that is read at once. What is held in memory may go over its limit by one piece, and by no more."""

BETWEEN, HEAD, BODY, CHUNKED = range(4)
"""Where the reading stands: between messages, in a head, in a body, in a chunked body or its trailers."""

# Looking a member up in an enumeration costs as much as a callback.
_NO_BODY: Final = Framing.NO_BODY
_CHUNKED: Final = Framing.CHUNKED

# The interim responses that httptools knows to have no body, whatever they say.
_KNOWN_INTERIM: Final = frozenset({100, 102, 103})

# What a chunk may cost besides its content: as much again, and a line of this many octets. A stream of chunks of one
# octet each stays within that; chunk extensions without end do not.
_CHUNK_LINE: Final = 16


class Source(Protocol):
    """What a tape asks of the httptools parser that writes on it."""

    def get_http_version(self) -> str: ...
    def should_keep_alive(self) -> bool: ...
    def should_upgrade(self) -> bool: ...


class RequestSource(Source, Protocol):
    """The same, for requests."""

    def get_method(self) -> bytes: ...


class ResponseSource(Source, Protocol):
    """The same, for responses."""

    def get_status_code(self) -> int: ...


class Stop(Exception):
    """Raised by a callback: nothing further is to be read."""


def _collector(fields: list[Field]) -> Callable[[bytes, bytes], None]:
    """Make the callback for a field. It runs more often than all others together, so it is bound to nothing else.

    httptools leaves the white space after a value in place (RFC 9112 §5.1), and lets no other stand in one but space
    and tab, so that a bare `rstrip` removes just these.
    """
    append = fields.append

    def on_header(name: bytes, value: bytes) -> None:
        append((name.lower(), name, value.rstrip()))

    return on_header


class _Tape:
    """What requests and responses have in common: fields, trailers, and the account of what is held."""

    side: ClassVar[Side]

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.events: list[Event] = []
        self.fault: WireFault | None = None
        self.stopped = False
        self.place = BETWEEN
        self.fields: list[Field] = []
        """The fields of the head or, after the body, of the trailers: they come the same way."""
        self.on_header = _collector(self.fields)
        self.line = b""
        """The target of the request or the reason of the response, as far as it has come."""
        self.piece = 0
        """The size of the piece being read."""
        self.spent = 0
        """Octets of earlier pieces that went into the head, or the chunk framing, that is still incomplete."""

    def stop(self, because: WireFault | None = None) -> NoReturn:
        """End the reading, because of a fault if there is one."""
        self.fault = because
        self.stopped = True
        raise Stop

    def take_fields(self) -> list[Field]:
        """Hand over a complete set of fields. It is measured only if there was room for it to be too large."""
        fields = self.fields.copy()
        self.fields.clear()
        limits = self.limits
        if len(fields) > limits.field_count:
            self.stop(fault(self.side, "too_many_fields"))
        limit = limits.head_bytes
        if self.spent + self.piece > limit and len(self.line) + size_of(fields) > limit:
            self.stop(fault(self.side, "head_too_large"))
        self.spent = 0
        return fields

    def end(self) -> None:
        """Write the end of the message, after its trailers."""
        if self.fields:
            self.events.append(Trailers(self.take_fields()))
        self.events.append(END)
        self.place = BETWEEN
        self.spent = 0

    def account(self, seen: int) -> None:
        """Count a piece that did not end its message. `seen` is the number of events that there were before it.

        The piece in which something began holds other things too: hence the room of one piece above the limit.
        """
        if self.place == HEAD:
            self.spent += self.piece
        elif self.place == CHUNKED:
            content = [len(event) for event in self.events[seen:] if isinstance(event, bytes)]
            self.spent = max(0, self.spent + self.piece - 2 * sum(content) - _CHUNK_LINE * len(content))
        if len(self.fields) > self.limits.field_count:
            self.fault = fault(self.side, "too_many_fields")
        elif self.spent > self.limits.head_bytes + PIECE:
            self.fault = fault(self.side, "head_too_large" if self.place == HEAD else "chunk_overhead")


class RequestTape(_Tape):
    """The callbacks for requests."""

    side: ClassVar[Side] = "request"
    source: RequestSource

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.target_bytes = limits.target_bytes
        self.head: RequestHead | None = None
        self.method = ""
        """The method, where httptools is shown another in its place."""
        self.closed = False
        """The client has said that it sends no further request."""
        self.body_skipped = False
        """httptools takes an Upgrade for the end of HTTP, and reports the end of a request whose body is to come."""
        self.start: bytes | None = b""
        """The first octets of a request that came in pieces, up to its target. None if other things stood before it."""

    def on_message_begin(self) -> None:
        """Enter a head. What follows a `close` is not looked at (RFC 9112 §9.6)."""
        if self.closed:
            self.stop()
        self.place = HEAD
        self.start = b""

    def on_url(self, part: bytes) -> None:
        """Take the request target, or a part of it."""
        self.line += part
        if len(self.line) > self.target_bytes:
            self.stop(fault(self.side, "target_too_long"))

    def on_headers_complete(self) -> None:
        """Write the head."""
        source = self.source
        method = self.method or source.get_method().decode()
        leaves = source.should_upgrade()
        fields = self.take_fields()
        head = build_request(method, self.line, source.get_http_version(), fields, leaves_http=leaves)
        if isinstance(head, WireFault):
            self.stop(head)
        # httptools reads Proxy-Connection too, and would not go on after a `close` there.
        if not source.should_keep_alive():
            head.keep_alive = False
        self.events.append(head)
        self.head = head
        self.closed = not head.keep_alive
        self.place = CHUNKED if head.framing is _CHUNKED else BODY
        self.body_skipped = leaves and (head.framing is _CHUNKED or bool(head.length))
        self.method = ""
        self.line = b""

    def on_body(self, data: bytes) -> None:
        """Pass content on."""
        self.events.append(data)

    def on_message_complete(self) -> None:
        """Write the end, where it is one."""
        if not self.body_skipped:
            self.end()


class ResponseTape(_Tape):
    """The callbacks for responses. `open` while a response is awaited or under way."""

    side: ClassVar[Side] = "response"
    source: ResponseSource

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.method = ""
        self.open = False
        self.head: ResponseHead | None = None
        self.interims = 0
        """The interim responses that have come before the one that is awaited."""

    def on_message_begin(self) -> None:
        """Enter a head, unless nobody asked for it."""
        if not self.open:
            self.stop()
        self.place = HEAD

    def on_status(self, part: bytes) -> None:
        """Take the reason phrase, or a part of it."""
        self.line += part

    def on_headers_complete(self) -> None:
        """Write the head, and the end with it where the body is known to be absent."""
        source = self.source
        fields = self.take_fields()
        head = build_response(
            self.method, source.get_status_code(), self.line, source.get_http_version(), fields
        )
        if isinstance(head, WireFault):
            self.stop(head)
        if head.status == 101 and not source.should_upgrade():
            self.stop(fault(self.side, "bad_upgrade"))
        # httptools would read a body behind an interim head that it has no name for, and the response in it.
        if head.interim and head.status not in _KNOWN_INTERIM and _announces_body(head):
            self.stop(fault(self.side, "content_on_interim"))
        # As in a request; without that field httptools may only be unaware that there is no body.
        if b"proxy-connection" in head.index and not source.should_keep_alive():
            head.keep_alive = False
        self.events.append(head)
        self.line = b""
        if head.interim:
            self.interims += 1
            if self.interims > self.limits.interim_count:
                self.stop(fault(self.side, "too_many_interim"))
            self.place = BETWEEN
            return
        self.head = head
        if head.framing is _NO_BODY:
            self.end()
        else:
            self.place = CHUNKED if head.framing is _CHUNKED else BODY

    def on_body(self, data: bytes) -> None:
        """Pass content on, unless the response is over and httptools does not know it."""
        if not self.open:
            self.stop()
        self.events.append(data)

    def on_message_complete(self) -> None:
        """Write the end. After an interim head, or a bodyless response, it means nothing."""
        if self.place != BETWEEN:
            self.end()

    def end(self) -> None:
        """Write the end of the response, and take nothing more."""
        super().end()
        self.open = False


def _announces_body(head: ResponseHead) -> bool:
    return b"transfer-encoding" in head.index or head.index.get(b"content-length", b"").strip(b"0") != b""
