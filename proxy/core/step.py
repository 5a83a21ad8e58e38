"""One step's record: what the log line, the metrics and the budget's history are all made of."""

from __future__ import annotations

from typing import NamedTuple

from proxy.core.degrading import Degraded


class StepRecord(NamedTuple):
    """How one call went. The names are the contract's; spans are milliseconds, rounded down to microseconds.

    `started_ms` counts from the budget's opening; `waited_ms` is the time before the first byte could be sent on, and
    `queued_ms` the part of it that was spent waiting for a slot; `overhead_ms` is what the sidecar itself took before
    the first byte left. `bytes` counts the response body relayed to the caller; `would` is what `mode: observe` did not do.

    `attempt` numbers the last attempt of the unit, whoever made the earlier ones; `tries` is how many this step made
    (none if it was never started), and `fresh` is 1 when it was the first to attempt its unit. `partial`: a delegated job
    answered that its own result is incomplete.

    `degraded`: by how much the answer was less than asked; None when it was not. `rung`: the rung of its route's ladder that
    answered, the first one too. `cache`: where its answer came from, if from the cache (`hit`, `stale`, `semantic`), or that it
    was asked in vain (`miss`). `carried_ms`: the part of `allowed_ms` that earlier stages had left unused.
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
    degraded: Degraded | None = None
    queued_ms: float = 0.0
    overhead_ms: float | None = None
    tries: int = 1
    fresh: int = 1
    partial: bool = False
    rung: str | None = None
    cache: str | None = None
    carried_ms: float | None = None


FIELDS = StepRecord._fields
