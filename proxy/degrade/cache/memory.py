"""Entries in the memory of this process, within a bound of bytes: what was not asked for longest goes first.

What is counted is what the interpreter has allocated for an entry, and not only what the entry says: a small answer has
more bytes of fields, names and books around it than of its own.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from sys import getsizeof
from typing import Final, NamedTuple

from proxy.degrade.cache.entry import Entry

# What the books take for an entry beside its own objects: its places in two dicts, which are grown by doubling, and in
# the heap. Measured.
_BOOKS: Final = 400
_PLACE: Final = 340
_SPARE: Final = 64
"""How many outdated items the heap may have beside one for each entry before it is made anew."""


class _Kept(NamedTuple):
    entry: Entry
    since: int
    until: int
    weight: int
    place: str | None


class Memory:
    """Entries by the keys of their requests. Times are nanoseconds of one monotonic clock, given as `now`."""

    __slots__ = ("_due", "_kept", "_places", "used")

    def __init__(self) -> None:
        """Start with nothing."""
        self.used = 0
        """The bytes that all of it takes."""
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._due: list[tuple[int, str]] = []
        self._places: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str, now: int) -> tuple[Entry, int] | None:
        """Return the entry under a key, and for how long it has been there; None when there is none of use any more."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now >= kept.until:
            self.drop(key)
            return None
        self._kept.move_to_end(key)
        return kept.entry, now - kept.since

    def put(
        self, key: str, entry: Entry, now: int, bound: int, *, held: int = 0, place: str | None = None
    ) -> None:
        """Keep an entry, in place of the one under that key, and within `bound` bytes for all.

        One that would take more than that alone is not kept. `held`: how long it has been kept elsewhere already. `place`:
        the URL that it belongs to, for `forget`.
        """
        self.drop(key)
        until = now - held + entry.kept
        weight = weigh(key, entry) + (0 if place is None else _PLACE)
        if weight > bound or until <= now:
            return
        self.trim(now, bound - weight)
        self._kept[key] = _Kept(entry, now - held, until, weight, place)
        self.used += weight
        if place is not None:
            self._places.setdefault(place, set()).add(key)
        heapq.heappush(self._due, (until, key))
        if len(self._due) > 2 * len(self._kept) + _SPARE:
            self._due = [(each.until, name) for name, each in self._kept.items()]
            heapq.heapify(self._due)

    def forget(self, place: str) -> list[str]:
        """Drop all entries of a URL, and return their keys."""
        keys = list(self._places.get(place, ()))
        for key in keys:
            self.drop(key)
        return keys

    def drop(self, key: str) -> None:
        """Drop the entry under a key, if there is one."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self.used -= kept.weight
        if kept.place is not None:
            keys = self._places[kept.place]
            keys.discard(key)
            if not keys:
                del self._places[kept.place]

    def expire(self, now: int) -> None:
        """Drop the entries that are of no use to anybody any more."""
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            kept = self._kept.get(key)
            if kept is not None and kept.until <= now:
                self.drop(key)

    def trim(self, now: int, bound: int) -> None:
        """Drop what is of no use any more, and what is over the bound."""
        self.expire(now)
        self._shrink(bound)

    def clear(self) -> None:
        """Drop everything."""
        self._kept.clear()
        self._places.clear()
        self._due.clear()
        self.used = 0

    def _shrink(self, bound: int) -> None:
        while self.used > bound and self._kept:
            self.drop(next(iter(self._kept)))


def weigh(key: str, entry: Entry) -> int:
    """Return how many bytes an entry takes in memory, with all that is kept for it."""
    pairs = (*entry.fields, *entry.varies)
    return (
        _BOOKS
        + getsizeof(key)
        + getsizeof(entry)
        + getsizeof(entry.body)
        + getsizeof(entry.fields)
        + getsizeof(entry.varies)
        + sum(getsizeof(pair) + getsizeof(pair[0]) + getsizeof(pair[1]) for pair in pairs)
    )
