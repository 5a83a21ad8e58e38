"""A log line is one JSON object on one line, whatever is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.degrading import Degraded
from proxy.core.step import FIELDS, StepRecord
from proxy.observe import lines
from proxy.observe.lines import event_line, step_line
from tests.observe.records import LESS, plain, records

TIME = "2026-01-02T03:04:05.678Z"


def one_object(line: str) -> dict[str, Any]:
    """What a log reader makes of a line: it is ASCII, ends once, and says no name twice."""
    assert line.isascii()
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    assert all(character >= " " for character in line[:-1])
    read: dict[str, Any] = json.loads(line, object_pairs_hook=_each_once, parse_constant=pytest.fail)
    return read


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def said_of(degraded: Degraded | None) -> dict[str, Any] | None:
    """By how much an answer is less, under the names of `Budget-Degraded`."""
    if degraded is None:
        return None
    level, rung, why, stage = degraded
    return {"level": level, "rung": rung, "reason": why, "stage": stage}


@given(record=records())
def test_step_line_says_the_record(record: StepRecord) -> None:
    """Every field under its own name, in the record's order, with the record's value."""
    read = one_object(step_line(record, TIME))
    assert list(read) == ["time", *FIELDS]
    assert read.pop("time") == TIME
    expected = json.loads(json.dumps(record._asdict() | {"degraded": said_of(record.degraded)}))
    spans = {name for name in FIELDS if name.endswith("_ms")}
    assert {name: value for name, value in read.items() if name not in spans} == {
        name: value for name, value in expected.items() if name not in spans
    }
    for name in spans:
        assert read[name] == pytest.approx(expected[name], abs=0.0005)


@pytest.mark.parametrize(
    "text",
    [
        'quote " backslash \\ slash /',
        "line\nfeed, carriage\rreturn, tab\t, nul\0, escape \x1b[31m",
        "next line \x85, C1 \x9b31m, separators \u2028 \u2029",
        "é, 漢, 😀, … and \udc80 alone",
        "%s %d %% {} {0} {time}",
        "",
    ],
)
def test_text_comes_back_as_it_was(text: str) -> None:
    """A target, an id or a stage that a caller chose can neither end the line nor fill a hole in it."""
    record = plain(record=text, budget_id=text, stage=text, method=text, target=text, unit=text, reason=text)
    record = record._replace(rung=text, cache=text, degraded=Degraded(1, text, text, text))
    read = one_object(step_line(record, TIME))
    for name in ("record", "budget_id", "stage", "method", "target", "unit", "reason", "rung", "cache"):
        assert read[name] == text
    assert read["degraded"] == {"level": 1, "rung": text, "reason": text, "stage": text}


def test_what_a_plain_step_has_nothing_of_is_null() -> None:
    """One member says so each, so that a reader finds the same names in every line."""
    read = one_object(step_line(plain(), TIME))
    assert [read[name] for name in ("degraded", "rung", "cache", "carried_ms")] == [None] * 4
    assert list(read)[-3:] == ["rung", "cache", "carried_ms"]


@pytest.mark.parametrize(
    "facts",
    [{"rung": "full"}, {"cache": "miss"}, {"carried_ms": 0.0}, {"degraded": LESS}, {"carried_ms": 12.5}],
)
def test_each_fact_of_a_ladder_is_said_without_the_others(facts: dict[str, Any]) -> None:
    """The first rung is no less, a cache may have had nothing, and time is carried on without any ladder."""
    read = one_object(step_line(plain(**facts), TIME))
    said = {
        name: read[name] for name in ("degraded", "rung", "cache", "carried_ms") if read[name] is not None
    }
    assert said == facts | ({"degraded": said_of(LESS)} if "degraded" in facts else {})


def test_small_and_large_numbers_are_numbers() -> None:
    """JSON knows no exponents that Python would not write, and no NaN; a span of 0.001 ms stays one."""
    read = one_object(
        step_line(plain(remaining_ms=0.001, allowed_ms=-0.001, late_ms=3.6e9, bytes=2**63), TIME)
    )
    assert read["remaining_ms"] == 0.001
    assert read["allowed_ms"] == -0.001
    assert read["late_ms"] == 3.6e9
    assert read["bytes"] == 2**63


def test_invented_words_are_forgotten_again() -> None:
    """Callers choose methods and stages; what is remembered of them is bounded, and the lines stay right."""
    for number in range(3 * lines._REMEMBERED):
        less = Degraded(1, f"r{number}", "time", f"s{number}")
        record = plain(method=f"M{number}", stage=f"s{number}", rung=f"r{number}", degraded=less)
        read = one_object(step_line(record, TIME))
        assert (read["method"], read["stage"], read["rung"]) == (f"M{number}", f"s{number}", f"r{number}")
        assert read["degraded"] == {"level": 1, "rung": f"r{number}", "reason": "time", "stage": f"s{number}"}
    assert len(lines._quoted) <= lines._REMEMBERED
    assert len(lines._places) <= lines._REMEMBERED


@given(
    name=st.text(), fields=st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.booleans())
)
def test_event_line_says_the_event(name: str, fields: dict[str, Any]) -> None:
    """Any other line: the time, the event's name, its fields."""
    fields = {key: value for key, value in fields.items() if key not in ("time", "event")}
    assert one_object(event_line(name, TIME, fields)) == {"time": TIME, "event": name, **fields}


def test_event_line_shows_what_json_has_no_form_for() -> None:
    """An exception or a path in an event is text, not a second failure."""
    read = one_object(
        event_line("fault", TIME, {"error": OSError(28, "full"), "path": Path("/a"), "n": [1, b"x"]})
    )
    assert read["error"] == "[Errno 28] full"
    assert read["path"] == "/a"
    assert read["n"] == [1, "b'x'"]
