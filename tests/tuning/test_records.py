"""The records of a control API: the same steps as in a log, and nothing else than such an API is taken for one."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tuning.faults import Untunable
from proxy.tuning.jobs import Jobs
from proxy.tuning.records import read_records
from tests.tuning.telling import CUT, policy, record

POLICY = policy()
STAGES = [
    {"stage": "retrieval", "share_ms": 1500, "used_ms": 400},
    {"stage": "llm", "share_ms": 5500, "used_ms": 0},
    {"stage": "formatting", "share_ms": 500, "used_ms": 0},
]


def job(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "state": "closed",
        "total_ms": 10_000,
        "stages": STAGES,
        "steps": list(steps),
        "steps_dropped": 0,
    } | more


def read(jobs: dict[str, dict[str, Any] | None], known: int | None = None) -> tuple[Jobs, tuple[str, ...]]:
    listed = {
        "known": len(jobs) if known is None else known,
        "budgets": [{"id": id, "state": (each or {}).get("state", "closed")} for id, each in jobs.items()],
    }
    found = Jobs(POLICY)
    return found, read_records(listed, jobs.get, POLICY.budget, found)


def test_jobs_that_are_over() -> None:
    """One that is open has not used all that it will; one that was forgotten meanwhile is left out."""
    jobs, notes = read(
        {
            "run-1": job(record(), record(step=2, stage="llm", **CUT)),
            "run-2": job(record(record="p9-1")),
            "run-3": job(record(), state="open"),
            "run-4": None,
            "run-5": job(),
        }
    )
    assert (jobs.steps, notes) == (3, ())
    use = jobs.measured().stages
    assert (use["retrieval"].needs.total, use["llm"].needs.total, use["llm"].cut) == (2, 1, 1)


def test_what_is_left_out_is_said() -> None:
    """Further jobs, further steps, and other shares: half of them for half the budget are the same."""
    halved = [{"stage": each["stage"], "share_ms": int(str(each["share_ms"])) / 2} for each in STAGES]
    _, notes = read(
        {
            "run-1": job(record(), steps_dropped=3),
            "run-2": job(record(), total_ms=5000, stages=halved),
            "run-3": job(record(), stages=STAGES[:2]),
            "run-4": job(record(), stages=[each | {"share_ms": 1000} for each in STAGES]),
        },
        known=10,
    )
    assert notes == (
        "6 further jobs are known there and not listed; the step log has all of them.",
        "Of 1 job only the first steps are kept there; more may have been used.",
        "In 2 of 4 jobs the stages had other shares than this policy gives them: it was changed, or is another one.",
    )


def test_a_sidecar_that_knows_no_job() -> None:
    """It has just been started, or forgets them early."""
    assert read({})[1] == (
        "The sidecar knows of no job that is over; it forgets them after ledger.retention.",
    )


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["budgets", "known", "id", "state", "steps", "steps_dropped", "stages", "total_ms"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ANYTHING, ANYTHING)
def test_another_api_is_told_from_it(listed: Any, one: Any) -> None:
    """Whatever its JSON is."""
    with contextlib.suppress(Untunable):
        notes = read_records(listed, lambda _: one, POLICY.budget, Jobs(POLICY))
        assert all(isinstance(note, str) for note in notes)


@pytest.mark.parametrize(
    "broken",
    [{"steps": [1]}, {"steps": [record(step="x")]}, {"stages": None, "steps": [record()]}, {"total_ms": "x"}],
)
def test_a_record_of_another_kind(broken: dict[str, Any]) -> None:
    """A later version may speak otherwise; nothing is guessed."""
    with pytest.raises(Untunable, match="speaks of budgets in another way"):
        read({"run-1": job(record()) | broken})
