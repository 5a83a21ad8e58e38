"""Readers of JSON that stands in YAML: whole values, places in a document, and texts that are texts to every reader.

A policy comes as a file, which is read here, or through kubectl or Helm, which read it first. Their YAML is that of 1.1: to
them `on` is true and `010` is eight. All that JSON could have written so is read as JSON reads it, and other plain words are
texts (YAML 1.2 §10.3); a plain word that two readers would take for two things is refused, and quotes make it a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from proxy.config.faults import Refusal, quoted, visible
from proxy.config.reading import MISSING, Reader, Scalar, Value, scalar
from proxy.config.shape import Form, Shape
from proxy.core import json_path
from proxy.core.json_path import JsonPath

MOST_BYTES: Final = 64 * 1024
"""Of one value, written as JSON. What is put into a body is read again for each call."""

_WORDS: Final[Mapping[str, Any]] = (
    dict.fromkeys(("null", "Null", "NULL", "~"))
    | dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")  # RFC 8259 §6
_LONGEST_NUMBER: Final = 64
_EXACT: Final = 2**53 - 1  # RFC 7493 §2.2: beyond it, readers differ
# What other versions of YAML take for a truth value or a number, beside what JSON has (YAML 1.1 types bool, int, float; 1.2
# core schema), and what Go's readers do.
_TRUTH: Final = re.compile(r"[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_LIKE_A_NUMBER: Final = re.compile(
    r"[-+]?(?:0[bB][01_]+|0[oO][0-7_]+|0[xX][0-9A-Fa-f_]+"
    r"|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|\.(?:inf|Inf|INF))\Z|\.(?:nan|NaN|NAN)\Z"
)
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_ANY_PLACE: Final = re.compile(r"\$[^\n]*\Z")
_LONGEST_PLACE: Final = 2048


# -- plain words -------------------------------------------------------------------------------------------------------


def _resolved(word: str) -> Any:
    """Return what a word without quotes stands for: as JSON has it, else a text. Raises Refusal."""
    if word in _WORDS:
        return _WORDS[word]
    if _NUMBER.match(word):
        return _number(word)
    if _TRUTH.fullmatch(word):
        problem = f"{quoted(word)} is a truth value to some readers of YAML, and a text to others"
        raise Refusal(problem, "write true or false, or put quotes around it")
    if _LIKE_A_NUMBER.match(word):
        problem = f"{quoted(word)} is a number to some readers of YAML, and none as JSON writes it"
        raise Refusal(problem, "write it in plain decimal digits, or put quotes around it")
    if word == "<<":
        raise Refusal(
            '"<<" is a merge key to some readers of YAML', "write the keys out, or put quotes around it"
        )
    return word


def _number(word: str) -> int | float:
    """Return a number; a whole one is a whole one, however it is written. Raises Refusal."""
    if len(word) <= _LONGEST_NUMBER:
        number = float(word)
        if abs(number) <= _EXACT:
            return int(number) if number.is_integer() else number
        if not set(".eE").isdisjoint(word) and number - number == 0:  # neither infinite
            return number
    problem = f"{quoted(word)} is a number that not every reader of JSON can keep"
    raise Refusal(problem, "write fewer digits, or put quotes around it")


def is_text(word: str) -> bool:
    """Say whether a word without quotes is a text to every reader of YAML, and so needs none."""
    try:
        return bool(word) and isinstance(_resolved(word), str)
    except Refusal:
        return False


def _is_plain(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style


def _sound(text: str) -> str:
    """Return a text that UTF-8 can carry, and JSON as everybody reads it. Raises Refusal."""
    if "\0" in text:
        raise Refusal("has a NUL in it", "take it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refusal("has half a character in it (a lone surrogate)", "write the whole character") from None
    return text


def sure_text(value: Value) -> str:
    """Return a scalar that is a text, whoever reads it. It may be a secret, so no fault shows it. Raises Refusal."""
    text = value.text()
    if _is_plain(value.node) and not is_text(text):
        raise Refusal("is not a text to every reader of YAML", "put quotes around it")
    return _sound(text)


def sure_entries(value: Value) -> Iterator[tuple[str, Value]]:
    """Yield the names and values of a mapping whose names are texts, whoever reads them. Raises Refusal."""
    nodes = value.node.value if isinstance(value.node, yaml.MappingNode) else []
    plain = {name.value for name, _ in nodes if isinstance(name, yaml.ScalarNode) and _is_plain(name)}
    for name, entry in value.entries():
        try:
            if name in plain and not is_text(name):
                raise Refusal("is a name that is not a text to every reader of YAML", "put quotes around it")
            _sound(name)
        except Refusal as refusal:
            entry.refuse(refusal)
        else:
            yield name, entry


# -- values ------------------------------------------------------------------------------------------------------------


def _scalar(value: Value) -> Any:
    node = value.node
    implied = _RESOLVER.resolve(yaml.ScalarNode, node.value, (_is_plain(node), not _is_plain(node)))
    if node.tag != implied:
        raise Refusal(f"has the tag {quoted(node.tag)}", "take the tag out")
    if not _is_plain(node):
        return _sound(node.value)
    if not node.value:
        raise Refusal("has no value", "write null, or take it out")
    return _resolved(_sound(node.value))


def _any(value: Value) -> Any:
    match value.node:
        case yaml.ScalarNode():
            return _scalar(value)
        case yaml.SequenceNode():
            return [item.read(_any) for item in value.items()]
        case _:
            return {name: entry.read(_any) for name, entry in sure_entries(value)}


def _json(value: Value) -> Any:
    """Return a value as JSON text; MISSING when there is a fault in it. Raises Refusal."""
    faults = len(value.report.faults)
    found = _any(value)
    if len(value.report.faults) > faults:
        return MISSING
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if len(text.encode()) > MOST_BYTES:
        raise Refusal(f"is more than {MOST_BYTES // 1024} KiB of JSON", "make it shorter")
    if "\\u0000" in text:  # which `core.exact_json` does not read
        raise Refusal("has in it what reads like the escape of a NUL", "take it out")
    return text


json_text: Final = Scalar(_json, Shape(Form.JSON))
"""The reader of any value, as the text that JSON has for it. How deep it is, and how many values it has, the document bounds."""


# -- places ------------------------------------------------------------------------------------------------------------


def place_in(text: str) -> JsonPath:
    """Return a place in a document. Raises Refusal."""
    if len(text) > _LONGEST_PLACE:
        raise Refusal(f"{quoted(text)} is too long", f"write at most {_LONGEST_PLACE} characters")
    try:
        return json_path.parse(text)
    except ValueError as error:
        problem, _, remedy = str(error).rpartition("; ")
    if not problem:
        raise Refusal(f"{quoted(text)} is not a place in a JSON document", f"one {remedy}")
    raise Refusal(f"{quoted(text)} {visible(problem, 120)}", remedy)


ANY_PLACE: Final = Shape(pattern=_ANY_PLACE, longest=_LONGEST_PLACE)
place: Final[Reader] = scalar(place_in, ANY_PLACE)
