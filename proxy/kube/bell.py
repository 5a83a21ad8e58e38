"""Waiting for something to happen, or for time to pass."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes one who waits. Rung while nobody does, it wakes the next at once; rung twice, it wakes once."""

    def __init__(self) -> None:
        """It has not been rung yet."""
        self._rung = asyncio.Event()

    def ring(self, *_: object) -> None:
        """Wake who waits. It takes any arguments, so that it can be told of changes as it is."""
        self._rung.set()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is rung, and at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        finally:
            self._rung.clear()
