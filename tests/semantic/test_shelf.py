"""What is kept stays within its bounds, is found by who asks in its partition and by nobody else, and goes when it is old."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import MINUTE, SECOND
from proxy.semantic.embeddings import Vector, direction
from proxy.semantic.index import Index
from proxy.semantic.reading.facts import read
from proxy.semantic.shelf import PARTITION_SHARE, Bounds
from tests.semantic.shelves import Shop, at_angle, exact, towards

# -- vectors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers", [[0, 0], [float("nan"), 1], [float("inf"), 1], [1e200, 1e200], [1e-30, 0]]
)
def test_what_has_no_direction_is_no_vector(numbers: list[float]) -> None:
    assert direction(numbers) is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8))
def test_a_vector_has_length_one(numbers: list[float]) -> None:
    vector = direction(numbers)
    assert vector is None or abs(float(np.linalg.norm(vector)) - 1) < 1e-3


VECTORS = st.floats(0, 359).map(at_angle)


@given(st.lists(VECTORS, max_size=40), st.lists(st.integers(0, 39), max_size=60), VECTORS, st.integers(1, 20))
def test_the_nearest_are_found_whatever_was_removed(
    vectors: list[Vector], removed: list[int], query: Vector, count: int
) -> None:
    """As if each were compared by hand: nothing is passed over, and nothing that has gone is found."""
    index = Index(2)
    rows: list[Vector] = []
    for vector in vectors:
        assert index.add(vector) == len(rows)
        rows.append(vector)
    for place in removed:
        if place < len(rows):
            index.remove(place)
            last = rows.pop()
            if place < len(rows):
                rows[place] = last
    found = index.nearest(query, count)
    assert len(index) == len(rows)
    assert [similarity for _, similarity in found] == pytest.approx(exact(rows, query, count), abs=1e-3)
    assert all(float(rows[row] @ query) == pytest.approx(similarity, abs=1e-3) for row, similarity in found)


def test_rows_that_are_not_needed_any_more_are_given_back() -> None:
    index = Index(4)
    small = index.bytes
    for _ in range(1_000):
        index.add(towards(1, 0, 0, 0))
    assert index.bytes > 50 * small
    for row in reversed(range(1_000)):
        index.remove(row)
    assert index.bytes < 8 * small


# -- the shelf -------------------------------------------------------------------------------------------------------


def test_the_nearest_of_a_partition_come_in_order() -> None:
    shop = Shop()
    for angle in (40, 0, 20):
        shop.put("p", f"at {angle}", at_angle(angle))
    assert shop.texts("p", at_angle(1)) == ["at 0", "at 20", "at 40"]
    assert shop.texts("p", at_angle(1), count=1) == ["at 0"]
    assert shop.texts("q", at_angle(1)) == []


def test_what_is_of_no_more_use_is_not_found_and_goes() -> None:
    shop = Shop()
    shop.put("p", "old", at_angle(0), span=SECOND)
    shop.put("p", "new", at_angle(30), span=MINUTE)
    assert shop.texts("p", at_angle(0), count=1, now=SECOND) == ["new"]
    assert (len(shop.shelf), shop.evicted["expired"]) == (1, 1)
    shop.shelf.sweep(MINUTE)
    assert (len(shop.shelf), shop.shelf.used, shop.shelf.partitions) == (0, 0, 0)


def test_all_that_is_old_in_a_partition_goes_in_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    nearest = Index.nearest

    def counted(index: Index, vector: Vector, count: int) -> list[tuple[int, float]]:
        searches.append(len(index))
        return nearest(index, vector, count)

    monkeypatch.setattr(Index, "nearest", counted)
    shop = Shop()
    for number in range(500):
        shop.put("p", f"old {number}", at_angle(number % 10), span=SECOND)
    shop.put("p", "new", at_angle(90))
    shop.put("q", "old", at_angle(0), span=SECOND)
    assert shop.texts("p", at_angle(0), now=SECOND) == ["new"]
    assert searches == [501, 1]
    assert (len(shop.shelf), shop.evicted) == (2, {"expired": 500})


def test_a_text_has_one_answer_the_last() -> None:
    shop = Shop()
    shop.put("p", "a", at_angle(0), entry=b"first")
    shop.put("p", "a", at_angle(0), entry=b"second")
    [(kept, _)] = shop.shelf.nearest("p", at_angle(0), 5, 0)
    assert (kept.entry, shop.evicted) == (b"second", {"replaced": 1})


def test_what_was_used_longest_ago_goes_first() -> None:
    shop = Shop(Bounds(64 << 20, 3, 3))
    for name in ("a", "b", "c"):
        shop.put("p", name, at_angle(0))
    [kept] = [kept for kept, _ in shop.shelf.nearest("p", at_angle(0), 5, 0) if kept.text == "a"]
    shop.shelf.touch(kept)
    shop.put("p", "d", at_angle(0))
    assert sorted(shop.texts("p", at_angle(0))) == ["a", "c", "d"]
    assert shop.evicted == {"entries": 1}


def test_one_partition_cannot_push_all_others_out() -> None:
    shop = Shop(Bounds(1 << 20, 1_000, 50))
    shop.put("quiet", "a", at_angle(0))
    for number in range(500):
        shop.put("loud", f"text {number}", at_angle(0), entry=b"x" * 1_000)
    assert shop.texts("quiet", at_angle(0)) == ["a"]
    assert len(shop.shelf) <= 51
    assert shop.shelf.used <= (1 << 20) // PARTITION_SHARE + 10_000


def test_an_answer_larger_than_its_share_is_not_kept() -> None:
    shop = Shop(Bounds(1 << 20, 100, 100))
    shop.put("p", "small", at_angle(0))
    assert not shop.put("p", "large", at_angle(0), entry=b"x" * (1 << 18))
    assert shop.texts("p", at_angle(0)) == ["small"]


LONG_TEXTS = {
    "identifiers": " ".join(f"{letter}{number}" for letter in "abcdefghij" for number in range(100)),
    "characters of four bytes": "".join(f"{chr(0x10400 + at % 40)} " for at in range(2_000)),
    "emoji": "".join(f"{chr(0x1F600 + at % 40)} " for at in range(2_000)),
    "one word": "a" * 4_000,
    "numbers": " ".join(str(7_919 * at) for at in range(500)),
}


def counted_and_taken(texts: list[str], numbers: int) -> float:
    """How much is counted for texts, each in a partition of its own, in parts of what they take."""
    vector = towards(*range(1, numbers + 1))
    read("loads what is loaded once")
    tracemalloc.start()
    try:
        shop = Shop(Bounds(1 << 34, 50_000, 50_000))
        for number, text in enumerate(texts):
            shop.put(f"p{number}", f"{text} {number}", vector, entry=bytes(300 + number % 2), span=number + 1)
        return shop.shelf.used / tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("count", "numbers"), [(20_000, 256), (1_000, 3_072)])
def test_many_partitions_take_no_more_than_is_counted(count: int, numbers: int) -> None:
    assert 1 <= counted_and_taken(["hello"] * count, numbers) <= 1.3


@pytest.mark.parametrize("what", LONG_TEXTS)
def test_long_texts_take_no_more_than_is_counted(what: str) -> None:
    assert 1 <= counted_and_taken([LONG_TEXTS[what]] * 30, 256) <= 1.35


def test_another_model_begins_anew() -> None:
    """Vectors of another length cannot be compared with those that were kept."""
    shop = Shop()
    shop.put("p", "a", towards(1, 0))
    assert shop.texts("p", towards(1, 0, 0)) == []
    shop.put("p", "b", towards(1, 0, 0))
    assert shop.texts("p", towards(1, 0, 0)) == ["b"]
    assert shop.texts("p", towards(1, 0)) == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "find", "sweep", "touch"]),
        st.sampled_from(["p", "q", "r"]),
        st.integers(0, 12),
        st.integers(0, 3_000),
        st.integers(1, 20),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 12), st.integers(1, 12))
def test_partitions_never_meet_and_bounds_hold(
    steps: list[tuple[str, str, int, int, int]], entries: int, partition_entries: int
) -> None:
    """Whatever is done, in whatever order: each text names its partition, and is found in no other."""
    bounds = Bounds(120_000, entries, partition_entries)
    shop = Shop(bounds)
    shelf = shop.shelf
    for now, (what, name, number, size, span) in enumerate(steps):
        if what == "put":
            shop.put(name, f"{name} {number}", at_angle(number * 7), entry=b"x" * size, now=now, span=span)
        elif what == "sweep":
            shelf.sweep(now)
        else:
            found = shelf.nearest(name, at_angle(number * 7), 20, now)
            assert all(kept.text.startswith(f"{name} ") and kept.until > now for kept, _ in found)
            assert all(kept.partition.name == name for kept, _ in found)
            if what == "touch" and found:
                shelf.touch(found[0][0])
        partitions = list(shelf._partitions.values())
        assert len(shelf) == sum(len(partition.by_row) for partition in partitions) <= entries
        assert shelf.used == sum(partition.bytes for partition in partitions) <= bounds.bytes
        for partition in partitions:
            assert (
                0
                < len(partition.by_row)
                == len(partition.index)
                == len(partition.by_text)
                <= partition_entries
            )
            assert [kept.row for kept in partition.by_row] == list(range(len(partition.by_row)))
            assert partition.used == sum(kept.size for kept in partition.by_row)
            assert partition.bytes <= bounds.bytes // PARTITION_SHARE
