"""The two verdicts on a job, and the fields that say them, read by a strict reader of RFC 9651."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import BY_REQUEST, Budget, CallPhase
from proxy.core.calls import Effect, Kind, Outcome
from proxy.core.degrading import Degraded, Why
from proxy.core.history import Counts, unit_bytes
from proxy.core.ledger import Ledger
from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults
from proxy.core.step import StepRecord
from proxy.core.units import SECOND
from proxy.core.verdict import Verdict, counts_of, of_one_call, steps_field, verdict_of
from tests.core.structured import Token, dictionary, item
from tests.observe.records import LESS, degrees, plain, records


def counts_in(field: str) -> dict[str, int]:
    """What a dictionary of integers without parameters says, member by member."""
    members = dictionary(field)
    assert all(type(each.value) is int and not each.parameters for each in members.values()), field
    return {key: int(each.value) for key, each in members.items()}


# -- what is said of which history -------------------------------------------------------------------------------

READ, WRITE = {"kind": Kind.READ}, {"kind": Kind.WRITE}
DONE = {"outcome": Outcome.COMPLETED}
CUT = {"outcome": Outcome.DEADLINE_EXCEEDED, "effect": Effect.NONE}
DOUBT = {"outcome": Outcome.DEADLINE_EXCEEDED, "effect": Effect.UNCERTAIN}
FAILED = {"outcome": Outcome.UPSTREAM_FAILED, "effect": Effect.NONE}
REFUSED = {"outcome": Outcome.REFUSED, "effect": Effect.NONE}
MINIMAL = DONE | {"degraded": LESS}
TRUNCATED = CUT | {"degraded": Degraded(1, "truncated", Why.TRUNCATED)}
TOTAL = 10 * SECOND


class Settled(NamedTuple):
    """A write of which it is known by now whether it has happened."""

    record: str
    happened: bool


class Case(NamedTuple):
    """A job, when it was closed (seconds; None: never), and what is said of it at twenty seconds."""

    name: str
    happened: list[StepRecord | Settled]
    closed: float | None
    steps: str
    verdict: str


def step(number: int, *facts: dict[str, Any], **more: Any) -> StepRecord:
    """A step's record, of a unit of its own unless another is named."""
    record: dict[str, Any] = {"record": f"r{number}", "unit": f"u{number}"}
    for fact in (*facts, more):
        record |= fact
    return plain(**record)


CASES = [
    Case("nothing", [], 9, "total=0, completed=0, deadline_exceeded=0, uncertain=0", "complete; on_time"),
    Case(
        "the worked example",
        [step(1, READ, DONE), step(2, READ, DONE), step(3, READ, CUT)],
        10,
        "total=3, completed=2, deadline_exceeded=1, uncertain=0",
        "incomplete; on_time",
    ),
    Case(
        "all done",
        [step(1, READ, DONE), step(2, WRITE, DONE, effect=Effect.REPORTED)],
        9,
        "total=2, completed=2, deadline_exceeded=0, uncertain=0",
        "complete; on_time",
    ),
    Case(
        "closed late",
        [step(1, READ, DONE)],
        10.000001,
        "total=1, completed=1, deadline_exceeded=0, uncertain=0",
        "complete; late",
    ),
    Case(
        "incomplete and late",
        [step(1, READ, CUT)],
        13,
        "total=1, completed=0, deadline_exceeded=1, uncertain=0",
        "incomplete; late",
    ),
    Case(
        "nobody said that it was done",
        [step(1, READ, DONE)],
        None,
        "total=1, completed=1, deadline_exceeded=0, uncertain=0",
        "complete",
    ),
    Case(
        "nobody said that it was done, and it was not",
        [step(1, READ, CUT)],
        None,
        "total=1, completed=0, deadline_exceeded=1, uncertain=0",
        "incomplete",
    ),
    Case(
        "a read that failed twice and then succeeded",
        [step(1, READ, CUT, unit="u"), step(2, READ, FAILED, unit="u"), step(3, READ, DONE, unit="u")],
        9,
        "total=3, completed=1, deadline_exceeded=1, upstream_failed=1, uncertain=0",
        "complete; on_time",
    ),
    Case(
        "a read that failed, and another that succeeded",
        [step(1, READ, CUT), step(2, READ, DONE)],
        9,
        "total=2, completed=1, deadline_exceeded=1, uncertain=0",
        "incomplete; on_time",
    ),
    Case(
        "a call that was refused",
        [step(1, READ, DONE), step(2, READ, REFUSED)],
        9,
        "total=2, completed=1, deadline_exceeded=0, refused=1, uncertain=0",
        "incomplete; on_time",
    ),
    Case(
        "a write in doubt",
        [step(1, WRITE, DOUBT)],
        9,
        "total=1, completed=0, deadline_exceeded=1, uncertain=1",
        "incomplete; on_time",
    ),
    Case(
        "a write in doubt that has happened",
        [step(1, WRITE, DOUBT), Settled("r1", True)],
        9,
        "total=1, completed=0, deadline_exceeded=1, uncertain=0",
        "complete; on_time",
    ),
    Case(
        "a write in doubt that has not happened",
        [step(1, WRITE, DOUBT), Settled("r1", False)],
        9,
        "total=1, completed=0, deadline_exceeded=1, uncertain=0",
        "incomplete; on_time",
    ),
    Case(
        "and was then sent again",
        [step(1, WRITE, DOUBT, unit="u"), Settled("r1", False), step(2, WRITE, DONE, unit="u")],
        9,
        "total=2, completed=1, deadline_exceeded=1, uncertain=0",
        "complete; on_time",
    ),
    Case(
        "a write in doubt that was repeated all the same",
        [step(1, WRITE, DOUBT, unit="u"), step(2, WRITE, DONE, unit="u")],
        9,
        "total=2, completed=1, deadline_exceeded=1, uncertain=1",
        "incomplete; on_time",
    ),
    Case(
        "a delegated job that was itself incomplete",
        [step(1, READ, DONE, partial=True)],
        9,
        "total=1, completed=1, deadline_exceeded=0, uncertain=0",
        "incomplete; on_time",
    ),
    Case(
        "a call that was answered with less",
        [step(1, READ, DONE), step(2, READ, MINIMAL)],
        9,
        "total=2, completed=2, deadline_exceeded=0, degraded=1, uncertain=0",
        "complete; on_time; degraded=1",
    ),
    Case(
        "several that were, and closed late",
        [step(1, READ, MINIMAL), step(2, READ, MINIMAL), step(3, READ, REFUSED)],
        11,
        "total=3, completed=2, deadline_exceeded=0, refused=1, degraded=2, uncertain=0",
        "incomplete; late; degraded=2",
    ),
    Case(
        "nobody said that it was done, and a call was answered with less",
        [step(1, READ, MINIMAL)],
        None,
        "total=1, completed=1, deadline_exceeded=0, degraded=1, uncertain=0",
        "complete; degraded=1",
    ),
    Case(
        "a stream that was closed before its end",
        [step(1, READ, TRUNCATED)],
        10,
        "total=1, completed=0, deadline_exceeded=1, degraded=1, uncertain=0",
        "incomplete; on_time; degraded=1",
    ),
    Case(
        "and was then given whole",
        [step(1, READ, TRUNCATED, unit="u"), step(2, READ, DONE, unit="u")],
        10,
        "total=2, completed=1, deadline_exceeded=1, degraded=1, uncertain=0",
        "complete; on_time; degraded=1",
    ),
    Case(
        "a delegated job that did with less",
        [step(1, READ, DONE, degraded=Degraded(1, "delegated", Why.DELEGATED))],
        9,
        "total=1, completed=1, deadline_exceeded=0, degraded=1, uncertain=0",
        "complete; on_time; degraded=1",
    ),
    Case(
        "a fixed answer that says that there is none",
        [step(1, READ, MINIMAL, status=503)],
        9,
        "total=1, completed=1, deadline_exceeded=0, degraded=1, uncertain=0",
        "incomplete; on_time; degraded=1",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_is_said_of_a_job(case: Case) -> None:
    """Two verdicts, always apart, and the counts they are made of."""
    ledger, defaults = Ledger(), BudgetDefaults(default=TOTAL)
    budget = ledger.find(Limits(budget_id="job"), defaults, 0, "fresh").budget
    assert budget is not None
    for what in case.happened:
        if isinstance(what, Settled):
            ledger.settled("job", what.record, happened=what.happened)
        else:
            ledger.begin(budget, None, CallPhase.WORK, 0)
            assert verdict_of(budget, 0)[:2] == (None, None)
            ledger.finish(budget, None, CallPhase.WORK, what, SECOND)
    if case.closed is not None:
        ledger.close(budget, int(case.closed * SECOND), BY_REQUEST)
    counts, verdict = counts_of(budget), verdict_of(budget, 2 * TOTAL)
    assert (steps_field(counts), verdict.field()) == (case.steps, case.verdict)
    assert counts_in(case.steps)["total"] == counts.total
    completeness, said = item(case.verdict)
    assert (completeness == Token("complete")) is verdict.complete
    assert said.pop("degraded", 0) == counts.degraded == verdict.degraded
    assert [*said] == {True: ["on_time"], False: ["late"], None: []}[verdict.on_time]
    assert all(value is True for value in said.values())


def test_what_can_still_change_is_not_said() -> None:
    """While the job is open, though all that it has begun is done; from its end on, it is."""
    budget = Budget("job", 0, TOTAL, 0)
    assert verdict_of(budget, TOTAL - 1) == Verdict(None, None)
    assert verdict_of(budget, TOTAL) == Verdict(True, None)


def test_what_is_under_way_is_not_complete() -> None:
    """A job was said to be done while one of its calls runs: it is counted, and what becomes of it comes too late."""
    ledger = Ledger()
    budget = ledger.find(Limits(budget_id="job"), BudgetDefaults(default=TOTAL), 0, "fresh").budget
    assert budget is not None
    ledger.begin(budget, None, CallPhase.WORK, 0)
    ledger.close(budget, SECOND, BY_REQUEST)
    assert verdict_of(budget, SECOND) == Verdict(False, True)
    assert counts_in(steps_field(counts_of(budget)))["in_flight"] == 1
    ledger.finish(budget, None, CallPhase.WORK, plain(), 2 * SECOND)
    assert verdict_of(budget, 2 * SECOND) == Verdict(False, True)
    assert "in_flight" not in counts_in(steps_field(counts_of(budget)))


def test_what_an_entry_request_asked_for_is_a_unit_of_the_work_too() -> None:
    """When the app has failed to do it, the job is not complete; a further entry request may do it after all."""
    ledger = Ledger()
    budget = ledger.find(Limits(budget_id="job"), BudgetDefaults(default=TOTAL), 0, "fresh").budget
    assert budget is not None
    ledger.worked_on(budget, "POST /run", done=True)
    assert budget.history is None
    for done in (False, True):
        ledger.worked_on(budget, "POST /run", done=done)
        budget.close(SECOND, BY_REQUEST)
        assert verdict_of(budget, SECOND).complete is done
        assert ledger.bytes == (0 if done else unit_bytes("POST /run"))
    assert counts_of(budget).total == 0


def test_more_than_can_be_followed_is_not_complete() -> None:
    """Though what is followed is done."""
    budget = Budget("job", 0, TOTAL, 0)
    Ledger().finish(budget, None, CallPhase.WORK, plain(unit="u", **CUT), 0)
    budget.in_flight = 0
    budget.close(SECOND, BY_REQUEST)
    assert budget.history is not None
    budget.history.slim(units=True)
    budget.history.add(plain(unit="u"))
    assert verdict_of(budget, SECOND).complete is False


def test_what_is_said_of_no_job() -> None:
    """In progress nothing is said that can still change; that it has done with less cannot."""
    assert Verdict(None, None).field() == "in_progress"
    assert item(Verdict(None, None, 2).field()) == (Token("in_progress"), {"degraded": 2})


@given(st.builds(Counts, *[st.integers(0, 10**15 - 1)] * len(Counts._fields)))
def test_any_counts_make_a_dictionary(counts: Counts) -> None:
    """Nothing that is counted is left out, and what is always said stands where it is looked for."""
    said = counts_in(steps_field(counts))
    assert {name: said.get(name, 0) for name in Counts._fields} == counts._asdict()
    names = [*said]
    assert (names[:3], names[-1]) == (["total", "completed", "deadline_exceeded"], "uncertain")


@given(st.builds(Verdict, st.none() | st.booleans(), st.none() | st.booleans(), st.integers(0, 10**15 - 1)))
def test_any_verdict_makes_an_item(verdict: Verdict) -> None:
    """One token, what is true of it by its key alone, and the number of steps with less where there is one."""
    word, said = item(verdict.field())
    assert word == Token({True: "complete", False: "incomplete", None: "in_progress"}[verdict.complete])
    assert said == ({True: {"on_time": True}, False: {"late": True}, None: {}}[verdict.on_time]) | (
        {"degraded": verdict.degraded} if verdict.degraded else {}
    )


@given(
    st.lists(st.tuples(records(), st.sampled_from([None, None, "slim", "units", "settled", "close"]))),
    st.booleans(),
)
def test_no_job_with_less_is_plainly_complete(
    happened: list[tuple[StepRecord, str | None]], late: bool
) -> None:
    """Whatever else happens to it, and whatever of its history has been given up: it is said from the first such step on."""
    ledger = Ledger()
    budget = ledger.find(Limits(budget_id="job"), BudgetDefaults(default=TOTAL), 0, "fresh").budget
    assert budget is not None
    degraded = 0
    for record, then in happened:
        ledger.begin(budget, None, CallPhase.WORK, 0)
        ledger.finish(budget, None, CallPhase.WORK, record, 0)
        degraded += record.degraded is not None
        history = budget.history
        assert history is not None
        if then in ("slim", "units"):
            history.slim(units=then == "units")
        elif then == "settled":
            history.settled(record.record, happened=True)
        elif then == "close":
            ledger.close(budget, 2 * TOTAL if late else 0, BY_REQUEST)
        for now in (0, 2 * TOTAL):
            counts, verdict = counts_of(budget), verdict_of(budget, now)
            assert verdict.degraded == counts.degraded == degraded
            assert item(verdict.field()).parameters.get("degraded", 0) == degraded
            assert counts_in(steps_field(counts)).get("degraded", 0) == degraded


@given(records(), st.none() | st.booleans())
def test_a_job_of_one_call_is_judged_like_any_other(record: StepRecord, on_time: bool | None) -> None:
    """The short way says what the history of that one call says."""
    verdict, counts = of_one_call(record, on_time=on_time)
    budget = Budget("job", 0, TOTAL, 0)
    budget.begun_history().add(record)
    budget.closed_at, budget.on_time = 0, on_time
    assert (verdict, counts) == (verdict_of(budget, 0), counts_of(budget))


@given(
    degrees(),
    st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,63}", fullmatch=True),
    st.none() | st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True),
)
def test_by_how_much_an_answer_is_less_can_be_read(less: Degraded, rung: str, stage: str | None) -> None:
    """`Budget-Degraded`: one member with its parameters, whatever names rungs and stages may have."""
    members = dictionary(less._replace(rung=rung, stage=stage).field())
    assert [*members] == ["level"]
    level, said = members["level"]
    assert (level, said.pop("rung"), said.pop("reason")) == (less.level, rung, less.why)
    assert said == ({} if stage is None else {"stage": stage})
