"""The few connections to a store: whoever asks it takes one, and gives it back when its exchange has ended cleanly.

A connection is opened beside those who wait for it, and takes the time it needs, up to a bound of its own: a store that is
further away than a single call may wait is still there for the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.degrade.cache.redis_link import Link

MOST_LINKS: Final = 8
OPENING_SECONDS: Final = 2.0
"""How long opening one may take: the name, the connection, TLS, the password."""


class StoreGone(Exception):
    """There is no connection to the store, and why."""


class Links:
    """Connections of one store, for one event loop. `opened` is told how each opening has ended: None for well."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], Link],
        opened: Callable[[BaseException | None], None],
    ) -> None:
        """Open nothing yet. `make`: makes a link that is not connected."""
        self._loop = loop
        self._make = make
        self._opened = opened
        self._idle: list[Link] = []  # the last one put back is the first one taken
        self._waiting: deque[asyncio.Future[Link]] = deque()
        self._opening: set[asyncio.Task[None]] = set()
        self._total = 0  # open ones, taken or not, and those being opened
        self._closed = False

    async def take(self) -> Link:
        """Return a link, once there is one; it is the caller's until given back or dropped. Raises StoreGone."""
        if self._closed:
            raise StoreGone("the store is closed")
        while self._idle:
            link = self._idle.pop()
            if link.usable:
                return link
            self.drop(link)
        waiter: asyncio.Future[Link] = self._loop.create_future()
        self._waiting.append(waiter)
        self._open_more()
        try:
            return await waiter
        except asyncio.CancelledError:
            # It may have been given a link, or heard that there is none, in the turn of the loop in which it was cancelled.
            if not waiter.cancelled() and waiter.exception() is None:
                self.give_back(waiter.result())
            raise

    def give_back(self, link: Link) -> None:
        """Take back a link whose exchange has ended cleanly."""
        if self._closed or not link.usable:
            self.drop(link)
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(link)
                return
        self._idle.append(link)

    def drop(self, link: Link) -> None:
        """Close a link that is of no further use, and open another for those who wait."""
        link.drop()
        self._total -= 1
        self._open_more()

    def drop_idle(self) -> None:
        """Close those that nobody uses: one has failed, and they may lead to the same dead end."""
        idle, self._idle = self._idle, []
        for link in idle:
            self.drop(link)

    def close(self) -> None:
        """Close all of them, those in use as they come back, and let nobody wait any longer."""
        self._closed = True
        for task in self._opening:
            task.cancel()
        self.drop_idle()
        self._fail(StoreGone("the store is closed"))

    def _open_more(self) -> None:
        """Open as many links as there are waiters without one on its way, within the bound."""
        self._waiting = deque(waiter for waiter in self._waiting if not waiter.done())
        while not self._closed and len(self._opening) < len(self._waiting) and self._total < MOST_LINKS:
            self._total += 1
            link = self._make()
            task = self._loop.create_task(self._open(link), name="open a link to the store")
            self._opening.add(task)
            # A task that is cancelled before its first turn runs nothing at all, not even what stands in `finally`.
            task.add_done_callback(lambda done, link=link: self._ended(done, link))  # type: ignore[misc]

    async def _open(self, link: Link) -> None:
        async with asyncio.timeout(OPENING_SECONDS):
            await link.open()

    def _ended(self, task: asyncio.Task[None], link: Link) -> None:
        """Take note that an opening has ended, however it did."""
        self._opening.discard(task)
        error = StoreGone("the store is closed") if task.cancelled() else task.exception()
        if error is None:
            self._opened(None)
            self.give_back(link)
            return
        link.drop()
        self._total -= 1
        if not self._closed:
            self._opened(error)
            self._fail(StoreGone(str(error)))

    def _fail(self, error: StoreGone) -> None:
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
