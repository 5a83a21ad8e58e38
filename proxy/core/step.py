"""One step's record: what the log line, the metrics and the budget's history are all made of."""

from __future__ import annotations

from typing import ClassVar, Final

from proxy.core.degrading import Degraded
from proxy.values import Value

FIELDS: Final[tuple[str, ...]] = (
    "record",
    "budget_id",
    "step",
    "stage",
    "route",
    "method",
    "target",
    "kind",
    "unit",
    "attempt",
    "depth",
    "started_ms",
    "remaining_ms",
    "allowed_ms",
    "waited_ms",
    "elapsed_ms",
    "late_ms",
    "outcome",
    "effect",
    "phase",
    "reason",
    "retry",
    "would",
    "status",
    "bytes",
    "degraded",
    "queued_ms",
    "overhead_ms",
    "tries",
    "fresh",
    "partial",
    "rung",
    "cache",
    "carried_ms",
)


class StepRecord(Value):
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

    _fields: ClassVar[tuple[str, ...]] = FIELDS
    __slots__ = _fields

    def __init__(
        self,
        record: str,
        budget_id: str | None,
        step: int,
        stage: str | None,
        route: str,
        method: str,
        target: str,
        kind: str,
        unit: str | None,
        attempt: int,
        depth: int,
        started_ms: float,
        remaining_ms: float | None,
        allowed_ms: float | None,
        waited_ms: float,
        elapsed_ms: float,
        late_ms: float | None,
        outcome: str,
        effect: str,
        phase: str,
        reason: str | None,
        retry: str | None,
        would: str | None,
        status: int | None,
        bytes: int,  # noqa: A002 - a word of the contract
        degraded: Degraded | None = None,
        queued_ms: float = 0.0,
        overhead_ms: float | None = None,
        tries: int = 1,
        fresh: int = 1,
        partial: bool = False,
        rung: str | None = None,
        cache: str | None = None,
        carried_ms: float | None = None,
    ) -> None:
        """Take what is known."""
        self.record: Final = record
        self.budget_id: Final = budget_id
        self.step: Final = step
        self.stage: Final = stage
        self.route: Final = route
        self.method: Final = method
        self.target: Final = target
        self.kind: Final = kind
        self.unit: Final = unit
        self.attempt: Final = attempt
        self.depth: Final = depth
        self.started_ms: Final = started_ms
        self.remaining_ms: Final = remaining_ms
        self.allowed_ms: Final = allowed_ms
        self.waited_ms: Final = waited_ms
        self.elapsed_ms: Final = elapsed_ms
        self.late_ms: Final = late_ms
        self.outcome: Final = outcome
        self.effect: Final = effect
        self.phase: Final = phase
        self.reason: Final = reason
        self.retry: Final = retry
        self.would: Final = would
        self.status: Final = status
        self.bytes: Final = bytes
        self.degraded: Final = degraded
        self.queued_ms: Final = queued_ms
        self.overhead_ms: Final = overhead_ms
        self.tries: Final = tries
        self.fresh: Final = fresh
        self.partial: Final = partial
        self.rung: Final = rung
        self.cache: Final = cache
        self.carried_ms: Final = carried_ms
