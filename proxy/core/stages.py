"""The stages of one budget: how much of its time each may use, and how much it has used.

Time is what passes, so steps of one stage that run side by side use it once: what counts is the union of the spans in
which at least one of them was under way, from its arrival to its end. A step that starts may take what is left of its
stage then, so the union never exceeds the share.

With `carry`, what the stages before leave unused goes to those after them, in the order of the policy. Of the first k
stages, S_k are the shares and U_k is what they have used, both added up:

    may take    the smallest of S_k - U_k, over its own stage and every later one

So a stage finds all that those before it have left, but not what a later one has taken of it: nothing is paid twice, and
a stage that comes back finds what is really left. Of other stages, what their steps under way may still use counts as
used. All stages together never use more than all shares together, the slack is never touched, and the same holds of the
first k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proxy.core.policy import SLACK, BudgetDefaults


class Stage:
    """One stage of one budget. Spans and times are nanoseconds."""

    __slots__ = ("_counted_to", "_running", "_until", "_used", "name", "share")

    def __init__(self, share: int, name: str = "") -> None:
        """Start unused."""
        self.name = name
        self.share = share
        self._used = 0
        self._running = 0
        self._counted_to: int | None = None  # while something runs: from here on it is still to be counted
        self._until = 0  # while something runs: by when it is over, as far as its allowances say

    def begin(self, now: int, allowed: int | None = None) -> None:
        """Take note that a step of this stage has begun, which may take so much.

        One that arrived before the last one ended, and is heard of only now, counts from that end: no moment counts twice.
        """
        until = now if allowed is None or allowed < 0 else now + allowed
        if not self._running:
            if self._counted_to is None or now > self._counted_to:
                self._counted_to = now
            self._until = until
        elif until > self._until:
            self._until = until
        self._running += 1

    def extend(self, until: int) -> None:
        """Take note that a step under way may last longer than was said when it began."""
        if self._running and until > self._until:
            self._until = until

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

    def taken(self, now: int) -> int:
        """Return how much is used by now, or may still be by the steps under way. With several, the longest allowance counts."""
        if not self._running or self._counted_to is None:
            return self._used
        return self._used + max(0, max(now, self._until) - self._counted_to)

    def left(self, now: int) -> int:
        """Return how much of its own share is left; zero or less when it is used up."""
        return self.share - self.used(now)


class Stages:
    """The stages of one budget, in the order of the policy."""

    __slots__ = ("_all", "carry")

    def __init__(self, stages: Iterable[Stage], *, carry: bool = False) -> None:
        """Take stages of different names. `carry`: what those before leave unused goes to those after."""
        self._all = {stage.name: stage for stage in stages}
        self.carry = carry

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._all.values())

    def get(self, name: str) -> Stage | None:
        """Return the stage of this name."""
        return self._all.get(name)

    def left(self, stage: Stage, now: int) -> int:
        """Return what a step of a stage may take; zero or less when that is nothing."""
        if not self.carry:
            return stage.left(now)
        rest, least, reached = 0, 0, False
        for each in self._all.values():
            if each is stage:
                rest += each.share - each.used(now)
                least, reached = rest, True
                continue
            rest += each.share - each.taken(now)
            if reached and rest < least:
                least = rest
        return least

    def carried_in(self, stage: Stage, now: int) -> int:
        """Return what has come to a stage beside its share, be it used or left: earlier ones had no use for it."""
        if not self.carry:
            return 0
        return max(0, stage.used(now) + max(0, self.left(stage, now)) - stage.share)

    def carried(self, stage: Stage, allowed: int, now: int) -> int:
        """Return how much of the allowance of a step of a stage lies beyond that stage's own share."""
        if not self.carry:
            return 0
        return max(0, min(allowed, allowed - stage.left(now)))


def shares(defaults: BudgetDefaults, total: int) -> Stages:
    """Return the stages of a budget of `total` nanoseconds: in proportion, as they are given for the default budget.

    Rounded down each, so together they never exceed the total when those of the policy do not exceed its default.
    """
    whole = max(1, defaults.default)
    return Stages(
        [
            Stage(share.span * max(0, total) // whole, share.stage)
            for share in defaults.stages
            if share.stage != SLACK
        ],
        carry=defaults.carry,
    )
