"""The two questions of the service, read strictly from JSON: what is misspelt or of another type is refused with its place."""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from proxy.config.faults import quoted
from proxy.core.exact_json import no_name_twice, no_number, takes_long
from proxy.core.units import MILLISECOND
from proxy.degrade.cache.entry import MOST_SPAN, decode
from proxy.semantic.problems import Problem, malformed
from proxy.semantic.reading.tokens import MOST_CHARACTERS

MOST_ENTRY: Final = 8 * 1024 * 1024
"""How many bytes the encoded entry of one answer may have."""
MOST_BODY: Final = 4 * (MOST_ENTRY // 3 + 1) + 12 * MOST_CHARACTERS + 4_096
"""A body: the entry in base64, and a text in which each character is written as an escape."""
MOST_FIND: Final = 12 * MOST_CHARACTERS + 4_096
"""A question has such a text, and no entry."""
_PARTITION: Final = re.compile(r"[!-~]{1,256}\Z")
_MOST_MS: Final = MOST_SPAN // MILLISECOND


class Find(NamedTuple):
    """A question for an answer to what means the same."""

    partition: str
    text: str
    threshold: float


class Keep(NamedTuple):
    """An answer to be kept. `entry` is encoded; `span`: how long it is of use (nanoseconds)."""

    partition: str
    text: str
    entry: bytes
    span: int


def read_find(body: bytes) -> Find:
    """Read the body of `/v1/find`. Raises Problem."""
    members = _members(body, ("partition", "text", "threshold"))
    threshold = members["threshold"]
    if type(threshold) not in (int, float) or not 0 <= threshold <= 1:
        raise malformed(f"threshold is {_shown(threshold)}.", "Send a number from 0 to 1, such as 0.92.")
    return Find(_partition(members), _text(members), float(threshold))


def read_keep(body: bytes) -> Keep:
    """Read the body of `/v1/keep`. Raises Problem."""
    members = _members(body, ("partition", "text", "entry", "keep_ms"))
    span = members["keep_ms"]
    if type(span) is not int or not 1 <= span <= _MOST_MS:
        raise malformed(
            f"keep_ms is {_shown(span)}.", f"Send a whole number of milliseconds from 1 to {_MOST_MS}."
        )
    return Keep(_partition(members), _text(members), _entry(members["entry"]), span * MILLISECOND)


def _members(body: bytes, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the members of an object that has these and no others."""
    if takes_long(body):
        raise malformed(
            "The body has more commas and colons than any text and entry.",
            f"Send one JSON object with {', '.join(names)} and nothing else.",
        )
    try:
        value = json.loads(body, object_pairs_hook=no_name_twice, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise malformed(
            f"The body is not JSON: {quoted(str(error), 200)}.", "Send one JSON object in UTF-8."
        ) from None
    if not isinstance(value, dict):
        raise malformed(f"The body is {_shown(value)}.", "Send one JSON object.")
    for name in names:
        if name not in value:
            raise malformed(f"{name} is missing.", f"Send an object with {', '.join(names)}.")
    for name in value:
        if name not in names:
            raise malformed(
                f"{quoted(name)} is not known here.",
                f"Send an object with {', '.join(names)} and nothing else.",
            )
    return value


def _partition(members: Mapping[str, Any]) -> str:
    value = members["partition"]
    if not isinstance(value, str) or not _PARTITION.match(value):
        raise malformed(
            f"partition is {_shown(value)}.",
            "Send a string of 1 to 256 printable ASCII characters without spaces.",
        )
    return value


def _text(members: Mapping[str, Any]) -> str:
    value = members["text"]
    if not isinstance(value, str) or not value.strip():
        raise malformed(f"text is {_shown(value)}.", "Send a string with something in it.")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise malformed("text has half of a surrogate pair.", "Send text that can be written in UTF-8.")
    length = max(len(value), len(unicodedata.normalize("NFKC", value[: MOST_CHARACTERS + 1])))
    if length > MOST_CHARACTERS:
        raise Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"text has {length} characters.",
            f"Send {MOST_CHARACTERS} at most: what differs between longer texts cannot be told.",
        )
    return value


def _entry(value: Any) -> bytes:
    if not isinstance(value, str):
        raise malformed(f"entry is {_shown(value)}.", "Send the encoded entry in base64, as a string.")
    try:
        entry = base64.b64decode(value, validate=True)
        decode(entry, MOST_ENTRY)
    except (binascii.Error, ValueError) as error:
        raise malformed(
            f"entry cannot be read: {quoted(str(error), 200)}.",
            "Send the encoded entry in base64, as a sidecar of this version does.",
        ) from None
    return entry


def _shown(value: Any) -> str:
    """Return a value as a problem names it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    if isinstance(value, int | float):
        return f"the number {str(value)[:40]}"
    return "an object" if isinstance(value, dict) else "a list"
