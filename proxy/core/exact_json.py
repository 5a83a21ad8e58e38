"""JSON, read exactly: a text that two readers could take for two different things is not read at all.

Python's own reader is kinder than that. It takes the last of two equal names where another takes the first, makes one
number of two that differ in the seventeenth digit, and knows NaN. For saying that two bodies ask for the same work, or
that a body asks for nothing but a read, kindness is a fault.
"""

from __future__ import annotations

import json
from typing import Any, Final

MOST_BYTES: Final = 65_536
"""Longer texts are not read: reading and writing one takes some 17 µs a kibibyte, and every other call waits for it."""

MOST_MARKS: Final = 16_384
"""Nor are texts with more commas and colons than this: what takes time is the number of values, and not their length."""

# A number with a point or an exponent stays the text it was, between two NULs. No other string has one: NUL can only be
# written as an escape, and a text with that escape is refused.
_MARKED: Final = "\0{}\0"
_ESCAPE: Final = r"\u0000"


def no_name_twice(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object (`object_pairs_hook` of json). Raises ValueError where two members have one name."""
    value = dict(members)
    if len(value) != len(members):
        raise ValueError("an object has two members of one name")
    return value


def no_number(text: str) -> Any:
    """Refuse NaN and the infinities (`parse_constant` of json), which are none of JSON. Raises ValueError."""
    raise ValueError(f"{text} is not a number of JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=no_name_twice, parse_float=_MARKED.format, parse_constant=no_number
)
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
)
_WRITER: Final = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":"))


def load(text: bytes, most: int = MOST_BYTES) -> Any:
    """Return the value of a JSON text in UTF-8. Raises ValueError when it is none, none that is sure, or too long.

    Numbers with a point or an exponent are strings between two NULs; all else is as `json.loads` has it.
    """
    if len(text) > most:
        raise ValueError("too long to be read while other calls wait")
    decoded = text.decode()
    if _ESCAPE in decoded:
        raise ValueError("NUL in a string cannot be told from the mark of a number")
    try:
        return _DECODER.decode(decoded)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def takes_long(text: bytes) -> bool:
    """Say whether a text has so many values that other calls would wait too long while it is read."""
    return text.count(b",") + text.count(b":") > MOST_MARKS


def dump(value: Any) -> bytes:
    """Return the one text that all texts of a loaded value share. Raises ValueError when it cannot be written."""
    return _written(value, _ENCODER)


def rewrite(value: Any) -> bytes:
    """Return a text of a loaded value, its members in the order they came in. Raises ValueError when it cannot be written."""
    return _written(value, _WRITER)


def _written(value: Any, encoder: json.JSONEncoder) -> bytes:
    try:
        text = encoder.encode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return text.replace(f'"{_ESCAPE}', "").replace(f'{_ESCAPE}"', "").encode()
