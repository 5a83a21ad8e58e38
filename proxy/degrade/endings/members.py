"""What a dialect takes from the values of a stream: of the type that it expects, or not at all."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice
from typing import Any, Final

from proxy.degrade.endings.ending import Unreadable

SHORT: Final = 256
"""The longest string that is taken for an id or a name, and kept (characters)."""

HIGHEST: Final = 1023
"""The highest place that anything may stand at: a choice, a block, an item."""

_PARTS: Final = 64
_BITS: Final = 64
_DEPTH: Final = 4


def place(value: dict[str, Any], name: str, otherwise: int | None = None) -> int:
    """Return a member that is a place, counted from 0. Raises Unreadable; `otherwise`: what it is where it is not given."""
    found = value.get(name, otherwise)
    if type(found) is not int or not 0 <= found <= HIGHEST:
        raise Unreadable(f"{name} is no place")
    return found


def text(value: dict[str, Any], name: str) -> str:
    """Return a member that is a string; empty where it is not given. Raises Unreadable."""
    found = value.get(name)
    if found is None:
        return ""
    if type(found) is not str:
        raise Unreadable(f"{name} is no string")
    return found


def members(value: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object; empty where it is not given. Raises Unreadable."""
    found = value.get(name)
    if found is None:
        return {}
    if type(found) is not dict:
        raise Unreadable(f"{name} is no object")
    return found


def objects(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a member that is a list of objects, not too many; empty where it is not given. Raises Unreadable."""
    found = value.get(name)
    if found is None:
        return []
    if type(found) is list and len(found) <= HIGHEST + 1:
        for each in found:
            if type(each) is not dict:
                break
        else:
            return found
    raise Unreadable(f"{name} is no list of objects")


def small(value: dict[str, Any], names: Collection[str] | None = None) -> dict[str, Any]:
    """Return a copy of the members that are small enough to be kept; `names`: of these only."""
    given = value if names is None else {name: value[name] for name in names if name in value}
    kept = {}
    for name, member in islice(given.items(), _PARTS):
        try:
            if len(name) <= SHORT:
                kept[name] = _copy(member, [_PARTS], _DEPTH)
        except Unreadable:
            continue
    return kept


def _copy(value: Any, left: list[int], depth: int) -> Any:
    """Copy a value of no more parts than are left. Raises Unreadable: it is no small one."""
    left[0] -= 1
    kind = type(value)
    if kind is int:
        fits = value.bit_length() < _BITS
    elif kind is str:
        fits = len(value) <= SHORT
    elif kind is float:
        fits = math.isfinite(value)
    elif kind is dict:
        if depth and len(value) <= left[0] and all(len(name) <= SHORT for name in value):
            return {name: _copy(each, left, depth - 1) for name, each in value.items()}
        fits = False
    elif kind is list:
        if depth and len(value) <= left[0]:
            return [_copy(each, left, depth - 1) for each in value]
        fits = False
    else:
        fits = True
    if fits and left[0] >= 0:
        return value
    raise Unreadable("too much to be kept")
