"""Log lines: one JSON object each, in ASCII.

Everything beyond ASCII is escaped, and control characters with it: what a caller puts in a target can neither break
a line nor speak to the terminal of whoever reads the log.

A step's line is made for every call, so its parts are only put side by side. Words that repeat (names of routes, outcomes)
are quoted once and then looked up, together where they stand together in the record; spans are written as whole
microseconds, since to print a float takes longer than all else. What only some steps have, a rung or less of an answer,
costs the others nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Final

from proxy.core.degrading import Degraded
from proxy.core.step import FIELDS, StepRecord

_REMEMBERED: Final = 1024  # callers choose some of the words (stage, method), so their number needs a bound
_NAMES_OF_PLACE: Final[tuple[str, ...]] = FIELDS[FIELDS.index("stage") : FIELDS.index("method") + 1]
_NAMES_OF_ENDING: Final[tuple[str, ...]] = FIELDS[FIELDS.index("outcome") : FIELDS.index("would") + 1]
_LADDER: Final = slice(FIELDS.index("rung"), FIELDS.index("carried_ms") + 1)
_NO_LADDER: Final = ",".join([f'"{name}":null' for name in FIELDS[_LADDER]])  # of nearly every step

_SMALL: Final[tuple[str, ...]] = tuple([str(number) for number in range(1024)])
_THOUSANDTHS: Final[tuple[str, ...]] = tuple([f".{number:03d}" for number in range(1000)])

_quoted: Final[dict[str | None, str]] = {}
_targets: Final[dict[str, str]] = {}
_LONGEST_TARGET: Final = 256  # of those that are remembered
_places: Final[dict[tuple[str | None, ...], str]] = {}
_endings: Final[dict[tuple[str | None, ...], str]] = {}


def step_line(record: StepRecord, time: str) -> str:
    """Return a step's line: the time of day, then the record's fields under their own names."""
    id = quote(record.record)
    budget = (
        id if record.budget_id is record.record else _text(record.budget_id)
    )  # one call's goes by its name
    place = (record.stage, record.route, record.method)
    ending = (record.outcome, record.effect, record.phase, record.reason, record.retry, record.would)
    of_place = _places.get(place) or _remembered(_places, _NAMES_OF_PLACE, place)
    of_ending = _endings.get(ending) or _remembered(_endings, _NAMES_OF_ENDING, ending)
    plain = record.rung is None and record.cache is None and record.carried_ms is None
    return (
        f'{{"time":"{time}","record":{id},"budget_id":{budget},"step":{_whole(record.step)},{of_place},'
        f'"target":{_targets.get(record.target) or _target(record.target)},"kind":{_word(record.kind)},"unit":{_text(record.unit)},'
        f'"attempt":{_whole(record.attempt)},"depth":{_whole(record.depth)},'
        f'"started_ms":{_span(record.started_ms)},"remaining_ms":{_span_or_null(record.remaining_ms)},'
        f'"allowed_ms":{_span_or_null(record.allowed_ms)},"waited_ms":{_span(record.waited_ms)},'
        f'"elapsed_ms":{_span(record.elapsed_ms)},"late_ms":{_span_or_null(record.late_ms)},{of_ending},'
        f'"status":{"null" if record.status is None else _whole(record.status)},"bytes":{_whole(record.bytes)},'
        f'"degraded":{"null" if record.degraded is None else _degraded(record.degraded)},'
        f'"queued_ms":{_span(record.queued_ms)},"overhead_ms":{_span_or_null(record.overhead_ms)},'
        f'"tries":{_whole(record.tries)},"fresh":{_whole(record.fresh)},'
        f'"partial":{"true" if record.partial else "false"},{_NO_LADDER if plain else _ladder(record)}}}\n'
    )


def _word(word: str | None) -> str:
    """Return a word that repeats, or None, as JSON."""
    text = _quoted.get(word)
    if text is None:
        text = _text(word)
        _remember(_quoted, word, text)
    return text


def _target(target: str) -> str:
    """Return a target as JSON; it has no query."""
    text = quote(target)
    if len(text) <= _LONGEST_TARGET:
        _remember(_targets, target, text)
    return text


def _remembered(
    known: dict[tuple[str | None, ...], str], names: Sequence[str], words: tuple[str | None, ...]
) -> str:
    """Return words that stand side by side in the record, as members of a JSON object."""
    members = [f'"{name}":{_word(word)}' for name, word in zip(names, words, strict=True)]
    text = ",".join(members)
    _remember(known, words, text)
    return text


def _remember(known: dict[Any, str], key: Any, text: str) -> None:
    """Keep what was made of a word. Full, the memory starts anew: the words that repeat are back at once."""
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = text


def _text(text: str | None) -> str:
    return "null" if text is None else quote(text)


def _whole(number: int) -> str:
    return _SMALL[number] if 0 <= number < 1024 else str(number)


def _span(ms: float) -> str:
    """Return milliseconds to the microsecond."""
    if ms < 0.0:
        return f"{ms:.3f}"  # an overdrawn budget: rare
    us = int(ms * 1000.0 + 0.5)
    return _whole(us // 1000) + _THOUSANDTHS[us % 1000]


def _span_or_null(ms: float | None) -> str:
    return "null" if ms is None else _span(ms)


def _ladder(record: StepRecord) -> str:
    carried = _span_or_null(record.carried_ms)
    return f'"rung":{_word(record.rung)},"cache":{_word(record.cache)},"carried_ms":{carried}'


def _degraded(degraded: Degraded) -> str:
    """Return by how much an answer was less, and why, as a JSON object: with the names that `Budget-Degraded` has."""
    level, rung, why, stage = degraded
    return f'{{"level":{level},"rung":{_word(rung)},"reason":{_word(why)},"stage":{_word(stage)}}}'


def event_line(name: str, time: str, fields: dict[str, Any]) -> str:
    """Return the line of anything else that happened. What JSON has no form for is shown as text."""
    return json.dumps({"time": time, "event": name, **fields}, default=str, separators=(",", ":")) + "\n"
