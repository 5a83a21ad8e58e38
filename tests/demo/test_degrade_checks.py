"""The checks of the ladder's demo: jobs that went as planned pass all of them, and whatever differs is named."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from proxy.demo.checks import Checks
from proxy.demo.degrade import plan, table
from proxy.demo.degrade.chat import Heard, Others, Played
from proxy.demo.degrade.checks import (
    SEARCH_LEVELS,
    check_case,
    check_events,
    check_metrics,
    check_miss,
    check_stream,
)
from proxy.demo.degrade.model import Asked, Model
from proxy.demo.degrade.plan import CASES, WORDINGS, Case
from proxy.demo.degrade.search import Search
from proxy.demo.job import Answer, Document

ALL = (*CASES, *WORDINGS)


def called(id: str) -> Case:
    """The case with this id."""
    (case,) = (each for each in ALL if each.id == id)
    return case


def chat(model: str) -> bytes:
    """What a model says."""
    message = {"role": "assistant", "content": f"[{model}, having heard 5 words] the jar"}
    return json.dumps({"choices": [{"message": message}]}).encode()


def degraded(level: int, rung: str, stage: str, why: str | None) -> Document | None:
    """What a record says of a rung."""
    return {"level": level, "rung": rung, "reason": why, "stage": stage} if level else None


def ran(case: Case) -> Played:
    """A job that went exactly as planned."""
    played, expected = Played(case), case.expected
    level = SEARCH_LEVELS[case.search]
    field = {"Budget-Degraded": f"level={level}; rung={case.search}; stage=retrieval; reason=time"}
    played.search.answer = Answer(200, field if level else {}, b'{"passages": []}')
    played.search.record = {
        "record": f"{case.id}-1",
        "route": "retrieval",
        "rung": case.search,
        "degraded": degraded(level, case.search, "retrieval", "time"),
    }
    body = b'{"error": {"type": "overloaded"}}' if expected.status == 503 else chat("gpt-4o")
    if expected.reached is not None:
        body = chat(expected.reached.model)
        headers = {"authorization": plan.KEY} if expected.reached.upstream == "big" else {}
        asks = {"model": expected.reached.model, "max_tokens": expected.reached.most}
        played.asked = [(expected.reached.upstream, Asked("/v1/chat/completions", headers, b"", asks))]
    told = {"Budget-Degraded": expected.degraded} if expected.degraded else {}
    if expected.cache in ("hit", "semantic"):
        told |= {"Cache-Status": "waterclock; hit", "Age": "3"}
    played.chat.answer = Answer(expected.status, told, body)
    played.chat.record = {
        "record": f"{case.id}-2",
        "route": "chat",
        "rung": expected.rung,
        "degraded": degraded(expected.level, expected.rung, "llm", expected.why),
        "cache": expected.cache,
        "outcome": "completed",
        "phase": "complete" if expected.reached else "not_sent",
    }
    for record in (played.search.record, played.chat.record):
        record |= {"allowed_ms": 90.0, "elapsed_ms": 12.0, "carried_ms": None}
    played.sought = [case.passages] if case.passages else []
    steps = [{"record": f"{case.id}-1"}, {"record": f"{case.id}-2"}]
    played.closed = {"verdict": case.verdict, "steps": steps}
    return played


def faults(played: Played) -> list[str]:
    """What the checks find wrong with a job."""
    checks = Checks()
    check_case(checks, played, ran(CASES[0]))
    assert checks.count >= 14
    return checks.faults


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_a_job_as_planned_passes(case: Case) -> None:
    """The plan agrees with itself."""
    assert faults(ran(case)) == []


def test_the_plan_has_each_rung_once() -> None:
    """Five budgets, five rungs, from the first to the last."""
    assert [case.expected.rung for case in CASES] == ["full", "fast", "minimal", "cached", "sorry"]
    assert [case.expected.level for case in CASES] == [0, 1, 2, 3, 4]
    assert [case.budget for case in CASES] == sorted((case.budget for case in CASES), reverse=True)


Spoil = Callable[[Played], Any]


def _record(**values: Any) -> Spoil:
    def spoil(played: Played) -> None:
        assert played.chat.record is not None
        played.chat.record |= values

    return spoil


def _answer(status: int = 200, body: bytes = b"", **headers: str) -> Spoil:
    def spoil(played: Played) -> None:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        played.chat.answer = Answer(status, told, body or played.chat.answer.body)  # type: ignore[union-attr]

    return spoil


@pytest.mark.parametrize(
    ("id", "spoil", "named"),
    [
        ("less", _record(rung="full"), "its rung is 'full', and should be 'fast'"),
        ("less", _record(degraded=None), "what the log says of it is None"),
        ("less", _record(elapsed_ms=500.0), "what it took is 500.0 ms"),
        ("less", _record(outcome="deadline_exceeded"), "its outcome is 'deadline_exceeded'"),
        ("less", _answer(), "its Budget-Degraded is None"),
        ("less", _answer(504), "its status is 504, and should be 200"),
        ("less", _answer(body=chat("gpt-4o")), "its answer is '[gpt-4o, having heard 5 words] the jar'"),
        ("less", lambda played: played.asked.clear(), "what reached a model is []"),
        ("less", lambda played: played.sought.append(8), "how many passages were asked for is [8, 8]"),
        ("less", lambda played: played.closed.update(verdict="complete; on_time"), "the ledger's verdict is"),
        ("less", lambda played: played.closed["steps"].pop(), "the ledger's steps is ['less-1']"),
        (
            "little",
            lambda played: played.asked[0][1].headers.update(authorization=plan.KEY),
            "the key that reached the model is 'Bearer demo-key', and should be None",
        ),
        ("moment", _answer(Age="3"), "its Cache-Status is '', and should tell of a hit"),
        ("moment", _answer(Cache_Status="waterclock; hit"), "its Age is '', and should be a number"),
        (
            "moment",
            _answer(body=chat("small")),
            "its answer is '[small, having heard 5 words] the jar', and should be",
        ),
        ("nothing", _answer(Cache_Status="waterclock; hit"), "should tell of no hit"),
        ("other", _record(cache="semantic"), "what the log says of the cache is 'semantic'"),
        (
            "other",
            _answer(503, b'{"error": {"type": "late"}}'),
            'the apology is \'{"error": {"type": "late"}}\'',
        ),
    ],
)
def test_what_differs_is_named(id: str, spoil: Spoil, named: str) -> None:
    """One thing that is not as planned is enough."""
    played = ran(called(id))
    spoil(played)
    assert any(named in fault for fault in faults(played)), faults(played)


def listened() -> tuple[Heard, Others]:
    """A stream that was truncated as planned, and the models behind it."""
    heard = Heard("[gpt-4o, having heard 5 words] the jar [response truncated]", "length", 22)
    heard.step.answer = Answer(200, {}, b"")
    heard.step.record = {
        "record": "s-1",
        "route": "chat",
        "rung": "full",
        "degraded": dict(plan.STREAM_DEGRADED),
        "outcome": "deadline_exceeded",
        "allowed_ms": 1600.0,
        "elapsed_ms": 1501.0,
    }
    heard.closed = {"verdict": plan.STREAM_VERDICT}
    others = Others(Search(), Model({}), Model({}))
    others.big.chats.append(Asked("/v1/chat/completions", {}, b"", said=20, left=True))
    return heard, others


def test_a_stream_as_planned_passes() -> None:
    """Of which the SDK has seen the end, and the model no more than was heard."""
    checks = Checks()
    check_stream(checks, *listened())
    assert checks.faults == []


@pytest.mark.parametrize(
    ("what", "value", "named"),
    [
        ("raised", "APIError('cut')", "what the SDK raised"),
        ("text", "the jar [response truncated]", "it begins with"),
        ("text", "[gpt-4o, having heard", "it ends with"),
        ("finish", "stop", "why it ended, by the SDK"),
        ("closed", {"verdict": "complete; on_time"}, "the ledger's verdict"),
    ],
)
def test_a_stream_that_differs_is_named(what: str, value: Any, named: str) -> None:
    """Whether it is the text, the reason, or what was made of it."""
    heard, others = listened()
    setattr(heard, what, value)
    checks = Checks()
    check_stream(checks, heard, others)
    assert any(fault.startswith(f"The stream: {named}") for fault in checks.faults), checks.faults


def test_a_model_that_went_on_talking_is_named() -> None:
    """Then somebody pays for what nobody has heard."""
    heard, others = listened()
    others.big.chats[-1].left, others.big.chats[-1].said = False, 60
    checks = Checks()
    check_stream(checks, heard, others)
    assert checks.faults == [
        "The stream: callers that the model has seen leave is 0, and should be 1",
        "The stream: the model has said 60 of 60 words",
    ]


@pytest.mark.parametrize(
    ("reasons", "holds"),
    [
        ([plan.DIFFERS], True),
        (["below the threshold"], False),
        (["below the threshold", plan.DIFFERS], False),
        ([], False),
    ],
)
def test_a_miss_for_another_reason_is_named(reasons: list[str], holds: bool) -> None:
    """The other question is near enough, and only its number speaks against it."""
    checks = Checks()
    check_miss(checks, reasons)
    assert bool(checks.faults) is not holds


def event(record: Document) -> Document:
    """The event of a degraded step."""
    return {"event": "degraded", "record": record["record"], "remaining_ms": 3.0, "total_ms": 9.0} | record[
        "degraded"
    ]


def test_each_degraded_step_has_one_event() -> None:
    """One too few, one too many, or one that says something else is named."""
    steps = ran(called("less")).steps + ran(called("little")).steps
    records = [step.record for step in steps if step.record is not None and step.record["degraded"]]
    events = [event(record) for record in records]
    for told, count in (
        (events, 0),
        (events[:-1], 1),
        ([*events, events[0]], 1),
        ([*events[:-1], events[0]], 1),
    ):
        checks = Checks()
        check_events(checks, steps, told)
        assert len(checks.faults) == count, checks.faults
    for spoiled in ({"level": 4}, {"reason": "slow"}, {"remaining_ms": 10.0}, {"total_ms": None}):
        checks = Checks()
        check_events(checks, steps, [events[0] | spoiled, *events[1:]])
        assert len(checks.faults) == 1, checks.faults


def test_metrics_that_differ_from_the_records_are_named() -> None:
    """By route and rung, and of those degraded by reason too."""
    steps = ran(called("ample")).steps + ran(called("less")).steps
    samples = {
        'waterclock_rungs_total{route="retrieval",rung="all"}': 2.0,
        'waterclock_rungs_total{route="chat",rung="full"}': 1.0,
        'waterclock_rungs_total{route="chat",rung="fast"}': 1.0,
        'waterclock_degraded_steps_total{reason="time",route="chat",rung="fast"}': 1.0,
    }
    checks = Checks()
    check_metrics(checks, steps, samples)
    assert (checks.count, checks.faults) == (4, [])
    for name in samples:
        checks = Checks()
        check_metrics(checks, steps, samples | {name: 7.0})
        assert len(checks.faults) == 1


def test_the_tables_fit_into_a_terminal() -> None:
    """Whatever has come of the jobs; what nobody was asked is said too."""
    heard, _ = listened()
    console = Console(width=80, record=True, file=io.StringIO())
    for case in ALL:
        console.print(table.steps_table(ran(case)))
        console.print(table.said(ran(case)))
    console.print(table.summary([ran(case) for case in ALL], heard))
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    assert "nobody" in shown
    assert "full, cut" in shown
