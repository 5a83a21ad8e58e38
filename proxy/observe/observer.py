"""Who is told of every step: the log and the metrics, so that the counters equal the records."""

from __future__ import annotations

from proxy.core.entry import EntryRecord
from proxy.core.step import StepRecord
from proxy.observe.metrics import Metrics
from proxy.observe.steplog import StepLog


class Observer:
    """Hands each record to both. What no step stands for is only counted."""

    def __init__(self, log: StepLog, metrics: Metrics) -> None:
        """Write to `log` and count in `metrics`."""
        self._log = log
        self._write = log.write
        self._count = metrics.step
        self.malformed = metrics.malformed
        self.opaque = metrics.opaque
        self.extension_ignored = metrics.extension_ignored
        self.budget_opened = metrics.budget_opened
        self.budget_closed = metrics.budget_closed
        self.retried = metrics.retried
        self.retry_withheld = metrics.retry_withheld
        self.joined = metrics.joined
        self.verified = metrics.verified

    def step(self, record: StepRecord) -> None:
        """Take the record of a step that has ended."""
        self._count(record)
        self._write(record)

    def entry(self, record: EntryRecord) -> None:
        """Take the record of an entry request that has ended."""
        self._log.event("entry", **record._asdict())
