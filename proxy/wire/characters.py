"""Where a text can be cut: between two characters of UTF-8 (RFC 3629 §3). What is no UTF-8 passes as it comes."""

from __future__ import annotations

from typing import Final

from proxy.wire.boundary import Boundary

_LONGEST: Final = 4


class CharacterBoundary(Boundary):
    """Lets whole characters pass and keeps back the beginning of the next one: three bytes at most."""

    __slots__ = ()

    def feed(self, data: bytes) -> bytes:
        """Take a piece of the stream, and return what may be passed on now."""
        buffer = self._tail + data if self._tail else data
        end = len(buffer) - _begun(buffer)
        if end:
            self._inside = False
        self._tail = buffer[end:]
        return buffer[:end]


def _begun(buffer: bytes) -> int:
    """Return how many bytes at the end are the beginning of a character that is not whole."""
    for back in range(1, min(_LONGEST, len(buffer) + 1)):
        byte = buffer[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            return back if back < _length(byte) else 0
    return 0


def _length(lead: int) -> int:
    """Return how many bytes a character has that begins with this one; 0 if none does."""
    if 0xC2 <= lead < 0xE0:
        return 2
    if 0xE0 <= lead < 0xF0:
        return 3
    return _LONGEST if 0xF0 <= lead < 0xF5 else 0
