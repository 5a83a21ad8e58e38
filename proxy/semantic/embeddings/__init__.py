"""Texts as vectors, by whoever can: one method, and one small file for each who has it.

`local` computes them in this process, without a network and without a download. `remote` asks any place that speaks OpenAI's
`/v1/embeddings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]
"""A direction: its length is 1, so that the product of two is the cosine of the angle between them."""


_SHORTEST: Final = 1e-12


class EmbeddingsFailed(Exception):
    """No vectors were to be had. The message says why, and what helps."""


class Embeddings(Protocol):
    """Makes vectors of texts."""

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return a vector for each text, None for one that has no direction. Raises EmbeddingsFailed."""


def direction(values: npt.ArrayLike) -> Vector | None:
    """Return numbers as a vector of length 1; None for those that are no direction (all zero, infinite, not a number)."""
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.asarray(values, dtype=np.float64)
        length = float(np.linalg.norm(numbers))
        return (numbers / length).astype(np.float32) if _SHORTEST < length < float("inf") else None
