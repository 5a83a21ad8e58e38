"""Shelves, answers and vectors as the tests of the semantic cache make them."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from proxy.core.units import HOUR, MINUTE
from proxy.degrade.cache.entry import Entry, encode
from proxy.semantic.embeddings import EmbeddingsFailed, Vector, direction
from proxy.semantic.reading.facts import read
from proxy.semantic.service import Service
from proxy.semantic.shelf import Bounds, Shelf
from proxy.semantic.worker import Worker

ROOMY = Bounds(64 << 20, 1_000, 1_000)
ENTRY = Entry(200, ((b"Content-Type", b"text/plain"),), b"yes", 0, HOUR, None, HOUR)
ENCODED = encode(ENTRY)


def towards(*numbers: float) -> Vector:
    """A vector of length 1."""
    vector = direction(numbers)
    assert vector is not None
    return vector


def at_angle(degrees: float) -> Vector:
    """A vector in the plane."""
    return towards(math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))


class Shop:
    """A shelf, and what it says has gone."""

    def __init__(self, bounds: Bounds = ROOMY) -> None:
        self.evicted: Counter[str] = Counter()
        self.shelf = Shelf(bounds, self._gone)

    def _gone(self, why: str) -> None:
        self.evicted[why] += 1

    def put(
        self,
        name: str,
        text: str,
        vector: Vector,
        *,
        entry: bytes = b"entry",
        now: int = 0,
        span: int = MINUTE,
    ) -> bool:
        return self.shelf.put(name, text, read(text), vector, entry, now, span)

    def texts(self, name: str, vector: Vector, count: int = 16, now: int = 0) -> list[str]:
        return [kept.text for kept, _ in self.shelf.nearest(name, vector, count, now)]


class Stub:
    """Embeddings from a table: what is not in it has none. `asked`: all that it was asked for."""

    def __init__(self, **angles: float) -> None:
        self.angles = {name.replace("_", " "): angle for name, angle in angles.items()}
        self.asked: list[list[str]] = []
        self.fails = False

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self.asked.append(list(texts))
        if self.fails:
            raise EmbeddingsFailed("there are none today; come again tomorrow")
        angles = (self.angles.get(text) for text in texts)
        return [None if angle is None else at_angle(angle) for angle in angles]


class Clock:
    """A monotonic clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def serving(embeddings: Any, worker: Worker, shop: Shop | None = None, clock: Clock | None = None) -> Service:
    """A service with these parts."""
    shop = shop if shop is not None else Shop()
    return Service(embeddings, shop.shelf, worker, clock if clock is not None else Clock())


def keep_body(text: str, partition: str = "p", **more: Any) -> dict[str, Any]:
    """What a sidecar sends to have an answer kept."""
    entry = base64.b64encode(ENCODED).decode()
    return {"partition": partition, "text": text, "entry": entry, "keep_ms": 60_000} | more


def find_body(text: str, partition: str = "p", **more: Any) -> dict[str, Any]:
    """What a sidecar sends to find one."""
    return {"partition": partition, "text": text, "threshold": 0.8} | more


def exact(vectors: Sequence[Vector], query: Vector, count: int) -> list[float]:
    """The similarities of the nearest vectors, worked out by hand."""
    return sorted((float(np.dot(vector, query)) for vector in vectors), reverse=True)[:count]
