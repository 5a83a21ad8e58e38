"""What the semantic cache is worth: pairs of texts, and what each rule makes of them.

Of pairs of texts (`tests/semantic/pairs.jsonl`) each is asked for where the other was kept, with local embeddings. An
answer is right where the pair means the same, and wrong where it does not. Beside it stands what the similarity alone would
have answered. The lists of words and the thresholds were made with one half of the pairs, the development half; the other
half was held out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import report
from bench.report import MIB

if TYPE_CHECKING:
    from proxy.semantic.embeddings import Embeddings

PAIRS: Final = Path(__file__).parent.parent.parent / "tests/semantic/pairs.jsonl"
DEVELOPMENT: Final = "development"
HELD_OUT: Final = "held-out"
HALVES: Final = (DEVELOPMENT, HELD_OUT)

WRITTEN: Final = 0.92
"""The threshold that a rung usually has."""
RECOMMENDED: Final = 0.8


@dataclass(frozen=True)
class Pair:
    id: str
    half: str
    same: bool
    asked: str
    kept: str


@dataclass
class Judged:
    """What a rule has answered: rightly, wrongly, and where it had nothing to say though it might have."""

    half: str
    rule: str
    right: int = 0
    wrong: int = 0
    missed: int = 0

    def add(self, same: bool, answered: bool) -> None:
        self.right += same and answered
        self.wrong += answered and not same
        self.missed += same and not answered

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def pairs(path: Path = PAIRS) -> list[Pair]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [Pair(**{name: line[name] for name in Pair.__annotations__}) for line in lines]


async def judge(every: Sequence[Pair], embeddings: Embeddings) -> list[Judged]:
    """The rows of the table. The best bare threshold is the one with the best F1 on the development half."""
    similarities = {pair.id: await similarity(pair, embeddings) for pair in every}
    steps = [step / 100 for step in range(40, 100)]
    best = max(steps, key=lambda step: bare(every, similarities, DEVELOPMENT, step).f1)
    rows: list[Judged] = []
    for half in HALVES:
        rows += [bare(every, similarities, half, WRITTEN), bare(every, similarities, half, best, "best ")]
        for threshold in (WRITTEN, RECOMMENDED):
            row = Judged(half, f"agreeing, {threshold:g}")
            for pair in every:
                if pair.half == half:
                    row.add(pair.same, await finds(pair, threshold, embeddings))
            rows.append(row)
    return rows


async def similarity(pair: Pair, embeddings: Embeddings) -> float:
    one, other = await embeddings.embed([pair.asked, pair.kept])
    assert one is not None
    assert other is not None
    return float(one @ other)


def bare(
    every: Sequence[Pair], similarities: dict[str, float], half: str, threshold: float, what: str = ""
) -> Judged:
    row = Judged(half, f"similarity alone, {what}{threshold:g}")
    for pair in every:
        if pair.half == half:
            row.add(pair.same, similarities[pair.id] >= threshold)
    return row


async def finds(pair: Pair, threshold: float, embeddings: Embeddings) -> bool:
    """Whether the service answers one text with what it has kept for the other."""
    from proxy.semantic.service import Found, Service
    from proxy.semantic.shelf import Bounds, Shelf
    from proxy.semantic.worker import Worker

    shelf = Shelf(Bounds(64 * MIB, 10, 10), lambda _: None)
    service = Service(embeddings, shelf, Worker(), time.monotonic_ns)
    await service.keep("p", pair.kept, b"answer", 10**12)
    return isinstance(await service.find("p", pair.asked, threshold), Found)


def table(rows: Sequence[Judged], every: Sequence[Pair]) -> report.Table:
    columns = ["half", "rule", "right", "wrong", "missed", "precision", "recall", "F1"]
    cells = [
        [row.half, row.rule, str(row.right), str(row.wrong), str(row.missed)]
        + [f"{value:.3f}" for value in (row.precision, row.recall, row.f1)]
        for row in rows
    ]
    same = sum(pair.same for pair in every)
    return report.Table(
        f"{len(every)} pairs, {same} of which mean the same; local embeddings", columns, cells
    )
