"""Records of writes for the tests, and a sidecar that keeps them."""

from __future__ import annotations

from typing import Any

from proxy.core.budget import Budget
from proxy.core.calls import Phase
from proxy.core.ledger import Ledger
from proxy.core.policy import Policy
from proxy.core.units import SECOND
from proxy.core.writes import LateAnswer, WriteBook, WriteEvent, WriteRecord, WriteState

NOW_MS = 1_767_323_045_678  # 2026-01-02T03:04:05.678Z
NOW = 1_000 * SECOND  # the same moment on the monotonic clock

UNCERTAIN = WriteRecord(
    id="w1",
    state=WriteState.UNCERTAIN,
    opened_at=NOW_MS - 90_500,
    origin="https://api.example.com:443",
    method="POST",
    target="https://api.example.com/v1/orders?dry=…",
    route="orders",
    budget_id="run-42",
    step=3,
    key="k-1",
    fingerprint="f" * 64,
    phase=Phase.SENT,
    reason="route_cap",
)
ANSWER = LateAnswer(
    201, (("content-type", "text/plain"), ("x-two", "a"), ("x-two", "b")), b"made", 4, 12_345.6
)


def write(id: str, **changes: Any) -> WriteRecord:
    return UNCERTAIN._replace(id=id, key=f"key of {id}", fingerprint=f"print of {id}", **changes)


class Sidecar:
    """What the control API sees of one. Its clock stands still unless a test moves it."""

    def __init__(self, *records: WriteRecord, policy: Policy | None = None) -> None:
        self.writes = WriteBook(records)
        self.ledger = Ledger()
        self.now = NOW
        self._policy = policy or Policy()
        self.resolved: list[tuple[str, bool]] = []
        self.decided: list[tuple[str, WriteEvent]] = []
        self.closed: list[str] = []
        self.failure: Exception | None = None

    def policy(self) -> Policy:
        return self._policy

    def clock(self) -> int:
        return self.now

    def close_budget(self, id: str) -> Budget:
        budget = self.ledger.get(id)
        if budget is None:
            raise KeyError(id)
        if self.ledger.close(budget, self.now, "request"):
            self.closed.append(id)
        return budget

    async def resolve(self, id: str, applied: bool) -> WriteRecord:
        record = self._settle(id, WriteEvent.FOUND_APPLIED if applied else WriteEvent.FOUND_ABSENT)
        self.resolved.append((id, applied))
        return record

    async def release(self, id: str) -> WriteRecord:
        return self._settle(id, WriteEvent.RELEASED)

    async def discard(self, id: str) -> WriteRecord:
        return self._settle(id, WriteEvent.DISCARDED)

    def _settle(self, id: str, event: WriteEvent) -> WriteRecord:
        if self.failure is not None:
            raise self.failure
        record = self.writes.get(id)
        if record is None:
            raise KeyError(id)
        record = record.after(event)._replace(resolved_by="operator")
        self.writes.put(record)
        self.decided.append((id, event))
        return record
