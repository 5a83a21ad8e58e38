"""Pending namespaces, given out one by one to those who work on them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from proxy.kube.bell import Bell
from proxy.kube.policies.pending import Pending


class Queue:
    """What is to be looked at, for any number of workers, none of which has the same key at the same time."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`clock`: monotonic nanoseconds."""
        self._pending = Pending()
        self._clock = clock
        self._bell = Bell()

    def add(self, key: str) -> None:
        """Let a key be looked at."""
        self._pending.add(key, self._clock())
        self._bell.ring()

    async def work(self, look_after: Callable[[str], Awaitable[bool | None]]) -> None:
        """Work until cancelled. `look_after` returns whether it had to write, None when it could not; it never raises."""
        while True:
            key = self._pending.take(self._clock())
            if key is None:
                await self._bell.wait(self._pending.seconds_to_next(self._clock()))
                continue
            wrote = await look_after(key)
            if wrote is None:
                self._pending.failed(key, self._clock())
            else:
                self._pending.done(key, self._clock(), wrote=wrote)
