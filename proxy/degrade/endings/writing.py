"""What is added to a stream, as bytes. JSON is written in ASCII, so that half a surrogate pair can be written too."""

from __future__ import annotations

import json
from typing import Any, Final

from proxy.degrade.endings.ending import Unreadable

DONE: Final = b"data: [DONE]\n\n"

_ENCODER: Final = json.JSONEncoder(check_circular=False, separators=(",", ":"))


def written(value: Any) -> str:
    """Return a value as JSON. Raises Unreadable: it is nested too deeply."""
    try:
        return _ENCODER.encode(value)
    except RecursionError:
        raise Unreadable("nested too deeply") from None


def event(value: Any, name: str = "") -> bytes:
    """Return an event that carries a value, perhaps with a name. Raises Unreadable."""
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {written(value)}\n\n".encode()


def line(value: Any) -> bytes:
    """Return a line that is a value. Raises Unreadable."""
    return written(value).encode() + b"\n"
