"""A rung that says nothing: it is waited for as long as a lower one still fits, and then that one is taken.

The cache is looked into while the attempt goes on, since it may yet answer: it is given up only for something that is there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from proxy.core.attempts import asks_again
from proxy.core.degrading import CacheUse, Why
from proxy.core.ladder import Choice, patience
from proxy.dataplane.descent import Descent
from proxy.dataplane.rungs import Rungs

if TYPE_CHECKING:
    from proxy.degrade.cache.found import Found


class Patience(Rungs):
    """A call whose rung is waited for, and not for too long."""

    __slots__ = ()

    def attempt_begins(self, descent: Descent, now: int) -> None:
        """See how long an attempt may say nothing."""
        descent.since, descent.cap = now, self.attempt_due
        if self.enforced and self.case.route.ladder:
            self._wait_for_it(None, now)

    def _wait_for_it(self, below: int | None, now: int) -> None:
        descent, ladder = self.descent, self.case.route.ladder
        assert descent is not None
        descent.overrun = None
        waits = patience(ladder, self._needs(now), descent.level, self._left_now(now), below=below)
        if waits is None or (self.attempt_due is not None and self.attempt_due <= now + waits[0]):
            return
        self.attempt_due, descent.overrun = now + waits[0], waits[1]
        self._set_alarm()

    def _attempt_over(self, now: int) -> None:
        """The attempt has said nothing for as long as it could be waited for."""
        descent = self.descent
        if descent is None or descent.overrun is None:
            super()._attempt_over(now)
            return
        self.attempt_due = descent.cap
        head = self._response.head
        if head is not None and not asks_again(head.status):
            descent.overrun = None  # it has begun to answer, and is held to be marked
            self._set_alarm()
            return
        level, descent.overrun = descent.overrun, None
        rung = self.case.route.ladder[level]
        if rung.cache is not None:
            self._looks_meanwhile(Choice(level, rung, Why.SLOW), rung.cache, now)
        elif not self._overtakes(level, now):
            self._wait_for_it(level, now)

    def _overtakes(self, level: int, now: int) -> bool:
        """Take a lower rung in place of the attempt that says nothing; return whether it could be taken."""
        descent = self.descent
        assert descent is not None
        if not self.request.repeatable or self._response.head_sent:
            return False
        since, rung = descent.since, self.rung
        descent.otherwise = self._nothing_fits
        if self._takes_upstream(Choice(level, self.case.route.ladder[level], Why.SLOW), now) is not None:
            return False
        self.took(since, rung, now)
        return True

    def _looks_meanwhile(self, choice: Choice, use: CacheUse, now: int) -> None:
        """Look into the cache while the attempt goes on: it is given up only for something that is there."""
        found = self._at_hand(use)
        if found is not None:
            self._gives_meanwhile(choice, found, now)
        elif not self._searches(use, self.spare(choice.level, now), partial(self._found_meanwhile, choice)):
            self._wait_for_it(choice.level, now)

    def _found_meanwhile(self, choice: Choice, found: Found | None, now: int) -> None:
        if self._response.head is not None:
            return  # it has begun to answer, or is held as a failure
        if found is not None:
            self._gives_meanwhile(choice, found, now)
        else:
            self._wait_for_it(choice.level, now)

    def _gives_meanwhile(self, choice: Choice, found: Found, now: int) -> None:
        assert self.descent is not None
        self.took(self.descent.since, self.rung, now)
        self.give_found(choice.level, found, choice.why)
