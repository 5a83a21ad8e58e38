"""A body as a rung sends it: what the rung names is changed, all else means the same.

The first line of an input is a place (`$.model`) and a value as JSON, the rest is the body.
"""

from __future__ import annotations

import json
from typing import Any, Final

from proxy.core import exact_json, json_path
from proxy.core.degrading import Change, Rung
from proxy.core.json_path import ABSENT
from proxy.core.policy import Route
from proxy.core.target import Origin
from proxy.core.target import Target as Aim
from proxy.degrade.change import Unchangeable, changed
from trials.fuzz.target import Seen, Target, gist, hold

_REFUSED: Final = ("\0", r"\u0000")
_ROUTE: Final = Route(name="any")


def check(data: bytes) -> Seen:
    """Change the body, and look at what has changed."""
    first, _, body = data.partition(b"\n")
    place, _, new = first.decode("utf-8", "replace").strip().partition(" ")
    try:
        path = json_path.parse(place)
    except ValueError as error:
        hold(str(error), "a-refusal-explains-itself")
        return {"no place"}
    if not path.steps or any(mark in f"{step}" for step in path.steps for mark in _REFUSED):
        # The whole body is no place in it, and what reads like a NUL no name: the policy refuses both.
        return {"refused by the policy"}
    try:
        value = exact_json.load(new.encode())
    except ValueError:
        value, new = "small", '"small"'
    rung = Rung(name="r", change=Change(json=((path, new),)))
    target = Aim(Origin("http", "tool", 80), "tool", "/a?b=c")
    try:
        said = changed(rung, _ROUTE, target, [b"content-length"], body)
    except Unchangeable as problem:
        hold(str(problem), "a-refusal-explains-itself")
        return {f"unchangeable: {gist(str(problem).partition(':')[2])}"}
    assert said.body is not None
    after = exact_json.load(said.body, most=1 << 24)
    hold(path.find(after) == value, "what-was-set-is-there", said.body)
    before = exact_json.load(body, most=1 << 24)
    was_there = path.find(before) is not ABSENT
    hold(
        _without(before, path.steps) == _without(after, path.steps), "all-else-is-as-it-was", body, said.body
    )
    hold(b"Content-Length: %d\r\n" % len(said.body) in said.lines, "the-length-is-its-own", said.lines)
    json.loads(said.body)
    return {f"changed, was there {was_there}, {type(value).__name__}, {len(path.steps)} deep"}


def _without(document: Any, steps: tuple[Any, ...]) -> Any:
    """Give a document without what stands at a place."""
    step, *rest = steps
    if isinstance(document, dict) and step in document:
        inner = {} if not rest else {step: _without(document[step], tuple(rest))}
        return {name: value for name, value in document.items() if name != step} | inner
    if isinstance(document, list) and isinstance(step, int) and -len(document) <= step < len(document):
        at = step % len(document)
        inner_list = [] if not rest else [_without(document[at], tuple(rest))]
        return [*document[:at], *inner_list, *document[at + 1 :]]
    return document


TARGET: Final = Target(
    "change",
    "a body as a rung sends it: the one place is changed, all else means the same, and the length is its own",
    check,
    tokens=(
        b"$.model",
        b"$.a.b",
        b"$['a b']",
        b"$.list[0]",
        b"$.list[-1].x",
        b"$[0]",
        b"$",
        b"$..a",
        b"$['\\u0061']",
        b' "small"\n',
        b" 1.50\n",
        b" null\n",
        b' {"a":[1.0]}\n',
        b'{"model":"large","n":1.0}',
        b'{"list":[{"x":1},{"x":2}]}',
        b'"\\u0000"',
        b'"\\ud800"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"1e999",
        b"NaN",
    ),
)
