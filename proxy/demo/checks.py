"""What the demo claims, compared with what happened. Whatever does not hold is named, and the demo fails.

The figures are the sidecar's own, from its step log, and are held against the plan, the answers' headers, the budget's
arithmetic, and what the tool has seen. Where they depend on how busy the machine is, they have a tolerance; the budget's
arithmetic has none.
"""

from __future__ import annotations

from typing import Final

from proxy.demo.job import Step, url_of
from proxy.demo.plan import CAP, RESERVE, TOTAL, Variant, Work
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


def started_at(variant: Variant, step: Step) -> float:
    """Return when a step started, by the sidecar's log; only the agent knows it when each step has its own budget."""
    assert step.record is not None
    assert step.began is not None
    started: float = step.record["started_ms"]
    return step.began if variant.fresh else started


def closed_at(variant: Variant, steps: list[Step]) -> float:
    """Return when the job was closed: when its cleanup call ended."""
    last = steps[-1]
    assert last.record is not None
    elapsed: float = last.record["elapsed_ms"]
    return started_at(variant, last) + elapsed


def is_complete(steps: list[Step]) -> bool:
    """Return whether all the work was done."""
    return all(step.record is not None and step.record["outcome"] == "completed" for step in steps[:-1])


def is_on_time(variant: Variant, steps: list[Step]) -> bool:
    """Return whether the job was closed within its budget."""
    return closed_at(variant, steps) <= TOTAL


def check_job(checks: Checks, variant: Variant, steps: list[Step], tool: Tool) -> None:
    """Check a whole job: each of its steps, and its verdicts."""
    for work, step in zip(variant.steps, steps, strict=True):
        _check_step(checks, variant, work, step)
        sent = 0 if work.expected.outcome == "refused" else 1
        name = f"{variant.title}: how often the tool saw {work.name}"
        checks.same(name, tool.seen[url_of(variant, work)], sent)
    checks.same(f"{variant.title}: complete", is_complete(steps), variant.complete)
    closed = f"closed at {closed_at(variant, steps):.0f} of {TOTAL} ms"
    checks.same(f"{variant.title}: in time ({closed})", is_on_time(variant, steps), variant.on_time)


def _check_step(checks: Checks, variant: Variant, work: Work, step: Step) -> None:
    record, expected = step.record, work.expected
    assert record is not None
    name = f"{variant.title}: {work.name}"
    for what in ("outcome", "status", "reason"):
        checks.same(f"{name}: its {what}", record[what], getattr(expected, what))
    checks.same(f"{name}: its effect (it only reads)", record["effect"], "none")
    started, allowed, took = started_at(variant, step), record["allowed_ms"], record["elapsed_ms"]
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
