"""Readers of what is tried again, and of the read that tells whether a write happened."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from proxy.config.faults import Refusal, listed, quoted
from proxy.config.reading import ListOf, Reader, Scalar, Value, scalar
from proxy.config.scalars import integer
from proxy.config.shape import Shape
from proxy.core.calls import Outcome

_OUTCOMES: Final = (Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED, Outcome.DEADLINE_EXCEEDED)
_status: Final = integer(400, 599)

_HOLES: Final = ("{idempotency_key}", "{budget_id}", "{record}")
_HOLE: Final = re.compile(r"\{[^{}]*\}")
_BRACE: Final = re.compile(r"[{}]")
# RFC 3986 §3.3 and §3.4. A second slash at the beginning would make the next segment a host.
_QUESTION: Final = re.compile(r"/(?!/)(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*\Z")
_ANY_QUESTION: Final = re.compile(r"/[!-~]*\Z")  # with its holes
_LONGEST: Final = 2048


def _ending(value: Value) -> Outcome | int:
    """Read an outcome by its name, or a status by its number. Raises Refusal."""
    text = value.text()
    if text.isdigit():
        number: int = _status(value)
        return number
    if text not in _OUTCOMES:
        remedy = f"write {', '.join(_OUTCOMES)} or a status from 400 to 599"
        raise Refusal(f"{quoted(text)} is not an ending that can be tried again", remedy)
    return Outcome(text)


def _sorted_out(endings: Iterable[Outcome | int]) -> dict[str, Any]:
    """Return the two attributes of `Retries` that a list of endings becomes."""
    found = list(endings)
    return {
        "outcomes": frozenset(ending for ending in found if isinstance(ending, Outcome)),
        "statuses": frozenset(ending for ending in found if not isinstance(ending, Outcome)),
    }


endings: Final = ListOf(
    Scalar(_ending, replace(_status.shape, words=tuple(map(str, _OUTCOMES)))), _sorted_out, at_least=1
)


def _question(text: str) -> str:
    for hole in _HOLE.findall(text):
        if hole not in _HOLES:
            raise Refusal(f"{quoted(hole)} is not a hole that can be filled", f"write {listed(_HOLES)}")
    plain = _HOLE.sub("-", text)
    if (brace := _BRACE.search(plain)) is not None:
        what = f"{quoted(text)} has a {brace[0]} that is no part of a hole"
        raise Refusal(what, f"take it out, or write {'%7B' if brace[0] == '{' else '%7D'} for it")
    if len(text) > _LONGEST or not _QUESTION.match(plain):
        example = "begin with a single /, as in /orders?key={idempotency_key}, and write with % what no URL can hold"
        raise Refusal(f"{quoted(text)} is not a path with an optional query", example)
    return text


question: Final[Reader] = scalar(_question, Shape(pattern=_ANY_QUESTION, longest=_LONGEST))
