"""The demo's checks: a job that went as planned passes all of them, and whatever differs is named."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from proxy.demo.checks import Checks, check_job, check_waterfall
from proxy.demo.job import Answer, Document, Job, Step, budget_of, url_of
from proxy.demo.plan import RESERVE, TOTAL, VARIANTS, Variant, Work
from proxy.demo.tool import Tool


def called(id: str) -> Variant:
    """The variant with this id."""
    (variant,) = (each for each in VARIANTS if each.id == id)
    return variant


def took(work: Work) -> float:
    """How long a step takes that goes as planned."""
    if work.expected.outcome == "refused":
        return 0.0
    return float(work.tool if work.expected.outcome == "completed" else work.expected.allowed)


def ran(variant: Variant) -> tuple[Job, Tool]:
    """A job that went exactly as planned, and the tool that saw it."""
    job, tool = Job(variant, []), Tool()
    for number, work in enumerate(variant.steps, 1):
        expected = work.expected
        record = {
            "record": f"0-{number}",
            "step": 1 if variant.apart else number,
            "started_ms": 0.0 if variant.apart else float(expected.started),
            "allowed_ms": float(expected.allowed),
            "elapsed_ms": took(work),
            "outcome": expected.outcome,
            "status": expected.status,
            "reason": expected.reason,
            "effect": "none",
            "phase": "not_sent" if expected.outcome == "refused" else "sent",
        }
        headers = {
            "Budget-Outcome": f"{expected.outcome}; effect=none",
            "Budget-Allowed-Ms": str(expected.allowed),
        }
        answer = Answer(expected.status, headers, b"")
        job.steps.append(Step(work.name, work.needs, float(expected.started), answer, record))
        if expected.outcome != "refused":
            tool.seen[url_of(variant, work)] += 1
        if variant.apart:
            job.budgets.append(closed(budget_of(variant, work), [record]))
    if not variant.apart:
        records = [step.record for step in job.steps if step.record is not None]
        job.budgets.append(closed(variant.id, records) | {"extensions_ignored": variant.claims})
    return job, tool


def closed(id: str, records: list[Document]) -> Document:
    """What the ledger says of a budget that was closed right after its last step."""
    outcomes = Counter(record["outcome"] for record in records)
    complete = outcomes["completed"] == len(records)
    return {
        "id": id,
        "state": "closed",
        "closed_by": "request",
        "total_ms": TOTAL,
        "reserve_ms": RESERVE,
        "deadline_ms": TOTAL,
        "spent_ms": records[-1]["started_ms"] + records[-1]["elapsed_ms"] + 2,
        "counts": {"total": len(records), "shed": 0, "uncertain": 0, "in_flight": 0, **outcomes},
        "complete": complete,
        "on_time": True,
        "verdict": f"{'complete' if complete else 'incomplete'}; on_time",
        "extensions_ignored": 0,
        "steps": [dict(record) for record in records],
    }


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_a_job_as_planned_passes(variant: Variant) -> None:
    """The plan agrees with itself, its verdicts included."""
    checks = Checks()
    check_job(checks, *ran(variant))
    assert checks.faults == []
    assert checks.count > 50


@pytest.mark.parametrize(
    ("what", "value", "named"),
    [
        ("allowed_ms", 201.0, "C: its allowance, by the arithmetic"),
        ("elapsed_ms", 199.0, "C: what it took until it was cut"),
        ("elapsed_ms", 350.0, "C: what it took until it was cut"),
        ("started_ms", 1900.0, "C: its start"),
        ("outcome", "completed", "C: its outcome"),
        ("status", 502, "C: the status that came back"),
        ("reason", "route_cap", "C: its reason"),
        ("effect", "uncertain", "C: its effect"),
    ],
)
def test_what_differs_is_named(what: str, value: Any, named: str) -> None:
    """One figure of one step that is not as planned is enough."""
    variant = VARIANTS[0]
    job, tool = ran(variant)
    record = job.steps[2].record
    assert record is not None
    record[what] = value
    checks = Checks()
    check_job(checks, job, tool)
    assert any(f"{variant.title}: {named}" in fault for fault in checks.faults), checks.faults


def test_a_refused_step_that_was_sent_is_named() -> None:
    """The sidecar may say that it sent nothing; the tool knows."""
    variant = called("not-worth-starting")
    job, tool = ran(variant)
    tool.seen[url_of(variant, variant.steps[2])] += 1
    checks = Checks()
    check_job(checks, job, tool)
    assert checks.faults == ["Not worth starting: how often the tool saw C is 1, and should be 0"]


@pytest.mark.parametrize(
    ("what", "value", "named"),
    [
        ("id", "it-fits", "the budget's id is 'it-fits', and should be 'too-much'"),
        ("closed_by", "entry", "its state is ('closed', 'entry'), and should be ('closed', 'request')"),
        ("deadline_ms", TOTAL + 1, "its total, reserve and end is (2000, 200, 2001)"),
        ("steps", [], "its steps is []"),
        ("counts", {"total": 4, "completed": 4}, "its counts is {'total': 4, 'completed': 4}"),
        ("complete", True, "complete, by the ledger is True, and should be False"),
        ("complete", True, "complete is True, and should be False"),
        ("on_time", False, "in time, by the ledger is False, and should be True"),
        ("on_time", None, "in time (closed at 1872 of 2000 ms) is False, and should be True"),
        ("spent_ms", 1800, "when it was closed is 1800.0 ms"),
        ("extensions_ignored", 1, "attempts to lengthen the budget is 1, and should be 0"),
    ],
)
def test_a_ledger_that_differs_from_the_log_is_named(what: str, value: Any, named: str) -> None:
    """The ledger's verdicts are not taken on trust: its record has to agree with the log."""
    job, tool = ran(called("too-much"))
    job.budgets[0][what] = value
    checks = Checks()
    check_job(checks, job, tool)
    assert any(fault.startswith(f"Too much for one budget: {named}") for fault in checks.faults), (
        checks.faults
    )


def test_a_step_that_the_ledger_has_otherwise_is_named() -> None:
    """Each value of each step is compared."""
    job, tool = ran(called("too-much"))
    job.budgets[0]["steps"][2] |= {"elapsed_ms": 1.0, "phase": "not_sent"}
    checks = Checks()
    check_job(checks, job, tool)
    assert checks.faults == [
        "Too much for one budget: step 3: ledger and log differ in elapsed_ms, phase",
    ]


def test_no_budget_knows_that_a_job_apart_is_late() -> None:
    """With a budget for each step the ledger finds all of them in time; that the job is late is worked out."""
    job, _ = ran(called("fresh-limits"))
    assert {budget["verdict"] for budget in job.budgets} == {"complete; on_time"}
    assert (job.complete, job.on_time) == (True, False)
    assert job.closed_at > TOTAL


def test_a_claim_that_was_not_counted_is_named() -> None:
    """The job that claims its budget anew passes only when each claim was ignored and counted."""
    job, tool = ran(called("fresh-claims"))
    job.budgets[0]["extensions_ignored"] = 0
    checks = Checks()
    check_job(checks, job, tool)
    assert checks.faults == [
        "A fresh claim each step: attempts to lengthen the budget is 0, and should be 3",
    ]


def test_a_waterfall_that_lacks_something_is_named() -> None:
    """It has to show the verdict, and each of the steps."""
    job, _ = ran(called("too-much"))
    checks = Checks()
    drawn = "too-much: incomplete; on_time\n1 GET /do/A\n2 GET /do/B\n3 GET /do/C\n4 GET /do/cleanup"
    check_waterfall(checks, job, drawn)
    assert checks.faults == []
    check_waterfall(checks, job, drawn.replace("on_time", "late").replace("B", "b"))
    assert checks.faults == [
        "Too much for one budget: its waterfall does not say 'incomplete; on_time'",
        "Too much for one budget: its waterfall does not show 'GET /do/B'",
    ]
