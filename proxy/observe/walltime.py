"""The time of day, as log lines and records show it to people. No decision is made by it."""

from __future__ import annotations

import time
from collections.abc import Callable

from proxy.core.units import MILLISECOND

unix_ns: Callable[[], int] = time.time_ns  # noqa: TID251 - the time of day is what is asked for


def unix_ms() -> int:
    """Return Unix time in whole milliseconds."""
    return unix_ns() // MILLISECOND


class Stamp:
    """The time of day as RFC 3339 in UTC with milliseconds, spelled out at most once a millisecond."""

    __slots__ = ("_clock", "_ms", "_second", "_text", "_upto_seconds")

    def __init__(self, clock: Callable[[], int] = unix_ns) -> None:
        """Read the time from `clock`, in Unix nanoseconds."""
        self._clock = clock
        self._ms = -1
        self._second = -1
        self._text = ""
        self._upto_seconds = ""

    def __call__(self) -> str:
        """Return the time of day now."""
        ms = self._clock() // MILLISECOND
        if ms == self._ms:
            return self._text
        second, fraction = divmod(ms, 1000)
        if second != self._second:
            self._upto_seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = second
        self._text = f"{self._upto_seconds}.{fraction:03d}Z"
        self._ms = ms
        return self._text
