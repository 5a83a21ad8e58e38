"""Values that are made for every call: read like a `NamedTuple`, made and read as fast as an object.

A named tuple is made by a function of Python that fills a tuple, and each of its fields is looked up by name; compiled or
not, that costs more than most of what is decided with them. A `Value` has slots, and compiled it is a struct.

A subclass names its slots in `_fields` too, and its `__init__` takes each of them under its own name. Its attributes are
`Final`, which the type checker holds: nothing about a value changes after it was made.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self


class Value:
    """What a named tuple can do besides being a tuple: be compared, shown, and made anew with a change."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def _asdict(self) -> dict[str, Any]:
        """Return the fields by their names, in their order."""
        return {name: getattr(self, name) for name in self._fields}

    def _replace(self, **changes: Any) -> Self:
        """Return the same value with other contents in some of its fields."""
        return type(self)(**{**self._asdict(), **changes})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, name) for name in self._fields]))

    def __repr__(self) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self._fields])
        return f"{type(self).__name__}({shown})"
