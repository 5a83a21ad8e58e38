"""What a run came to: the table, the failures, the JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.report import NONE, Table, table_of
from trials.fuzz.corpus import hash_of, save_failure
from trials.fuzz.engine import Report

_COLUMNS: Final[Mapping[str, Callable[[Report], str]]] = {
    "target": lambda each: each.target,
    "inputs": lambda each: f"{each.inputs:,}",
    "inputs/s": lambda each: f"{each.inputs / each.seconds:,.0f}" if each.seconds else NONE,
    "behaviours": lambda each: f"{each.behaviours:,}" if each.behaviours else NONE,
    "corpus": lambda each: f"{each.corpus:,}",
    "kept": lambda each: f"{each.kept:,}",
    "failures": lambda each: f"{len(each.failures):,}",
}


def table(reports: Sequence[Report]) -> Table:
    """Return a row for each target, and one for all of them."""
    whole = Report(
        "all",
        inputs=sum(each.inputs for each in reports),
        behaviours=sum(each.behaviours for each in reports),
        corpus=sum(each.corpus for each in reports),
        kept=sum(each.kept for each in reports),
        failures=[failure for each in reports for failure in each.failures],
    )
    return table_of("What was fed", _COLUMNS, [*reports, whole])


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
