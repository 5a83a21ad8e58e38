"""Records of writes for the tests, and a sidecar that keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proxy.core.calls import Phase
from proxy.core.policy import Policy
from proxy.core.writes import LateAnswer, WriteBook, WriteEvent, WriteRecord, WriteState

NOW_MS = 1_767_323_045_678  # 2026-01-02T03:04:05.678Z

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
    return replace(UNCERTAIN, id=id, key=f"key of {id}", fingerprint=f"print of {id}", **changes)


class Sidecar:
    """What the control API sees of one."""

    def __init__(self, *records: WriteRecord, policy: Policy | None = None) -> None:
        self.writes = WriteBook(records)
        self._policy = policy or Policy()
        self.resolved: list[tuple[str, bool]] = []
        self.failure: Exception | None = None

    def policy(self) -> Policy:
        return self._policy

    async def resolve(self, id: str, applied: bool) -> WriteRecord:
        if self.failure is not None:
            raise self.failure
        record = self.writes.get(id)
        if record is None:
            raise KeyError(id)
        record = record.after(WriteEvent.FOUND_APPLIED if applied else WriteEvent.FOUND_ABSENT)
        self.writes.put(record)
        self.resolved.append((id, applied))
        return record
