"""What the demo claims, compared with what happened. Whatever does not hold is named, and the demo fails.

The figures are the sidecar's own, from its step log, and are held against the plan, the answers' headers, the budget's
arithmetic, and what the tool has seen. So are the verdicts, which are the ledger's, and its record of the job is held
against the log. Where figures depend on how busy the machine is, they have a tolerance; the budget's arithmetic has none.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from proxy.demo.job import Document, Job, Step, budget_of, url_of
from proxy.demo.plan import CAP, RESERVE, TOTAL, Work
from proxy.demo.tool import Tool

LATE: Final = 100.0
"""How much later than planned something may be on a busy machine (milliseconds)."""
EARLY: Final = 60.0
"""How much earlier: the budget is opened by the first call, which takes a while to arrive."""
EXACT: Final = 0.01
"""Figures of the log are rounded down to microseconds."""


class Checks:
    """Counts what was checked, and keeps a sentence for each thing that was off."""

    def __init__(self) -> None:
        """Begin with nothing checked."""
        self.count = 0
        self.faults: list[str] = []

    def that(self, holds: bool, otherwise: str) -> None:
        """Check one thing; `otherwise` says what is off."""
        self.count += 1
        if not holds:
            self.faults.append(otherwise)

    def same(self, what: str, found: object, expected: object) -> None:
        """Check that something is what it should be."""
        self.that(found == expected, f"{what} is {found!r}, and should be {expected!r}")

    def between(self, what: str, found: float, least: float, most: float) -> None:
        """Check a figure in milliseconds."""
        self.that(
            least <= found <= most, f"{what} is {found:.1f} ms, and should be {least:.1f} to {most:.1f} ms"
        )


def check_job(checks: Checks, job: Job, tool: Tool) -> None:
    """Check a whole job: each of its steps, what the ledger has of its budgets, and its verdicts."""
    variant = job.variant
    for work, step in zip(variant.steps, job.steps, strict=True):
        _check_step(checks, job, work, step)
        sent = 0 if work.expected.outcome == "refused" else 1
        name = f"{variant.title}: how often the tool saw {work.name}"
        checks.same(name, tool.seen[url_of(variant, work)], sent)
    if variant.apart:
        for work, step, budget in zip(variant.steps, job.steps, job.budgets, strict=True):
            _check_budget(checks, f"{variant.title}, {work.name}", budget, budget_of(variant, work), [step])
            checks.same(f"{variant.title}, {work.name}: in time", budget["on_time"], True)
    else:
        (budget,) = job.budgets
        _check_budget(checks, variant.title, budget, variant.id, job.steps)
        claims = f"{variant.title}: attempts to lengthen the budget"
        checks.same(claims, budget["extensions_ignored"], variant.claims)
    checks.same(f"{variant.title}: complete", job.complete, variant.complete)
    closed = f"closed at {job.closed_at:.0f} of {TOTAL} ms"
    checks.same(f"{variant.title}: in time ({closed})", job.on_time, variant.on_time)


def _check_budget(checks: Checks, name: str, budget: Document, id: str, steps: list[Step]) -> None:
    """Check that the ledger's record of a budget agrees with the log of its steps, and its verdicts with its figures."""
    lines = {step.record["record"]: step.record for step in steps if step.record is not None}
    checks.same(f"{name}: the budget's id", budget["id"], id)
    checks.same(f"{name}: its state", (budget["state"], budget["closed_by"]), ("closed", "request"))
    spans = (budget["total_ms"], budget["reserve_ms"], budget["deadline_ms"])
    checks.same(f"{name}: its total, reserve and end", spans, (TOTAL, RESERVE, TOTAL))
    checks.same(f"{name}: its steps", [each["record"] for each in budget["steps"]], list(lines))
    for each in budget["steps"]:
        line = lines.get(each["record"], {})
        differs = [what for what, value in each.items() if line.get(what) != value]
        checks.that(
            not differs, f"{name}: step {each['step']}: ledger and log differ in {', '.join(differs)}"
        )
    outcomes = Counter(line["outcome"] for line in lines.values())
    counts = {what: count for what, count in budget["counts"].items() if count}
    checks.same(f"{name}: its counts", counts, {"total": len(lines)} | outcomes)
    checks.same(f"{name}: complete, by the ledger", budget["complete"], outcomes["completed"] == len(lines))
    last = list(lines.values())[-1]
    ended, closed = last["started_ms"] + last["elapsed_ms"], budget["spent_ms"]
    checks.between(f"{name}: when it was closed", closed, ended - EXACT, ended + LATE)
    checks.same(f"{name}: in time, by the ledger", budget["on_time"], closed <= budget["deadline_ms"])


def check_waterfall(checks: Checks, job: Job, drawn: str) -> None:
    """Check that `waterclock timeline` shows the verdict on a job, and each of its steps."""
    title, verdict = job.variant.title, job.budgets[-1]["verdict"]
    checks.that(f"{job.variant.id}: {verdict}" in drawn, f"{title}: its waterfall does not say {verdict!r}")
    for work in job.variant.steps:
        row = f"GET {work.path}/{work.name}"
        checks.that(row in drawn, f"{title}: its waterfall does not show {row!r}")


def _check_step(checks: Checks, job: Job, work: Work, step: Step) -> None:
    record, expected = step.record, work.expected
    assert record is not None
    name = f"{job.variant.title}: {work.name}"
    for what in ("outcome", "status", "reason"):
        checks.same(f"{name}: its {what}", record[what], getattr(expected, what))
    checks.same(f"{name}: its effect (it only reads)", record["effect"], "none")
    started, allowed, took = job.started_at(step), record["allowed_ms"], record["elapsed_ms"]
    checks.between(f"{name}: its start", started, expected.started - EARLY, expected.started + LATE)
    checks.between(f"{name}: what it was allowed", allowed, expected.allowed - LATE, expected.allowed + EARLY)
    _check_arithmetic(checks, name, work, record["started_ms"], allowed)
    if expected.outcome == "completed":
        checks.between(f"{name}: what it took", took, work.tool - 1, allowed)
    elif expected.outcome == "deadline_exceeded":
        checks.between(f"{name}: what it took until it was cut", took, allowed - EXACT, allowed + LATE)
    else:
        checks.same(f"{name}: how far it got", record["phase"], "not_sent")
    _check_headers(checks, name, step)


def _check_arithmetic(checks: Checks, name: str, work: Work, started: float, allowed: float) -> None:
    """Check the allowance against the contract: the cap or what is left, whichever is less, with no tolerance."""
    end = TOTAL if work.name == "cleanup" else TOTAL - RESERVE
    due = min(CAP, end - started)
    checks.between(f"{name}: its allowance, by the arithmetic", allowed, due - EXACT, due + EXACT)


def _check_headers(checks: Checks, name: str, step: Step) -> None:
    """Check that the caller was told what the log says."""
    answer, record = step.answer, step.record
    assert answer is not None
    assert record is not None
    checks.same(f"{name}: the status that came back", answer.status, record["status"])
    checks.same(f"{name}: its Budget-Outcome", answer.outcome["outcome"], record["outcome"])
    checks.same(
        f"{name}: its Budget-Allowed-Ms",
        answer.headers.get("Budget-Allowed-Ms"),
        str(int(record["allowed_ms"])),
    )
