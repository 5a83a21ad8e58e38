"""What the demo of the ladder claims, compared with what happened.

What an upstream received is the upstream's own account; what came of a call stands in the answer, in the step log, in the
log's events, in the ledger and in the metrics, and all of them must say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.demo.checks import EXACT, LATE, Checks
from proxy.demo.degrade import plan
from proxy.demo.degrade.chat import Heard, Others, Played
from proxy.demo.degrade.plan import Expected, Reached
from proxy.demo.job import Step

SEARCH_LEVELS = {"all": 0, "few": 1, "none": 2}


def check_case(checks: Checks, played: Played, first: Played | None) -> None:
    """Check one job. `first`: the one whose answer is kept, for those that are to get the same."""
    case = played.case
    name = case.title
    _check_search(checks, played)
    _check_chat(checks, name, played.chat, case.expected)
    asked = [Reached(where, str(each.model), each.max_tokens) for where, each in played.asked]
    expected = case.expected.reached
    checks.same(f"{name}: what reached a model", asked, [expected] if expected is not None else [])
    for where, each in played.asked:
        key = plan.KEY if where == "big" else None
        checks.same(f"{name}: the key that reached the model", each.headers.get("authorization"), key)
    _check_text(checks, played, first)
    checks.same(f"{name}: the ledger's verdict", played.closed["verdict"], case.verdict)
    recorded = [step["record"] for step in played.closed["steps"]]
    checks.same(f"{name}: the ledger's steps", recorded, [_record(step)["record"] for step in played.steps])


def _check_search(checks: Checks, played: Played) -> None:
    case, record = played.case, _record(played.search)
    name, level = f"{case.title}: retrieval", SEARCH_LEVELS[case.search]
    checks.same(
        f"{name}: how many passages were asked for", played.sought, [case.passages] if case.passages else []
    )
    checks.same(f"{name}: its rung", record["rung"], case.search)
    field = f"level={level}; rung={case.search}; stage=retrieval; reason=time" if level else None
    assert played.search.answer is not None
    checks.same(f"{name}: its Budget-Degraded", played.search.answer.headers.get("Budget-Degraded"), field)
    _check_span(checks, name, record)


def _check_chat(checks: Checks, name: str, step: Step, expected: Expected) -> None:
    answer, record = step.answer, _record(step)
    assert answer is not None
    checks.same(f"{name}: its status", answer.status, expected.status)
    checks.same(f"{name}: its Budget-Degraded", answer.headers.get("Budget-Degraded"), expected.degraded)
    checks.same(f"{name}: its rung", record["rung"], expected.rung)
    checks.same(f"{name}: what the log says of the cache", record["cache"], expected.cache)
    degraded = None
    if expected.level:
        degraded = {"level": expected.level, "rung": expected.rung, "reason": expected.why, "stage": "llm"}
    checks.same(f"{name}: what the log says of it", record["degraded"], degraded)
    checks.same(f"{name}: its outcome", record["outcome"], "completed")
    checks.same(f"{name}: how far it got", record["phase"], "complete" if expected.reached else "not_sent")
    told = answer.headers.get("Cache-Status", "")
    if expected.cache in ("hit", "semantic"):
        checks.that("hit" in told, f"{name}: its Cache-Status is {told!r}, and should tell of a hit")
        age = answer.headers.get("Age", "")
        checks.that(age.isdecimal(), f"{name}: its Age is {age!r}, and should be a number")
    else:
        checks.that("hit" not in told, f"{name}: its Cache-Status is {told!r}, and should tell of no hit")
    _check_span(checks, name, record)


def _check_span(checks: Checks, name: str, record: Mapping[str, Any]) -> None:
    """Check that a call was over by its allowance; one that began with nothing left has none to keep."""
    allowed = max(record["allowed_ms"], 0.0)
    checks.between(f"{name}: what it took", record["elapsed_ms"], 0, allowed + LATE)
    carried = record["carried_ms"] or 0.0
    checks.between(f"{name}: what was carried over", carried, 0, allowed + EXACT)


def _check_text(checks: Checks, played: Played, first: Played | None) -> None:
    """Check that the model that was asked has spoken, or that the kept answer is the first one, to the letter."""
    name, text, expected = played.case.title, played.text, played.case.expected
    assert played.chat.answer is not None
    if expected.reached is not None:
        begins = f"[{expected.reached.model}, having heard"
        checks.that(text is not None and text.startswith(begins), f"{name}: its answer is {text!r}")
    elif expected.status == 200:
        same = first is not None and first.chat.answer is not None
        checks.that(
            same and played.chat.answer.body == first.chat.answer.body,  # type: ignore[union-attr]
            f"{name}: its answer is {text!r}, and should be the first one",
        )
    else:
        apology = played.chat.answer.body.decode(errors="replace")
        checks.that("overloaded" in apology, f"{name}: the apology is {apology[:60]!r}")


def check_stream(checks: Checks, heard: Heard, others: Others) -> None:
    """Check that the SDK read the truncated stream to its end, and that the model was not paid for the rest."""
    name = "The stream"
    checks.same(f"{name}: what the SDK raised", heard.raised, None)
    checks.that(heard.text.startswith("[gpt-4o, having"), f"{name}: it begins with {heard.text[:40]!r}")
    checks.that(heard.text.endswith(plan.MARK), f"{name}: it ends with {heard.text[-40:]!r}")
    checks.same(f"{name}: why it ended, by the SDK", heard.finish, "length")
    checks.same(f"{name}: callers that the model has seen leave", others.big.cut, 1)
    said, words = others.big.chats[-1].said, plan.VOICES["gpt-4o"].words
    checks.that(0 < said < words, f"{name}: the model has said {said} of {words} words")
    if heard.step.record is None:
        checks.that(False, f"{name}: the step log has no record of it")
        return
    record = heard.step.record
    checks.same(f"{name}: its outcome", record["outcome"], "deadline_exceeded")
    checks.same(f"{name}: what the log says of it", record["degraded"], plan.STREAM_DEGRADED)
    allowed, took = record["allowed_ms"], record["elapsed_ms"]
    checks.between(f"{name}: when it was closed", took, allowed - plan.MARGIN - EXACT, allowed)
    checks.same(f"{name}: the ledger's verdict", heard.closed["verdict"], plan.STREAM_VERDICT)


def check_miss(checks: Checks, reasons: Sequence[str]) -> None:
    """Check why the other question has found nothing: it is alike enough, and asks for something else."""
    checks.same("Why `waterclock cache` has found nothing", list(reasons), [plan.DIFFERS])


def check_events(checks: Checks, steps: Sequence[Step], events: Sequence[Mapping[str, Any]]) -> None:
    """Check that each step that was degraded has one event, which says the same as its record; and no other has one."""
    records = {record["record"]: record for record in map(_record, steps) if record["degraded"] is not None}
    told = Counter(event["record"] for event in events)
    checks.same("Records that an event tells of", told, Counter(records.keys()))
    for event in events:
        record = records.get(event["record"])
        if record is None:
            continue
        degraded = record["degraded"]
        found = {what: event.get(what) for what in ("level", "rung", "reason", "stage")}
        checks.same(f"The event of {record['record']}", found, degraded)
        left, total = event.get("remaining_ms"), event.get("total_ms")
        sane = isinstance(left, (int, float)) and isinstance(total, (int, float)) and left <= total
        checks.that(sane, f"The event of {record['record']}: {left!r} ms are left of {total!r}")


def check_metrics(checks: Checks, steps: Sequence[Step], samples: Mapping[str, float]) -> None:
    """Check that the counters by route and rung equal the records."""
    counted = Counter((record["route"], record["rung"]) for record in map(_record, steps))
    for (route, rung), count in counted.items():
        sample = f'waterclock_rungs_total{{route="{route}",rung="{rung}"}}'
        checks.same(sample, samples.get(sample), count)
    degraded = Counter(
        (record["route"], record["rung"], record["degraded"]["reason"])
        for record in map(_record, steps)
        if record["degraded"] is not None
    )
    for (route, rung, reason), count in degraded.items():
        sample = f'waterclock_degraded_steps_total{{reason="{reason}",route="{route}",rung="{rung}"}}'
        checks.same(sample, samples.get(sample), count)


def _record(step: Step) -> Mapping[str, Any]:
    assert step.record is not None, f"{step.name} has no record"
    return step.record
