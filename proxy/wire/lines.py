"""Where a stream of lines can be cut: NDJSON, JSON lines and JSON text sequences (RFC 7464) end each value with LF."""

from __future__ import annotations

from proxy.wire.eventstream import HELD


class LineBoundary:
    """Lets whole lines pass and keeps the beginning of the next one back, up to `HELD` bytes of it."""

    __slots__ = ("_inside", "_tail")

    def __init__(self) -> None:
        self._tail = b""
        self._inside = False

    @property
    def between_events(self) -> bool:
        """Whether all that was passed on is whole lines, and nothing is kept back."""
        return not self._inside and not self._tail

    @property
    def passed_whole(self) -> bool:
        """Whether all that was passed on is whole lines; what is kept back nobody has seen."""
        return not self._inside

    def feed(self, data: bytes) -> bytes:
        """Take a piece of the stream, and return what may be passed on now."""
        tail = self._tail
        # What was kept back holds no line end.
        end = data.rfind(b"\n") + 1
        if end:
            self._inside = False
        if end or not tail:
            passed, rest = tail + data[:end], data[end:]
        else:
            passed, rest = b"", tail + data
        if len(rest) > HELD:
            passed += rest
            rest = b""
            self._inside = True
        self._tail = rest
        return passed

    def flush(self) -> bytes:
        """Give up what is kept back: the stream has ended."""
        tail, self._tail = self._tail, b""
        self._inside = self._inside or bool(tail)
        return tail
