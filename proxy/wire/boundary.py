"""Where a stream can be cut: what every way to find that has in common."""

from __future__ import annotations

from typing import Final

HELD: Final = 64 * 1024
"""The longest piece that is kept back. A longer one is passed on as it comes."""


class Boundary:
    """Lets whole pieces of a stream pass, and keeps the beginning of the next one back. What a piece is, a subclass says."""

    __slots__ = ("_inside", "_tail")

    def __init__(self) -> None:
        self._tail = b""
        self._inside = False

    @property
    def between_events(self) -> bool:
        """Whether all that was passed on is whole pieces, and nothing is kept back."""
        return not self._inside and not self._tail

    @property
    def passed_whole(self) -> bool:
        """Whether all that was passed on is whole pieces; what is kept back nobody has seen."""
        return not self._inside

    def feed(self, data: bytes) -> bytes:
        """Take some of the stream, and return what may be passed on now."""
        raise NotImplementedError

    def flush(self) -> bytes:
        """Give up what is kept back: the stream has ended."""
        tail, self._tail = self._tail, b""
        self._inside = self._inside or bool(tail)
        return tail
