"""One step's record: what the log line, the metrics and the budget's history are all made of."""

from __future__ import annotations

from typing import NamedTuple


class StepRecord(NamedTuple):
    """How one call went. The names are the contract's; spans are milliseconds, rounded down to microseconds.

    `started_ms` counts from the budget's opening; `waited_ms` is the time before the first byte could be sent on;
    `bytes` counts the response body relayed to the caller; `would` is what `mode: observe` did not do.
    """

    record: str
    budget_id: str | None
    step: int
    stage: str | None
    route: str
    method: str
    target: str
    kind: str
    unit: str | None
    attempt: int
    depth: int
    started_ms: float
    remaining_ms: float | None
    allowed_ms: float | None
    waited_ms: float
    elapsed_ms: float
    late_ms: float | None
    outcome: str
    effect: str
    phase: str
    reason: str | None
    retry: str | None
    would: str | None
    status: int | None
    bytes: int
    degraded: None = None


FIELDS = StepRecord._fields
