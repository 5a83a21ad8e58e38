"""Places in a JSON document, as singular queries of RFC 9535 (§2.3.5.1): `$.items[0].id`, `$['a name'][-1]`.

A singular query names at most one value. Anything wider (`*`, slices, filters, `..`) is refused when it is read: who
writes it means several values, and a decision needs one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_SEGMENT: Final = re.compile(
    r"\.([A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)"
    r"|\[(0|-?[1-9][0-9]{0,9})\]"
    r"|\['((?:[^'\\]|\\['\\])*)'\]"
    r'|\["((?:[^"\\]|\\["\\])*)"\]'
)

ABSENT: Final = object()
"""What `find` returns where there is no value; JSON's null is one, and is returned as None."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """One place: the names and indexes that lead to it. A negative index counts from the end."""

    text: str
    steps: tuple[str | int, ...]

    def __str__(self) -> str:
        return self.text

    def find(self, document: Any) -> Any:
        """Return the value at this place of a document, or ABSENT."""
        value = document
        for step in self.steps:
            if isinstance(step, str):
                if not isinstance(value, dict) or step not in value:
                    return ABSENT
                value = value[step]
            else:
                if not isinstance(value, list) or not -len(value) <= step < len(value):
                    return ABSENT
                value = value[step]
        return value


def parse(text: str) -> JsonPath:
    """Read a singular query. Raises ValueError with what is wrong and what is right."""
    if not text.startswith("$"):
        raise ValueError("begins with $, as in $.items[0]")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = _SEGMENT.match(text, at)
        if match is None:
            raise ValueError(
                f"cannot be read from {text[at:]!r} on; names and indexes only, as in $.items[0] or $['a name']"
            )
        name, index, single, double = match.groups()
        if index is not None:
            steps.append(int(index))
        elif name is not None:
            steps.append(name)
        else:
            steps.append(re.sub(r"\\(.)", r"\1", single if single is not None else double))
        at = match.end()
    return JsonPath(text, tuple(steps))
