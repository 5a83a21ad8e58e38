"""Every key that the tables hold, with its reader and its built-in value: what the documentation is held against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from proxy.config.reading import INLINE, ListOf, Reader, Report, Section, Value
from proxy.config.schema import POLICY
from proxy.core.policy import Truncate


class Row(NamedTuple):
    """A key of the tables. `inline`: it becomes attributes of its section, whose built-in values `built_in` holds."""

    reader: Reader
    built_in: Any
    inline: bool


_APART = {
    "truncate_margin": Truncate().margin,
    "truncate_mark": Truncate().mark,
    "answer.json": None,
    "answer.text": None,
}
"""Built-in values of keys that become one value together with others: by their last names."""


def rows(section: Section, path: str, owner: Any) -> Iterator[tuple[str, Row]]:
    """Yield the keys below a section with their dotted paths. `owner` holds the built-in values.

    A section that is off unless it is given has those of its keys that hold once it is there.
    """
    for name, (reader, attribute) in section.keys.items():
        key = f"{path}.{name}".lstrip(".")
        inline = attribute == INLINE
        apart = next((last for last in _APART if key.endswith(last)), None)
        built_in = owner if inline else _APART[apart] if apart else getattr(owner, attribute)
        if isinstance(reader, Section):
            yield from rows(reader, key, reader.build() if built_in is None else built_in)
        elif isinstance(reader, ListOf) and isinstance(reader.reader, Section):
            yield from rows(reader.reader, f"{key}[]", reader.reader.build())
        else:
            yield key, Row(reader, None if name in section.required else built_in, inline)


ROWS = dict(rows(POLICY, "", POLICY.build()))


def read_alone(reader: Reader, text: str) -> tuple[Any, list[str]]:
    """Return what a reader makes of one value, and the remedies of the faults it finds."""
    report = Report("alone")
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert node is not None
    value = Value(node, "key", 1, report).read(reader)
    return value, [f"{fault.problem}; {fault.remedy}" for fault in report.faults]
