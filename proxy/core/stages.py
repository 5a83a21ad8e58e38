"""The stages of one budget: how much of its time each may use, and how much it has used.

Time is what passes, so steps of one stage that run side by side use it once: what counts is the union of the spans in
which at least one of them was under way, from its arrival to its end. A step that starts may take what is left of its
stage then, so the union never exceeds the share.
"""

from __future__ import annotations

from proxy.core.policy import SLACK, BudgetDefaults


class Stage:
    """One stage of one budget. Spans and times are nanoseconds."""

    __slots__ = ("_counted_to", "_running", "_used", "share")

    def __init__(self, share: int) -> None:
        """Start unused."""
        self.share = share
        self._used = 0
        self._running = 0
        self._counted_to: int | None = None  # while something runs: from here on it is still to be counted

    def begin(self, now: int) -> None:
        """Take note that a step of this stage has begun.

        One that arrived before the last one ended, and is heard of only now, counts from that end: no moment counts twice.
        """
        if not self._running and (self._counted_to is None or now > self._counted_to):
            self._counted_to = now
        self._running += 1

    def end(self, now: int) -> None:
        """Take note that a step of this stage has ended."""
        self._running -= 1
        if not self._running and self._counted_to is not None and now > self._counted_to:
            self._used += now - self._counted_to
            self._counted_to = now

    def used(self, now: int) -> int:
        """Return how much of the share is used by now."""
        if not self._running or self._counted_to is None:
            return self._used
        return self._used + max(0, now - self._counted_to)

    def left(self, now: int) -> int:
        """Return how much of the share is left; zero or less when it is used up."""
        return self.share - self.used(now)


def shares(defaults: BudgetDefaults, total: int) -> dict[str, Stage]:
    """Return the stages of a budget of `total` nanoseconds: in proportion, as they are given for the default budget.

    Rounded down each, so together they never exceed the total when those of the policy do not exceed its default.
    """
    return {
        share.stage: Stage(share.span * max(0, total) // max(1, defaults.default))
        for share in defaults.stages
        if share.stage != SLACK
    }
