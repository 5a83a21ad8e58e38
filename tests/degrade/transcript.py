"""What a transcript is: a stream as a real service sends it, event by event."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

WORDS = ["Tea for two", ": 茶 🫖", ' costs {"eur": "4', '.20", "cup": [', "1]}\n\n", "and more\\"]
"""What a model says: characters of several bytes, JSON in its text, line ends and a backslash at the end of a piece."""

TEXT = "".join(WORDS)
MARK = '[response "truncated" ✂]'
EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"


class Transcript(NamedTuple):
    """One stream. `pieces`: its events or lines. `calls`: while the last to have passed is one of these, a call is open.

    `from_`: how many pieces must have passed before the dialect can be known.
    """

    name: str
    dialect: str
    path: str
    pieces: list[bytes]
    content_type: str = EVENTS
    calls: range = range(0)
    from_: int = 1

    @property
    def wire(self) -> bytes:
        """The whole stream."""
        return b"".join(self.pieces)


def data(value: Any, name: str = "") -> bytes:
    """One event, as most write it."""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {said}\n\n".encode()


def named(values: Iterable[dict[str, Any]]) -> list[bytes]:
    """Events that are called what their `type` says."""
    return [data(value, value["type"]) for value in values]
