"""Log lines: one JSON object each, in ASCII.

Everything beyond ASCII is escaped, and control characters with it: what a caller puts in a target can neither break
a line nor speak to the terminal of whoever reads the log.

A step's line is made for every call, so it is one template filled in. Words that repeat (names of routes, outcomes)
are quoted once and then looked up, together where they stand together in the record. What only some steps have, a rung
or less of an answer, costs the others nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Final

from proxy.core.degrading import Degraded
from proxy.core.step import FIELDS, StepRecord

_REMEMBERED: Final = 1024  # callers choose some of the words (stage, method), so their number needs a bound


class _Quoted(dict[str | None, str]):
    """A word, or None, as JSON. Full, it starts anew: the words that repeat are back at once."""

    def __missing__(self, word: str | None) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        text = self[word] = "null" if word is None else quote(word)
        return text


class _QuotedGroup(dict[Sequence[Any], str]):
    """Words that stand side by side in the record, as members of a JSON object. Bounded like `_Quoted`."""

    def __init__(self, names: Sequence[str]) -> None:
        """Take the fields' names."""
        super().__init__()
        self._names = names

    def __missing__(self, words: Sequence[str | None]) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        members = [f'"{name}":{_quoted[word]}' for name, word in zip(self._names, words, strict=True)]
        text = self[words] = ",".join(members)
        return text


_SPANS: Final = ("started_ms", "waited_ms", "elapsed_ms", "queued_ms")  # what is always a number
_PLACE: Final = slice(FIELDS.index("stage"), FIELDS.index("method") + 1)
_ENDING: Final = slice(FIELDS.index("outcome"), FIELDS.index("would") + 1)
_LADDER: Final = slice(FIELDS.index("rung"), FIELDS.index("carried_ms") + 1)
_NO_LADDER: Final = ",".join(f'"{name}":null' for name in FIELDS[_LADDER])  # of nearly every step

_quoted: Final = _Quoted()
_place: Final = _QuotedGroup(FIELDS[_PLACE])
_ending: Final = _QuotedGroup(FIELDS[_ENDING])


def _template() -> str:
    """Return a step's line with one hole for each value, and one for each group of words."""
    holes = dict.fromkeys(FIELDS, "%s") | dict.fromkeys(_SPANS, "%.3f")
    members = [f'"{name}":{hole}' for name, hole in holes.items()]
    members[_LADDER] = ["%s"]
    members[_ENDING] = ["%s"]
    members[_PLACE] = ["%s"]
    return '{"time":"%s",' + ",".join(members) + "}\n"


_TEMPLATE: Final = _template()


def step_line(record: StepRecord, time: str) -> str:
    """Return a step's line: the time of day, then the record's fields under their own names."""
    (
        id, budget, step, stage, route, method, target, kind, unit, attempt, depth, started, remaining, allowed,
        waited, elapsed, late, outcome, effect, phase, reason, retry, would, status, size, degraded, queued, overhead,
        tries, fresh, partial, rung, cache, carried,
    ) = record[:]  # fmt: skip  # a plain tuple: it is unpacked in one go, and one of a subclass item by item
    return _TEMPLATE % (
        time,
        quote(id),
        "null" if budget is None else quote(budget),
        step,
        _place[stage, route, method],
        quote(target),
        _quoted[kind],
        "null" if unit is None else quote(unit),
        attempt,
        depth,
        started,
        "null" if remaining is None else remaining,
        "null" if allowed is None else allowed,
        waited,
        elapsed,
        "null" if late is None else late,
        _ending[outcome, effect, phase, reason, retry, would],
        "null" if status is None else status,
        size,
        "null" if degraded is None else _degraded(degraded),
        queued,
        "null" if overhead is None else overhead,
        tries,
        fresh,
        "true" if partial else "false",
        _NO_LADDER
        if rung is None and cache is None and carried is None
        else f'"rung":{_quoted[rung]},"cache":{_quoted[cache]},"carried_ms":{"null" if carried is None else carried}',
    )


def _degraded(degraded: Degraded) -> str:
    """Return by how much an answer was less, and why, as a JSON object: with the names that `Budget-Degraded` has."""
    level, rung, why, stage = degraded
    return f'{{"level":{level},"rung":{_quoted[rung]},"reason":{_quoted[why]},"stage":{_quoted[stage]}}}'


def event_line(name: str, time: str, fields: dict[str, Any]) -> str:
    """Return the line of anything else that happened. What JSON has no form for is shown as text."""
    return json.dumps({"time": time, "event": name, **fields}, default=str, separators=(",", ":")) + "\n"
