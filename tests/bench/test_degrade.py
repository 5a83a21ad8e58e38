"""What the slow-down is reckoned from: which jobs come, what an answer counts as, and what is made of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.degrade.figures import AUTO, NGINX, WITHOUT, WRITTEN, Found, Hits, floors, tables, useful
from bench.degrade.jobs import APOLOGY, FULL, LATE, NOTHING, Asked, Load, answer_of, arrivals
from bench.report import as_markdown

LOAD = Load(
    seed=1,
    seconds=10,
    rate=5,
    budget=1_600,
    factor=4,
    questions=50,
    spread=0.25,
    full=500,
    fast=200,
    minimal=60,
)
TEXT = json.dumps({"choices": [{"message": {"role": "assistant", "content": "yes"}}]}).encode()
APOLOGIES = b'{"error": {"type": "overloaded"}}'


def test_a_seed_gives_the_same_jobs() -> None:
    """Every variant has the same to do; some questions are asked far more often than others."""
    assert arrivals(LOAD) == arrivals(replace(LOAD, budget=1)) != arrivals(replace(LOAD, seed=2))
    assert len(arrivals(LOAD)) == 2 * 10 * 5
    whens = [when for when, _ in arrivals(LOAD)]
    assert whens == sorted(whens)
    assert 0 <= whens[0] <= whens[-1] <= 20
    questions = [question for _, question in arrivals(replace(LOAD, rate=500))]
    assert questions.count(0) > 20 * questions.count(49) > 0


@pytest.mark.parametrize(
    ("status", "degraded", "body", "in_time", "counts_as"),
    [
        (200, None, TEXT, True, FULL),
        (200, "level=1; rung=fast; stage=llm; reason=time", TEXT, True, "fast"),
        (200, "level=3; rung=cached; reason=slow", TEXT, True, "cached"),
        (200, "level=3; rung=cached; reason=slow", TEXT, False, LATE),
        (503, "level=4; rung=sorry; reason=time", APOLOGIES, True, APOLOGY),
        (503, "level=4; rung=sorry; reason=time", APOLOGIES, False, APOLOGY),
        (504, None, b"{}", True, NOTHING),
        (0, None, b"", False, NOTHING),
        (200, None, b'{"choices": []}', True, NOTHING),
        (200, None, b'{"choices": [{"message": {"content": ""}}]}', True, NOTHING),
        (200, None, b"<html>", True, NOTHING),
    ],
)
def test_what_an_answer_counts_as(
    status: int, degraded: str | None, body: bytes, in_time: bool, counts_as: str
) -> None:
    """Useful is a text in time, however small the model; an apology is none, and neither is an empty answer."""
    found = answer_of(status, degraded, body, in_time=in_time)
    assert found == counts_as
    asked = Asked(AUTO, 0.0, False, 1.0, found, status)
    assert asked.useful is (found not in (APOLOGY, LATE, NOTHING))


def jobs(variant: str, *, slow: bool, **answers: int) -> list[Asked]:
    """So many jobs with each answer."""
    return [
        Asked(variant, 0.0, slow, 100.0 + number, answer, 200)
        for answer, count in answers.items()
        for number in range(count)
    ]


def found(slowed: dict[str, int], usual: dict[str, int], p99: float = 1.0) -> Found:
    """A run with these answers of the ladder that is measured, and a model without which nothing comes."""
    all_jobs = jobs(WITHOUT, slow=False, full=100) + jobs(WITHOUT, slow=True, nothing=100)
    all_jobs += jobs(AUTO, slow=False, **usual) + jobs(AUTO, slow=True, **slowed)
    return Found(
        LOAD,
        all_jobs,
        [Hits("waterclock", [[0.4] * 98 + [each] * 2 for each in (1.0, p99, p99)], 0.06)],
        1_234,
    )


def test_all_is_met() -> None:
    """The tables show each level as a share, in the order of the ladder; a variant that did not play has no row."""
    measured = found({"fast": 60, "minimal": 35, "cached": 1, "sorry": 4}, {"full": 100})
    assert [floor.met for floor in floors(measured)] == [True, True, True]
    slow_down, hits = map(as_markdown, tables(measured))
    assert "| ladder, needs: auto | × 4 | 100 | 96.0% | – | 60% | 35% | 1% | 4% | – | – |" in slow_down
    assert "| no ladder | × 4 | 100 | 0.0% | – | – | – | – | – | – | 100% |" in slow_down
    assert WRITTEN not in slow_down
    assert "| waterclock | 300 | 200 | 0.40 | 1.00 | 1.0 |" in hits
    assert "1,234 bytes" in hits


@pytest.mark.parametrize(
    ("measured", "missed"),
    [
        (found({"fast": 100}, {"full": 90, "fast": 5, "late": 5}), 0),
        (found({"fast": 79, "sorry": 21}, {"full": 100}), 1),
        (found({"fast": 100}, {"full": 100}, p99=2.1), 2),
    ],
)
def test_each_can_be_missed(measured: Found, missed: int) -> None:
    assert [floor.met for floor in floors(measured)] == [number != missed for number in range(3)]


@pytest.mark.parametrize(("ms", "noted"), [(0.2, False), (1.2, True)])
def test_a_busy_machine_is_told_of(ms: float, noted: bool) -> None:
    """By the one that has nothing to do but to hand out bytes."""
    (hits,) = tables(Found(LOAD, None, [Hits(NGINX, [[ms] * 100])], 1))
    assert bool(hits.notes) is noted


def test_what_did_not_run_is_not_judged() -> None:
    assert list(floors(Found(LOAD))) == []
    assert list(tables(Found(LOAD))) == []
    assert useful([]) == 0
