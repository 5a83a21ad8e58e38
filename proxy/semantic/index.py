"""The vectors of one partition, and which of them are nearest to another.

usearch compares with every one of them, exactly: some 0.13 ms for a thousand vectors of 256 numbers, and 1.2 ms for ten
thousand, which is as many as a partition may have. A graph would be faster from there on, and would miss some.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from usearch.compiled import MetricKind
from usearch.index import search

from proxy.semantic.embeddings import Vector

_FIRST_ROWS: Final = 1  # most partitions have one entry, and a row is a kibibyte or twelve


class Index:
    """Vectors in rows without gaps: where one is removed, the last one takes its place."""

    def __init__(self, numbers: int) -> None:
        """Start empty. `numbers`: how many each vector has."""
        self.numbers = numbers
        self._rows = np.empty((_FIRST_ROWS, numbers), dtype=np.float32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """How many bytes the rows take, those to come included."""
        return int(self._rows.nbytes)

    @property
    def growth(self) -> int:
        """How many bytes more one more vector takes."""
        return int(self._rows.nbytes) if self._count == len(self._rows) else 0

    def add(self, vector: Vector) -> int:
        """Put a vector in, and return its row."""
        if self._count == len(self._rows):
            self._resize(2 * self._count)
        self._rows[self._count] = vector
        self._count += 1
        return self._count - 1

    def remove(self, row: int) -> None:
        """Take a row out. The last row stands in its place then."""
        self._count -= 1
        self._rows[row] = self._rows[self._count]
        if _FIRST_ROWS < 4 * self._count <= len(self._rows):
            self._resize(len(self._rows) // 2)

    def nearest(self, vector: Vector, count: int) -> list[tuple[int, float]]:
        """Return the nearest rows, the nearest first, each with its cosine similarity (-1 to 1)."""
        if not self._count:
            return []
        matches = search(
            self._rows[: self._count], vector, min(count, self._count), MetricKind.Cos, exact=True, threads=1
        )
        return [
            (int(row), max(-1.0, min(1.0, 1.0 - float(distance))))
            for row, distance in zip(matches.keys, matches.distances, strict=True)
        ]

    def _resize(self, rows: int) -> None:
        resized = np.empty((rows, self.numbers), dtype=np.float32)
        resized[: self._count] = self._rows[: self._count]
        self._rows = resized
