"""The cache, as calls use it: at hand in this process, or asked for elsewhere; and told of answers, without waiting.

at hand     memory, at once
find        the store that pods share, then the service that knows what means the same
keep        all three
changed     a write has changed what a URL answers (RFC 9111 §4.4)
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from proxy.core.degrading import CachePolicy, CacheUse
from proxy.degrade.cache.asked import Asked, place_of
from proxy.degrade.cache.entry import Entry
from proxy.degrade.cache.found import Found
from proxy.degrade.cache.freshness import usable
from proxy.degrade.cache.memory import Memory
from proxy.degrade.cache.remote import Brought, Remote, SharedStore

MOST_WRITTEN: Final = 4096
"""How many places that were written to are remembered."""


class Search:
    """A question that is being asked elsewhere. `done` is called once, from the loop, unless it is cancelled before."""

    __slots__ = ("_asked", "_cache", "_due", "_stale_for", "_use", "_withdraw", "done")

    def __init__(
        self,
        cache: Cache,
        asked: Asked,
        use: CacheUse,
        stale_for: int | None,
        within: int,
        done: Callable[[Found | None], None],
    ) -> None:
        """Ask the first who can be asked."""
        self.done: Callable[[Found | None], None] | None = done
        self._cache = cache
        self._asked = asked
        self._use = use
        self._stale_for = stale_for
        self._due = cache.clock() + within
        self._withdraw: Callable[[], None] | None = None
        if cache.store is not None and use.exact:
            self._ask(cache.store, self._from_store)
        elif not self._ask_service():
            cache.loop.call_soon(self._end, None)

    def cancel(self) -> None:
        """Ask no further, and call nobody. Safe to call at any time."""
        self.done = None
        withdraw, self._withdraw = self._withdraw, None
        if withdraw is not None:
            withdraw()

    def _ask(self, remote: Remote, heard: Callable[[Brought], None]) -> None:
        within = min(self._due - self._cache.clock(), self._cache.policy().timeout)
        self._withdraw = remote.find(self._asked, self._use, max(within, 0), heard)

    def _ask_service(self) -> bool:
        service = self._cache.service
        if service is None or not _means_something(self._asked, self._use):
            return False
        self._ask(service, self._from_service)
        return True

    def _from_store(self, brought: Brought) -> None:
        found = None
        if brought is not None:
            entry, held = brought
            if not self._cache.outdated(self._asked, self._cache.clock() - held):
                self._cache.remember(self._asked, entry, held)
                found = usable(entry, held, self._asked, self._stale_for)
        if found is not None or self._due <= self._cache.clock() or not self._ask_service():
            self._end(found)

    def _from_service(self, brought: Brought) -> None:
        found = None
        if brought is not None:
            entry, held = brought
            found = usable(entry, held, self._asked, self._stale_for, semantic=True)
        self._end(found)

    def _end(self, found: Found | None) -> None:
        self._withdraw = None
        done, self.done = self.done, None
        if done is not None:
            done(found)


class Cache:
    """All that is kept of answers. `policy` is asked each time, so that a reload takes hold; `clock` is monotonic."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Callable[[], int],
        policy: Callable[[], CachePolicy],
        store: SharedStore | None = None,
        service: Remote | None = None,
    ) -> None:
        """Start with an empty memory, and what there is outside."""
        self.loop = loop
        self.clock = clock
        self.policy = policy
        self.store = store
        self.service = service
        self._memory = Memory()
        # Places, and when they were written to; the latest last.
        self._written: OrderedDict[str, int] = OrderedDict()
        self.used = False
        """Whether anything was ever looked for or kept, so that a write has something to make untrue."""

    @property
    def bytes(self) -> int:
        """How many bytes the entries in memory take."""
        return self._memory.used

    @property
    def entries(self) -> int:
        """How many entries are in memory."""
        return len(self._memory)

    def at_hand(self, asked: Asked, stale_for: int | None) -> Found | None:
        """Return the answer to the same request from memory, if there is one that may be given now.

        `stale_for`: None for a call that can have a better one: it gets what is fresh, and as fresh as it asks for. Else
        how long past its freshness an answer may serve (nanoseconds); 0 leaves that to the answer's own word.
        """
        self.used = True
        held = self._memory.get(asked.key, self.clock())
        return None if held is None else usable(*held, asked, stale_for)

    def asks(self, asked: Asked, use: CacheUse) -> bool:
        """Say whether `find` has anybody to ask."""
        if self.store is not None and use.exact:
            return True
        return self.service is not None and _means_something(asked, use)

    def find(
        self,
        asked: Asked,
        use: CacheUse,
        stale_for: int | None,
        within: int,
        done: Callable[[Found | None], None],
    ) -> Search:
        """Look outside this process, for `within` nanoseconds at most. `stale_for`: as for `at_hand`.

        `done` is called once, from the loop and never from inside this call, unless the search is cancelled before.
        """
        return Search(self, asked, use, stale_for, within, done)

    def keep(self, asked: Asked, entry: Entry, since: int | None = None) -> None:
        """Keep an answer, everywhere. Nothing is waited for.

        One that is larger than the policy allows is not kept, nor one that was asked for (`since`) before its place was
        written to.
        """
        self.used = True
        if entry.size > self.policy().entry_bytes or self.outdated(asked, since):
            return
        self.remember(asked, entry, 0)
        if self.store is not None:
            self.store.keep(asked, entry)
        if self.service is not None and asked.text is not None:
            self.service.keep(asked, entry)

    def remember(self, asked: Asked, entry: Entry, held: int) -> None:
        """Keep an answer in memory that has been kept elsewhere for so long (nanoseconds)."""
        self._memory.put(asked.key, entry, self.clock(), self.policy().bytes, held=held, place=asked.place)

    def changed(self, url: str) -> None:
        """Keep no answer to a GET of this URL that this process knows: something was written there (RFC 9111 §4.4)."""
        self._written[place_of(url)] = self.clock()
        self._written.move_to_end(place_of(url))
        while len(self._written) > MOST_WRITTEN:
            self._written.popitem(last=False)
        keys = self._memory.forget(place_of(url))
        if keys and self.store is not None:
            self.store.forget(keys)

    def outdated(self, asked: Asked, since: int | None) -> bool:
        """Say whether what was asked for then (a time; None: nobody knows when) was written to since."""
        written = self._written.get(asked.place) if asked.place is not None else None
        return written is not None and (since is None or since <= written)

    def adopt(self, store: SharedStore | None, service: Remote | None) -> None:
        """Put other places in the place of those outside, which are closed unless they stay."""
        for old, new in ((self.store, store), (self.service, service)):
            if old is not None and old is not new:
                old.close()
        self.store, self.service = store, service

    def attend(self) -> None:
        """See to what time and a reload bring: what is of no use any more, and a bound that has become smaller."""
        self._memory.trim(self.clock(), self.policy().bytes)

    def close(self) -> None:
        """Let go of everything."""
        self.adopt(None, None)
        self._memory.clear()


def _means_something(asked: Asked, use: CacheUse) -> bool:
    return use.semantic is not None and asked.text is not None and asked.partition is not None
