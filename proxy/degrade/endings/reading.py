"""From the bytes that have passed to the events and lines in them.

The grammar of an event stream is that of the HTML standard, §9.2.6 "Interpreting an event stream".
"""

from __future__ import annotations

import json
from typing import Any, Final

from proxy.degrade.endings.ending import Unreadable

LONGEST: Final = 128 * 1024
"""The longest event or line that is read (bytes). Reading one takes 2 to 60 µs a kibibyte, and every other call waits for it."""

_BOM: Final = b"\xef\xbb\xbf"
_SEPARATORS: Final = b"\x1e \t\r"  # RFC 7464 begins each value with the first of them
_DECODER: Final = json.JSONDecoder()


class EventReader:
    """Reads the events of a stream, each as its name (empty where it has none) and its data.

    `halved`: an event ends in CR LF CR so far, and the LF has not come. It is whole already.
    """

    __slots__ = ("_after_cr", "_tail", "_untouched", "halved")

    def __init__(self) -> None:
        self._tail = b""
        self._after_cr = False
        self.halved = False
        self._untouched = True

    @property
    def whole(self) -> bool:
        """Whether all that was fed is whole events."""
        return not self._tail

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Take a piece of the stream, and return the events that are whole now. Raises Unreadable: one is too long."""
        self.halved = data[-2:] == b"\n\r"
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
        self._after_cr = data[-1:] == b"\r"
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, rest = (self._tail + data if self._tail else data).split(b"\n\n")
        # Empty lines between two events say nothing.
        self._tail = rest.lstrip(b"\n")
        if len(self._tail) > LONGEST:
            raise Unreadable("an event is too long to be read")
        if blocks and self._untouched:
            self._untouched = False
            blocks[0] = blocks[0].removeprefix(_BOM)
        return [event for block in blocks if (event := _event(block)) is not None]


def _event(block: bytes) -> tuple[bytes, bytes] | None:
    """Read the lines of one event; None: it has no data, and nobody is told of it."""
    if len(block) > LONGEST:
        raise Unreadable("an event is too long to be read")
    if block[:6] == b"data: " and b"\n" not in block:
        return b"", block[6:]
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return (name, b"\n".join(data)) if data else None


class LineReader:
    """Reads the lines of a stream, but for those that are empty."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b""

    @property
    def whole(self) -> bool:
        """Whether all that was fed is whole lines."""
        return not self._tail

    def feed(self, data: bytes) -> list[bytes]:
        """Take a piece of the stream, and return the lines that are whole now. Raises Unreadable: one is too long."""
        *lines, self._tail = (self._tail + data if self._tail else data).split(b"\n")
        if len(self._tail) > LONGEST or any(len(line) > LONGEST for line in lines):
            raise Unreadable("a line is too long to be read")
        return [text for line in lines if (text := line.strip(_SEPARATORS))]


def value_of(data: bytes) -> Any:
    """Return the value of a JSON text in UTF-8. Raises Unreadable."""
    try:
        return _DECODER.decode(data.decode())
    except (ValueError, RecursionError):
        raise Unreadable("no JSON that can be read") from None
