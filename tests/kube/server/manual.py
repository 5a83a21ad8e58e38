"""Time that passes when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proxy.core.units import SECOND


async def settle(rounds: int = 60) -> None:
    """Let everything happen that needs no time."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def until(look: Callable[[], object], what: str = "") -> None:
    """Wait in real time until there is something true to see, within a limit that only a failure reaches."""
    for _ in range(2000):
        if look():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"it did not come about: {what or look}")


class ManualTime:
    """A clock in nanoseconds, and pauses that end when it has come far enough."""

    def __init__(self, now: int = 1_000_000 * SECOND) -> None:
        self.now = now
        self._pauses: list[tuple[int, asyncio.Event]] = []

    def clock(self) -> int:
        """Return what the clock shows."""
        return self.now

    async def pause(self, seconds: float) -> None:
        """Wait until that much time has passed."""
        over = asyncio.Event()
        self._pauses.append((self.now + round(seconds * SECOND), over))
        await over.wait()

    async def advance(self, seconds: float) -> None:
        """Let time pass, from one pause's end to the next, and let everything happen that follows."""
        end = self.now + round(seconds * SECOND)
        await settle()
        while due := sorted((at for at, over in self._pauses if not over.is_set() and at <= end)):
            self.now = max(self.now, due[0])
            for at, over in self._pauses:
                if at <= self.now:
                    over.set()
            self._pauses = [(at, over) for at, over in self._pauses if not over.is_set()]
            await settle()
        self.now = end
        await settle()
