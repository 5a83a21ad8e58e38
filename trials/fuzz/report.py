"""What a run came to: the table, the failures, the JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trials.fuzz.corpus import hash_of, save_failure
from trials.fuzz.engine import Report

_COLUMNS = "{:<12} {:>9} {:>9} {:>11} {:>8} {:>6} {:>9}"


def table(reports: Sequence[Report]) -> str:
    """Render one line for each target."""
    head = _COLUMNS.format("target", "inputs", "inputs/s", "behaviours", "corpus", "kept", "failures")
    lines = [
        _COLUMNS.format(
            each.target,
            each.inputs,
            f"{each.inputs / each.seconds:.0f}" if each.seconds else "-",
            each.behaviours or "-",
            each.corpus,
            each.kept,
            len(each.failures),
        )
        for each in reports
    ]
    total = _COLUMNS.format(
        "all",
        sum(each.inputs for each in reports),
        "",
        sum(each.behaviours for each in reports),
        sum(each.corpus for each in reports),
        sum(each.kept for each in reports),
        sum(len(each.failures) for each in reports),
    )
    return "\n".join([head, *lines, total])


def failures(reports: Sequence[Report]) -> str:
    """Save each failure, and render what it is and what repeats it."""
    parts = []
    for report in reports:
        for failure in report.failures:
            path = save_failure(report.target, failure.data)
            parts.append(
                f"{report.target}: {failure.signature}\n"
                f"{failure.text.rstrip()}\n"
                f"  input: {failure.data!r}\n"
                f"  again: python -m trials fuzz {report.target} --input {_shown(path)}"
            )
    return "\n\n".join(parts)


def as_json(reports: Sequence[Report], seed: int) -> str:
    """Render everything as JSON."""
    rows: list[dict[str, Any]] = [
        {
            "target": each.target,
            "inputs": each.inputs,
            "seconds": round(each.seconds, 3),
            "behaviours": each.behaviours,
            "corpus": each.corpus,
            "kept": each.kept,
            "failures": [
                {"signature": failure.signature, "input": f"fuzz-{each.target}-{hash_of(failure.data)}"}
                for failure in each.failures
            ],
        }
        for each in reports
    ]
    return json.dumps({"seed": seed, "targets": rows}, indent=1) + "\n"


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
