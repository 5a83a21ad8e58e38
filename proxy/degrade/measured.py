"""How long the rungs of this sidecar have taken lately: what `needs: auto` goes by.

The quantile of a sketch with a relative error (DDSketch), over two spans of time, so that what was slow an hour ago is
forgotten. An attempt that was given up counts with the time that it had: it would have taken at least that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.policy import Policy
from proxy.core.units import MILLISECOND, MINUTE

if TYPE_CHECKING:
    from ddsketch.ddsketch import BaseDDSketch

SPAN: Final = 2 * MINUTE
"""What is measured counts for one to two of these (nanoseconds)."""
LEAST: Final = 20
"""Fewer attempts than this say nothing."""
QUANTILE: Final = 0.95
MARGIN: Final = 10
"""What is added to the quantile, in percent."""
MOST: Final = 4096
"""How many rungs are measured: as many as a policy can reasonably have."""
_ERROR: Final = 0.02
_RENEWED: Final = 16
"""The quantile is reckoned anew after this many attempts, and whenever a span begins."""


class _Rung:
    """One rung: the sketch of the span under way, that of the one before, and what the two come to."""

    __slots__ = ("before", "current", "need", "since", "unread")

    def __init__(self, now: int) -> None:
        self.current = _sketch()
        self.before: BaseDDSketch | None = None
        self.since = now
        self.unread = 0
        self.need: int | None = None


class Measured:
    """The attempts of all rungs, by route and name. Times are nanoseconds on one clock."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rungs: dict[tuple[str, str], _Rung] = {}

    def __len__(self) -> int:
        return len(self._rungs)

    def prepare(self, policy: Policy) -> None:
        """Load the library that keeps the measurements, if a policy asks for any: no call is to wait for that."""
        routes = (policy.fallback, *policy.routes)
        if any(rung.needs is None for route in routes for rung in route.ladder):
            _sketch()

    def add(self, route: str, rung: str, took: int, now: int) -> None:
        """Take note of an attempt."""
        known = self._rungs.get((route, rung))
        if known is None:
            if len(self._rungs) >= MOST:
                return
            known = self._rungs[route, rung] = _Rung(now)
        self._turn(known, now)
        known.current.add(max(took, 1) / MILLISECOND)
        known.unread += 1
        if known.unread >= _RENEWED or known.need is None:
            self._reckon(known)

    def need(self, route: str, rung: str, now: int) -> int | None:
        """Return the p95 of late and a margin (nanoseconds); None while too little is known."""
        known = self._rungs.get((route, rung))
        if known is None:
            return None
        self._turn(known, now)
        return known.need

    def _turn(self, known: _Rung, now: int) -> None:
        """Begin a new span if it is time."""
        passed = now - known.since
        if passed < SPAN:
            return
        known.before = known.current if passed < 2 * SPAN else None
        known.current = _sketch()
        known.since = now
        self._reckon(known)

    def _reckon(self, known: _Rung) -> None:
        known.unread = 0
        both = _sketch()
        both.merge(known.current)
        if known.before is not None:
            both.merge(known.before)
        if both.count < LEAST:
            known.need = None
            return
        quantile = both.get_quantile_value(QUANTILE)
        known.need = int(quantile * MILLISECOND) * (100 + MARGIN) // 100 if quantile is not None else None


def _sketch() -> BaseDDSketch:
    """Return an empty sketch."""
    from ddsketch import LogCollapsingLowestDenseDDSketch

    return LogCollapsingLowestDenseDDSketch(_ERROR, 512)
