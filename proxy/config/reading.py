"""How a table reads a mapping: each row names a key, what reads its value, and the attribute that it becomes.

A reader is a function of a `Value`. It returns what it read or raises `Refusal`; the value knows where it stands and
turns a refusal into a fault, and reading goes on with the next key, so that all faults are found at once. Lists and
sections are readers too, so tables nest as the file does.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import yaml

from proxy.config.faults import Fault, Refusal, listed, quoted, visible, without_user
from proxy.config.shape import ANY_TEXT, Shape

MISSING: Final = object()
INLINE: Final = ""  # the attribute of a row whose value is itself a mapping of attributes

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = ("str", "int", "float", "bool", "timestamp", "value", "merge")  # what plain ones resolve to
_LAST_STEP: Final = re.compile(r"(?:\.[^.\[]*|\[[0-9]+\])\Z")


class Given(NamedTuple):
    """A key that the file gives: its line, and its text when it is a scalar."""

    line: int
    text: str


class Report:
    """What is found while one file is read: its faults, and which keys it gives."""

    def __init__(self, source: str, *, has_lines: bool = True, has_files: bool = True) -> None:
        """Start with nothing.

        `has_lines` False: whoever reads the faults has never seen the lines. `has_files` False: the files that the text
        names are on another machine.
        """
        self.faults: list[Fault] = []
        self.given: dict[str, Given] = {}
        self.has_files = has_files
        self._has_lines = has_lines
        self._source = source
        self._faulty: set[str] = set()
        self._faulty_below: set[str] = set()
        self._incomplete: set[str] = set()

    @property
    def keeps_order(self) -> bool:
        """Whether mappings stand in the order that their author has given them."""
        return self._has_lines

    def add(self, key: str, line: int, problem: str, remedy: str) -> None:
        """Add a fault."""
        self.faults.append(Fault(self._source, line if self._has_lines else None, key, problem, remedy))
        self._faulty.add(key)
        self._faulty_below.update(_above(key))

    def add_unknown(self, section: str, key: str, line: int, problem: str, remedy: str) -> None:
        """Add the fault of a key that is none: what its section seems not to give may have been meant by it."""
        self.add(key, line, problem, remedy)
        self._incomplete.add(section)

    def add_conflict(self, at: str, keys: Collection[str], problem: str, remedy: str) -> None:
        """Add the fault of keys that contradict each other, unless one of them has a fault of its own already."""
        if all(map(self.is_sound, keys)):
            self.add(at, self.given[at].line, problem, remedy)

    def is_sound(self, key: str) -> bool:
        """Say whether what was read for a key, or its built-in value, is what the file means."""
        if key in self._faulty_below or not self._faulty.isdisjoint((key, *_above(key))):
            return False
        while key not in self.given and key:
            key = next(_above(key))
            if key in self._incomplete:
                return False
        return True

    def place(self, key: str) -> str:
        """Return where a key's value comes from, for a sentence."""
        if key not in self.given:
            return "built in"
        return f"line {self.given[key].line}" if self._has_lines else "given"

    def at(self, line: int, joint: str) -> str:
        """Return the end of a sentence that tells where something else stands."""
        return f"{joint} line {line}" if self._has_lines else ""


def _above(key: str) -> Iterator[str]:
    """Yield the paths of what a key is part of, up to the whole file. A name may have dots and brackets of its own."""
    while key:
        step = _LAST_STEP.search(key)
        key = key[: step.start() if step else max(key.rfind("."), key.rfind("["), 0)]
        yield key


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the file, and where it stands."""

    node: yaml.Node
    key: str
    line: int
    report: Report

    def read(self, reader: Reader) -> Any:
        """Return what the reader makes of this value, or MISSING after a fault was added for it."""
        scalar = self.node.value if isinstance(self.node, yaml.ScalarNode) else ""
        self.report.given[self.key] = Given(self.line, scalar)
        try:
            return reader(self)
        except Refusal as refusal:
            self.refuse(refusal)
            return MISSING

    def refuse(self, refusal: Refusal) -> None:
        """Add a fault for this value."""
        self.report.add(self.key, self.line, refusal.problem, refusal.remedy)

    def text(self, *, quotes: bool = True) -> str:
        """Return a scalar as it is written; `quotes` False refuses a quoted one. Raises Refusal."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise Refusal(f"{_what(self.node)} stands where one value is expected", "write one value")
        if _is_null(self.node):
            raise Refusal("has no value", "write one, or take the key out")
        text: str = self.node.value
        if self.node.tag.removeprefix(_TAG) not in _SCALARS:
            raise Refusal(f"has the tag {quoted(self.node.tag)}", "take the tag out")
        if not quotes and self.node.style:
            raise Refusal(f"{quoted(text)} is a text, because of its quotes", "write it without quotes")
        return text

    def entries(self) -> Iterator[tuple[str, Value]]:
        """Yield the names and values of a mapping; one that is left empty has none. Raises Refusal."""
        if _is_null(self.node):
            return
        if not isinstance(self.node, yaml.MappingNode) or self.node.tag != f"{_TAG}map":
            raise Refusal(
                f"{_what(self.node)} stands where keys are expected", "write keys with their values"
            )
        lines: dict[str, int] = {}
        for name_node, node in self.node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, yaml.ScalarNode):
                problem = f"{_what(name_node)} stands where a key is expected"
                self.report.add_unknown(self.key, self.below("?"), line, problem, "write a key")
                continue
            name = name_node.value
            entry = Value(node, self.below(visible(name)), line, self.report)
            if name in lines:
                first = self.report.at(lines[name], ", first on")
                entry.refuse(Refusal(f"is given twice{first}", "keep one of the two"))
                continue
            lines[name] = line
            yield name, entry

    def items(self) -> list[Value]:
        """Return the values of a list; one that is left empty has none. Raises Refusal."""
        if _is_null(self.node):
            return []
        if not isinstance(self.node, yaml.SequenceNode) or self.node.tag != f"{_TAG}seq":
            shown = "first, second"
            if isinstance(self.node, yaml.ScalarNode):
                value = without_user(self.node.value)
                shown = quoted(value) if self.node.style else visible(value)
            raise Refusal(f"{_what(self.node)} stands where a list is expected", f"write [{shown}]")
        return [
            Value(node, f"{self.key}[{index}]", node.start_mark.line + 1, self.report)
            for index, node in enumerate(self.node.value)
        ]

    def below(self, name: str) -> str:
        """Return the path of a key in this mapping."""
        return f"{self.key}.{name}" if self.key else name


Reader = Callable[[Value], Any]


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and bool(node.tag == f"{_TAG}null")


def _what(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return quoted(node.value)
    if not node.tag.startswith(_TAG) or node.tag.removeprefix(_TAG) not in ("map", "seq"):
        return f"something with the tag {quoted(node.tag)}"
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a list"


@dataclass(frozen=True, slots=True)
class Scalar:
    """The reader of a scalar. `shape`: what it looks like from outside."""

    read: Reader
    shape: Shape = ANY_TEXT

    def __call__(self, value: Value) -> Any:
        """Read a scalar. Raises Refusal."""
        return self.read(value)


def scalar(parse: Callable[[str], Any], shape: Shape = ANY_TEXT, *, quotes: bool = True) -> Scalar:
    """Return the reader of a scalar, from a function of its text. `quotes` False: a quoted one is refused."""
    return Scalar(lambda value: parse(value.text(quotes=quotes)), shape)


@dataclass(frozen=True, slots=True)
class MapOf:
    """The reader of a mapping whose names are free. `names`, `values` and `at_most`: what it looks like from outside."""

    read: Reader
    names: Shape
    values: Shape
    at_most: int = 1000

    def __call__(self, value: Value) -> Any:
        """Read a mapping. Raises Refusal."""
        entries = len(value.node.value) if isinstance(value.node, yaml.MappingNode) else 0
        if entries > self.at_most:
            raise Refusal(f"has {entries} entries", f"write at most {self.at_most} of them")
        return self.read(value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """The reader of a list. Scalars in it must differ from each other; what `reader` cannot read is left out."""

    reader: Reader
    build: Callable[[list[Any]], Any] = tuple
    at_least: int = 0
    at_most: int = 1000

    def __call__(self, value: Value) -> Any:
        """Read a list. Raises Refusal."""
        items = value.items()
        if not self.at_least <= len(items) <= self.at_most:
            raise Refusal(f"has {len(items)} entries", f"write {self.at_least} to {self.at_most} of them")
        found: list[Any] = []
        lines: dict[Any, int] = {}
        for item in items:
            one = item.read(self.reader)
            if one is MISSING:
                continue
            found.append(one)
            if isinstance(self.reader, Section):
                continue
            if one in lines:
                where = item.report.at(lines[one], ", on")
                item.refuse(Refusal(f"is in the list already{where}", "keep one of the two"))
            lines.setdefault(one, item.line)
        return self.build(found)


@dataclass(frozen=True, slots=True)
class Section:
    """The reader of one mapping. `keys`: name -> (reader, attribute). `required`: name -> what to do without it.

    `aliases`: another name -> the key that it stands for. It always returns a value, for what cannot be read with the
    built-in defaults; the faults are in the report.
    """

    build: Callable[..., Any]
    keys: Mapping[str, tuple[Reader, str]]
    required: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, value: Value) -> Any:
        """Read a mapping."""
        attributes: dict[str, Any] = {}
        try:
            for name, entry in value.entries():
                if name in self.aliases:
                    name = self.aliases[name]
                    entry = replace(entry, key=value.below(name))
                self._read_entry(name, entry, value.key, attributes)
        except Refusal as refusal:
            value.refuse(refusal)
            return self.build()
        for name, remedy in self.required.items():
            key = f"{value.key}.{name}"
            if key not in value.report.given:
                value.report.add(key, value.line, "is missing", remedy)
        return self.build(**attributes)

    def _read_entry(self, name: str, entry: Value, section: str, attributes: dict[str, Any]) -> None:
        report = entry.report
        if name not in self.keys:
            report.add_unknown(section, entry.key, entry.line, *self._unknown(name))
        elif entry.key in report.given:
            names = listed([name, *(alias for alias, meant in self.aliases.items() if meant == name)], "and")
            first = report.at(report.given[entry.key].line, ", first on")
            entry.refuse(Refusal(f"is given twice{first} ({names} are one key)", "keep one of the two"))
        else:
            reader, attribute = self.keys[name]
            found = entry.read(reader)
            if found is not MISSING:
                attributes.update(found if attribute == INLINE else {attribute: found})

    def _unknown(self, name: str) -> tuple[str, str]:
        """Return problem and remedy for a key that no row names."""
        if name == "<<":
            return "is a merge key, and those are not read", "write the keys out"
        close = difflib.get_close_matches(name[:100].lower(), self.keys, n=1, cutoff=0.5)
        remedy = (
            f"did you mean {close[0]}?" if close else f"the keys here are {listed(list(self.keys), 'and')}"
        )
        return "is not a key that is known here", remedy
