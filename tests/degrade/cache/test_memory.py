"""Memory holds what it may, counts what it holds, and gives up what was not asked for longest."""

from __future__ import annotations

import gc
import os
import tracemalloc

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.core.units import SECOND
from proxy.degrade.cache.entry import Entry
from proxy.degrade.cache.memory import Memory, weigh
from tests.degrade.cache.questions import kept

PLENTY = 1 << 30


def test_what_was_put_is_there_for_as_long_as_it_is_kept() -> None:
    memory, entry = Memory(), kept()
    memory.put("a", entry, 0, PLENTY)
    assert memory.get("a", 60 * SECOND - 1) == (entry, 60 * SECOND - 1)
    assert memory.get("b", 0) is None
    assert memory.get("a", 60 * SECOND) is None
    assert (len(memory), memory.used) == (0, 0)


def test_what_was_kept_elsewhere_first_has_less_time_left() -> None:
    memory = Memory()
    memory.put("a", kept(), 100 * SECOND, PLENTY, held=50 * SECOND)
    found = memory.get("a", 105 * SECOND)
    assert found is not None
    assert found[1] == 55 * SECOND
    assert memory.get("a", 110 * SECOND) is None
    memory.put("b", kept(), 0, PLENTY, held=60 * SECOND)
    assert len(memory) == 0


def test_the_last_one_put_under_a_key_stands() -> None:
    memory = Memory()
    for body in (b"1", b"2" * 500, b"3"):
        memory.put("a", kept(body), 0, PLENTY)
    found = memory.get("a", 0)
    assert found is not None
    assert found[0].body == b"3"
    assert memory.used == weigh("a", kept(b"3"))


def test_what_was_not_asked_for_longest_goes_first() -> None:
    memory, bound = Memory(), 3 * weigh("a", kept())
    for key in "abc":
        memory.put(key, kept(), 0, bound)
    memory.get("a", 0)
    memory.put("d", kept(), 0, bound)
    assert [key for key in "abcd" if memory.get(key, 0)] == ["a", "c", "d"]


def test_what_is_larger_than_everything_may_be_is_not_kept_and_takes_nothing_away_but_its_forerunner() -> (
    None
):
    memory, bound = Memory(), 3 * weigh("a", kept())
    for key in "ab":
        memory.put(key, kept(), 0, bound)
    memory.put("a", kept(b"x" * bound), 0, bound)
    assert [key for key in "ab" if memory.get(key, 0)] == ["b"]


def test_without_any_room_nothing_is_kept() -> None:
    memory = Memory()
    memory.put("a", kept(), 0, 0)
    assert len(memory) == 0


def test_what_is_of_no_use_any_more_makes_room_before_what_is() -> None:
    memory, bound = Memory(), 2 * weigh("live", kept())
    memory.put("live", kept(), 0, bound)
    memory.put("dead", kept(kept=SECOND), 0, bound)
    memory.put("new", kept(), 2 * SECOND, bound)
    assert [key for key in ("live", "dead", "new") if memory.get(key, 2 * SECOND)] == ["live", "new"]


def test_a_smaller_bound_takes_hold() -> None:
    memory = Memory()
    for key in "abcd":
        memory.put(key, kept(), 0, PLENTY)
    memory.trim(0, 2 * weigh("a", kept()))
    assert [key for key in "abcd" if memory.get(key, 0)] == ["c", "d"]


def test_all_answers_of_a_url_can_be_given_up() -> None:
    memory = Memory()
    for key, place in (("a", "x"), ("b", "x"), ("c", "y"), ("d", None)):
        memory.put(key, kept(), 0, PLENTY, place=place)
    assert sorted(memory.forget("x")) == ["a", "b"]
    assert memory.forget("x") == []
    assert [key for key in "abcd" if memory.get(key, 0)] == ["c", "d"]


def test_putting_one_key_for_ever_takes_no_more_room() -> None:
    memory = Memory()
    for now in range(10_000):
        memory.put("a", kept(), now, PLENTY, place="x")
    assert len(memory._due) <= 66
    memory.clear()
    assert (memory.used, len(memory._due), len(memory._places)) == (0, 0, 0)


@pytest.mark.parametrize("place", [False, True], ids=["none", "of a URL"])
@pytest.mark.parametrize(
    ("count", "size", "fields"),
    [(3_000, 10, 0), (2_000, 300, 12), (200, 100_000, 12)],
    ids=["tiny", "small", "large"],
)
def test_what_is_counted_is_what_is_taken(count: int, size: int, fields: int, place: bool) -> None:
    def fresh() -> Entry:
        names = tuple((b"X-Field-%d" % number, os.urandom(20)) for number in range(fields))
        return kept(os.urandom(size), fields=names)

    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        memory = Memory()
        for now in range(count):
            memory.put(
                os.urandom(32).hex(), fresh(), now, PLENTY, place=os.urandom(16).hex() if place else None
            )
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken <= memory.used <= 1.4 * taken


class Memories(RuleBasedStateMachine):
    """Memory, beside a plain list of what was put and asked for, in the order of its last use."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.now = 0
        self.bound = 6_000
        self.model: dict[str, tuple[Entry, int, int, str | None]] = {}

    def room(self, needed: int) -> None:
        """Make room in the model."""
        self.model = {key: row for key, row in self.model.items() if row[2] > self.now}
        while self.model and self.counted() > self.bound - needed:
            del self.model[next(iter(self.model))]

    def counted(self) -> int:
        """What the model holds."""
        return sum(weigh(key, row[0]) + 340 * (row[3] is not None) for key, row in self.model.items())

    @rule(
        key=st.sampled_from("abcdefgh"),
        size=st.integers(0, 4_000),
        span=st.integers(0, 20),
        held=st.integers(0, 5),
        place=st.sampled_from(["x", "y", None]),
    )
    def put(self, key: str, size: int, span: int, held: int, place: str | None) -> None:
        entry = kept(b"x" * size, kept=span)
        self.memory.put(key, entry, self.now, self.bound, held=held, place=place)
        self.model.pop(key, None)
        weight = weigh(key, entry) + 340 * (place is not None)
        if weight <= self.bound and span > held:
            self.room(weight)
            self.model[key] = (entry, self.now - held, self.now - held + span, place)

    @rule(key=st.sampled_from("abcdefgh"))
    def get(self, key: str) -> None:
        row = self.model.pop(key, None)
        found = self.memory.get(key, self.now)
        if row is None or row[2] <= self.now:
            assert found is None
        else:
            assert found == (row[0], self.now - row[1])
            self.model[key] = row

    @rule(span=st.integers(0, 8))
    def wait(self, span: int) -> None:
        self.now += span

    @rule(bound=st.integers(0, 10_000))
    def rebound(self, bound: int) -> None:
        self.bound = bound
        self.memory.trim(self.now, bound)
        self.room(0)

    @rule(place=st.sampled_from(["x", "y", "z"]))
    def forget(self, place: str) -> None:
        gone = self.memory.forget(place)
        here = [key for key, row in self.model.items() if row[3] == place]
        assert set(here) <= set(gone)
        self.model = {key: row for key, row in self.model.items() if key not in gone}

    @invariant()
    def it_stays_within_its_bound_and_knows_what_it_holds(self) -> None:
        assert self.memory.used <= max(self.bound, 0)
        assert self.counted() <= self.memory.used
        if not len(self.memory):
            assert self.memory.used == 0
        assert len(self.memory._due) <= 2 * len(self.memory._kept) + 66
        assert {key for keys in self.memory._places.values() for key in keys} == {
            key for key, row in self.memory._kept.items() if row.place is not None
        }


TestMemories = Memories.TestCase
TestMemories.settings = settings(stateful_step_count=60)
