"""The two verdicts on a job, and the fields that say them: RFC 9651, by a small strict parser of its own."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import BY_REQUEST, Budget, CallPhase
from proxy.core.calls import Effect, Kind, Outcome
from proxy.core.history import Counts, unit_bytes
from proxy.core.ledger import Ledger
from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults
from proxy.core.step import StepRecord
from proxy.core.units import SECOND
from proxy.core.verdict import Verdict, counts_of, steps_field, verdict_of
from tests.observe.records import plain

# -- RFC 9651, as much of it as the fields may use ---------------------------------------------------------------

_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")  # §3.1.2
_TOKEN = re.compile(r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*")  # §3.3.4
_INTEGER = re.compile(r"-?[0-9]{1,15}")  # §3.3.1


def dictionary(field: str) -> dict[str, int]:
    """Parse a dictionary (§4.2.2) whose members are integers without parameters, as it must be serialized (§4.1.2)."""
    members: dict[str, int] = {}
    for member in field.split(", "):
        key, equals, value = member.partition("=")
        assert equals, member
        assert _KEY.fullmatch(key), key
        assert _INTEGER.fullmatch(value), value
        assert key not in members, "a repeated key overwrites (§4.2.2)"
        members[key] = int(value)
    return members


def item(field: str) -> tuple[str, list[str]]:
    """Parse an item (§4.2.3): a token, and parameters that are true, which is said by their keys alone (§4.1.1.2)."""
    token, *parameters = field.split(";")
    assert _TOKEN.fullmatch(token), token
    keys = [parameter.removeprefix(" ") for parameter in parameters]
    assert all(_KEY.fullmatch(key) for key in keys), keys
    return token, keys


# -- what is said of which history -------------------------------------------------------------------------------

READ, WRITE = {"kind": Kind.READ}, {"kind": Kind.WRITE}
DONE = {"outcome": Outcome.COMPLETED}
CUT = {"outcome": Outcome.DEADLINE_EXCEEDED, "effect": Effect.NONE}
DOUBT = {"outcome": Outcome.DEADLINE_EXCEEDED, "effect": Effect.UNCERTAIN}
FAILED = {"outcome": Outcome.UPSTREAM_FAILED, "effect": Effect.NONE}
REFUSED = {"outcome": Outcome.REFUSED, "effect": Effect.NONE}
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
            assert verdict_of(budget, 0).field() == "in_progress"
            ledger.finish(budget, None, CallPhase.WORK, what, SECOND)
    if case.closed is not None:
        ledger.close(budget, int(case.closed * SECOND), BY_REQUEST)
    counts, verdict = counts_of(budget), verdict_of(budget, 2 * TOTAL)
    assert (steps_field(counts), verdict.field()) == (case.steps, case.verdict)
    assert dictionary(case.steps)["total"] == counts.total
    completeness, timeliness = item(case.verdict)
    assert (completeness == "complete") is verdict.complete
    assert timeliness == {True: ["on_time"], False: ["late"], None: []}[verdict.on_time]


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
    assert dictionary(steps_field(counts_of(budget)))["in_flight"] == 1
    ledger.finish(budget, None, CallPhase.WORK, plain(), 2 * SECOND)
    assert verdict_of(budget, 2 * SECOND) == Verdict(False, True)
    assert "in_flight" not in dictionary(steps_field(counts_of(budget)))


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
    """Each word of the verdict is a token, and in progress nothing else is said."""
    assert item(Verdict(None, None).field()) == ("in_progress", [])


@given(st.builds(Counts, *[st.integers(0, 10**15 - 1)] * len(Counts._fields)))
def test_any_counts_make_a_dictionary(counts: Counts) -> None:
    """Nothing that is counted is left out, and what is always said stands where it is looked for."""
    said = dictionary(steps_field(counts))
    assert {name: said.get(name, 0) for name in Counts._fields} == counts._asdict()
    names = [*said]
    assert (names[:3], names[-1]) == (["total", "completed", "deadline_exceeded"], "uncertain")
