"""The units of work that are being attempted: how often each has been tried, by whomever, and whether it is done.

The same unit seen again is another attempt at it once an attempt has failed, and until one succeeds. An equal call beside
one that is under way and has not failed is new work: nobody can say that it is not meant. A unit that succeeded is done,
and the same call made later is new work too. A key is another matter: it names one piece of work for good. What a caller
says of its own count (`x-stainless-retry-count`, `amz-sdk-request: attempt=`) is believed where it is higher than what was
seen here.

Bounded: units that nobody has touched for `HORIZON`, and past `MOST` the ones untouched for longest, are forgotten. So is one
without a key as soon as it is done: nothing that is asked of it later depends on it, and nearly all are of this kind.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from proxy.core.units import MINUTE

HORIZON: Final = 15 * MINUTE
MOST: Final = 20_000

REPEATABLE: Final = frozenset({408, 425, 429})
"""Statuses below 500 that ask for another attempt rather than settle the matter (RFC 9110 §15.5.9, RFC 8470, RFC 6585)."""


class Attempt(NamedTuple):
    """One attempt at a unit. `number` counts from 1; `fresh`: nobody has attempted this unit before."""

    number: int
    fresh: bool


class _Unit:
    """`started`: attempts that have begun; since the last success, `failures` is how many have failed, as far as is known,
    and `highest` the highest number that one had. `keyed`: a key names it.
    """

    __slots__ = ("done", "failures", "highest", "keyed", "running", "started", "touched")

    def __init__(self) -> None:
        self.started = 0
        self.failures = 0
        self.highest = 0
        self.running = 0
        self.done = False
        self.keyed = False
        self.touched = 0

    @property
    def used(self) -> int:
        """How many attempts are used up or about to be, once one has failed."""
        return self.failures + self.running if self.failures else 0

    def stale(self, now: int) -> bool:
        return not self.running and now - self.touched > HORIZON


def failed(completed: bool, status: int | None) -> bool:
    """Say whether an attempt leaves its unit undone: it did not complete, or was answered with a call for another."""
    return not completed or status is None or asks_again(status)


def asks_again(status: int | None) -> bool:
    """Say whether a whole answer with this status leaves the work undone."""
    return status is not None and (status >= 500 or status in REPEATABLE)


class Attempts:
    """The attempts of lately seen units. A unit is known by any text that is its own."""

    def __init__(self) -> None:
        """Know of none."""
        self._units: OrderedDict[str, _Unit] = OrderedDict()  # the ones untouched for longest first

    def __len__(self) -> int:
        return len(self._units)

    def count(self, unit: str, now: int = 0) -> int:
        """Return how many attempts at a unit are used up: those that failed, and with them those that are under way.

        0 while none has failed, and when the unit is done, unknown, or by `now` forgotten.
        """
        known = self._units.get(unit)
        return 0 if known is None or known.done or known.stale(now) else known.used

    def running(self, unit: str) -> int:
        """Return how many attempts at a unit are under way: any of them may yet succeed."""
        known = self._units.get(unit)
        return 0 if known is None else known.running

    def at_stake(self, unit: str) -> int:
        """Return how many attempts at a unit are used up if those that are under way fail too."""
        known = self._units.get(unit)
        return 0 if known is None else max(known.failures + known.running, known.highest)

    def begin(self, unit: str, now: int, *, keyed: bool, stated: int = 0) -> Attempt:
        """Count an attempt that begins. `keyed`: the unit has a key; `stated`: how many the caller says it has made."""
        known = self._units.get(unit)
        if known is None or (known.done and not keyed and not known.running) or known.stale(now):
            known = self._units[unit] = _Unit()
        self._touch(unit, known, now)
        before = max(known.started if keyed else known.used, stated)
        known.done = False
        known.keyed = known.keyed or keyed
        known.running += 1
        known.started += 1
        known.highest = max(known.highest, stated + 1)
        self._forget(now)
        return Attempt(before + 1, not before)

    def end(self, unit: str, *, undone: bool, now: int = 0) -> None:
        """Take note that an attempt has ended. `undone`: it failed (`failed`). Without `now`, its unit ages from its start."""
        known = self._units.get(unit)
        if known is None or not known.running:
            return  # forgotten meanwhile
        known.running -= 1
        if not undone:
            known.done = True
            known.failures = known.highest = 0
        elif not known.done:
            known.failures = max(known.failures + 1, known.highest)
        if known.done and not known.keyed and not known.running:
            del self._units[unit]
        elif now > known.touched:
            self._touch(unit, known, now)

    def done(self, unit: str) -> None:
        """Take note that a unit is done by something else than an attempt; those under way go on."""
        known = self._units.get(unit)
        if known is not None:
            known.done = True
            known.failures = known.highest = 0
            if not known.keyed and not known.running:
                del self._units[unit]

    def forget(self, unit: str) -> None:
        """Start to count anew: somebody has decided that the unit may be attempted again."""
        self._units.pop(unit, None)

    def _touch(self, unit: str, known: _Unit, now: int) -> None:
        known.touched = now
        self._units.move_to_end(unit)

    def _forget(self, now: int) -> None:
        while True:
            unit, known = next(iter(self._units.items()))
            if len(self._units) > MOST or known.stale(now):
                del self._units[unit]
            elif now - known.touched > HORIZON:
                self._touch(unit, known, now)
            else:
                return
