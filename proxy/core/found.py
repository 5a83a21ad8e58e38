"""What the ledger finds of a call: the budget that it belongs to, or that there is none."""

from __future__ import annotations

from typing import ClassVar, Final

from proxy.core.budget import Budget
from proxy.values import Value


class Found(Value):
    """The budget of a call. `extended`: the call tried to lengthen it, which was ignored. `crowded`: there is none because
    as many as can be kept are open. `opened`: it is a new one, or one that was closed with its only call and goes on.
    """

    _fields: ClassVar[tuple[str, ...]] = ("budget", "extended", "crowded", "opened")
    __slots__ = _fields

    def __init__(
        self,
        budget: Budget | None,
        extended: bool = False,
        crowded: bool = False,
        opened: bool = False,
    ) -> None:
        """Take what is known."""
        self.budget: Final = budget
        self.extended: Final = extended
        self.crowded: Final = crowded
        self.opened: Final = opened


NO_BUDGET = Found(None)
CROWDED = Found(None, crowded=True)
