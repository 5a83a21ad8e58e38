"""The JSON of budgets: what is said of a job while it runs, after it, and of what was never closed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from proxy.admin.budget_views import (
    MOST_WRITES,
    Moment,
    State,
    budget_view,
    record_view,
    state_of,
    timeline_view,
)
from proxy.core.budget import Budget
from proxy.core.degrading import Why
from proxy.core.history import MOST_STEPS
from proxy.core.ledger import Ledger
from proxy.core.step import StepRecord
from proxy.core.units import MILLISECOND, SECOND
from proxy.observe.lines import step_line
from tests.admin.contract import validate
from tests.admin.jobs import (
    CUT,
    REFUSED,
    begun,
    ended,
    less,
    on_a_ladder,
    one_call,
    opened,
    step,
    tangled,
    worked_example,
)
from tests.admin.writes import NOW, NOW_MS, UNCERTAIN, write
from tests.observe.records import records

MOMENT = Moment(NOW, NOW_MS)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def record_of(budget: Budget, *writes: Any, moment: Moment = MOMENT) -> dict[str, Any]:
    """The record, which is JSON and as its schema says."""
    shown = record_view(budget, writes, moment)
    assert json.loads(json.dumps(shown)) == shown
    validate(shown, {"$ref": "#/components/schemas/BudgetRecord"})
    return shown


def test_a_budget_in_a_list(ledger: Ledger) -> None:
    """What tells one job from another, and how it stands."""
    shown = budget_view(worked_example(ledger), MOMENT)
    validate(shown, {"$ref": "#/components/schemas/Budget"})
    counts = shown.pop("counts")
    assert (counts["total"], counts["completed"], counts["deadline_exceeded"]) == (3, 2, 1)
    assert shown == {
        "id": "run-42",
        "state": "closed",
        "opened_at": "2026-01-02T03:03:53.678Z",
        "total_ms": 10_000,
        "reserve_ms": 1_000,
        "spent_ms": 9_900,
        "remaining_ms": 0,
        "entries": 0,
        "in_flight": 0,
        "complete": False,
        "on_time": True,
        "extensions_ignored": 0,
        "attempts": 3,
        "units": 3,
        "amplification": 1.0,
        "one_call": False,
    }


def test_worked_example(ledger: Ledger) -> None:
    """A, B and C need 4 s each of 10: the work is not complete, and the job was closed in time. Both are said."""
    record = record_of(worked_example(ledger))
    assert (record["complete"], record["on_time"], record["verdict"]) == (False, True, "incomplete; on_time")
    assert record["verdicts"] == {
        "complete": "Incomplete: 1 unit of work is not done.",
        "on_time": "On time: closed with its last entry request, 100 ms before its end.",
    }
    assert (record["deadline"], record["deadline_ms"]) == ("2026-01-02T03:04:03.678Z", 10_000)
    assert (record["closed_at"], record["closed_by"]) == ("2026-01-02T03:04:03.578Z", "entry")
    assert [each["outcome"] for each in record["steps"]] == ["completed", "completed", "deadline_exceeded"]
    assert record["steps"][2] == step("run-42", 3, 8_000, 1_000.3, reason="budget_remaining", **CUT)._asdict()


def test_a_job_that_runs(ledger: Ledger) -> None:
    """Neither verdict is given while it can still change, and what is known so far is told."""
    record = record_of(tangled(ledger), UNCERTAIN._replace(budget_id="run-43"))
    assert (record["state"], record["spent_ms"], record["in_flight"]) == ("open", 6_200, 2)
    assert (record["remaining_ms"], record["cleanup_remaining_ms"]) == (2_800, 3_800)
    assert (record["complete"], record["on_time"], record["verdict"]) == (None, None, "in_progress")
    assert record["verdicts"] == {
        "complete": "Still open: so far 2 calls are under way, 2 units of work are not done, "
        "1 write is of unknown effect.",
        "on_time": "Still open: 3800 ms are left, the reserve included.",
    }
    assert record["stages"] == [
        {"stage": "retrieval", "share_ms": 4_000, "used_ms": 2_300, "carried_in_ms": 0, "left_ms": 1_700},
        {"stage": "llm", "share_ms": 5_000, "used_ms": 2_000, "carried_in_ms": 0, "left_ms": 3_000},
    ]
    assert (record["attempts"], record["units"], record["amplification"]) == (4, 3, 1.333)
    assert record["extensions_ignored"] == 1
    assert [each["id"] for each in record["writes"]] == ["w1"]


def test_what_stages_leave_is_told_where_it_went(ledger: Ledger) -> None:
    """With carry, the model has what retrieval has no use for: as much is carried in, and left or used there."""
    budget = opened(ledger, "run", 5_000, staged=True)
    assert budget.stages is not None
    budget.stages.carry = True
    ended(ledger, budget, 1, 0, 1_500, stage="retrieval")
    ended(ledger, budget, 2, 1_500, 3_000, stage="llm")
    assert record_of(budget)["stages"] == [
        {"stage": "retrieval", "share_ms": 4_000, "used_ms": 1_500, "carried_in_ms": 0, "left_ms": 2_500},
        {"stage": "llm", "share_ms": 5_000, "used_ms": 3_000, "carried_in_ms": 2_500, "left_ms": 4_500},
    ]


def test_a_job_that_did_with_less(ledger: Ledger) -> None:
    """How much less, of which step and why; the job is not plainly complete."""
    record = record_of(on_a_ladder(ledger))
    assert record["verdict"] == "incomplete; on_time; degraded=3"
    assert (record["counts"]["total"], record["counts"]["degraded"]) == (4, 3)
    assert record["verdicts"]["complete"] == (
        "Incomplete: 1 unit of work is not done; 3 calls were answered with less than they asked for."
    )
    told = [(each["rung"], each["degraded"], each["cache"], each["carried_ms"]) for each in record["steps"]]
    assert told == [
        ("full", None, "miss", None),
        ("minimal", {"level": 2, "rung": "minimal", "reason": "time", "stage": "llm"}, None, 1_200.0),
        ("cached", {"level": 3, "rung": "cached", "reason": "failed", "stage": "llm"}, "semantic", None),
        ("fast", {"level": 1, "rung": "fast", "reason": "truncated", "stage": "llm"}, None, None),
    ]


@pytest.mark.parametrize("is_closed", [True, False])
def test_what_was_less_is_said_of_any_job(ledger: Ledger, is_closed: bool) -> None:
    """Of one that runs, and of one that is complete."""
    budget = opened(ledger, "run", 1_000)
    ended(ledger, budget, 1, 0, 500, **less(1, "fast", Why.SLOW))
    if is_closed:
        ledger.close(budget, NOW, "request")
    record = record_of(budget)
    says = {
        True: (
            "complete; on_time; degraded=1",
            "Complete: all that was begun is done, and every effect is known",
        ),
        False: ("in_progress; degraded=1", "Still open: all that was begun so far is done"),
    }
    verdict, sentence = says[is_closed]
    assert record["verdict"] == verdict
    assert record["verdicts"]["complete"] == f"{sentence}; 1 call was answered with less than it asked for."


@given(records())
def test_a_step_is_shown_as_the_log_has_it(record: StepRecord) -> None:
    """The same names with the same values: what reads the one can read the other."""
    budget = Budget("run", NOW, 10 * SECOND, 0)
    budget.begun_history().add(record)
    (shown,) = record_of(budget)["steps"]
    line = json.loads(step_line(record, "now"))
    assert [*shown] == [*line][1:]
    assert {name: line[name] for name in shown} == {
        name: pytest.approx(value, abs=0.0005) if isinstance(value, float) else value
        for name, value in json.loads(json.dumps(shown)).items()
    }


def test_a_job_that_ran_out_of_time(ledger: Ledger) -> None:
    """Nobody can say whether it was on time, and its time does not go on."""
    budget = opened(ledger, "run", 25_000)
    ended(ledger, budget, 1, 0, 500)
    record = record_of(budget)
    assert (record["state"], record["spent_ms"], record["remaining_ms"]) == ("expired", 10_000, 0)
    assert (record["complete"], record["on_time"], record["verdict"]) == (True, None, "complete")
    assert record["verdicts"]["on_time"].startswith("Not known")
    ledger.close(budget, NOW, "request")
    record = record_of(budget)
    assert (record["state"], record["spent_ms"], record["on_time"]) == ("closed", 25_000, False)
    assert record["verdicts"]["on_time"] == "Late: closed on request, 15000 ms after its end."


def test_nothing_was_begun(ledger: Ledger) -> None:
    """A job without calls is complete, and says why; it has no amplification."""
    budget = opened(ledger, "run", 100)
    assert record_of(budget)["verdicts"]["complete"] == "Still open: all that was begun so far is done."
    ledger.close(budget, NOW, "someone")
    record = record_of(budget)
    assert (record["complete"], record["amplification"]) == (True, None)
    assert record["verdicts"] == {
        "complete": "Complete: nothing was begun, so nothing is undone.",
        "on_time": "On time: closed by someone, 9900 ms before its end.",
    }


def test_a_budget_of_one_call(ledger: Ledger) -> None:
    """Its call was all of its job."""
    record = record_of(one_call(ledger, "call", 50))
    assert (record["one_call"], record["state"], record["verdict"]) == (True, "closed", "complete; on_time")
    assert "with its only call" in record["verdicts"]["on_time"]


def test_a_shortened_budget(ledger: Ledger) -> None:
    """Its deadline tells, and the total is still what it was opened with."""
    budget = opened(ledger, "run", 1_000)
    budget.restate(NOW, 2 * SECOND)
    record = record_of(budget)
    assert (record["total_ms"], record["deadline_ms"], record["remaining_ms"]) == (10_000, 3_000, 1_000)


def test_a_budget_that_was_spent_on_its_way(ledger: Ledger) -> None:
    """Less than nothing is left of it when it arrives: it is shown, and nothing negative is promised."""
    budget = Budget("run", NOW, -5 * MILLISECOND, SECOND)
    record = record_of(budget)
    assert (record["state"], record["total_ms"], record["remaining_ms"]) == ("expired", -5, 0)


def test_parts_of_a_millisecond_are_kept(ledger: Ledger) -> None:
    """Whole numbers where they are whole."""
    budget = Budget("run", NOW - 1_234_567, 2_500_000, 0)
    shown = budget_view(budget, MOMENT)
    assert (shown["total_ms"], shown["spent_ms"], shown["remaining_ms"]) == (2.5, 1.234, 1)


@pytest.mark.parametrize(
    ("at", "state"),
    [
        (0, State.OPEN),
        (10 * SECOND - 1, State.OPEN),
        (10 * SECOND, State.EXPIRED),
        (99 * SECOND, State.EXPIRED),
    ],
)
def test_state(at: int, state: State) -> None:
    """A budget is open for less than its time, and closed once somebody has said so."""
    budget = Budget("run", 0, 10 * SECOND, 0)
    assert state_of(budget, at) is state
    budget.closed_at = at
    assert state_of(budget, at) is State.CLOSED


def test_record_is_bounded(ledger: Ledger) -> None:
    """Of a job without end, the first steps are shown and the others counted."""
    budget = opened(ledger, "run", 5_000)
    for number in range(MOST_STEPS + 7):
        ended(ledger, budget, number + 1, 0, 1, **(REFUSED if number % 2 else {}))
    writes = [write(f"w{number}") for number in range(MOST_WRITES + 3)]
    record = record_of(budget, *writes)
    assert (len(record["steps"]), record["steps_dropped"]) == (MOST_STEPS, 7)
    assert (len(record["writes"]), record["writes_dropped"]) == (MOST_WRITES, 3)
    assert record["counts"]["total"] == MOST_STEPS + 7


def test_timeline(ledger: Ledger) -> None:
    """What admission did, in order, since the opening."""
    budget = opened(ledger, "run", 3_000)
    ended(ledger, budget, 1, 100, 400, queued_ms=250.5)
    begun(ledger, budget, 2, 600, granted_ms=None)
    shown = timeline_view(budget, MOMENT)
    validate(shown, {"$ref": "#/components/schemas/Timeline"})
    events = [(each["at_ms"], each["event"], each["step"], each["slot"]) for each in shown.pop("events")]
    assert events == [
        (100, "enqueued", 1, None),
        (350.5, "granted", 1, 0),
        (500, "completed", 1, 0),
        (500, "released", 1, 0),
        (600, "enqueued", 2, None),
    ]
    assert shown == {
        "id": "run",
        "state": "open",
        "opened_at": "2026-01-02T03:04:02.678Z",
        "total_ms": 10_000,
        "reserve_ms": 1_000,
        "deadline_ms": 10_000,
        "now_ms": 3_000,
        "events_dropped": 0,
    }
