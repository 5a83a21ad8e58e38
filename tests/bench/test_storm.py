"""What the storm is reckoned from: how callers try again, what the tool counts, and what is made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from bench.report import as_markdown
from bench.storm.agents import Answer, Job, Orders, again, arrivals, work
from bench.storm.figures import ADMISSION, BUDGET, Round, Row, floors, table
from bench.storm.tool import Counts, Work, Workers

ORDERS = Orders(
    port=1,
    tool=1,
    budgets=True,
    holds=False,
    tells=True,
    seed=7,
    agents=2,
    arrivals=50,
    seconds=4,
    calls=3,
    deadline=1_000,
    limit=500,
    retries=1,
    fast=20,
    slow=400,
    burst=200,
)


@pytest.mark.parametrize(
    ("status", "headers", "made", "wait"),
    [
        (0, {}, 1, 0.5),
        (503, {}, 3, 2.0),
        (504, {}, 9, 8.0),
        (429, {b"retry-after": b"3"}, 1, 3.0),
        (503, {b"retry-after": b"2", b"retry-after-ms": b"1250"}, 1, 1.25),
        (503, {b"retry-after": b"3600"}, 1, 0.5),
        (504, {b"x-should-retry": b"false"}, 1, None),
        (403, {b"retry-after": b"1"}, 1, None),
        (424, {}, 1, None),
        (403, {b"x-should-retry": b"true"}, 1, 0.5),
    ],
)
def test_callers_try_again_as_sdks_do(
    status: int, headers: dict[bytes, bytes], made: int, wait: float | None
) -> None:
    """The header has the last word; the wait that is asked for is kept, in whichever field it is exact."""
    assert again(Answer(status, "", headers), made, 0.0) == wait


def test_the_wait_is_never_longer_for_its_jitter() -> None:
    """A quarter less at most, so that callers do not come back together."""
    waits = [again(Answer(503, ""), 1, chance / 10) for chance in range(10)]
    assert all(wait is not None and 0.375 < wait <= 0.5 for wait in waits)
    assert len(set(waits)) == 10


def test_a_seed_gives_the_same_storm() -> None:
    """Every variant of a round has the same to do; another round has something else."""
    other = replace(ORDERS, seed=8)
    assert arrivals(ORDERS) == arrivals(replace(ORDERS, budgets=False)) != arrivals(other)
    assert len(arrivals(ORDERS)) == 2 + 50 * 4
    needs = [ms for agent in range(1_000) for ms in work(ORDERS, agent)]
    assert needs != [ms for agent in range(1_000) for ms in work(other, agent)]
    assert 0.3 < needs.count(400) / len(needs) < 0.37


@dataclass
class Caller:
    gone: bool = False
    answers: int = 0

    def answer(self) -> None:
        self.answers += 1


@dataclass
class Bench:
    """Workers whose time is turned by hand."""

    due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def later(self, seconds: float, then: Callable[[], None]) -> None:
        self.due.append((seconds, then))

    def next(self) -> None:
        self.due.sort(key=lambda each: each[0])
        self.due.pop(0)[1]()


def test_the_tool_works_on_so_many_calls_at_once() -> None:
    """The others wait, and come in their turn."""
    bench, callers = Bench(), [Caller() for _ in range(3)]
    workers = Workers(2, bench.later)
    for number, caller in enumerate(callers):
        workers.take(Work(f"unit-{number}", 100, caller))
    assert len(bench.due) == 2
    assert workers.counts.longest_queue == 1
    bench.next()
    assert [caller.answers for caller in callers] == [1, 0, 0]
    assert len(bench.due) == 2


@pytest.mark.parametrize(("notices", "for_nobody", "passed_over"), [(False, 400, 0), (True, 0, 1)])
def test_work_for_a_caller_who_has_left_is_counted(notices: bool, for_nobody: int, passed_over: int) -> None:
    """It is done all the same, unless the tool looks who is still there; the second try is the same unit."""
    bench, leaver, stayer = Bench(), Caller(), Caller()
    workers = Workers(1, bench.later, notices)
    workers.take(Work("first", 20, Caller()))
    workers.take(Work("second", 400, leaver))
    workers.take(Work("second", 400, stayer))
    leaver.gone = True
    while bench.due:
        bench.next()
    assert (leaver.answers, stayer.answers) == (0, 1)
    assert workers.counts == Counts(
        arrivals=3,
        units=2,
        worked_ms=420 + for_nobody,
        for_nobody_ms=for_nobody,
        passed_over=passed_over,
        longest_queue=2,
    )


def a_round(complete: int, lost: int, counts: Counts, attempts: int | None = None) -> Round:
    """So many jobs of three calls of 20 ms: done in time, or lost after the first call, whose second was tried twice."""
    done = Job(0.5, 1.25, 3, 3, complete=True, in_time=[0.7, 1.0, 1.25], taken_ms=60)
    failed = Job(2.5, 3.5, 2, 3, in_time=[2.7], taken_ms=20, ends=Counter({"answered": 1, "503 shed": 2}))
    return Round(ORDERS, [done] * complete + [failed] * lost, counts, attempts, {"the tool": 0.1})


def test_figures() -> None:
    """From what the agents saw and the tool counted."""
    found = a_round(3, 1, Counts(arrivals=15, units=10, worked_ms=400))
    assert found.useful == 10 / 4
    assert found.complete == 0.75
    assert found.recovered == 0
    assert found.tries == 12 / 11
    assert found.amplification == 1.5
    assert found.wasted == pytest.approx(0.5)
    assert found.took(0.5) == 0.75
    assert found.lost_after == 1.0
    assert found.shed == 2


def test_a_job_that_is_never_seen_to_end_went_on_to_the_end() -> None:
    """Without a limit of its own it would go on after we have looked away."""
    assert Round(ORDERS, [Job(1.0)], Counts(), None, {}).lost_after == 4.0
    assert Round(ORDERS, [Job(1.0)], Counts(), None, {}).took(0.5) is None


def test_table_and_verdict() -> None:
    """Medians with their spread, and what is promised of admission beside what it did."""
    few = [a_round(done, 4, Counts(arrivals=30, units=20, worked_ms=800)) for done in (1, 2, 3)]
    many = [a_round(4, 0, Counts(arrivals=12, units=12, worked_ms=240), 12)] * 3
    rows = [Row(BUDGET, few), Row(ADMISSION, many)]
    shown = as_markdown(table(rows))
    assert "| sidecar, budget only | 2 (2–3) | 33% (20%–43%) |" in shown
    assert "| sidecar, admission | 3 | 100% |" in shown
    assert [floor.met for floor in floors(rows)] == [True, True, True]
    assert [floor.met for floor in floors([Row(BUDGET, many), Row(ADMISSION, few)])] == [False] * 3
    assert floors([Row(BUDGET, few)]) == []


def test_metrics_that_know_of_fewer_attempts_than_the_tool_are_told_of() -> None:
    """The sidecar's figures are checked on the far side."""
    rows = [Row(ADMISSION, [a_round(1, 0, Counts(arrivals=12, units=12, worked_ms=240), 11)])]
    assert "tell of 11 attempts, the tool of 12." in as_markdown(table(rows))
