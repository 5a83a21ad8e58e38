"""The response side of a call: what came from the upstream, and what of it may go to the client by now.

The response to a write is held until it is complete, so that a call that is cut in the middle can still be answered
with an honest 424; everything else passes as it comes. An event stream passes event by event, so that it can always
be ended between two of them.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from proxy.core.degrading import Degraded, Why
from proxy.core.units import SECOND
from proxy.core.writes import LateAnswer
from proxy.dataplane.claims import Answer
from proxy.dataplane.request import MANY_PARTS
from proxy.degrade.cache.freshness import says_less
from proxy.degrade.callers import tells_caller
from proxy.degrade.endings.ending import Ending
from proxy.degrade.endings.failing import failure
from proxy.degrade.endings.recognise import boundary_for
from proxy.wire.boundary import Boundary
from proxy.wire.events import Field, Framing, RequestHead, ResponseHead
from proxy.wire.eventstream import EventBoundary, read_as_it_comes
from proxy.wire.fields import dropped
from proxy.wire.render import LAST_CHUNK, chunk, last_chunk_with, line, lines, response_head, via

KEPT_BYTES: Final = 65_536
"""How much of a late answer's body is kept with the record."""

_VERDICT: Final = (b"budget-steps", b"budget-verdict")
_NEVER: Final = 1 << 62
_DELEGATED: Final = Degraded(1, Why.DELEGATED, Why.DELEGATED)
_OF_THE_BODY: Final = frozenset(
    {b"content-digest", b"content-length", b"content-md5", b"digest", b"etag", b"repr-digest", b"trailer"}
)
"""What a head says of a body, and of no other."""
_SECRET_FIELDS: Final = frozenset(
    {b"set-cookie", b"authorization", b"www-authenticate", b"proxy-authenticate"}
)


class ResponseSide:
    """One response: its head, the part of its body that has not been passed on, and how it is framed for the client."""

    __slots__ = (
        "_boundary",
        "_chunked",
        "_copy",
        "_delegated",
        "_ending",
        "_parts",
        "_request",
        "_verdict",
        "degraded",
        "head",
        "head_sent",
        "held",
        "last_lines",
        "outlasts",
        "relayed",
        "size",
        "trailers",
    )

    def __init__(self, request: RequestHead) -> None:
        """Wait for a head."""
        self.head: ResponseHead | None = None
        self.head_sent = False
        self.held = False
        self.size = 0
        self.relayed = 0
        self.degraded: Degraded | None = None  # by how much it is less than asked, if it is
        self.outlasts = False  # it could not be closed when it was time to
        self.trailers: list[Field] = []
        self.last_lines: list[bytes] = []  # trailers of our own
        self._request = request
        self._delegated = False
        self._verdict: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._chunked = False
        self._boundary: Boundary | None = None
        self._ending: Ending | None = None
        self._copy: list[bytes] | None = None

    # -- from the upstream -----------------------------------------------------------------------------------------

    def begin(
        self, head: ResponseHead, *, held: bool, delegated: bool = False, ending: Ending | None = None
    ) -> None:
        """Take the final head. `held`: pass nothing on until `release` or the end.

        `delegated`: what it says of its own job (`Budget-Verdict`) is taken for true, and passed on. `ending`: follows the
        stream, and knows how to close it.
        """
        self.head = head
        self._delegated = delegated
        if delegated and b"budget-verdict" in head.index:
            self._verdict = [(name, value) for name in _VERDICT if (value := head.get(name))]
            if _says_degraded(self._verdict):
                self.degraded = _DELEGATED
        self.held = held
        unsized = head.framing is Framing.CHUNKED or head.framing is Framing.UNTIL_CLOSE
        self._chunked = unsized and self._request.minor == 1
        if unsized and self.is_event_stream:
            self._boundary = EventBoundary()
        elif unsized and ending is not None:
            self._boundary = boundary_for(head.get(b"content-type") or b"")
        self._ending = ending if self._boundary is not None else None

    def body(self, data: bytes) -> None:
        """Take a part of the body."""
        self.size += len(data)
        if self._copy is not None:
            self._copy.append(data)
        if self._boundary is not None:
            data = self._boundary.feed(data)
        if data:
            self._parts.append(data)
            if len(self._parts) >= MANY_PARTS:
                self._parts = [b"".join(self._parts)]

    def end_with(self, trailers: list[Field]) -> None:
        """Take what follows a chunked body. A delegated job says there how it went, if its head had to leave too early."""
        self.trailers = trailers
        said = [(lower, value) for lower, _, value in trailers if lower in _VERDICT]
        if said and self._delegated:
            self._verdict = said
            if self.degraded is None and _says_degraded(said):
                self.degraded = _DELEGATED
            if self.head_sent:
                self.last_lines = [line(name.title(), value) for name, value in said]
                if self.degraded is _DELEGATED:
                    self.last_lines.append(line(b"Budget-Degraded", _DELEGATED.field().encode()))

    @property
    def says_incomplete(self) -> bool:
        """Whether this is the answer of a delegated job whose own work did not complete."""
        return any(name == b"budget-verdict" and value[:10] == b"incomplete" for name, value in self._verdict)

    @property
    def by_event(self) -> bool:
        """Whether this stream passes event by event, so that it can be ended between two of them."""
        return self._boundary is not None

    @property
    def is_event_stream(self) -> bool:
        """Whether this is a `text/event-stream` that can be read here: not compressed."""
        head = self.head
        if head is None:
            return False
        content_type = head.get(b"content-type")
        return (
            content_type is not None
            and content_type[:17].lower() == b"text/event-stream"
            and head.get(b"content-encoding") is None
        )

    @property
    def has_trailers(self) -> bool:
        """Whether something can still be said after the body."""
        return self._chunked

    @property
    def ends_with_close(self) -> bool:
        """Whether the client can see the end of this response only by the end of its connection."""
        head = self.head
        unsized = head is not None and head.framing in (Framing.CHUNKED, Framing.UNTIL_CLOSE)
        return unsized and not self._chunked

    # -- to the client ---------------------------------------------------------------------------------------------

    def pending(self, *, ended: bool) -> bytes:
        """Return the body bytes that may be passed on now, framed for the client, and let go of them."""
        parts = self._parts
        if ended and self._boundary is not None:
            tail = self._boundary.flush()
            if tail:
                parts.append(tail)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self.relayed += len(body)
        if self._ending is not None and body:
            self._ending.feed(body)
        if not self._chunked:
            return body
        framed = chunk(body) if body else b""
        if not ended:
            return framed
        if not self.trailers and not self.last_lines:
            return framed + LAST_CHUNK
        return framed + last_chunk_with(self.trailers, self.last_lines)

    def rendered_head(self, pseudonym: bytes, annotated: list[bytes], *, close: bool) -> bytes:
        """Return the head for the client. `annotated`: lines of our own, looked over."""
        head = self.head
        assert head is not None
        self.head_sent = True
        made = lines(head.fields, dropped(head))
        made += annotated
        if self._verdict:
            made += [line(name.title(), value) for name, value in self._verdict]
        if self._chunked:
            made.append(b"Transfer-Encoding: chunked\r\n")
        if close:
            made.append(b"Connection: close\r\n")
        elif self._request.minor == 0:
            made.append(b"Connection: keep-alive\r\n")
        if head.status == 101:
            made += [b"Connection: Upgrade\r\n", line(b"Upgrade", head.get(b"upgrade") or b"")]
        made.append(via(head, pseudonym))
        return response_head(head.status, head.reason, (), made)

    def ending(self, payload: bytes) -> bytes:
        """Return the end of a stream that is cut, in its own form, or nothing where it has none.

        There is no final chunk: to a client that does not know the event, the stream broke off (promise 6).
        """
        if self._boundary is None or not self._boundary.passed_whole:
            return b""
        said = failure(self._boundary, self._request.target, payload)
        return chunk(said) if self._chunked and said else said

    @property
    def closable(self) -> bool:
        """Whether this is a stream that somebody here may know how to close."""
        return self._ending is not None

    @property
    def whole(self) -> bool:
        """Whether this is all of an answer, as far as can be seen: what ends with its connection may have broken off."""
        ending, head = self._ending, self.head
        if head is None or any(name == b"budget-degraded" for name, _, _ in self.trailers):
            return False
        if any(name == b"budget-verdict" and says_less(value) for name, _, value in self.trailers):
            return False
        if ending is not None:
            over = ending.over or head.framing is not Framing.UNTIL_CLOSE
            return over and not (ending.failed or ending.unfinished)
        read = read_as_it_comes(head.get(b"content-type") or b"")
        return head.framing is not Framing.UNTIL_CLOSE and not read

    def closed(self, mark: str) -> bytes | None:
        """Return the end of a stream that is closed in its own dialect, `mark` in its text; none if it has ended by itself.

        None where it cannot be closed truthfully.
        """
        return self._ending.close(mark) if self._ending is not None else None

    def framed_end(self, data: bytes) -> bytes:
        """Return the last bytes of a body, framed, and the end of the message with what is said after it."""
        self.relayed += len(data)
        if not self._chunked:
            return data
        return (chunk(data) if data else b"") + last_chunk_with([], self.last_lines)

    def replace(self, body: bytes) -> None:
        """Put another body in the place of a whole one, of which nothing has been passed on."""
        head = self.head
        assert head is not None
        fields = [field for field in head.fields if field[0] not in _OF_THE_BODY]
        fields.append((b"content-length", b"Content-Length", b"%d" % len(body)))
        self.head = head._replace(fields=fields, framing=Framing.LENGTH, length=len(body))
        self._chunked = False
        self._parts = [body]
        if self._copy is not None:
            self._copy = [body]

    def taken(self) -> Answer:
        """Return a whole answer of which nothing has been passed on, to be given later if nothing better comes."""
        assert self.head is not None
        if self._boundary is not None and (tail := self._boundary.flush()):
            self._parts.append(tail)
        return Answer(self.head, b"".join(self._parts), self.trailers, self._delegated)

    def discard(self) -> None:
        """Let go of what has not been passed on: the client gets another answer."""
        self._parts.clear()
        self.degraded = None

    # -- for others ------------------------------------------------------------------------------------------------

    @property
    def copied(self) -> bool:
        """Whether a copy is kept."""
        return self._copy is not None

    def keep_copy(self) -> None:
        """Keep the whole body, for calls that wait for the same answer. Nothing of it may have been passed on."""
        if self._copy is None:
            self._copy = list(self._parts)

    def drop_copy(self) -> None:
        """Keep it no longer."""
        self._copy = None

    def shared(self) -> Answer | None:
        """Return the whole answer for those who wait for it, if it was kept."""
        if self._copy is None or self.head is None:
            return None
        return Answer(self.head, b"".join(self._copy), self.trailers, self._delegated, self.degraded)

    # -- for the record --------------------------------------------------------------------------------------------

    def for_linger(self) -> ResponseSide:
        """Return a side of its own for a late answer, with what was held of it so far."""
        late = ResponseSide(self._request)
        if self.head is not None:
            late.begin(self.head, held=True, delegated=self._delegated)
            late.size = self.size
            late._parts = list(self._parts)
        late._copy = self._copy
        return late

    def as_answer(self, elapsed_ms: float, *, whole: bool = True) -> LateAnswer | None:
        """Return what is kept of an answer that its caller may never hear; not `whole`: only that it was given."""
        if self.head is None:
            return None
        if not whole:
            return LateAnswer(self.head.status, (), b"", self.size, elapsed_ms)
        fields = tuple(
            (name.decode("latin-1"), value.decode("latin-1"))
            for lower, name, value in self.head.fields
            if lower not in _SECRET_FIELDS and not tells_caller(lower)
        )
        body = b"".join(self._parts)
        return LateAnswer(self.head.status, fields, body[:KEPT_BYTES], self.size, elapsed_ms)

    def trim(self) -> None:
        """Keep no more of the body than a late answer keeps."""
        if sum(map(len, self._parts)) > KEPT_BYTES:
            self._parts = [b"".join(self._parts)[:KEPT_BYTES]]


def _says_degraded(said: list[tuple[bytes, bytes]]) -> bool:
    """Say whether a delegated job says of itself that it did less than it was asked for."""
    return any(name == b"budget-verdict" and b"degraded=" in value for name, value in said)


def retry_after(head: ResponseHead) -> int | None:
    """Return the wait that an answer asks for (nanoseconds; RFC 9110 §10.2.3). What cannot be read asks for none.

    A date is reckoned from the answer's own (`Date`), never from a clock of ours; without that, the wait is one that no
    budget allows: who asks to be left alone until some time is not asked again by guessing.
    """
    value = head.get(b"retry-after")
    if value is None:
        return None
    if value.isdigit() and len(value) <= 9:
        return int(value) * SECOND
    then = _date(value)
    if then is None:
        return None
    now = _date(head.get(b"date") or b"")
    return max(0, int(then - now)) * SECOND if now is not None else _NEVER


def _date(value: bytes) -> float | None:
    """Return an HTTP date (RFC 9110 §5.6.7) as Unix seconds of whoever wrote it."""
    try:
        return parsedate_to_datetime(value.decode("latin-1")).timestamp()
    except (ValueError, OverflowError):
        return None
