"""Where one call stands on the ladder of its route. `rungs` tells how it got there, and where it goes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from proxy.core.degrading import Why
from proxy.core.target import Target
from proxy.degrade.cache.asked import Asked
from proxy.degrade.change import Changed


class Search(Protocol):
    """A question to a cache that is elsewhere."""

    def cancel(self) -> None:
        """Hear no more of it."""


class Descent:
    """The state. `level`: how many rungs below the first the current one is; `why`: what speaks against those above.

    `target`: what was asked for, whichever rung is taken. `asked`: under what the cache knows the call; None where it is not to
    be asked. `changed`: what differs in the request as this rung sends it; `before`: how many attempts had been made when it
    was taken; `since`: when the attempt under way began; `cap`: when that is over, whatever lies below it. `overrun`: the rung
    that is taken when the current one says nothing for too long. `search`: the question that is under way. `local`: no
    upstream is to be asked any more. `otherwise`: what is done when no rung below can be taken. `problem`: why the last rung
    that fitted could not be taken.
    """

    __slots__ = (
        "asked",
        "before",
        "cap",
        "changed",
        "level",
        "local",
        "otherwise",
        "overrun",
        "problem",
        "search",
        "since",
        "target",
        "why",
    )

    def __init__(self, target: Target) -> None:
        """Stand on the first rung."""
        self.target = target
        self.asked: Asked | None = None
        self.before = 0
        self.cap: int | None = None
        self.problem = ""
        self.changed: Changed | None = None
        self.level = 0
        self.local = False
        self.otherwise: Callable[[int], None] | None = None
        self.overrun: int | None = None
        self.search: Search | None = None
        self.since: int | None = None
        self.why: Why | None = None

    def end(self) -> None:
        """Ask nobody any more, and hold nothing."""
        self.otherwise = None
        self.leave_attempt()

    def leave_attempt(self) -> None:
        """The attempt under way is over, or is the one that answers: nothing is to take its place any more."""
        self.overrun = None
        search, self.search = self.search, None
        if search is not None:
            search.cancel()
