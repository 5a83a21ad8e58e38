"""The control API, on the loopback: what it may see and do of a running sidecar, and how it comes to be served.

Its endpoints are in `endpoints` and `api`, which are loaded with the first connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from proxy.admin.deferred import DeferredSite, Start
from proxy.core.budget import Budget
from proxy.core.ledger import Ledger
from proxy.core.policy import Policy
from proxy.core.writes import WriteRecord


class Writes(Protocol):
    """The records of writes, as `core.writes.WriteBook` keeps them."""

    def get(self, id: str) -> WriteRecord | None:
        """Return the record with this id, if it is still kept."""

    def listed(self) -> list[WriteRecord]:
        """Return every record that is or was uncertain, the oldest first."""


class Control(Protocol):
    """What the sidecar lets the control API see and do."""

    @property
    def writes(self) -> Writes:
        """The records of writes."""

    @property
    def ledger(self) -> Ledger:
        """The budgets."""

    def clock(self) -> int:
        """Return the time on the clock of the budgets, in nanoseconds."""

    def close_budget(self, id: str) -> Budget:
        """Take note that a job is done, and return its budget; a second time changes nothing. Raises KeyError."""

    async def resolve(self, id: str, applied: bool) -> WriteRecord:
        """Keep what somebody found out about a write, durably. Raises KeyError, WrongTransition, JournalError."""

    async def release(self, id: str) -> WriteRecord:
        """Let a dead letter be attempted again, durably. Raises KeyError, WrongTransition, JournalError."""

    async def discard(self, id: str) -> WriteRecord:
        """Have a dead letter never sent again, durably. Raises KeyError, WrongTransition, JournalError."""

    def policy(self) -> Policy:
        """Return the policy in force."""


def control_app(control: Control, wall_ms: Callable[[], int]) -> DeferredSite:
    """Return what is served on the control port. `wall_ms` is Unix time in milliseconds, for the ages of records."""

    def load() -> Start:
        from proxy.admin.api import start

        return lambda: start(control, wall_ms)

    return DeferredSite(load)
