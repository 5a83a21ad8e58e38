"""The tables of what may be answered with less: a route's ladder and cache, how its streams are cut, and the cache itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from proxy.config import fields, json_values, network
from proxy.config.faults import Refusal, quoted
from proxy.config.json_values import sure_entries, sure_text
from proxy.config.reading import MISSING, ListOf, MapOf, Scalar, Section, Value
from proxy.config.scalars import boolean, duration, fraction, integer, one_of, size
from proxy.config.shape import Form, Shape
from proxy.core.degrading import CachePolicy, CacheUse, Change, FixedAnswer, RouteCache, Rung
from proxy.core.json_path import JsonPath
from proxy.core.policy import Route, Truncate
from proxy.core.units import MILLISECOND

MOST_RUNGS: Final = 16
PLAIN_TEXT: Final = "text/plain; charset=utf-8"
_AUTO: Final = "auto"
# A token, for `Budget-Degraded` (RFC 9651 §3.3.4).
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}\Z")
_LONGEST_MARK: Final = 200
_TRUNCATED: Final = Truncate()

_some_time: Final = duration(MILLISECOND)
_any_time: Final = duration()


# -- a rung ------------------------------------------------------------------------------------------------------------


def _named(value: Value) -> str:
    text = sure_text(value)
    if not _NAME.match(text):
        remedy = "write 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter"
        raise Refusal(f"{quoted(text)} is not the name of a rung", remedy)
    return text


rung_name: Final = Scalar(_named, Shape(pattern=_NAME))


def _needs(value: Value) -> int | None:
    """Read a span, or `auto`, which is None. Raises Refusal."""
    if value.text() == _AUTO:
        return None
    try:
        span: int = _any_time(value)
    except Refusal as refusal:
        raise Refusal(refusal.problem, f"{refusal.remedy}, or {_AUTO}") from None
    return span


needs: Final = Scalar(_needs, replace(_any_time.shape, words=(_AUTO,)))


def _changes(value: Value) -> tuple[tuple[JsonPath, str], ...]:
    """Read places of a body, each with the JSON text that it becomes. No place is within another. Raises Refusal."""
    places: list[JsonPath] = []
    found: list[tuple[JsonPath, str]] = []
    for text, entry in sure_entries(value):
        try:
            place = json_values.place_in(text)
            _check_apart(place, places)
        except Refusal as refusal:
            entry.refuse(refusal)
            continue
        places.append(place)
        became = entry.read(json_values.json_text)
        if became is not MISSING:
            found.append((place, became))
    return tuple(found)


def _check_apart(place: JsonPath, others: list[JsonPath]) -> None:
    if not place.steps:
        raise Refusal("is the whole body", "name a place in it, as in $.model")
    if any(isinstance(step, str) and ("\0" in step or r"\u0000" in step) for step in place.steps):
        # `core.exact_json` would take it for the mark of a number, and write what is no JSON.
        raise Refusal("has in it what reads like the escape of a NUL", "take it out")
    for other in others:
        shorter = min(len(place.steps), len(other.steps))
        if place.steps[:shorter] == other.steps[:shorter]:
            relation = "is the same place as" if place.steps == other.steps else "overlaps with"
            raise Refusal(f"{relation} {quoted(other.text)}", "keep one of the two")


changes: Final = MapOf(_changes, json_values.ANY_PLACE, Shape(Form.JSON), fields.MOST)

CHANGE: Final = Section(
    Change,
    {
        "json": (changes, "json"),
        "headers": (fields.of_request, "headers"),
        "query": (fields.parameters, "query"),
    },
)

CACHE_USE: Final = Section(
    CacheUse,
    {
        "exact": (boolean, "exact"),
        "semantic": (fraction(0, 1), "semantic"),
        "text": (json_values.place, "text"),
    },
)


def _text(value: Value) -> str:
    text = sure_text(value)
    if len(text.encode()) > json_values.MOST_BYTES:
        raise Refusal(f"is more than {json_values.MOST_BYTES // 1024} KiB", "make it shorter")
    return text


def _answer(json: str | None = None, text: str | None = None, **rest: Any) -> FixedAnswer:
    if text is not None:
        return FixedAnswer(body=text.encode(), **{"content_type": PLAIN_TEXT, **rest})
    return FixedAnswer(body=(json or "").encode(), **rest)


ANSWER: Final = Section(
    _answer,
    {
        "status": (integer(200, 599), "status"),
        "json": (json_values.json_text, "json"),
        "text": (Scalar(_text, Shape(longest=json_values.MOST_BYTES)), "text"),
        "content_type": (fields.media_type, "content_type"),
        "headers": (fields.of_answer, "headers"),
    },
)


def _rung(name: str = "", change: Change | None = None, **rest: Any) -> Rung:
    return Rung(name, change=None if change == Change() else change, **rest)


RUNG: Final = Section(
    _rung,
    {
        "name": (rung_name, "name"),
        "needs": (needs, "needs"),
        "set": (CHANGE, "change"),
        "upstream": (network.upstream, "upstream"),
        "credentials": (boolean, "credentials"),
        "cache": (CACHE_USE, "cache"),
        "answer": (ANSWER, "answer"),
    },
    required={"name": "give the rung the name that answers, records and metrics show"},
)
LADDER: Final = ListOf(RUNG, at_most=MOST_RUNGS)

# -- the rest of a route -----------------------------------------------------------------------------------------------


def _part(value: Value) -> JsonPath:
    place: JsonPath = json_values.place(value)
    if not place.steps:
        raise Refusal(
            "is the whole body, and then all requests are the same one", "name a place in it, as in $.user"
        )
    return place


part: Final = Scalar(_part, json_values.ANY_PLACE)

ROUTE_CACHE: Final = Section(
    RouteCache,
    {
        "ttl": (_any_time, "ttl"),
        "first": (boolean, "first"),
        "share": (boolean, "share"),
        "headers": (fields.names, "headers"),
        "ignore": (ListOf(part, at_most=fields.MOST), "ignore"),
        "stale_if_error": (_any_time, "stale_if_error"),
    },
)


def _mark(value: Value) -> str:
    text = sure_text(value)
    if not 0 < len(text) <= _LONGEST_MARK or not text.isprintable():
        raise Refusal(
            f"{quoted(text)} is not a mark", f"write 1 to {_LONGEST_MARK} characters that print, in one line"
        )
    return text


mark: Final = Scalar(_mark, Shape(longest=_LONGEST_MARK, never=("",)))
on_cut: Final = one_of({"error": None, "truncate": _TRUNCATED})
margin: Final = _some_time


def route(
    name: str = "",
    truncate: Truncate | None = None,
    truncate_margin: int = _TRUNCATED.margin,
    truncate_mark: str = _TRUNCATED.mark,
    **rest: Any,
) -> Route:
    """Return a route, of what its keys have become: three of them are one value."""
    if truncate is not None:
        truncate = Truncate(truncate_margin, truncate_mark)
    return Route(name, truncate=truncate, **rest)


# -- the cache ---------------------------------------------------------------------------------------------------------

CACHE: Final = Section(
    CachePolicy,
    {
        "bytes": (size(), "bytes"),
        "entry_bytes": (size(), "entry_bytes"),
        "store": (network.store, "store"),
        "service": (network.service, "service"),
        "timeout": (_some_time, "timeout"),
    },
)
