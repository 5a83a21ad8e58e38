"""Kubernetes manifests as `waterclock inject` reads and writes them: documents of a YAML stream, and the pods in them.

A document that is not changed is written as it was read, to the byte. One that is loses its comments and keeps its order.
Values mean what they mean to kubectl: it reads YAML 1.1 with the numbers of 1.2 (`0o644`, `1e3`), which is why `y` and
`12e4` are written in quotes when they are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from proxy.config.document import LOADER, compose
from proxy.config.faults import ConfigError, Fault, visible
from proxy.kube.templates import TEMPLATES, Found, Path, pods_in


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. `text` is everything from its first line to the next document; `line` counts from 1."""

    source: str
    line: int
    text: str
    kind: str

    @property
    def may_hold_pods(self) -> bool:
        """Whether its kind is one that is looked into. What is not is never read further, however large."""
        return self.kind in TEMPLATES or self.kind.endswith("List")


# -- reading ---------------------------------------------------------------------------------------------------------


def split(text: str, source: str) -> list[Document]:
    """Return the documents of a stream; those with nothing in them are left out. Raises ConfigError."""
    starts: list[tuple[int, int]] = []  # index and line
    kinds: list[str] = []
    try:
        for event, kind in _with_kinds(text):
            if isinstance(event, yaml.DocumentStartEvent):
                mark = event.start_mark
                # What stands in front of the first document, comments most of all, goes with it.
                starts.append((mark.index, mark.line + 1) if starts and mark is not None else (0, 1))
                kinds.append("")
            elif kind:
                kinds[-1] = kind
    except yaml.YAMLError as error:
        raise ConfigError([_fault(error, source, text)]) from None
    ends = [*(index for index, _ in starts[1:]), *([len(text)] if starts else [])]
    return [
        Document(source, line, text[index:end], kind)
        for (index, line), end, kind in zip(starts, ends, kinds, strict=True)
        if text[index:end].strip().strip("-")
    ]


def _with_kinds(text: str) -> Iterator[tuple[yaml.Event, str]]:
    """Yield the events of a stream; with the value of a document's own `kind` comes that value."""
    depth, is_key, key = 0, True, ""
    for event in yaml.parse(text, Loader=LOADER):
        kind = ""
        if isinstance(event, yaml.DocumentStartEvent):
            depth, is_key, key = 0, True, ""
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent) and depth == 1:
            value = event.value if isinstance(event, yaml.ScalarEvent) else ""
            kind = value if not is_key and key == "kind" else ""
            is_key, key = not is_key, value
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        yield event, kind


def _fault(error: yaml.YAMLError, source: str, text: str) -> Fault:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Fault(source, line, "", f"this is not valid YAML: {error.reason}", "take the character out")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = visible(str(getattr(error, "problem", None) or error), 200)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    return Fault(source, line, "", f"this is not valid YAML: {said}", "correct it there", column)


def read(document: Document) -> tuple[Any, list[tuple[Found, int]]]:
    """Return a document as JSON has it, and the objects in it that hold pods, each with its line. Raises ConfigError."""
    # Empty lines in front, so that lines are those of the file.
    root = compose("\n" * (document.line - 1) + document.text, document.source)
    if root is None:
        return None, []
    try:
        value = _as_json(_Values("").construct_document(root))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else document.line
        problem = visible(str(error.problem), 200)
        raise ConfigError([Fault(document.source, line, "", problem, "write what JSON has too")]) from None
    except (RecursionError, ValueError) as error:  # aliases within aliases, a number of thousands of digits
        problem = f"this cannot be read: {visible(str(error), 200)}"
        raise ConfigError([Fault(document.source, document.line, "", problem, "make it simpler")]) from None
    return value, [(found, _line(root, found.path)) for found in pods_in(value)]


def _line(node: yaml.Node, path: Path) -> int:
    """Return the line of what a path leads to, or of the last that is there of the way."""
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            node = next((below for name, below in reversed(node.value) if name.value == step), node)
    return node.start_mark.line + 1


class _Values(yaml.SafeLoader):
    """What scalars mean to kubectl. Nodes are given to it; it reads no text."""


def _plain(_values: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """Return a text, or the number or truth that only kubectl sees in it."""
    text: str = node.value
    if node.style:
        return text
    if _OCTAL.fullmatch(text):
        return int(text.replace("o", ""), 8)
    if _EXPONENT.fullmatch(text):
        return float(text)
    return {"y": True, "Y": True, "n": False, "N": False}.get(text, text)


def _number(values: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """Return a number; `22:30`, which is one to base 60 in YAML 1.1, is a text to kubectl."""
    if ":" in node.value and not node.style:
        return node.value
    is_whole = node.tag == f"{_TAG}int"
    return values.construct_yaml_int(node) if is_whole else values.construct_yaml_float(node)


def _foreign(_values: yaml.SafeLoader, node: yaml.Node) -> Any:
    problem = f"a value with the tag {node.tag} stands here"
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_TAG: Final = "tag:yaml.org,2002:"
_OCTAL: Final = re.compile(r"[-+]?0o[0-7]{1,20}")
_EXPONENT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]{1,4}")
_READ: Final = {
    **dict.fromkeys(("str", "timestamp", "value"), _plain),
    **dict.fromkeys(("int", "float"), _number),
    **dict.fromkeys(("binary", "set", "omap", "pairs"), _foreign),
}
for _name, _reader in _READ.items():
    _Values.add_constructor(f"{_TAG}{_name}", _reader)
_Values.add_constructor(None, _foreign)


def _as_json(value: Any) -> Any:
    """Return a value with the keys that JSON has: texts."""
    if isinstance(value, dict):
        return {_key(name): _as_json(each) for name, each in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, list) else value


def _key(name: Any) -> str:
    return str(name).lower() if isinstance(name, bool) or name is None else str(name)


# -- writing ---------------------------------------------------------------------------------------------------------


def write(value: Any) -> str:
    """Return a value as YAML: keys in their order, long texts as blocks, nothing by reference."""
    # No `---`: whoever writes several documents puts it between them.
    return str(yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=120))


class _Writer(yaml.SafeDumper):
    """Writes plain YAML, as people do."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value out each time that it occurs."""
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Write several lines as a block, and in quotes what kubectl would read as something else."""
        style = "|" if "\n" in text else "'" if _ELSE.fullmatch(text) else None
        if not text.replace("\n", "").isprintable():
            style = '"'
        return self.represent_scalar(f"{_TAG}str", text, style=style)


_ELSE: Final = re.compile(r"[yYnN]|0o[0-7_]*|[-+]?\.?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?")
_Writer.add_representer(str, _Writer.represent_text)
