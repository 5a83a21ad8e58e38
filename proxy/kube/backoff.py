"""How long to wait before the next try: twice as long each time, up to a bound, and never in step with others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

Pause = Callable[[float], Awaitable[None]]


class Backoff:
    """Waits `first` seconds, then twice that, up to `most`; each between half and the whole of it, by chance."""

    def __init__(self, first: float = 1.0, most: float = 30.0, pause: Pause = asyncio.sleep) -> None:
        """`pause` waits that many seconds."""
        self._first = first
        self._most = most
        self._pause = pause
        self._next = first

    def reset(self) -> None:
        """Begin anew: it went well."""
        self._next = self._first

    async def wait(self) -> None:
        """Wait, and longer next time."""
        delay = self._next
        self._next = min(delay * 2, self._most)
        await self._pause(delay * random.uniform(0.5, 1.0))
