"""What a run prints and keeps: tables of what was done and checked, and for each violation all that is known of its call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.report import Table, as_text
from trials.chaos.evidence import Finding
from trials.chaos.extent import Outcome
from trials.chaos.story import Story

_OUTCOMES: Final = (
    "completed", "deadline_exceeded", "upstream_failed", "connect_failed", "refused", "shed", "client_gone",
)  # fmt: skip
MOST_SHOWN: Final = 10


def tables(outcome: Outcome) -> str:
    """Return what was done, by what the upstream was asked to do first, and what was checked."""
    rows = [
        [
            way,
            *(str(ends.get(each, 0) or "") for each in _OUTCOMES),
            str(_others(ends) or ""),
            str(sum(ends.values())),
        ]
        for way, ends in sorted(outcome.by_way.items())
    ]
    total: dict[str, int] = {}
    for ends in outcome.by_way.values():
        for end, number in ends.items():
            total[end] = total.get(end, 0) + number
    rows.append(
        ["all", *(str(total.get(each, 0)) for each in _OUTCOMES), str(_others(total)), str(outcome.calls)]
    )
    calls = Table("What came of the calls", ["upstream", *_OUTCOMES, "no record", "calls"], rows)
    checks = Table(
        "What was checked",
        ["check", "exercised", "violations"],
        [[look.check, f"{look.exercised:,}", str(len(look.findings))] for look in outcome.looks],
    )
    happened = ", ".join(f"{number} × {event}" for event, number in sorted(outcome.events.items()))
    return (
        f"{as_text(calls)}\n\n{as_text(checks)}\n\n"
        f"{outcome.incarnations} incarnations of the sidecar; {happened}. Full disk: {outcome.disk}.\n"
        f"{outcome.verified:,} questions about uncertain writes, {outcome.joined:,} calls joined an equal one.\n"
        f"{outcome.calls:,} calls in {outcome.seconds:.0f} s; {outcome.violations} violations."
    )


def _others(ends: dict[str, int]) -> int:
    return sum(number for end, number in ends.items() if end not in _OUTCOMES)


def document(story: Story, build: str, *, short: bool) -> dict[str, Any]:
    """Return the result as it is kept."""
    outcome = story.outcome
    return {
        "seed": story.seed,
        "build": build,
        "short": short,
        "calls": outcome.calls,
        "seconds": round(outcome.seconds, 1),
        "incarnations": outcome.incarnations,
        "events": outcome.events,
        "disk": outcome.disk,
        "questions": outcome.verified,
        "joined": outcome.joined,
        "by_way": outcome.by_way,
        "checks": [
            {
                "check": look.check,
                "exercised": look.exercised,
                "violations": [f._asdict() for f in look.findings],
            }
            for look in outcome.looks
        ],
    }


def violations(story: Story) -> Iterator[str]:
    """Tell each violation with all that is known of its call, up to a bound."""
    by_call: dict[str, list[Finding]] = {}
    for look in story.outcome.looks:
        for finding in look.findings:
            by_call.setdefault(finding.call, []).append(finding)
    for call, findings in list(by_call.items())[:MOST_SHOWN]:
        yield _told(call, findings[:MOST_SHOWN], story)
    if len(by_call) > MOST_SHOWN:
        yield f"… and of {len(by_call) - MOST_SHOWN} more calls; the result's file has them all"


def _told(call: str, findings: Sequence[Finding], story: Story) -> str:
    lines = [f"{finding.check}\n  {finding.words}" for finding in findings]
    if call:
        unit = f'"{call.rpartition(".")[0]}.'
        lines.append(f"  call {call}, seed {story.seed}. All calls of its unit, from all sides:")
        sides = {"client": "calls-*.jsonl", "record": "log-*.jsonl", "server": "account.jsonl"}
        for side, files in sides.items():
            lines += [f"    {side}   {each}" for each in _of_unit(story.folder.glob(files), unit)]
    return "\n".join(lines)


def _of_unit(files: Iterable[Path], words: str) -> Iterator[str]:
    for file in files:
        with file.open() as lines:
            yield from (line.strip() for line in lines if words in line)


def keep(story: Story) -> None:
    """Write down what is not in a file yet: the logs of all incarnations."""
    for incarnation in story.incarnations:
        with (story.folder / f"log-{incarnation.number}.jsonl").open("w") as file:
            for line in (*incarnation.records, *incarnation.events):
                file.write(json.dumps(line) + "\n")
            file.writelines(incarnation.noise)
