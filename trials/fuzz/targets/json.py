"""JSON read exactly: what is read means the same to every reader, and is written so that it does again."""

from __future__ import annotations

import json
from typing import Any, Final

from proxy.core import exact_json
from trials.fuzz.target import Seen, Target, hold

_DEEP: Final = "nested too deeply"


class _Number(str):
    """A number, as it is written."""

    __slots__ = ()


def check(data: bytes) -> Seen:
    """Read, write in both ways, read again."""
    try:
        value = exact_json.load(data)
    except ValueError as error:
        return {f"refused: {' '.join(str(error).split()[:2])}"}
    plain = _numbers(json.loads(data, parse_float=_Number, parse_int=_Number))
    seen = {f"value {type(value).__name__}"}
    for write in (exact_json.dump, exact_json.rewrite):
        try:
            text = write(value)
        except ValueError as error:
            # Half of a surrogate pair has no bytes.
            hold(
                isinstance(error, UnicodeEncodeError) or _DEEP in str(error),
                "what-is-read-can-be-written",
                error,
            )
            seen.add(f"{write.__name__} refused")
            continue
        again = _numbers(json.loads(text, parse_float=_Number, parse_int=_Number))
        hold(again == plain, "written-means-the-same", data, text)
        hold(exact_json.load(text, most=1 << 24) == value, "written-reads-back", data, text)
        hold(write(exact_json.load(text, most=1 << 24)) == text, "one-text", data, text)
        seen.add(f"{write.__name__} {len(text) == len(data)}")
    return seen


def _numbers(value: Any) -> Any:
    """Give numbers as they were said: 1 and 1.0 differ, as they do for whoever reads integers. A zero has no sign."""
    if isinstance(value, _Number):
        return value.removeprefix("-") if value == "-0" else value
    if isinstance(value, dict):
        return {name: _numbers(inner) for name, inner in value.items()}
    return [_numbers(inner) for inner in value] if isinstance(value, list) else value


TARGET: Final = Target(
    "json",
    "JSON that is rewritten: refused where it could be read in two ways, and otherwise the same number for number",
    check,
    tokens=(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"a"',
        b'"b"',
        b"null",
        b"true",
        b"1",
        b"-0",
        b"-0.0",
        b"1.0",
        b"1e5",
        b"1E+5",
        b"1e999",
        b"12345678901234567890.5",
        b"NaN",
        b"-Infinity",
        b"\\u0000",
        b"\\\\u0000",
        b"\\ud800",
        b"\\udc00",
        b"\\/",
        b"\x00",
        b"\xef\xbb\xbf",
        b"\xe8\x8c\xb6",
        b"[" * 64,
    ),
)
