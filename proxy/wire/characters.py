"""Where a text can be cut: between two characters of UTF-8 (RFC 3629 §3). What is no UTF-8 passes as it comes."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 4


class CharacterBoundary:
    """Lets whole characters pass and keeps back the beginning of the next one: three bytes at most."""

    __slots__ = ("_inside", "_tail")

    def __init__(self) -> None:
        self._tail = b""
        self._inside = False

    @property
    def between_events(self) -> bool:
        """Whether all that was passed on is whole characters, and nothing is kept back."""
        return not self._inside and not self._tail

    @property
    def passed_whole(self) -> bool:
        """Whether all that was passed on is whole characters; what is kept back nobody has seen."""
        return not self._inside

    def feed(self, data: bytes) -> bytes:
        """Take a piece of the stream, and return what may be passed on now."""
        buffer = self._tail + data if self._tail else data
        end = len(buffer) - _begun(buffer)
        if end:
            self._inside = False
        self._tail = buffer[end:]
        return buffer[:end]

    def flush(self) -> bytes:
        """Give up what is kept back: the stream has ended."""
        tail, self._tail = self._tail, b""
        self._inside = self._inside or bool(tail)
        return tail


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
