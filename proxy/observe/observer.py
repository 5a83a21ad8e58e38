"""Who is told of every step: the log and the metrics, so that the counters equal the records."""

from __future__ import annotations

from proxy.core.budget import Budget
from proxy.core.entry import EntryRecord
from proxy.core.step import StepRecord
from proxy.core.units import exact_ms
from proxy.core.writes import WriteRecord
from proxy.observe.metrics import Metrics
from proxy.observe.steplog import StepLog


class Observer:
    """Hands each record to both. What no step stands for is only counted."""

    def __init__(self, log: StepLog, metrics: Metrics) -> None:
        """Write to `log` and count in `metrics`."""
        self._log = log
        self._metrics = metrics
        self.malformed = metrics.malformed
        self.opaque = metrics.opaque
        self.extension_ignored = metrics.extension_ignored
        self.budget_opened = metrics.budget_opened
        self.budget_closed = metrics.budget_closed
        self.retried = metrics.retried
        self.retry_withheld = metrics.retry_withheld
        self.joined = metrics.joined
        self.verified = metrics.verified
        self.rung_tried = metrics.rung_tried
        self.cache_failed = metrics.cache_failed
        self.stage_used = metrics.stage_used

    def step(self, record: StepRecord) -> None:
        """Take the record of a step that has ended."""
        self._metrics.step(record)
        self._log.write(record)

    def degraded(self, record: StepRecord, budget: Budget | None, now: int) -> None:
        """Take the record of a step that was answered with less, and say what was left of its job's budget by then.

        That is of the whole budget, the reserve included; nothing is said of it where the step has none.
        """
        less = record.degraded
        assert less is not None
        left = total = used = None
        if budget is not None:
            remaining = max(0, budget.deadline - now)
            left, total = exact_ms(remaining), exact_ms(budget.total)
            used = _percent(budget.total - remaining, budget.total)
        self._log.event(
            "degraded",
            budget_id=record.budget_id,
            step=record.step,
            record=record.record,
            route=record.route,
            rung=less.rung,
            level=less.level,
            stage=less.stage,
            reason=less.why,
            remaining_ms=left,
            total_ms=total,
            consumed_pct=used,
        )

    def entry(self, record: EntryRecord) -> None:
        """Take the record of an entry request that has ended."""
        self._log.event("entry", **record._asdict())

    def settled(self, record: WriteRecord) -> None:
        """Take what has come of a write: the log outlives the pod, and the journal in it does not."""
        self._write_event("write_settled", record)

    def left(self, record: WriteRecord) -> None:
        """Take a write that is still uncertain when the sidecar stops."""
        self._write_event("write_unresolved", record)

    def _write_event(self, name: str, record: WriteRecord) -> None:
        self._log.event(
            name,
            record=record.id,
            budget_id=record.budget_id,
            step=record.step,
            route=record.route,
            method=record.method,
            target=record.target,
            key=record.key,
            opened_at=record.opened_at,
            state=record.state,
            by=record.resolved_by or None,
            status=record.answer.status if record.answer is not None else None,
        )


def _percent(part: int, whole: int) -> float:
    """Return a part in percent, to a tenth. Of nothing, all is used."""
    return round(100 * part / whole, 1) if whole > 0 else 100.0
