"""Vectors from any place that speaks OpenAI's dialect: `POST /v1/embeddings` with a model and a list of texts.

What comes back is read strictly, and up to a bound: as many vectors as there were texts, each in its place, all of the same
number of finite numbers.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from proxy.core.units import SECOND
from proxy.semantic.embeddings import EmbeddingsFailed, Vector, direction

MOST_ANSWER: Final = 32 * 1024 * 1024
MOST_TEXTS: Final = 64
"""How many texts go into one request."""
MOST_NUMBERS: Final = 16_384
"""How many numbers a vector may have."""
_SHOWN: Final = 200


def endpoint(url: str) -> str:
    """Return where to send texts: a URL that names no path, or its beginning, is completed to `…/v1/embeddings`."""
    url = url.rstrip("/")
    if url.endswith("/embeddings"):
        return url
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest}{'/embeddings' if '/' in rest else '/v1/embeddings'}"


class RemoteEmbeddings:
    """A place that is asked for vectors. `key` goes there as a bearer token; `timeout`: nanoseconds for one request."""

    def __init__(self, url: str, model: str, key: str | None, timeout: int) -> None:
        """Connect to nothing yet."""
        self.url = endpoint(url)
        self._model = model
        self._timeout = timeout
        self._key = key
        self._session: aiohttp.ClientSession | None = None

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return the vectors of texts. See `Embeddings`."""
        found: list[Vector | None] = []
        for start in range(0, len(texts), MOST_TEXTS):
            found += await self._ask(list(texts[start : start + MOST_TEXTS]))
        return found

    async def close(self) -> None:
        """Let go of all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, texts: list[str]) -> list[Vector | None]:
        if self._session is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._session = aiohttp.ClientSession(headers=headers, auto_decompress=True)
        question = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            async with (
                asyncio.timeout(self._timeout / SECOND),
                self._session.post(self.url, json=question, allow_redirects=False) as answer,
            ):
                body = await _bounded(answer)
                status = answer.status
        except TimeoutError:
            raise EmbeddingsFailed(
                f"{self.url} did not answer in time; raise --timeout, or ask another place"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EmbeddingsFailed(
                f"{self.url} cannot be asked ({type(error).__name__}: {error}); correct --embeddings"
            ) from error
        if status != 200:
            said = body[:_SHOWN].decode("utf-8", "replace")
            raise EmbeddingsFailed(f"{self.url} answered {status}: {said!r}; check --model and the key")
        try:
            return _vectors(json.loads(body), len(texts))
        except (ValueError, RecursionError) as error:
            raise EmbeddingsFailed(
                f"{self.url} does not answer as /v1/embeddings does ({error}); correct --embeddings"
            ) from error


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > MOST_ANSWER:
            raise ValueError(f"the answer is longer than {MOST_ANSWER} bytes")
    return bytes(body)


def _vectors(document: Any, count: int) -> list[Vector | None]:
    """Return the vectors of an answer, in the order of the texts. Raises ValueError with what is wrong."""
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, list) or len(data) != count:
        raise ValueError(f"data is no list of {count}")
    found: dict[int, list[float]] = {}
    for place, one in enumerate(data):
        index = one.get("index", place) if isinstance(one, dict) else None
        if type(index) is not int or not 0 <= index < count or index in found:
            raise ValueError(f"data[{place}].index is not the place of a text")
        found[index] = _numbers(one.get("embedding"), place)
    if len({len(vector) for vector in found.values()}) > 1:
        raise ValueError("the vectors are not of one length")
    return [direction(found[place]) for place in range(count)]


def _numbers(values: Any, place: int) -> list[float]:
    if not isinstance(values, list) or not 0 < len(values) <= MOST_NUMBERS:
        raise ValueError(f"data[{place}].embedding is no list of 1 to {MOST_NUMBERS} numbers")
    if not all(map(_is_number, values)):
        raise ValueError(f"data[{place}].embedding holds what is no number")
    return values


def _is_number(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # of hundreds of digits
        return False
