"""What was logged, for tests to look at."""

from __future__ import annotations

from typing import Any


class Logbook:
    """A log that remembers: `lines` are names of events with their fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def event(self, name: str, /, **fields: Any) -> None:
        """Take a line."""
        self.lines.append((name, fields))

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return what was said under a name."""
        return [fields for each, fields in self.lines if each == name]
