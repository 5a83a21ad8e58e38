"""Vectors of 256 numbers, made in this process by WordLlama, whose weights and tokenizer are in its wheel.

A text is the mean of its tokens: it costs some 0.1 ms, and two texts of the same words in another order are one vector.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy.semantic.embeddings import EmbeddingsFailed, Vector, direction
from proxy.semantic.worker import Worker

if TYPE_CHECKING:
    from wordllama import WordLlamaInference

_SHORT: Final = 1_024
"""Characters that are embedded at once; more go to the thread."""


class LocalEmbeddings:
    """The model, in memory: some 80 MiB."""

    def __init__(self, worker: Worker) -> None:
        """Load it. Raises EmbeddingsFailed where it is not installed whole."""
        self._worker = worker
        self._model = _load()

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return the vectors of texts. See `Embeddings`; raises `worker.Busy` too."""
        if sum(map(len, texts)) <= _SHORT:
            return self._embed(texts)
        return await self._worker.run(lambda: self._embed(texts))

    def _embed(self, texts: Sequence[str]) -> list[Vector | None]:
        # One at a time: in a batch, the longest text decides how much is computed for each. In small letters: the model knows
        # a word with a capital as another one.
        return [direction(self._model.embed(text.casefold())[0]) for text in texts]


def _load() -> WordLlamaInference:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        import wordllama
    except ImportError as error:
        raise EmbeddingsFailed(
            f"{error.name} is not installed; run: pip install 'waterclock[semantic]', or give --embeddings a URL"
        ) from error
    finally:
        # It sets up logging for the whole process when it is imported. That is ours to do.
        root.setLevel(level)
        root.handlers[:] = handlers
    folder = Path(wordllama.__file__).parent
    try:
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    except (OSError, ValueError) as error:
        raise EmbeddingsFailed(
            f"the model cannot be read from {folder} ({error}); install wordllama anew: its weights are in its wheel"
        ) from error
