"""Where a stream of lines can be cut: NDJSON, JSON lines and JSON text sequences (RFC 7464) end each value with LF."""

from __future__ import annotations

from proxy.wire.boundary import HELD, Boundary


class LineBoundary(Boundary):
    """Lets whole lines pass and keeps the beginning of the next one back, up to `HELD` bytes of it."""

    __slots__ = ()

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
