"""The record of one entry request: the request that a job was started by, and what was said of the job in its answer."""

from __future__ import annotations

from typing import NamedTuple


class EntryRecord(NamedTuple):
    """How one entry request went. Spans are milliseconds; `steps` and `verdict` are the fields of its answer.

    `late_ms`: how long after its due time it was cut, if it was. `would`: what would have happened to it, had the policy
    been enforced.
    """

    record: str
    budget_id: str | None
    method: str
    target: str
    depth: int
    total_ms: float | None
    elapsed_ms: float
    late_ms: float | None
    outcome: str
    effect: str
    phase: str
    reason: str | None
    would: str | None
    status: int | None
    bytes: int
    steps: str | None
    verdict: str | None
