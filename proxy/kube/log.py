"""Where the injector's parts write what happens: the same lines as the sidecar's log has (`observe.steplog.StepLog`)."""

from __future__ import annotations

from typing import Any, Protocol


class Log(Protocol):
    """Takes an event's name, and what is known of it."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Write a line."""
