"""Structured fields (RFC 9651), as much of them as the fields of Waterclock use, parsed by the letter.

A reader of its own, so that what is written is held to the grammar and not to the code that has written it. Values are
integers, tokens, strings and booleans; whatever else stands there is a ValueError, as it is for any strict reader.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_KEY: Final = re.compile(r"[a-z*][a-z0-9_.*-]*")  # §3.1.2
_TOKEN: Final = re.compile(r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*")  # §3.3.4
_INTEGER: Final = re.compile(r"-?[0-9]{1,15}(?![0-9.])")  # §3.3.1
_STRING: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')  # §3.3.3
_BOOLEAN: Final = re.compile(r"\?([01])")  # §3.3.6


class Token(str):
    """A token, which is not the string of the same characters."""

    __slots__ = ()


Bare = int | bool | Token | str


class Item(NamedTuple):
    """A value and its parameters."""

    value: Bare
    parameters: dict[str, Bare]


def item(field: str) -> Item:
    """Parse an item (§4.2.3)."""
    parsed, rest = _item(field)
    if rest.strip(" "):
        raise ValueError(f"{rest!r} follows the item")
    return parsed


def dictionary(field: str) -> dict[str, Item]:
    """Parse a dictionary (§4.2.2). A key that comes twice would overwrite, so here it is an error."""
    members: dict[str, Item] = {}
    rest = field
    while rest:
        key, rest = _key(rest)
        if key in members:
            raise ValueError(f"{key} comes twice")
        if rest.startswith("="):
            members[key], rest = _item(rest[1:])
        else:
            parameters, rest = _parameters(rest)
            members[key] = Item(True, parameters)
        rest = rest.lstrip(" \t")
        if not rest:
            break
        if not rest.startswith(",") or not rest[1:].strip(" \t"):
            raise ValueError(f"{rest!r} is no further member")
        rest = rest[1:].lstrip(" \t")
    return members


def _item(text: str) -> tuple[Item, str]:
    value, rest = _bare(text)
    parameters, rest = _parameters(rest)
    return Item(value, parameters), rest


def _parameters(text: str) -> tuple[dict[str, Bare], str]:
    """Parse parameters (§4.2.3.2): one without a value is true."""
    found: dict[str, Bare] = {}
    while text.startswith(";"):
        key, text = _key(text[1:].lstrip(" "))
        value: Bare = True
        if text.startswith("="):
            value, text = _bare(text[1:])
        if key in found:
            raise ValueError(f"{key} comes twice")
        found[key] = value
    return found, text


def _bare(text: str) -> tuple[Bare, str]:
    if match := _INTEGER.match(text):
        return int(match[0]), text[match.end() :]
    if match := _STRING.match(text):
        return re.sub(r"\\(.)", r"\1", match[1]), text[match.end() :]
    if match := _TOKEN.match(text):
        return Token(match[0]), text[match.end() :]
    if match := _BOOLEAN.match(text):
        return match[1] == "1", text[match.end() :]
    raise ValueError(f"{text!r} begins with no value")


def _key(text: str) -> tuple[str, str]:
    match = _KEY.match(text)
    if match is None:
        raise ValueError(f"{text!r} begins with no key")
    return match[0], text[match.end() :]
