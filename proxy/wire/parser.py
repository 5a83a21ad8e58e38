"""From the bytes of one connection to the events of its messages. The only module that imports httptools.

httptools finds the parts of a message and refuses most of what is malformed; `tape` writes the parts down and checks
what httptools does not. Here is what httptools cannot be told: where to stop, and what the bytes after that are.
"""

from __future__ import annotations

from typing import Final

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
    HttpResponseParser,
)

from proxy.wire import methods
from proxy.wire.events import END, Event, Framing, RequestHead, ResponseHead, Upgraded, WireFault
from proxy.wire.faults import fault, fault_from_words
from proxy.wire.limits import Limits
from proxy.wire.plain import read_request, read_response
from proxy.wire.tape import BETWEEN, BODY, HEAD, PIECE, RequestTape, ResponseTape

_DEFAULTS: Final = Limits()

# Shown to a fresh parser so that it reads the chunked body that comes next.
_CHUNKED_HEAD: Final = b"POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n"

# Shown to the parser in place of a method that it does not know. It reads no meaning into this one.
_STAND_IN: Final = b"POST"

_SPACE: Final = 0x20

# As much of the start of a request as it takes to find a method in it.
_START: Final = 64

# The end of a head or of a chunked body. One more line end behind it belongs to neither.
_BLANK: Final = b"\r\n\r\n"
_TAIL: Final = 6


class RequestParser:
    """Reads the requests of one connection, pipelined ones in their order.

    After `Upgraded` it waits: what comes is another protocol or, once it is fed back, the next request. After a
    fault, and after a request that was the client's last by its own word (RFC 9112 §9.6), it reads nothing more.
    """

    def __init__(self, limits: Limits = _DEFAULTS) -> None:
        self._tape = RequestTape(limits)
        self._inner: HttpRequestParser | None = None  # made when something comes that is not plain
        self._over = False
        self._leaving = False
        # What is to come of a body that httptools has left to others.
        self._owed = 0

    @property
    def mid_head(self) -> bool:
        """Whether a head has begun and is not complete."""
        return self._tape.place == HEAD

    @property
    def mid_message(self) -> bool:
        """Whether a request has begun and is not complete."""
        return self._tape.place != BETWEEN

    def feed(self, data: bytes) -> list[Event]:
        """Read what arrived, and return what it makes known."""
        tape = self._tape
        if tape.place == BETWEEN and not (self._over or self._owed or tape.closed):
            plain = read_request(data, tape.limits)
            if plain is not None:
                return self._take_plain(data, plain[0], plain[1])
        events: list[Event] = []
        tape.events = events
        size = len(data)
        at = 0
        while at < size and not self._over:
            at += self._read(data if size <= PIECE and at == 0 else memoryview(data)[at : at + PIECE])
            if self._leaving:
                self._leaving = False
                events.append(Upgraded(data[at:]))
                break
        tape.events = []  # they are the caller's now: an idle connection keeps no body alive
        return events

    def _take_plain(self, data: bytes, head: RequestHead, end: int) -> list[Event]:
        """Take a head that was read without httptools, and what is here of its body: the rest is counted as it comes."""
        here = len(data) - end
        self._owed = (head.length or 0) - here
        if self._owed:
            tape = self._tape
            tape.head = head
            tape.place = BODY
            return [head, data[end:]] if here else [head]
        return [head, data[end:], END] if here else [head, END]

    def _fresh(self) -> HttpRequestParser:
        inner = self._inner = self._tape.source = HttpRequestParser(self._tape)
        return inner

    def _read(self, piece: bytes | memoryview) -> int:
        """Read a piece, and return how much of it belonged to HTTP."""
        tape = self._tape
        if self._owed:
            return self._read_owed(piece)
        if (
            tape.method
            and not tape.line
            and piece[0] == _SPACE
            and tape.method.upper().encode() in methods.KNOWN
        ):
            # As in `_read_unknown_method`, where it came in one piece with the space that ends it.
            self._refuse(fault("request", "bad_request_line"))
            return len(piece)
        seen = len(tape.events)
        tape.piece = len(piece)
        try:
            (self._inner or self._fresh()).feed_data(piece)
        except HttpParserUpgrade as upgrade:
            return self._leave(upgrade.args[0])
        except HttpParserInvalidMethodError:
            return self._read_unknown_method(piece, seen)
        except HttpParserError as error:
            self._stumble(error)
        else:
            if tape.place != BETWEEN:
                self._await_more(piece, seen)
        return len(piece)

    def _await_more(self, piece: bytes | memoryview, seen: int) -> None:
        """Keep account of a request that goes on in the next piece. `seen`: the events before this one."""
        tape = self._tape
        tape.account(seen)
        if tape.fault is not None:
            self._refuse(tape.fault)
        elif tape.place == HEAD and not tape.line:
            if len(tape.events) > seen:
                tape.start = None
            elif tape.start is not None:
                tape.start = (tape.start + bytes(piece)).lstrip(b"\r\n")[:_START]

    def _stumble(self, error: HttpParserError) -> None:
        """Say why httptools stopped."""
        tape = self._tape
        self._over = True
        if isinstance(error, HttpParserCallbackError):
            if not tape.stopped:
                raise error  # a callback failed by itself: a fault of ours, not of theirs
            if tape.fault is not None:
                self._refuse(tape.fault)
        elif not (tape.closed and tape.place == BETWEEN):
            self._refuse(fault_from_words("request", str(error)))

    def _refuse(self, reason: WireFault) -> None:
        self._over = True
        self._tape.events.append(reason)

    def _leave(self, offset: int) -> int:
        """Take httptools at its word that a request ends HTTP, unless its body is still to come."""
        tape = self._tape
        head = tape.head
        assert head is not None
        if not tape.body_skipped:
            self._leaving = head.upgrade is not None or head.method == "CONNECT"
            return offset
        tape.body_skipped = False
        if head.framing is Framing.LENGTH:
            self._owed = head.length or 0
        else:
            closed, events = tape.closed, tape.events
            tape.closed, tape.events = False, []
            self._fresh().feed_data(_CHUNKED_HEAD)
            tape.closed, tape.events, tape.head = closed, events, head
        return offset

    def _read_owed(self, piece: bytes | memoryview) -> int:
        """Pass on the body of a request that asks to leave HTTP after it."""
        tape = self._tape
        data = bytes(piece[: self._owed])
        tape.events.append(data)
        self._owed -= len(data)
        if not self._owed:
            tape.end()
            self._leaving = tape.head is not None and tape.head.upgrade is not None
        return len(data)

    def _read_unknown_method(self, piece: bytes | memoryview, seen: int) -> int:
        """Read a request whose method httptools does not know (RFC 9110 §9.1 leaves the list open).

        It is shown another method instead. That takes knowing where the request starts, which is so unless it
        stands behind another one in the same piece.
        """
        tape = self._tape
        if len(tape.events) > seen or tape.start is None:
            self._refuse(fault("request", "unknown_method"))
            return len(piece)
        text = tape.start + bytes(piece)
        start = methods.START.match(text)
        # Methods are case-sensitive, but not for everybody: `get` and `head` must not mean different things to two hops.
        # One that is not whole may still become another.
        known = start is not None and start[2] and start[1].upper() in methods.KNOWN
        if start is None or known or not (start[2] or start.end() == len(text)):
            self._refuse(fault("request", "bad_request_line"))
            return len(piece)
        tape.method = start[1].decode()
        self._fresh().feed_data(_STAND_IN)
        tape.start = start[0]
        rest = text[start.end(1) :]
        return len(piece) - len(rest) + (self._read(rest) if rest else 0)


class ResponseParser:
    """Reads the responses of one connection, one exchange at a time: `start`, then `feed` until `END`, or `eof`."""

    def __init__(self, limits: Limits = _DEFAULTS) -> None:
        self._tape = ResponseTape(limits)
        self._inner: HttpResponseParser | None = None  # as in `RequestParser`
        # Whether nothing but the responses that were asked for has come so far.
        self._clean = True
        self._leaving = False
        # Whether httptools will not see the end of this head by itself, so that it is fed line by line up to there.
        self._by_lines = False
        # The last octets of the pieces before the one that is being read.
        self._before = b""
        # What is to come of a body whose head was read without httptools.
        self._owed = 0

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another exchange: the last one ended at its END, and nothing came after."""
        head = self._tape.head
        return self._clean and not self._tape.open and head is not None and head.keep_alive

    def start(self, method: str) -> None:
        """Await the response to a request with this method."""
        tape = self._tape
        if tape.open or not self._clean or (tape.head is not None and not tape.head.keep_alive):
            raise RuntimeError("this connection cannot carry another exchange")
        if self._by_lines:
            self._inner = None
        self._by_lines = method in ("HEAD", "CONNECT")
        self._before = b""
        tape.method = method
        tape.head = None
        tape.interims = 0
        tape.open = True

    def feed(self, data: bytes) -> list[Event]:
        """Read what arrived, and return what it makes known."""
        tape = self._tape
        if self._owed:
            return self._take_owed(data)
        if tape.open and tape.place == BETWEEN and not (tape.interims or self._by_lines or self._before):
            plain = read_response(tape.method, data, tape.limits)
            if plain is not None:
                return self._take_plain(data, plain[0], plain[1])
        events: list[Event] = []
        tape.events = events
        size = len(data)
        at = 0
        while at < size and tape.open:
            whole = size <= PIECE and at == 0 and not self._by_lines
            at += self._read(data if whole else self._cut(data, at))
        if self._leaving:
            self._leaving = False
            events.append(Upgraded(data[at:]))
        elif at < size:
            self._clean = False
        tape.events = []
        return events

    def eof(self) -> list[Event]:
        """Take note that the server has closed the connection."""
        tape = self._tape
        tape.events = []
        self._clean = False
        if not tape.open:
            return []
        if tape.head is not None and tape.head.framing is Framing.UNTIL_CLOSE:
            tape.end()
        elif tape.head is not None:
            self._refuse(fault("response", "closed_in_body"))
        else:
            self._refuse(
                fault("response", "closed_in_head" if tape.place == HEAD else "closed_before_response")
            )
        return tape.events

    def _take_plain(self, data: bytes, head: ResponseHead, end: int) -> list[Event]:
        """Take a head that was read without httptools, and what is here of its body: the rest is counted as it comes."""
        tape = self._tape
        tape.head = head
        here = len(data) - end
        self._owed = (head.length or 0) - here
        if self._owed:
            tape.place = BODY
            return [head, data[end:]] if here else [head]
        tape.open = False
        return [head, data[end:], END] if here else [head, END]

    def _take_owed(self, data: bytes) -> list[Event]:
        """Take a part of a body whose length is known. It is not copied, unless something comes behind it."""
        owed, size = self._owed, len(data)
        if size < owed:
            self._owed = owed - size
            return [data]
        if size > owed:
            self._clean = False
            data = data[:owed]
        self._owed = 0
        self._tape.place = BETWEEN
        self._tape.open = False
        return [data, END]

    def _fresh(self) -> HttpResponseParser:
        inner = self._inner = self._tape.source = HttpResponseParser(self._tape)
        return inner

    def _cut(self, data: bytes, at: int) -> memoryview:
        """Cut the next piece; while it matters where exactly a head ends, that is a line."""
        end = at + PIECE
        if self._by_lines and self._tape.head is None:
            end = min(end, data.find(b"\n", at) + 1 or end)
        return memoryview(data)[at:end]

    def _read(self, piece: bytes | memoryview) -> int:
        """Read a piece, and return how much of it belonged to HTTP."""
        tape = self._tape
        seen = len(tape.events)
        tape.piece = len(piece)
        try:
            (self._inner or self._fresh()).feed_data(piece)
        except HttpParserUpgrade as upgrade:
            self._leave()
            return int(upgrade.args[0])
        except HttpParserError as error:
            self._stumble(error)
            return len(piece)
        head = tape.head
        if tape.open or head is None:
            self._before = (self._before + bytes(piece[-_TAIL:]))[-_TAIL:]
            tape.account(seen)
            if tape.fault is not None:
                self._refuse(tape.fault)
        elif tape.method == "CONNECT" and 200 <= head.status < 300:
            self._leave()
        elif piece[-1] in b"\r\n" and not self._ends_with_message(piece, head.framing):
            self._clean = False
        return len(piece)

    def _ends_with_message(self, piece: bytes | memoryview, framing: Framing) -> bool:
        """Say whether a piece ends where its response does: httptools reads over empty lines after one without a word."""
        events = self._tape.events
        content = events[-2] if framing is Framing.LENGTH and len(events) > 1 else None
        if isinstance(content, bytes):
            # Content of line ends alone looks the same wherever among them it ends, unless it is all that there is.
            return bytes(piece).endswith(content) and (
                len(piece) == len(content) or content.strip(b"\r\n") != b""
            )
        tail = self._before + bytes(piece[-_TAIL:])
        return tail.endswith(_BLANK) and not tail.endswith(b"\r\n" + _BLANK)

    def _leave(self) -> None:
        self._clean = False
        self._leaving = True

    def _stumble(self, error: HttpParserError) -> None:
        """Say why httptools stopped. Behind the end of a response it is enough to know that something was there."""
        tape = self._tape
        self._clean = False
        if isinstance(error, HttpParserCallbackError) and not tape.stopped:
            raise error  # a callback failed by itself: a fault of ours, not of theirs
        if tape.open:
            self._refuse(tape.fault or fault_from_words("response", str(error)))

    def _refuse(self, reason: WireFault) -> None:
        self._clean = False
        self._tape.open = False
        self._tape.events.append(reason)
