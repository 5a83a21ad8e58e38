"""Cache-Control, read as RFC 9111 §5.2 has it: the directives of a request or a response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MOST_SECONDS: Final = 2_147_483_648
"""What a greater number of seconds is taken for (RFC 9111 §1.2.2)."""

_BETWEEN: Final = re.compile(rb"[\s,]*")
_DIRECTIVE: Final = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*=[ \t]*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,;\"]*)))?([^,\"]*)"
)
_NONE: Final[Mapping[bytes, bytes | None]] = MappingProxyType({})


def directives(value: bytes | None) -> Mapping[bytes, bytes | None]:
    """Return the directives of a field's value by their lower-case names, with what stands behind the `=`.

    Of two of one name the first counts, but for numbers: there the smaller does (RFC 9111 §4.2.1 leaves the choice).
    What cannot be read is passed over up to the next comma.
    """
    if value is None:
        return _NONE
    found: dict[bytes, bytes | None] = {}
    at = 0
    while at < len(value):
        between = _BETWEEN.match(value, at)
        at = between.end() if between is not None else at
        match = _DIRECTIVE.match(value, at)
        if match is None:
            comma = value.find(b",", at)
            at = comma + 1 if comma >= 0 else len(value)
            continue
        at = max(match.end(), at + 1)
        name, argument = match[1].lower(), match[2] if match[2] is not None else match[3]
        if name not in found or seconds(argument) < seconds(found[name]):
            found[name] = argument
    return found


def seconds(argument: bytes | None) -> int:
    """Return a directive's number of seconds; 0 for what is none, so that it is stale at once (RFC 9111 §4.2.1)."""
    if argument is None or not argument.isdigit():
        return 0
    return min(int(argument), MOST_SECONDS) if len(argument) < 12 else MOST_SECONDS
