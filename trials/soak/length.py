"""How long a soak lasts, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SHORTEST: Final = 15
HOUR: Final = 3600
SHORT: Final = 16


@dataclass(frozen=True)
class Length:
    """Seconds under half load."""

    seconds: int

    @property
    def full(self) -> float:
        """Seconds of full load before it, to find out what half load is."""
        return 2.0 if self.short else 6.0

    @property
    def probe(self) -> float:
        """Seconds of the whole mix at a low rate after that, to find out what a call of it costs."""
        return 2.0 if self.short else 10.0

    @property
    def short(self) -> bool:
        """Whether it is too short to judge what follows the load of the moment, or waits for the journal's sweep each minute."""
        return self.seconds < 600

    @property
    def slack(self) -> float:
        """How much more a short soak may rise from one quarter to the next: it has hardly begun."""
        return 4.0 if self.short else 1.0

    @property
    def kept_ms(self) -> int:
        """How long ended budgets and records of writes are kept: short enough for their stores to be full in the first eighth."""
        return int(min(120.0, max(1.5, self.seconds / 10)) * 1000)

    @property
    def reload_seconds(self) -> float:
        """The time between two policies."""
        return min(180.0, max(3.0, self.seconds / 12))

    @property
    def sample_seconds(self) -> float:
        """The time between two looks."""
        return 0.25 if self.seconds < 120 else 1.0
