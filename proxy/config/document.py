"""From text to one tree of YAML nodes, of a bounded size, so that all later reading is short and cannot run away.

The events are looked at before the tree is built: building it follows nesting with the C stack, and aliases let a
few lines stand for millions (`&b [*a, *a]`, again and again).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import yaml

from proxy.config.faults import ConfigError, Fault, visible

MAX_BYTES: Final = 1024 * 1024  # what a ConfigMap can hold
MAX_DEPTH: Final = 32
MAX_NODES: Final = 50_000
_LENGTH: Final = 128

# What the parser says of the mistakes that policies invite, and what it should have said.
_HINTS: Final = {
    "alias": "put quotes around a value that begins with *",
    "cannot start any token": "indent with spaces, and put quotes around a value that begins with @, % or `",
}
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LINE_ENDS: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# YAML 1.1 §4.1: what else there is can stand in it as an escape only.
_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read(path: str | os.PathLike[str]) -> str:
    """Return the text of a policy file, of 1 MiB at most. Raises ConfigError."""
    source = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror or error}"
        raise _error(source, None, problem, "check the path and its permissions") from None
    except ValueError:  # a NUL, or what no file system can encode
        raise _error(visible(source), None, "this is not a path of a file", "correct the path") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(data) > MAX_BYTES:
            raise _too_long(source) from None
        line = data.count(b"\n", 0, error.start) + 1
        raise _error(source, line, f"byte {error.start + 1} is not UTF-8", "save the file as UTF-8") from None


def compose(text: str, source: str) -> yaml.Node | None:
    """Return the root node of the one document in `text`; None when there is none. Raises ConfigError."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _too_long(source)
    if stray := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, stray.start()) + 1
        column = stray.start() - text.rfind("\n", 0, stray.start())
        raise _error(source, line, f"the character {stray[0]!a} cannot stand in YAML", "take it out", column)
    try:
        _check_bounds(text, source)
        node: yaml.Node | None = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        line, column = _place(error.problem_mark or error.context_mark, text)
        said = ": ".join(part for part in (error.context, error.problem) if part)
        remedy = next((hint for sign, hint in _HINTS.items() if sign in said), "correct it there")
        problem = f"this is not valid YAML: {visible(said, 200)}"
        raise _error(source, line, problem, remedy, column) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # an escape that stands for no character
        raise _error(source, 1, f"this is not valid YAML: {visible(str(error), 200)}", "correct it") from None
    return node


def _place(mark: yaml.Mark | None, text: str) -> tuple[int, int]:
    """Return the line and the column of a mark, counted from 1. That of the end may stand behind the last line there is."""
    if mark is None:
        return 1, 1
    lines = _LINE_ENDS.split(text)
    if mark.line < len(lines):
        return mark.line + 1, mark.column + 1
    return len(lines), len(lines[-1]) + 1


def _check_bounds(text: str, source: str) -> None:
    """Refuse a second document, and a tree that is too deep, too large, or without an end."""
    # Of each collection around the event: its anchor, and the size of what stands before it in its parent.
    open_nodes: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    documents = size = 0
    for event in yaml.parse(text, Loader=LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _error(source, line, "a second document begins here", "keep one document in the file")
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, size))
            size = 1
            if len(open_nodes) > MAX_DEPTH:
                raise _error(source, line, f"this is nested more than {MAX_DEPTH} deep", "take levels out")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes[anchor] = size
            size += before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_nodes):
                raise _error(source, line, "this alias stands within what it names", "write its content out")
            size += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            # A long text counts for several values, so that what aliases stand for is bounded in bytes too.
            sizes[event.anchor] = values = 1 + len(event.value) // _LENGTH
            size += values
        if size > MAX_NODES:
            problem = f"this makes more than {MAX_NODES} values, aliases written out"
            raise _error(source, line, problem, "take entries or aliases out")


def _error(
    source: str, line: int | None, problem: str, remedy: str, column: int | None = None
) -> ConfigError:
    return ConfigError([Fault(source, line, "", problem, remedy, column)])


def _too_long(source: str) -> ConfigError:
    return _error(source, None, f"the file has more than {MAX_BYTES} bytes", "make it shorter")
