"""Time, as the whole package keeps it: integer nanoseconds of one monotonic clock.

Milliseconds exist only at the edges (headers, records), and are rounded down there, so that nobody is ever told
of more time than there is.
"""

from __future__ import annotations

from typing import Final

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE


def whole_ms(nanoseconds: int) -> int:
    """Return the whole milliseconds in a span, rounded down; an overdrawn span is 0, never negative."""
    return nanoseconds // MILLISECOND if nanoseconds > 0 else 0


def exact_ms(nanoseconds: int) -> float:
    """Return a span in milliseconds with microseconds kept, for records that measure rather than promise."""
    return nanoseconds // MICROSECOND / 1000
