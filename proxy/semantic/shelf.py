"""What is kept: answers by partition and text, within bounds of bytes, entries and time.

What was used longest ago goes first. One partition may have a quarter of the bytes and no more entries than can be searched
soon, so that one caller cannot push all others out. Times are monotonic nanoseconds; how long an answer is of use is a span
from its arrival on, and no clock of another machine is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof
from typing import Final, NamedTuple

from proxy.semantic.embeddings import Vector
from proxy.semantic.index import Index
from proxy.semantic.reading.facts import Facts
from proxy.semantic.reading.weight import weight

PARTITION_SHARE: Final = 4
"""A partition may have this part of the bytes."""
_ENTRY: Final = 500
"""Bytes that an entry takes beside its answer, its text, its vector and what was read of the text: places in three lists."""
_PARTITION: Final = 1_100
"""Bytes that a partition takes beside its name, its vectors and its entries."""


class Bounds(NamedTuple):
    """How much is kept. `entries`: in all; `partition_entries`: in one partition."""

    bytes: int
    entries: int
    partition_entries: int


@dataclass(slots=True)
class Kept:
    """One kept answer. `since` and `until`: when it came, and when it is of no more use. `row`: of its partition's index."""

    partition: Partition
    text: str
    facts: Facts
    entry: bytes
    since: int
    until: int
    row: int
    size: int


class Partition:
    """What is kept for one route, model, prompt and caller."""

    __slots__ = ("by_row", "by_text", "index", "name", "used")

    def __init__(self, name: str, numbers: int) -> None:
        """Start empty, with room for one vector."""
        self.name = name
        self.index = Index(numbers)
        self.by_text: OrderedDict[str, Kept] = OrderedDict()  # what was used longest ago first
        self.by_row: list[Kept] = []
        self.used = 0  # bytes of the entries

    @property
    def bytes(self) -> int:
        """How many bytes it takes with all that is in it."""
        return _PARTITION + getsizeof(self.name) + self.index.bytes + self.used


class Shelf:
    """All partitions. `evicted` is told why an answer has gone: `bytes`, `entries`, `expired` or `replaced`."""

    def __init__(self, bounds: Bounds, evicted: Callable[[str], None]) -> None:
        """Start empty."""
        self._bounds = bounds
        self._evicted = evicted
        self._partitions: dict[str, Partition] = {}
        self._all: OrderedDict[int, Kept] = OrderedDict()  # by identity; what was used longest ago first
        self.used = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self._partitions)

    def put(
        self, name: str, text: str, facts: Facts, vector: Vector, entry: bytes, now: int, span: int
    ) -> bool:
        """Keep an answer, in the place of one to the same text. Say whether it was: one may be too large for its share."""
        size = _ENTRY + getsizeof(entry) + getsizeof(text) + weight(facts)
        first = _PARTITION + getsizeof(name) + int(vector.nbytes)
        if first + size > self._bounds.bytes // PARTITION_SHARE:
            return False
        partition = self._partitions.get(name)
        if partition is not None and partition.index.numbers != len(
            vector
        ):  # another model makes the vectors now
            for kept in list(partition.by_row):
                self._drop(kept, "replaced")
            partition = None
        if partition is not None and text in partition.by_text:
            self._drop(partition.by_text[text], "replaced")
        self._make_room(name, size, first)
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = Partition(name, len(vector))
            self.used += first
        self.used += partition.index.growth
        kept = Kept(partition, text, facts, entry, now, now + span, partition.index.add(vector), size)
        partition.by_row.append(kept)
        partition.by_text[text] = kept
        partition.used += size
        self._all[id(kept)] = kept
        self.used += size
        return True

    def nearest(self, name: str, vector: Vector, count: int, now: int) -> list[tuple[Kept, float]]:
        """Return what is nearest in a partition, the nearest first, with its similarity; nothing that is of no more use."""
        while True:
            partition = self._partitions.get(name)
            if partition is None or partition.index.numbers != len(vector):
                return []
            rows = partition.index.nearest(vector, count)
            found = [(partition.by_row[row], similarity) for row, similarity in rows]
            if all(kept.until > now for kept, _ in found):
                return found
            # All that is old at once: a search costs more than to look at each, and the next one might find old ones again.
            for kept in [each for each in partition.by_row if each.until <= now]:
                self._drop(kept, "expired")

    def touch(self, kept: Kept) -> None:
        """Take note that an answer was used just now."""
        if id(kept) in self._all:
            self._all.move_to_end(id(kept))
            kept.partition.by_text.move_to_end(kept.text)

    def sweep(self, now: int) -> None:
        """Drop all that is of no more use."""
        for kept in [each for each in self._all.values() if each.until <= now]:
            self._drop(kept, "expired")

    def _make_room(self, name: str, size: int, first: int) -> None:
        """Drop what has to go for an entry of this size; `first`: what a partition takes more when it is the first in it."""
        bounds = self._bounds
        while (partition := self._partitions.get(name)) is not None and (
            len(partition.by_row) >= bounds.partition_entries
            or partition.bytes + partition.index.growth + size > bounds.bytes // PARTITION_SHARE
        ):
            self._drop(
                next(iter(partition.by_text.values())),
                "entries" if len(partition.by_row) >= bounds.partition_entries else "bytes",
            )
        while self._all and (
            len(self._all) >= bounds.entries or self.used + size + self._more(name, first) > bounds.bytes
        ):
            self._drop(
                next(iter(self._all.values())), "entries" if len(self._all) >= bounds.entries else "bytes"
            )

    def _more(self, name: str, first: int) -> int:
        partition = self._partitions.get(name)
        return first if partition is None else partition.index.growth

    def _drop(self, kept: Kept, why: str) -> None:
        partition = kept.partition
        before = partition.bytes
        partition.index.remove(kept.row)
        last = partition.by_row.pop()
        if last is not kept:
            partition.by_row[kept.row] = last
            last.row = kept.row
        del partition.by_text[kept.text]
        del self._all[id(kept)]
        partition.used -= kept.size
        self.used -= before - partition.bytes
        if not partition.by_row:
            self.used -= partition.bytes
            del self._partitions[partition.name]
        self._evicted(why)
