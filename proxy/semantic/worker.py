"""One thread for what takes long, so that the loop answers probes meanwhile. What waits for it is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

MOST_WAITING: Final = 64

_Result = TypeVar("_Result")


class Busy(Exception):
    """More waits already than can be worked off soon."""


class Worker:
    """A thread that does one thing after another."""

    def __init__(self) -> None:
        """Start no thread before it is needed."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="texts")
        self._waiting = 0

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return what the work returns. Raises Busy, and what the work raises."""
        if self._waiting >= MOST_WAITING:
            raise Busy(f"{MOST_WAITING} texts wait already")
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(self._done)  # whoever waits may leave; the work is done only when it is
        return await asyncio.shield(future)

    def close(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        self._thread.shutdown(cancel_futures=True)

    def _done(self, _: asyncio.Future[_Result]) -> None:
        self._waiting -= 1
