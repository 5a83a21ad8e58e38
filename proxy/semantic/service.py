"""Finding and keeping: what both requests do, once they have been read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from proxy.semantic.agreement import REASONS as DISAGREEMENTS
from proxy.semantic.agreement import WORDS_DIFFER, Verdict, agree
from proxy.semantic.embeddings import Embeddings, Vector, direction
from proxy.semantic.reading.facts import Facts, read
from proxy.semantic.shelf import Kept, Shelf
from proxy.semantic.worker import Worker

LOOKED_AT: Final = 16
"""How many of the nearest are compared. The nearest of all may be the same question with another number in it."""
WORDS_ALIKE: Final = 0.4
"""How much the words that only one of two texts has must be alike. Chosen for the local embeddings: docs/cache.md."""

NOTHING_KEPT: Final = "nothing kept"
BELOW: Final = "below the threshold"
NO_MEANING: Final = "the text has no words"
REASONS: Final = (NOTHING_KEPT, BELOW, NO_MEANING, *DISAGREEMENTS)
"""All that a `Missed` can say."""

_SHORT: Final = 512
"""Characters of a text that is read and compared at once; a longer one goes to the thread."""


class Found(NamedTuple):
    """A kept answer: its encoded entry, how long it has been kept (nanoseconds), and the text that it was kept for."""

    entry: bytes
    age: int
    similarity: float
    text: str


class Missed(NamedTuple):
    """There is none, and why not; `nearest`: how similar the most similar text is, None where there is none."""

    nearest: float | None
    why: str


class Service:
    """All that is kept, and who compares texts. `clock`: monotonic nanoseconds."""

    def __init__(
        self,
        embeddings: Embeddings,
        shelf: Shelf,
        worker: Worker,
        clock: Callable[[], int],
        words_alike: float = WORDS_ALIKE,
    ) -> None:
        """Take the parts."""
        self._embeddings = embeddings
        self._shelf = shelf
        self._worker = worker
        self._clock = clock
        self._words_alike = words_alike

    async def find(self, partition: str, text: str, threshold: float) -> Found | Missed:
        """Look for the answer to a text that means the same. Raises EmbeddingsFailed and Busy."""
        facts, vector = await self._study(text)
        if vector is None:
            return Missed(None, NO_MEANING)
        near = self._shelf.nearest(partition, vector, LOOKED_AT, self._clock())
        if not near:
            return Missed(None, NOTHING_KEPT)
        close = [(kept, similarity) for kept, similarity in near if similarity >= threshold]
        if not close:
            return Missed(near[0][1], BELOW)
        verdicts = await self._compare(text, facts, [kept for kept, _ in close])
        place = await self._first_alike(verdicts)
        if place is None:
            return Missed(near[0][1], WORDS_DIFFER if verdicts[0].agrees else verdicts[0].why)
        kept, similarity = close[place]
        self._shelf.touch(kept)
        return Found(kept.entry, self._clock() - kept.since, similarity, kept.text)

    async def keep(self, partition: str, text: str, entry: bytes, span: int) -> bool:
        """Keep an answer for so long (nanoseconds). Say whether it was kept. Raises EmbeddingsFailed and Busy."""
        facts, vector = await self._study(text)
        if vector is None:
            return False
        return self._shelf.put(partition, text, facts, vector, entry, self._clock(), span)

    async def _study(self, text: str) -> tuple[Facts, Vector | None]:
        """Return what a text says, and where it points: half of it the text as it stands, half of it its matter alone.

        Two ways to ask for one thing are alike in their matter, more than in their form.
        """
        facts = read(text) if len(text) <= _SHORT else await self._worker.run(lambda: read(text))
        texts = [text, facts.matter] if facts.matter not in ("", text) else [text]
        vectors = [vector for vector in await self._embeddings.embed(texts) if vector is not None]
        return facts, direction(sum(vectors[1:], vectors[0])) if vectors else None

    async def _compare(self, text: str, facts: Facts, others: Sequence[Kept]) -> list[Verdict]:
        """Compare a text with each of some kept ones."""

        def compare() -> list[Verdict]:
            return [agree(facts, kept.facts) for kept in others]

        longest = max(len(text), *(len(kept.text) for kept in others))
        return compare() if longest <= _SHORT else await self._worker.run(compare)

    async def _first_alike(self, verdicts: list[Verdict]) -> int | None:
        """Return the first comparison whose texts mean the same: they agree, and so do the words that differ."""
        sure = next((at for at, verdict in enumerate(verdicts) if verdict.agrees and not verdict.asked), None)
        doubtful = [at for at, verdict in enumerate(verdicts[:sure]) if verdict.agrees]
        if doubtful:
            pairs = [words for at in doubtful for words in (verdicts[at].asked, verdicts[at].kept)]
            vectors = await self._embeddings.embed([" ".join(words) for words in pairs])
            for number, at in enumerate(doubtful):
                if self._near(vectors[2 * number], vectors[2 * number + 1]):
                    return at
        return sure

    def _near(self, one: Vector | None, other: Vector | None) -> bool:
        return one is not None and other is not None and float(one @ other) >= self._words_alike
