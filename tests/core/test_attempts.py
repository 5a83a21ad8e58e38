"""How often a unit has been attempted: numbers, what is new work, and what is forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.core.attempts import HORIZON, MOST, Attempt, Attempts, failed
from proxy.core.units import MINUTE, SECOND


def fail(attempts: Attempts, unit: str, now: int = 0, *, keyed: bool = False, stated: int = 0) -> Attempt:
    """An attempt that fails at once."""
    made = attempts.begin(unit, now, keyed=keyed, stated=stated)
    attempts.end(unit, undone=True, now=now)
    return made


@pytest.mark.parametrize(
    ("completed", "status", "undone"),
    [
        *((True, status, False) for status in (200, 204, 302, 400, 404, 409, 422, 424, 499)),
        *((True, status, True) for status in (408, 425, 429, 500, 503, 599)),
        (True, None, True),
        (False, None, True),
        (False, 200, True),
    ],
)
def test_what_leaves_a_unit_undone(completed: bool, status: int | None, undone: bool) -> None:
    """An answer that was cut is none; one that says no is an answer, and one that asks for another attempt is not."""
    assert failed(completed, status) is undone


def test_a_unit_that_fails_is_attempted_again() -> None:
    """Numbers count from 1, and only the first is fresh."""
    attempts = Attempts()
    assert attempts.count("a") == 0
    assert [fail(attempts, "a") for _ in range(3)] == [Attempt(1, True), Attempt(2, False), Attempt(3, False)]
    assert attempts.count("a") == 3
    assert fail(attempts, "b") == Attempt(1, True)


def test_the_same_call_after_a_success_is_new_work() -> None:
    """Polling is no retry."""
    attempts = Attempts()
    fail(attempts, "a")
    attempts.begin("a", 0, keyed=False)
    attempts.end("a", undone=False)
    assert attempts.count("a") == 0
    assert attempts.begin("a", 0, keyed=False) == Attempt(1, True)


def test_a_key_names_one_piece_of_work_for_good() -> None:
    """Whoever sends it again repeats it, though it was done."""
    attempts = Attempts()
    attempts.begin("a", 0, keyed=True)
    attempts.end("a", undone=False)
    assert attempts.count("a") == 0
    assert attempts.begin("a", 0, keyed=True) == Attempt(2, False)


def test_an_equal_call_beside_one_under_way_is_new_work() -> None:
    """A fan-out of equal calls is no retry, until one of them has failed; what carries the key is one, at any time."""
    attempts = Attempts()
    assert [attempts.begin("a", 0, keyed=False) for _ in range(3)] == [Attempt(1, True)] * 3
    assert (attempts.count("a"), attempts.running("a")) == (0, 3)
    attempts.end("a", undone=True)
    assert (attempts.count("a"), attempts.running("a")) == (3, 2)
    assert attempts.begin("a", 0, keyed=False) == Attempt(4, False)
    assert [attempts.begin("k", 0, keyed=True).number for _ in range(2)] == [1, 2]


def test_a_success_starts_the_count_anew() -> None:
    """Of a key too, though its attempts go on being numbered."""
    attempts = Attempts()
    fail(attempts, "a", keyed=True)
    attempts.begin("a", 0, keyed=True)
    attempts.end("a", undone=False)
    assert fail(attempts, "a", keyed=True) == Attempt(3, False)
    assert attempts.count("a") == 1


@pytest.mark.parametrize("first", [True, False])
def test_of_two_at_once_one_success_is_enough(first: bool) -> None:
    """In whichever order they end."""
    attempts = Attempts()
    attempts.begin("a", 0, keyed=False)
    attempts.begin("a", 0, keyed=False)
    attempts.end("a", undone=first)
    attempts.end("a", undone=not first)
    assert attempts.count("a") == 0
    assert attempts.begin("a", 0, keyed=False) == Attempt(1, True)


@pytest.mark.parametrize(
    ("seen", "stated", "number"), [(0, 0, 1), (0, 2, 3), (1, 2, 3), (3, 2, 4), (3, 3, 4)]
)
def test_what_the_caller_states_is_believed_where_it_is_more(seen: int, stated: int, number: int) -> None:
    """It may have made attempts that went another way; it cannot unmake those that were seen."""
    attempts = Attempts()
    for _ in range(seen):
        fail(attempts, "a")
    made = attempts.begin("a", 0, keyed=False, stated=stated)
    assert made == Attempt(number, not seen and not stated)
    attempts.end("a", undone=True)
    assert attempts.count("a") == number


def test_an_end_without_a_beginning_does_no_harm() -> None:
    """Ends can be told twice, and of units that were forgotten meanwhile."""
    attempts = Attempts()
    attempts.end("a", undone=True, now=5)
    assert len(attempts) == 0
    fail(attempts, "a")
    attempts.end("a", undone=False)
    assert attempts.count("a") == 1
    assert attempts.begin("a", 0, keyed=False) == Attempt(2, False)


def test_a_unit_can_be_released() -> None:
    """Somebody has decided that it may be attempted again: its count starts over, and an unknown one is no error."""
    attempts = Attempts()
    fail(attempts, "a")
    attempts.forget("a")
    attempts.forget("a")
    assert attempts.begin("a", 0, keyed=False) == Attempt(1, True)


# -- what is forgotten -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("idle", "number"), [(HORIZON, 2), (HORIZON + 1, 1)])
def test_a_unit_that_nobody_touches_is_forgotten(idle: int, number: int) -> None:
    """Whoever comes after that begins anew."""
    attempts = Attempts()
    fail(attempts, "a", now=SECOND)
    assert attempts.count("a", SECOND + idle) == number - 1
    assert fail(attempts, "a", now=SECOND + idle).number == number


@pytest.mark.parametrize("busy", [False, True])
def test_an_attempt_under_way_is_not_forgotten(busy: bool) -> None:
    """One that takes longer than the horizon and fails was an attempt too, however much else happened meanwhile."""
    attempts = Attempts()
    attempts.begin("a", 0, keyed=False)
    if busy:
        for minute in range(40):
            fail(attempts, f"b-{minute}", now=minute * MINUTE)
    assert attempts.running("a") == 1
    attempts.end("a", undone=True, now=40 * MINUTE)
    assert attempts.count("a", 40 * MINUTE + HORIZON) == 1
    assert attempts.begin("a", 40 * MINUTE + HORIZON, keyed=False) == Attempt(2, False)


def test_without_the_time_of_its_end_a_unit_ages_from_its_start() -> None:
    """It is then forgotten too early rather than too late."""
    attempts = Attempts()
    attempts.begin("a", 0, keyed=False)
    attempts.end("a", undone=True)
    assert attempts.begin("a", HORIZON + 1, keyed=False) == Attempt(1, True)


@pytest.mark.parametrize("running", [False, True])
def test_the_units_are_bounded(running: bool) -> None:
    """Past the bound the ones untouched for longest go, under way or not: an attempt that never ends is no leak."""
    attempts = Attempts()
    for number in range(MOST + 10):
        attempts.begin(f"u-{number}", number, keyed=False)
        if not running:
            attempts.end(f"u-{number}", undone=True, now=number)
        if number == MOST - 1:
            fail(attempts, "u-0", now=number)
    assert len(attempts) == MOST
    assert attempts.count("u-0") == 2
    found = attempts.running if running else attempts.count
    assert [found(f"u-{number}") for number in (1, 10, 11, MOST + 9)] == [0, 0, 1, 1]


def test_what_is_old_goes_without_being_asked_for() -> None:
    """A day of units that are never seen again leaves no more than those of the horizon."""
    attempts = Attempts()
    for minute in range(24 * 60):
        attempts.begin(f"u-{minute}", minute * MINUTE, keyed=False)
        attempts.end(f"u-{minute}", undone=True, now=minute * MINUTE)
        assert len(attempts) <= HORIZON // MINUTE + 1


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_what_is_done_is_kept_only_for_its_key(keyed: bool, elsewhere: bool) -> None:
    """Each write is another unit: those that went well would take up all the room there is."""
    attempts = Attempts()
    attempts.begin("a", 0, keyed=keyed)
    attempts.end("a", undone=elsewhere)
    if elsewhere:
        attempts.done("a")
    assert len(attempts) == keyed
    assert attempts.begin("a", 1, keyed=keyed) == (Attempt(2, False) if keyed else Attempt(1, True))


# -- against a list ----------------------------------------------------------------------------------------------


@dataclass
class Told:
    """One attempt, as it would be told."""

    stated: int
    began: int
    ended: int | None = None


@dataclass
class Unit:
    """What is told of one unit. `since`: the attempts that have begun since the last success; `failures`: the counts since."""

    attempts: list[Told] = field(default_factory=list)
    since: list[Told] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    done: bool = False
    keyed: bool = False

    @property
    def running(self) -> list[Told]:
        return [told for told in self.attempts if told.ended is None]

    @property
    def used(self) -> int:
        return self.failures[-1] + len(self.running) if self.failures else 0

    @property
    def kept(self) -> bool:
        """Whether anything that is asked later depends on it."""
        return self.keyed or not self.done or bool(self.running)

    def forgotten(self, now: int) -> bool:
        last = max(max(told.began, told.ended or 0) for told in self.attempts)
        return not self.running and now - last > HORIZON


UNITS = st.sampled_from(["a", "b", "c", "d"])
KEYED = ("c", "d")
SPANS = st.sampled_from([0, 1, SECOND, HORIZON // 2, HORIZON, HORIZON + 1]) | st.integers(0, 2 * HORIZON)


class AttemptsMachine(RuleBasedStateMachine):
    """Whoever attempts whatever and when, the numbers are those that a list of all attempts gives."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = Attempts()
        self.units: dict[str, Unit] = {}
        self.now = 0

    @rule(span=SPANS)
    def time_passes(self, span: int) -> None:
        self.now += span

    @rule(name=UNITS, stated=st.integers(0, 4))
    def begin(self, name: str, stated: int) -> None:
        keyed = name in KEYED
        unit = self.units.get(name)
        if unit is None or unit.forgotten(self.now):
            unit = Unit()
        if unit.done and not unit.running and not keyed:
            unit = Unit()
        before = max(len(unit.attempts) if keyed else unit.used, stated)
        expected = Attempt(before + 1, before == 0)
        assert self.attempts.begin(name, self.now, keyed=keyed, stated=stated) == expected
        unit.attempts.append(Told(stated, self.now))
        unit.since.append(unit.attempts[-1])
        unit.done = False
        unit.keyed = keyed
        self.units[name] = unit
        assert len(self.attempts) == sum(
            not known.forgotten(self.now) for known in self.units.values() if known.kept
        )

    @rule(name=UNITS, undone=st.booleans())
    def end(self, name: str, undone: bool) -> None:
        self.attempts.end(name, undone=undone, now=self.now)
        unit = self.units.get(name)
        if unit is None or not unit.running:
            return
        unit.running[0].ended = self.now
        if not undone:
            unit.done = True
            unit.since, unit.failures = [], []
        elif not unit.done:
            claimed = max((told.stated + 1 for told in unit.since), default=0)
            unit.failures.append(max(len(unit.failures) + 1, (unit.failures or [0])[-1] + 1, claimed))

    @rule(name=UNITS)
    def forget(self, name: str) -> None:
        self.attempts.forget(name)
        self.units.pop(name, None)

    @invariant()
    def the_same_is_counted(self) -> None:
        for name in ("a", "b", "c", "d"):
            unit = self.units.get(name)
            known = unit is not None and not unit.done and not unit.forgotten(self.now)
            assert self.attempts.count(name, self.now) == (unit.used if unit is not None and known else 0)
            assert self.attempts.running(name) == (len(unit.running) if unit is not None else 0)


TestAttempts = AttemptsMachine.TestCase
