"""What `waterclock tune` reads: logs line by line, plain or compressed, and what it makes of them."""

from __future__ import annotations

import gzip
import os
from typing import Final

from proxy.config import parse
from proxy.tuning.faults import Untunable
from proxy.tuning.jobs import Jobs
from proxy.tuning.measured import Measured
from proxy.tuning.seen import Unreadable
from proxy.tuning.steplog import read_logs, step_of
from trials.fuzz.target import Seen, Target, hold

_POLICY: Final = parse(
    "budget: {default: 10s, reserve: 1s, stages: {retrieval: 3s, llm: 5s}}\n"
    "routes:\n  - {name: chat, match: {host: chat}, stage: llm}\n",
    has_files=False,
)


def check(data: bytes) -> Seen:
    """Read the lines one by one, then all of them as a file, plain and compressed."""
    steps = unreadable = others = 0
    for line in data.splitlines(keepends=True):
        try:
            found = step_of(line)
        except Unreadable:
            unreadable += 1
            continue
        steps += found is not None
        others += found is None
    plain = _read(data)
    packed = _read(gzip.compress(data, 1, mtime=0))
    hold(
        plain == packed or data[:2] == b"\x1f\x8b" or data[:4] == b"\x28\xb5\x2f\xfd",
        "packed-or-not",
        plain,
        packed,
    )
    return {
        f"steps {min(steps, 2)} unreadable {min(unreadable, 2)} others {min(others, 2)}",
        f"{plain[0]}, notes {min(len(plain[1]), 3)}",
    }


def _read(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Read a file with this content. It has no name that anybody else could see."""
    file = os.memfd_create("log")
    try:
        os.write(file, data)
        jobs = Jobs(_POLICY, most=4)
        try:
            notes = read_logs([f"/proc/self/fd/{file}"], jobs)
        except Untunable as problem:
            hold(str(problem), "a-refusal-explains-itself")
            return "untunable", ()
        measured = jobs.measured()
        hold(isinstance(measured, Measured), "what-is-read-is-measured")
        for use in measured.stages.values():
            hold(0 <= use.cut <= max(use.needs.total, use.cut), "cuts-are-some-of-all", use)
        return f"read {min(jobs.steps, 2)}", tuple(
            note.replace(f"/proc/self/fd/{file}", "it") for note in notes
        )
    finally:
        os.close(file)


TARGET: Final = Target(
    "steplog",
    "what `waterclock tune` reads: each line is a step, another line or an unreadable one; packed files read as plain ones",
    check,
    tokens=(
        b'"record":"r"',
        b'"step":1',
        b'"budget_id":"b"',
        b'"stage":"llm"',
        b'"route":"chat"',
        b'"started_ms":1',
        b'"elapsed_ms":1e308',
        b'"allowed_ms":-1',
        b'"remaining_ms":null',
        b'"outcome":"completed"',
        b'"outcome":"deadline_exceeded"',
        b'"reason":"budget_exhausted"',
        b'"limit":"stage"',
        b'"would":"cut"',
        b'"degraded":{"rung":"x","reason":"time"}',
        b'"time":"2026-11-30T10:00:00.000Z"',
        b'"time":"0001-01-01T00:00:00+23:59"',
        b'"time":"9999-12-31T23:59:59-23:59"',
        b'{"log":"{\\"record\\":1}"}',
        b"2026-11-30T10:00:00Z ",
        b"\n",
        b"{",
        b"}",
        b"null",
        b"true",
        b"1e999",
        b"NaN",
        b"-0.0",
        b'"\\ud800"',
        b"\x1f\x8b",
        b"\xff",
    ),
)
