"""Plain text, which ends with the mark. It has no word for a reason."""

from __future__ import annotations

import re
from typing import Final

# An event stream under another name: its readers would pass over the mark without a word.
_EVENTS: Final = re.compile(rb"\s*(?:data|event|id|retry)?:")
_BEGINNING: Final = 64


class TextEnding:
    """Follows a text in UTF-8 (RFC 3629)."""

    __slots__ = ("_beginning", "_readable")

    dialect: str = "text"
    over: bool = False
    failed: bool = False
    unfinished: bool = False

    def __init__(self) -> None:
        self._readable = True
        self._beginning = b""

    def feed(self, data: bytes) -> None:
        """Take whole characters."""
        if not self._readable:
            return
        if len(self._beginning) < _BEGINNING:
            self._beginning += data[:_BEGINNING]
        try:
            data.decode()
        except UnicodeDecodeError:
            self._readable = False
        if b"\0" in data:
            self._readable = False

    def close(self, mark: str) -> bytes | None:
        """Return the mark; None where what has passed is no text, or one that is read as something else."""
        if not self._readable or _EVENTS.match(self._beginning):
            return None
        return mark.encode()
