"""One claim a unit: while a write with an idempotency key is in flight, an equal one under the same key joins it.

Who joins is not sent. It waits, within its own time, for the answer of the first, and gets it too. When the first ends
without an answer that can be shared, each of those who waited is looked at again: the first of them may go on in its
place, and after an uncertain end all are refused, as any later repeat would be.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from proxy.core.degrading import Degraded
from proxy.core.writes import WriteRecord
from proxy.wire.events import Field, ResponseHead

Unit = tuple[str, str, str, tuple[bytes | None, ...]]
"""Origin, idempotency key, fingerprint, and who asks for what: another body under the same key is another matter, and so
are other credentials.
"""


class Answer(NamedTuple):
    """A whole answer, to be given more than once. `delegated`: what it says of a job of its own is taken for true.

    `degraded`: by how much it is less than was asked.
    """

    head: ResponseHead
    body: bytes
    trailers: list[Field]
    delegated: bool = False
    degraded: Degraded | None = None


class Joined(Protocol):
    """A call that waits for another's answer."""

    def on_shared_answer(self, answer: Answer) -> None:
        """Take the answer."""

    def on_claim_ended(self) -> None:
        """Go on alone: there is no answer to share."""


class Claimant(Protocol):
    """The call that holds a claim."""

    def share(self) -> bool:
        """Keep the answer for those who join; False when it is too late for that."""

    def declared(self) -> WriteRecord | None:
        """Return the record of the write, once it has one."""


class Claim:
    """One unit in flight: who holds it, and who waits for its answer."""

    __slots__ = ("holder", "unit", "waiting")

    def __init__(self, unit: Unit, holder: Claimant) -> None:
        """Begin with nobody waiting."""
        self.unit = unit
        self.holder = holder
        self.waiting: list[Joined] = []

    def leave(self, call: Joined) -> None:
        """Wait no longer."""
        if call in self.waiting:
            self.waiting.remove(call)


class Claims:
    """The claims that are held."""

    def __init__(self) -> None:
        """Start with none."""
        self._claims: dict[Unit, Claim] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def claim(self, unit: Unit, holder: Claimant) -> Claim:
        """Hold a claim that nobody holds."""
        claim = self._claims[unit] = Claim(unit, holder)
        return claim

    def join(self, unit: Unit, call: Joined) -> Claim | None:
        """Wait for the answer of who holds the claim; None when nobody does, or it is too late to share it."""
        claim = self._claims.get(unit)
        if claim is None or not claim.holder.share():
            return None
        claim.waiting.append(call)
        return claim

    def dismiss(self, claim: Claim) -> None:
        """Send away those who wait: there will be no answer to share."""
        waiting, claim.waiting = claim.waiting, []
        for call in waiting:
            call.on_claim_ended()

    def end(self, claim: Claim, answer: Answer | None) -> None:
        """Give a claim up, and tell those who wait."""
        if self._claims.get(claim.unit) is claim:
            del self._claims[claim.unit]
        waiting, claim.waiting = claim.waiting, []
        for call in waiting:
            if answer is not None:
                call.on_shared_answer(answer)
            else:
                call.on_claim_ended()
