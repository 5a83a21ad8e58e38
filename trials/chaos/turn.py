"""One arrival of a call at the upstream: what a behaviour can do with it, each deed in the account before it is done.

So the account is never behind: what is `committed` there may not have been answered, what is `answered` there may not have
arrived, and nothing arrives that is not there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.support.upstream import Exchange
from trials.chaos.facts import Seen
from trials.chaos.words import pattern

MOST_SECONDS: Final = 12.0
"""How long a stalled connection is kept, whatever its peer does."""
_SIZES: Final = (20, 200, 2_000, 20_000, 90_000)


class Turn:
    """One arrival of one call, and what the account has to say of it. `late_s`: when its allowance is over."""

    def __init__(
        self,
        exchange: Exchange,
        call: str,
        unit: str,
        arrival: int,
        note: Callable[[Seen], None],
        clock: Callable[[], int],
        commit: Callable[[], bool],
    ) -> None:
        """`commit` does the work; False where it was done before under a key that is honoured."""
        self.exchange = exchange
        self.call = call
        self.arrival = arrival
        self._unit = unit
        self._note = note
        self._clock = clock
        self._do = commit
        self.chance = random.Random(f"{call} {arrival}")
        self.size = self.chance.choices(_SIZES, (5, 5, 3, 2, 1))[0]
        stated = exchange.request.get("budget-remaining-ms")
        self.late_s = int(stated) / 1000 if stated is not None else 0.3

    def note(self, event: str, detail: str = "") -> None:
        """Add to the account."""
        self._note(Seen(event, self.call, self._unit, self.arrival, self._clock(), detail))

    @property
    def writes(self) -> bool:
        """Whether there is anything to commit."""
        return self.exchange.request.method in ("POST", "PUT", "DELETE")

    @property
    def bodiless(self) -> bool:
        """Whether the answer is a head alone."""
        return self.exchange.request.method == "HEAD"

    def fields(self, size: int, *framing: tuple[str, str]) -> list[tuple[str, str]]:
        """Return the fields of an answer: whose it is, and how its body is framed."""
        said = [("X-Token", self.call), ("X-Arrival", str(self.arrival)), ("X-Size", str(size))]
        return [*said, ("Content-Type", "application/octet-stream"), *framing]

    def body(self, size: int) -> bytes:
        """Return the body of an answer."""
        return pattern(self.call, self.arrival, size)

    async def read(self) -> None:
        """Read the request whole."""
        await self.exchange.read_all()
        self.note("whole")

    def commit(self) -> None:
        """Do what was asked for."""
        if self.writes:
            self.note("committed", self.exchange.request.method if self._do() else "again")

    async def read_and_commit(self) -> None:
        """Read the request whole, and do it."""
        await self.read()
        self.commit()

    async def begin(self, data: bytes) -> None:
        """Send the first bytes of an answer that does not end with them."""
        self.note("answering")
        await self.exchange.send(data)

    async def finish(self, data: bytes) -> None:
        """Send the last bytes of an answer."""
        self.note("answered")
        await self.exchange.send(data)

    async def whole(self, data: bytes) -> None:
        """Send a whole answer."""
        self.note("answering")
        await self.finish(data)

    def part(self) -> None:
        """The connection serves nobody any more."""
        self.exchange.keep = False

    async def stall(self) -> None:
        """Say nothing more until the peer leaves."""
        self.part()
        await self.exchange.sleep(MOST_SECONDS)

    def reset(self) -> None:
        """End with a RST."""
        self.part()
        self.exchange.reset()
