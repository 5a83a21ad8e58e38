"""The control API, on the loopback: what it may see and do of a running sidecar, and how it comes to be served.

Its endpoints are in `api`, which is loaded with the first connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from proxy.admin.deferred import DeferredSite, Start
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

    async def resolve(self, id: str, applied: bool) -> WriteRecord:
        """Keep what somebody found out about a write, durably. Raises KeyError, WrongTransition, JournalError."""

    def policy(self) -> Policy:
        """Return the policy in force."""


def control_app(control: Control, wall_ms: Callable[[], int]) -> DeferredSite:
    """Return what is served on the control port. `wall_ms` is Unix time in milliseconds, for the ages of records."""

    def load() -> Start:
        from proxy.admin.api import start

        return lambda: start(control, wall_ms)

    return DeferredSite(load)
