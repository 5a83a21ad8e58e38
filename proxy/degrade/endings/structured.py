"""Between the bytes of a stream and its dialect.

Finds the events or lines, knows the dialect by the first of them, and gives up what it cannot read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from proxy.degrade.endings.ending import Dialect, Unreadable
from proxy.degrade.endings.reading import EventReader, LineReader, value_of
from proxy.degrade.endings.sse import PlainEvents

LOOKS: Final = 4
"""How many objects are looked at before their dialect is taken for one that is not known."""

UNKNOWN: Final = "unknown"

_DONE: Final = b"[DONE]"
_ERROR: Final = b'{"error"'
_JSON: Final = (b"{", b"[", b'"')


class _Structured:
    """What events and lines have in common: objects, of a dialect that the first of them tell."""

    __slots__ = ("_asked", "_done", "_failed", "_given_up", "_looks", "_speaks", "_spoken")

    def __init__(self, spoken: Sequence[type[Dialect]], path: str) -> None:
        """Expect one of these dialects; the path that was asked for is a hint at which."""
        self._spoken = spoken
        self._asked = path
        self._speaks: Dialect | None = None
        self._looks = 0
        self._done = False
        self._failed = False
        self._given_up = False

    @property
    def dialect(self) -> str:
        """The dialect's name."""
        return UNKNOWN if self._speaks is None else self._speaks.name

    @property
    def over(self) -> bool:
        """Whether the stream's own last event has passed."""
        return self._done or (self._speaks is not None and self._speaks.over)

    @property
    def failed(self) -> bool:
        """Whether the stream has said of itself that it failed."""
        return self._failed or (self._speaks is not None and self._speaks.failed)

    @property
    def unfinished(self) -> bool:
        """Whether a last event is missing. Of a dialect that is not known, nobody here can say."""
        return self._speaks is not None and not self.over

    def _object(self, value: Any) -> None:
        """Take the next value, which is an object in all dialects. Raises Unreadable."""
        if type(value) is not dict:
            raise Unreadable("no JSON object")
        if value.get("error") or value.get("type") == "error":
            self._failed = True
        elif self._speaks is not None:
            self._speaks.take(value)
        else:
            self._look_at(value)

    def _look_at(self, value: dict[str, Any]) -> None:
        for dialect in self._spoken:
            if dialect.speaks(value, self._asked):
                self._speaks = dialect()
                self._speaks.take(value)
                return
        self._looks += 1
        if self._looks == LOOKS:
            raise Unreadable("a dialect that is not known here")

    def _closed(self, mark: str, *, whole: bool) -> bytes | None:
        """Return what ends it, if all that has passed is `whole`."""
        if self.over:
            return b""
        if self.failed or self._given_up or self._speaks is None or not whole:
            return None
        try:
            return self._speaks.close(mark)
        except Unreadable:
            return None


class EventsEnding(_Structured):
    """Follows an event stream (`text/event-stream`)."""

    __slots__ = ("_plain", "_reader")

    def __init__(self, spoken: Sequence[type[Dialect]], path: str) -> None:
        """Expect one of these dialects, or plain text."""
        super().__init__(spoken, path)
        self._reader = EventReader()
        self._plain: PlainEvents | None = None

    @property
    def dialect(self) -> str:
        """The dialect's name; `events` where the data is the text itself."""
        return super().dialect if self._plain is None else "events"

    def feed(self, data: bytes) -> None:
        """Take what has passed."""
        try:
            events = self._reader.feed(data)
        except Unreadable:
            # What is left of that event is read as another; nothing is made of it but a failure.
            self._given_up = True
            self._reader = EventReader()
            return
        for name, said in events:
            try:
                self._take(name, said)
            except Unreadable:
                self._given_up = True

    def _take(self, name: bytes, data: bytes) -> None:
        if self._done or not data or name == b"ping":
            return
        if data == _DONE:
            self._done = True
        elif name == b"error" or (self._given_up and data.startswith(_ERROR)):
            self._failed = True
        elif self._given_up:
            return
        elif self._plain is not None:
            self._plain.take(name, data)
        elif self._speaks is None and not self._looks:
            self._begin(name, data)
        else:
            self._object(value_of(data))

    def _begin(self, name: bytes, data: bytes) -> None:
        """Take the first event: objects, or text, which may begin like one."""
        value = None
        if data.lstrip().startswith(_JSON):
            try:
                value = value_of(data)
            except Unreadable:
                value = None
        if value is not None:
            self._object(value)
        else:
            plain = PlainEvents(name)
            plain.take(name, data)
            self._plain = plain

    def close(self, mark: str) -> bytes | None:
        """Return what ends it."""
        end = self._end(mark, whole=self._reader.whole)
        # Some readers look for CR LF CR LF between two events, and for nothing less.
        return b"\n" + end if end and self._reader.halved else end

    def _end(self, mark: str, *, whole: bool) -> bytes | None:
        if self._plain is None or self._done:
            return self._closed(mark, whole=whole)
        return None if self._failed or self._given_up or not whole else self._plain.close(mark)


class LinesEnding(_Structured):
    """Follows a stream of lines, each a JSON text."""

    __slots__ = ("_reader",)

    def __init__(self, spoken: Sequence[type[Dialect]], path: str) -> None:
        """Expect one of these dialects."""
        super().__init__(spoken, path)
        self._reader = LineReader()

    def feed(self, data: bytes) -> None:
        """Take what has passed."""
        try:
            lines = self._reader.feed(data)
        except Unreadable:
            self._given_up = True
            self._reader = LineReader()
            return
        for said in lines:
            try:
                self._take(said)
            except Unreadable:
                self._given_up = True

    def _take(self, data: bytes) -> None:
        if not self._given_up:
            self._object(value_of(data))
        elif data.startswith(_ERROR):
            self._failed = True

    def close(self, mark: str) -> bytes | None:
        """Return what ends it."""
        return self._closed(mark, whole=self._reader.whole)
