"""The demo's checks: a job that went as planned passes all of them, and whatever differs is named."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.demo.checks import Checks, check_job
from proxy.demo.job import Answer, Step, url_of
from proxy.demo.plan import VARIANTS, Variant, Work
from proxy.demo.tool import Tool


def took(work: Work) -> float:
    """How long a step takes that goes as planned."""
    if work.expected.outcome == "refused":
        return 0.0
    return float(work.tool if work.expected.outcome == "completed" else work.expected.allowed)


def ran(variant: Variant) -> tuple[list[Step], Tool]:
    """The steps of a job that went exactly as planned, and the tool that saw them."""
    steps, tool = [], Tool()
    for work in variant.steps:
        expected = work.expected
        record = {
            "started_ms": 0.0 if variant.fresh else float(expected.started),
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
        steps.append(Step(work.name, work.needs, float(expected.started), answer, record))
        if expected.outcome != "refused":
            tool.seen[url_of(variant, work)] += 1
    return steps, tool


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_a_job_as_planned_passes(variant: Variant) -> None:
    """The plan agrees with itself, its verdicts included."""
    checks = Checks()
    check_job(checks, variant, *ran(variant))
    assert checks.faults == []
    assert checks.count > 40


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
    steps, tool = ran(variant)
    record = steps[2].record
    assert record is not None
    record[what] = value
    checks = Checks()
    check_job(checks, variant, steps, tool)
    assert any(f"{variant.title}: {named}" in fault for fault in checks.faults), checks.faults


def test_a_refused_step_that_was_sent_is_named() -> None:
    """The sidecar may say that it sent nothing; the tool knows."""
    (variant,) = (each for each in VARIANTS if each.id == "not-worth-starting")
    steps, tool = ran(variant)
    tool.seen[url_of(variant, variant.steps[2])] += 1
    checks = Checks()
    check_job(checks, variant, steps, tool)
    assert checks.faults == ["Not worth starting: how often the tool saw C is 1, and should be 0"]
