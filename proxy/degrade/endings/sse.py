"""An event stream whose data is the text itself. It has no word for a reason; the mark is all that tells."""

from __future__ import annotations

import re
from typing import Final

from proxy.degrade.endings.ending import Unreadable
from proxy.degrade.endings.members import SHORT

_LINE_ENDS: Final = re.compile("\r\n|\n|\r")


class PlainEvents:
    """The name that all events of the stream have, if they have one."""

    __slots__ = ("_name",)

    def __init__(self, name: bytes) -> None:
        """Begin with the name of the first event."""
        if len(name) > SHORT:
            raise Unreadable("the name of an event is too long to be kept")
        self._name = name

    def take(self, name: bytes, data: bytes) -> None:
        """Take an event. Raises Unreadable: the stream is more than text after all."""
        if name != self._name:
            raise Unreadable("events of several names say more than their text")
        if data[:1] == b"{" and data[-1:] == b"}":
            raise Unreadable("text, and objects between")
        if b"\0" in data:
            raise Unreadable("no text")
        try:
            data.decode()
        except UnicodeDecodeError:
            raise Unreadable("no text in UTF-8") from None

    def close(self, mark: str) -> bytes:
        """Return an event like the others whose text is the mark."""
        named = b"event: " + self._name + b"\n" if self._name else b""
        return named + "".join(f"data: {each}\n" for each in _LINE_ENDS.split(mark)).encode() + b"\n"
