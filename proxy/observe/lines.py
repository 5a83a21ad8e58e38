"""Log lines: one JSON object each, in ASCII.

Everything beyond ASCII is escaped, and control characters with it: what a caller puts in a target can neither break
a line nor speak to the terminal of whoever reads the log.

A step's line is made for every call, so it is one template filled in. Words that repeat (names of routes, outcomes)
are quoted once and then looked up, together where they stand together in the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii as quote
from operator import itemgetter
from typing import Any, Final

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
_place_of: Final[Callable[[Sequence[Any]], Sequence[Any]]] = itemgetter(_PLACE)
_ending_of: Final[Callable[[Sequence[Any]], Sequence[Any]]] = itemgetter(_ENDING)

_quoted: Final = _Quoted()
_place: Final = _QuotedGroup(_place_of(FIELDS))
_ending: Final = _QuotedGroup(_ending_of(FIELDS))


def _template() -> str:
    """Return a step's line with one hole for each value, and one for each group of words."""
    holes = dict.fromkeys(FIELDS, "%s") | dict.fromkeys(_SPANS, "%.3f")
    members = [f'"{name}":{hole}' for name, hole in holes.items()]
    members[_ENDING] = ["%s"]
    members[_PLACE] = ["%s"]
    return '{"time":"%s",' + ",".join(members) + "}\n"


_TEMPLATE: Final = _template()


def step_line(record: StepRecord, time: str) -> str:
    """Return a step's line: the time of day, then the record's fields under their own names."""
    (id, budget, step, _, _, _, target, kind, unit, attempt, depth, started, remaining, allowed) = record[:14]
    (waited, elapsed, late, _, _, _, _, _, _, status, size) = record[14:25]
    (degraded, queued, overhead, tries, fresh, partial) = record[25:]
    return _TEMPLATE % (
        time,
        quote(id),
        "null" if budget is None else quote(budget),
        step,
        _place[_place_of(record)],
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
        _ending[_ending_of(record)],
        "null" if status is None else status,
        size,
        _quoted[degraded],
        queued,
        "null" if overhead is None else overhead,
        tries,
        fresh,
        "true" if partial else "false",
    )


def event_line(name: str, time: str, fields: dict[str, Any]) -> str:
    """Return the line of anything else that happened. What JSON has no form for is shown as text."""
    return json.dumps({"time": time, "event": name, **fields}, default=str, separators=(",", ":")) + "\n"
