"""One record, two readers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.core.budget import Budget
from proxy.core.history import Counts
from proxy.core.units import SECOND
from proxy.core.verdict import Verdict
from proxy.core.writes import LateAnswer, WriteState
from proxy.observe import families
from proxy.observe.metrics import Metrics
from proxy.observe.observer import Observer
from proxy.observe.steplog import StepLog
from tests.observe.records import less, plain
from tests.store.samples import write


def test_each_step_is_logged_and_counted(tmp_path: Path) -> None:
    """As many lines as the counters say."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log, metrics = StepLog(fd), Metrics()
    observer = Observer(log, metrics)
    for number in range(10):
        observer.step(plain(step=number))
    observer.malformed("bad_framing")
    observer.opaque("connect")
    observer.extension_ignored()
    observer.budget_opened()
    observer.budget_closed(Verdict(complete=True, on_time=True), Counts(total=1, completed=1))
    observer.retried("orders")
    observer.retry_withheld("orders", "no_time")
    observer.joined("orders")
    observer.verified("orders", "applied")
    observer.rung_tried("chat", "full", 1)
    observer.cache_failed("store")
    observer.stage_used("llm", 2, 1)
    assert log.close() == 0
    os.close(fd)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == list(range(10))
    values = {sampled.family: sampled.values for sampled in metrics.collect()}
    assert list(values[families.STEPS].values()) == [10]
    for family in (
        families.MALFORMED,
        families.OPAQUE,
        families.EXTENSIONS,
        families.BUDGETS_OPENED,
        families.BUDGETS_CLOSED,
        families.RETRIES,
        families.WITHHELD,
        families.JOINED,
        families.VERIFICATIONS,
        families.CACHE_FAILURES,
    ):
        assert list(values[family].values()) == [1]
    for family in (families.RUNG_DURATION, families.STAGE_USED, families.STAGE_RATIO):
        assert len(values[family]) == 1


def said(path: Path, *, of: Callable[[Observer], None]) -> list[dict[str, Any]]:
    """What an observer writes to its log."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log = StepLog(fd)
    of(Observer(log, Metrics()))
    assert log.close() == 0
    os.close(fd)
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("budget", "left", "total", "percent"),
    [
        (None, None, None, None),
        (Budget("run-42", 0, 8 * SECOND, SECOND), 2000.0, 8000.0, 75.0),
        (Budget("run-42", 0, 6 * SECOND, SECOND), 0.0, 6000.0, 100.0),
        (Budget("run-42", 0, 5 * SECOND, 0), 0.0, 5000.0, 100.0),  # it ended after its budget
        (Budget("run-42", 0, 7 * SECOND, 0), 1000.0, 7000.0, 85.7),
        (Budget("run-42", 6 * SECOND, 0, 0), 0.0, 0.0, 100.0),
        (Budget("run-42", 6 * SECOND, -SECOND, 0), 0.0, -1000.0, 100.0),  # spent on its way here
    ],
)
def test_an_answer_that_is_less_is_an_event(
    tmp_path: Path, budget: Budget | None, left: float | None, total: float | None, percent: float | None
) -> None:
    """By how much, why, and what was left of the whole budget, the reserve included, when the step had ended."""
    record = less(budget_id=None if budget is None else budget.id)
    (event,) = said(tmp_path / "log", of=lambda observer: observer.degraded(record, budget, 6 * SECOND))
    del event["time"]
    assert event == {
        "event": "degraded",
        "budget_id": record.budget_id,
        "step": 3,
        "record": record.record,
        "route": "chat",
        "rung": "minimal",
        "level": 2,
        "stage": "llm",
        "reason": "time",
        "remaining_ms": left,
        "total_ms": total,
        "consumed_pct": percent,
    }


def test_what_a_shortened_budget_has_lost_counts_as_consumed(tmp_path: Path) -> None:
    """Nobody has it any more."""
    budget = Budget("run-42", 0, 10 * SECOND, 0)
    budget.restate(0, 4 * SECOND)
    (event,) = said(tmp_path / "log", of=lambda observer: observer.degraded(less(), budget, SECOND))
    assert (event["remaining_ms"], event["total_ms"], event["consumed_pct"]) == (3000.0, 10000.0, 70.0)


def test_what_becomes_of_a_write_is_logged(tmp_path: Path) -> None:
    """All that somebody needs to look for it on the other side, and nothing of what the other side said."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log = StepLog(fd)
    observer = Observer(log, Metrics())
    late = LateAnswer(201, (("content-type", "text/plain"),), b"private", 7, 12.5)
    observer.settled(write("a", WriteState.REPORTED, resolved_by="late answer", answer=late))
    observer.left(write("b", WriteState.UNCERTAIN))
    assert log.close() == 0
    os.close(fd)
    settled, left = (json.loads(line) for line in path.read_text().splitlines())
    assert (settled["event"], settled["record"], settled["state"]) == ("write_settled", "a", "reported")
    assert (settled["by"], settled["status"]) == ("late answer", 201)
    assert "private" not in path.read_text()
    assert (left["event"], left["record"], left["state"]) == ("write_unresolved", "b", "uncertain")
    assert (left["by"], left["status"]) == (None, None)
    assert {"budget_id", "step", "route", "method", "target", "key", "opened_at"} <= left.keys()
