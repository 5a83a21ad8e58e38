"""Entries in a Redis or Valkey that pods share: asked within a time, told in the background, and done without when it is gone.

Under the key of a request stands the entry, with that key in front of it: bytes that were put, or have got, under another
key are nobody's answer. How long an entry has been there is what it was kept for less what the server says is left of
that, so that no clock of another machine is compared with ours. What is left is asked for before and after the entry, in
one round trip, and the smaller counts: should the entry be replaced in between, it is taken for too old, never for too
young. (A transaction would say it exactly, but a server that is full refuses even those that only read.)

A store that fails is left alone for a while (`breaker`), reading and writing each by itself: one that is full, or a
replica, can still be read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from proxy.core.degrading import CachePolicy, CacheUse
from proxy.core.units import MILLISECOND, SECOND
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.breaker import Breaker
from proxy.degrade.cache.entry import Entry, decode, encode
from proxy.degrade.cache.redis_links import Links
from proxy.degrade.cache.remote import Brought
from proxy.degrade.cache.store_address import StoreAddress
from proxy.net.dial import Dialer

PREFIX: Final = "waterclock:cache:1:"
"""What the names of all keys begin with; the number is that of what stands under them."""
MOST_PENDING: Final = 256
"""How many questions may be on their way; further ones bring nothing at once."""
MOST_QUEUED: Final = 256
MOST_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""How much may wait to be written; what comes on top of it is not kept there."""
WRITING_SECONDS: Final = 1.0
"""How long writing one entry may take. No call waits for it."""

_KEY_BYTES: Final = 32
_GONE: Final = -2  # what PTTL says of a key that is not there
# What an encoded entry has beside what `entry_bytes` counts: its own head and the lengths of its fields. And what the
# protocol has beside it.
_ROOM: Final = 16_384


class RedisStore:
    """A store of entries, for one event loop. `failed` is called for each question and each entry that it fails."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
        dialer: Dialer,
        address: StoreAddress,
        policy: Callable[[], CachePolicy],
        failed: Callable[[], None],
    ) -> None:
        """Connect to nothing yet. Raises ImportError where redis-py is not installed; loads it if need be, for 70 ms."""
        from proxy.degrade.cache.redis_link import Link

        self._loop = loop
        self._clock = clock
        self._policy = policy
        self._failed = failed
        self._links = Links(loop, lambda: Link(dialer, address), self._opened)
        self._reads = Breaker()
        self._writes = Breaker()
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions = 0
        self._queue: deque[tuple[bytes | str | int, ...]] = deque()
        self._queued = 0  # bytes
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    # -- asked ------------------------------------------------------------------------------------------------------

    def find(
        self, asked: Asked, use: CacheUse, within: int, done: Callable[[Brought], None]
    ) -> Callable[[], None]:
        """Look for the answer to the same request, for `within` nanoseconds at most. See `Remote`."""
        question = _Question(done)
        if (
            self._closed
            or not use.exact
            or within <= 0
            or self._questions >= MOST_PENDING
            or not self._reads.allows(self._clock())
        ):
            self._loop.call_soon(question.answer, None)
            return question.withdraw
        self._questions += 1
        task = self._begin(self._look(question, asked.key, within), "ask the store")
        task.add_done_callback(lambda _: self._asked(question))
        return question.withdraw

    def _asked(self, question: _Question) -> None:
        self._questions -= 1
        question.answer(None)  # unless it was answered

    async def _look(self, question: _Question, key: str, within: int) -> None:
        """Ask the store, and answer the question. One that is withdrawn still reads its reply, so that the link is of use."""
        most = self._policy().entry_bytes + _ROOM
        name = PREFIX + key
        commands = [("PTTL", name), ("GETRANGE", name, 0, most), ("PTTL", name)]
        try:
            async with asyncio.timeout(within / SECOND):
                before, value, after = await self._exchange(commands, most + _ROOM)
                left = min(before, after)
        except asyncio.CancelledError:
            self._reads.withdrawn()
            raise
        except TimeoutError:
            if self._reads.unanswered(self._clock(), within, self._policy().timeout):
                self._links.drop_idle()
                self._failed()
            return
        except Exception:  # noqa: BLE001 - whatever redis-py makes of it, the store has failed and the call goes on
            self._trouble(self._reads)
            return
        self._reads.succeeded()
        try:
            brought = _brought(key, value, left, most)
        except ValueError:
            self._links.drop_idle()  # should it be the reply to another question, so would be the next one's
            self._failed()
            return
        question.answer(brought)

    # -- told -------------------------------------------------------------------------------------------------------

    def keep(self, asked: Asked, entry: Entry) -> None:
        """Keep an answer for the same request. See `Remote`."""
        if entry.size > self._policy().entry_bytes:
            return
        value = bytes.fromhex(asked.key) + encode(entry)
        self._write("SET", PREFIX + asked.key, value, "PX", max(entry.kept // MILLISECOND, 1))

    def forget(self, keys: Iterable[str]) -> None:
        """Keep the answers to these requests no longer. See `SharedStore`."""
        for key in keys:
            self._write("UNLINK", PREFIX + key)

    def _write(self, *command: bytes | str | int) -> None:
        size = _size(command)
        if (
            self._closed
            or len(self._queue) >= MOST_QUEUED
            or self._queued + size > MOST_QUEUED_BYTES
            or (self._writer is None and not self._writes.allows(self._clock()))
        ):
            return
        self._queue.append(command)
        self._queued += size
        if self._writer is None:
            self._writer = self._begin(self._write_all(), "write to the store")

    async def _write_all(self) -> None:
        """Write what is queued, until nothing is or the store fails: then the rest is not kept there."""
        try:
            while self._queue:
                command = self._queue.popleft()
                self._queued -= _size(command)
                async with asyncio.timeout(WRITING_SECONDS):
                    (reply,) = await self._exchange([command], _ROOM)
                if isinstance(reply, Exception):
                    raise reply
                self._writes.succeeded()
        except Exception:  # noqa: BLE001 - as above
            self._trouble(self._writes)
            self._queue.clear()
            self._queued = 0
        # Not where the loop tells of the end: what is queued before it does would wait for nobody.
        self._writer = None

    # -- both -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Break off what is going on, and let go of all connections. See `Remote`."""
        self._closed = True
        self._queue.clear()
        for task in self._tasks:
            task.cancel()
        self._links.close()

    async def _exchange(self, commands: list[Any], most: int) -> list[Any]:
        """Return the replies to commands. Raises whatever goes wrong."""
        link = await self._links.take()
        try:
            replies = await link.exchange(commands, most)
        except BaseException:
            self._links.drop(link)
            raise
        self._links.give_back(link)
        return replies

    def _opened(self, error: BaseException | None) -> None:
        """Take note of how opening a link has ended. It may outlast the questions that it was opened for."""
        if error is None:
            self._reads.hopeful()
        else:
            self._reads.failed(self._clock())

    def _trouble(self, breaker: Breaker) -> None:
        breaker.failed(self._clock())
        self._links.drop_idle()
        self._failed()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Question:
    """Who asks, until answered or withdrawn."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[Brought], None]) -> None:
        self._done: Callable[[Brought], None] | None = done

    def answer(self, brought: Brought) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(brought)

    def withdraw(self) -> None:
        self._done = None


def _brought(key: str, value: Any, left: Any, most: int) -> Brought:
    """Return what stands in the store, for `left` milliseconds still. Raises ValueError for what this cache has not put there."""
    if value == b"" or left == _GONE:
        return None
    # A refusal: what stands there is no string at all.
    if not isinstance(value, bytes) or not isinstance(left, int) or left <= 0:
        raise ValueError("something else stands in the store under the name of an entry")
    if value[:_KEY_BYTES] != bytes.fromhex(key):
        raise ValueError("the entry of another request stands in the store")
    entry = decode(value[_KEY_BYTES:], most)
    held = entry.kept - left * MILLISECOND
    if held < 0:
        raise ValueError("an entry stays in the store for longer than it is kept")
    return entry, held


def _size(command: Iterable[bytes | str | int]) -> int:
    return sum(len(word) for word in command if not isinstance(word, int))
