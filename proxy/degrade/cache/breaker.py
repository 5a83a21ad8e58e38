"""When to leave a place alone that has failed, and when to try it again.

closed   --failed-->  open, for a second
open     --allows, once the while has passed-->  probing: one question goes through, all others do not
probing  --succeeded-->  closed        --failed-->  open, for twice as long, 30 seconds at most
"""

from __future__ import annotations

from typing import Final

from proxy.core.units import SECOND

SHORTEST: Final = SECOND
LONGEST: Final = 30 * SECOND


class Breaker:
    """Says whether to ask. Each question that it allows is followed by one of `succeeded`, `failed`, `withdrawn`."""

    __slots__ = ("_pause", "_probing", "_until", "_waited")

    def __init__(self) -> None:
        """Start closed."""
        self._pause = 0  # 0: closed
        self._until = 0
        self._probing = False
        self._waited = 0  # for questions in a row that nothing was heard of

    @property
    def open(self) -> bool:
        """Whether the last that was heard is a failure."""
        return self._pause > 0

    def allows(self, now: int) -> bool:
        """Say whether to ask now. After a failure's while, the one who is told so is the probe."""
        if not self._pause:
            return True
        if self._probing or now < self._until:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        """Take note of an answer."""
        self._pause = self._waited = 0
        self._probing = False

    def failed(self, now: int) -> None:
        """Take note of a failure. Those of questions that were on their way when another failed add nothing to it."""
        if self._pause and not self._probing:
            return
        self._probing = False
        self._pause = min(self._pause * 2, LONGEST) if self._pause else SHORTEST
        self._until = now + self._pause

    def unanswered(self, now: int, waited: int, timeout: int) -> bool:
        """Take note that nothing was heard for so long (nanoseconds); return whether that is a failure.

        One wait that is shorter than what may be taken says nothing; several in a row that come to as much do.
        """
        self._waited += waited
        if self._waited < timeout:
            self.withdrawn()
            return False
        self._waited = 0
        self.failed(now)
        return True

    def hopeful(self) -> None:
        """Take note of a good sign that is no answer yet: the next question is the probe, and need not wait for that."""
        self._until = 0

    def withdrawn(self) -> None:
        """Take note that a question has ended without showing anything; the next one is the probe then."""
        self._probing = False
