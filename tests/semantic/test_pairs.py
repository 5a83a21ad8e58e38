"""On pairs of texts that people might write, agreeing answers far fewer wrong questions than the similarity alone.

The floors are held by both halves. The lists of words and the thresholds were chosen by looking at the development half only.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from bench.semantic.command import floors
from bench.semantic.pairs import (
    DEVELOPMENT,
    HALVES,
    HELD_OUT,
    PAIRS,
    RECOMMENDED,
    WRITTEN,
    Judged,
    judge,
    pairs,
    table,
)
from proxy.semantic.embeddings.local import LocalEmbeddings

LINES: list[dict[str, Any]] = [json.loads(line) for line in PAIRS.read_text().splitlines()]


def test_halves_are_told_by_a_rule() -> None:
    """Pairs that mean the same, and pairs that do not, are numbered by themselves; the odd ones are for development."""
    for same, letter in ((True, "s"), (False, "d")):
        numbers = [line["id"] for line in LINES if line["same"] is same]
        assert numbers == [f"{letter}{number:03}" for number in range(1, len(numbers) + 1)]
    for line in LINES:
        assert line["half"] == (DEVELOPMENT if int(line["id"][1:]) % 2 else HELD_OUT)


def test_pairs_are_many_balanced_and_of_many_kinds() -> None:
    assert len(LINES) >= 240
    assert 0.45 < sum(line["same"] for line in LINES) / len(LINES) < 0.55
    domains, languages, kinds = (
        Counter(line[name] for line in LINES) for name in ("domain", "language", "kind")
    )
    assert len(domains) >= 10
    assert min(domains.values()) >= 15
    assert languages.keys() == {"en", "de", "fr", "es"}
    assert len(kinds) >= 20
    texts = [(line["asked"], line["kept"]) for line in LINES]
    assert len(set(texts)) == len(texts)
    assert all(asked != kept for asked, kept in texts)


@pytest.fixture(scope="module")
def rows(local: LocalEmbeddings) -> dict[tuple[str, str], Judged]:
    """What each rule has made of each half."""
    return {(row.half, row.rule): row for row in asyncio.run(judge(pairs(), local))}


@pytest.mark.parametrize("half", HALVES)
def test_agreeing_is_right_where_the_similarity_alone_is_not(
    rows: dict[tuple[str, str], Judged], half: str
) -> None:
    """And it answers more of what might be answered, at the usual threshold as at the recommended one."""
    bare = rows[half, f"similarity alone, {WRITTEN:g}"]
    ours = rows[half, f"agreeing, {RECOMMENDED:g}"]
    strict = rows[half, f"agreeing, {WRITTEN:g}"]
    assert ours.precision >= 0.95
    assert strict.precision >= 0.95
    assert bare.precision < 0.7, "the pairs are hard, or the floors above say nothing"
    assert ours.recall >= strict.recall > bare.recall
    assert (strict.recall, ours.recall) >= (0.5, 0.55)
    assert ours.f1 > max(row.f1 for (of, rule), row in rows.items() if of == half and "alone" in rule)


def test_every_pair_is_judged(rows: dict[tuple[str, str], Judged]) -> None:
    for (half, _), row in rows.items():
        same = sum(line["same"] for line in LINES if line["half"] == half)
        assert row.right + row.missed == same


def test_what_is_promised_is_judged_by_what_was_measured(rows: dict[tuple[str, str], Judged]) -> None:
    """And the table shows every row."""
    assert all(floor.met for floor in floors(list(rows.values()), None))
    assert len(table(list(rows.values()), pairs()).rows) == len(rows)
