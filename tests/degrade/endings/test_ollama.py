"""Ollama's lines: the mark is a line of its own, and the last one says why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.degrade.endings.feeding import followed_lines
from tests.degrade.transcript import MARK

HEAD = {"model": "llama3.2", "created_at": "2026-08-04T08:52:19.385406Z"}


def added(*values: Any) -> list[Any]:
    """The lines that close what has said these."""
    last = followed_lines(*values).close(MARK)
    assert last is not None
    return [json.loads(line) for line in last.split(b"\n")[:-1]]


def says(words: str) -> dict[str, Any]:
    """What a line of a chat says."""
    return {"message": {"role": "assistant", "content": words}}


def test_a_chat() -> None:
    marked, last = added({**HEAD, **says("Tea"), "done": False})
    assert marked == {**HEAD, **says(MARK), "done": False}
    assert last == {**HEAD, **says(""), "done": True, "done_reason": "length"}


def test_an_answer_to_a_prompt() -> None:
    marked, last = added({**HEAD, "response": "Tea", "done": False})
    assert marked == {**HEAD, "response": MARK, "done": False}
    assert last == {**HEAD, "response": "", "done": True, "done_reason": "length"}


def test_counts_are_told_as_far_as_they_were() -> None:
    """Which is not at all by the service itself, before its last line: none are made up."""
    _, last = added({**HEAD, **says("Tea"), "done": False, "prompt_eval_count": 26, "eval_count": "many"})
    assert last["prompt_eval_count"] == 26
    assert "eval_duration" not in last


def test_the_last_line_ends_it() -> None:
    ending = followed_lines({**HEAD, **says(""), "done": True, "done_reason": "stop"})
    assert (ending.over, ending.failed, ending.close(MARK)) == (True, False, b"")


def test_an_error_is_a_failure() -> None:
    ending = followed_lines({**HEAD, **says("Tea"), "done": False}, {"error": "model ran out of memory"})
    assert (ending.failed, ending.close(MARK)) == (True, None)


@pytest.mark.parametrize(
    "line",
    [
        {"status": "pulling manifest"},
        {"status": "downloading", "total": 9, "completed": 1},
        {"message": "Tea", "done": False},
        {"response": "Tea"},
        {"response": "Tea", "done": "no"},
        ["Tea"],
        "Tea",
        7,
        None,
    ],
)
def test_other_lines_are_a_dialect_that_is_not_known(line: Any) -> None:
    ending = followed_lines(*[line] * 9)
    assert (ending.dialect, ending.close(MARK)) == ("unknown", None)
