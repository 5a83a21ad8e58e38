"""From steps to what jobs used: the same time as the sidecar counts, in proportion, with what was cut told apart."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.policy import Policy
from proxy.core.units import MILLISECOND
from proxy.tuning.jobs import Jobs
from proxy.tuning.measured import Measured
from tests.tuning.telling import CUT, policy, step

POLICY = policy()


def of(*steps: dict[str, Any], policy: Policy = POLICY, most: int = 10_000) -> Measured:
    """What is measured when these steps come in this order."""
    jobs = Jobs(policy, most=most)
    for changes in steps:
        jobs.add(step(**changes))
    return jobs.measured()


def about(measured: Measured, stage: str) -> tuple[int, int, int, int]:
    """Of a stage: its samples, those that were cut in whatever way, by its share, and answered with less."""
    use = measured.stages[stage]
    return use.needs.total, use.needs.censored, use.cut, use.short


def median_ms(measured: Measured, stage: str) -> float:
    low, high = measured.stages[stage].needs.quantile(0.5)
    assert high is not None
    return (low + high) / 2 / MILLISECOND


def test_steps_side_by_side_use_time_once() -> None:
    """Two reads at once, and one later: their union, whatever order their records come in."""
    steps = [
        {"step": 1, "started_ms": 0.0, "elapsed_ms": 400.0},
        {"step": 2, "started_ms": 100.0, "elapsed_ms": 500.0},
        {"step": 3, "started_ms": 1000.0, "elapsed_ms": 200.0},
    ]
    for seed in range(6):
        shuffled = random.Random(seed).sample(steps, 3)
        assert median_ms(of(*shuffled), "retrieval") == pytest.approx(800, rel=0.011)


def test_stages_and_jobs_are_kept_apart() -> None:
    """So are the sidecars: a job that was delegated has the same budget id in another one."""
    measured = of(
        {"elapsed_ms": 100.0},
        {"step": 2, "stage": "llm", "started_ms": 100.0, "elapsed_ms": 300.0},
        {"budget_id": "run-2", "elapsed_ms": 100.0},
        {"record": "p2-1", "elapsed_ms": 100.0},
        {"budget_id": "run-3", "stage": None},
    )
    assert about(measured, "retrieval") == (3, 0, 0, 0)
    assert about(measured, "llm") == (1, 0, 0, 0)
    assert about(measured, "formatting") == (0, 0, 0, 0)


def test_a_shorter_budget_counts_in_proportion() -> None:
    """Of 5 s, half of which is the default, a second stands for two."""
    measured = of({"remaining_ms": 4000.0, "elapsed_ms": 1000.0})
    assert median_ms(measured, "retrieval") == pytest.approx(2000, rel=0.011)


def test_a_shortened_budget_counts_by_what_it_was_opened_with() -> None:
    """Its shares were made then."""
    measured = of(
        {"elapsed_ms": 500.0},
        {"step": 2, "started_ms": 1000.0, "remaining_ms": 2000.0, "elapsed_ms": 500.0},
    )
    assert median_ms(measured, "retrieval") == pytest.approx(1000, rel=0.011)


def test_a_cleanup_call_belongs_to_no_stage() -> None:
    """More is left to it than to the others: the reserve."""
    measured = of(
        {"elapsed_ms": 500.0},
        {"step": 2, "started_ms": 9500.0, "remaining_ms": 500.0, "elapsed_ms": 400.0},
    )
    assert median_ms(measured, "retrieval") == pytest.approx(500, rel=0.011)


ENDS: list[tuple[dict[str, Any], bool, bool]] = [
    ({}, False, False),
    (CUT, True, True),
    ({"outcome": "deadline_exceeded", "reason": "budget_remaining"}, True, False),
    ({"outcome": "deadline_exceeded", "reason": "route_cap"}, False, False),
    ({"outcome": "deadline_exceeded", "reason": "client_timer"}, False, False),
    ({"outcome": "refused", "reason": "budget_exhausted", "allowed_ms": 0.0}, True, True),
    ({"outcome": "refused", "reason": "budget_exhausted", "allowed_ms": -2.0, "remaining_ms": -2.0}, True, False),
    ({"outcome": "refused", "reason": "below_min_start", "allowed_ms": 80.0}, True, True),
    ({"outcome": "refused", "reason": "unresolved_write", "allowed_ms": 80.0}, False, False),
    ({"outcome": "shed", "reason": "queue_deadline"}, True, False),
    ({"outcome": "shed", "reason": "queue_full"}, False, False),
    ({"outcome": "client_gone", "reason": "client_left"}, True, False),
    ({"outcome": "upstream_failed", "reason": "connection_terminated"}, False, False),
    ({"degraded": {"level": 1, "rung": "fast", "reason": "time", "stage": "retrieval"}}, True, False),
    ({"degraded": {"level": 1, "rung": "fast", "reason": "busy", "stage": None}}, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("end", "censored", "cut"), ENDS)
def test_what_ended_for_want_of_time_would_have_gone_on(
    end: dict[str, Any], censored: bool, cut: bool
) -> None:
    """With a larger share, or more of the budget; what its own cap or its caller ended would not."""
    measured = of({"elapsed_ms": 100.0}, {"step": 2, "started_ms": 200.0, **end})
    samples, found, by_share, _ = about(measured, "retrieval")
    assert (samples, found, by_share) == (1, censored, cut)


def test_what_was_answered_with_less_is_told() -> None:
    """For want of time: the whole would have needed more."""
    less = {"level": 2, "rung": "small", "reason": "slow", "stage": "retrieval"}
    assert about(of({"degraded": less}), "retrieval") == (1, 1, 0, 1)


@pytest.mark.parametrize(
    ("elapsed", "would", "cut"), [(1600.0, "cut", 1), (1400.0, "cut", 0), (1600.0, None, 0)]
)
def test_where_nothing_is_enforced_needs_are_whole(elapsed: float, would: str | None, cut: int) -> None:
    """`mode: observe` lets a step run on, and says what it would have done; by its share, if it used more than that."""
    assert about(of({"elapsed_ms": elapsed, "would": would}), "retrieval") == (1, 0, cut, 0)


def test_a_job_whose_beginning_is_not_there_is_left_out() -> None:
    """The log was rotated within it: it may have used more before."""
    measured = of({"step": 7, "started_ms": 3000.0})
    assert about(measured, "retrieval")[0] == 0
    assert measured.notes == (
        "1 job was left out: its first steps are not there, so more may have been used before.",
    )


def test_stages_that_have_no_share_are_told() -> None:
    """They are of another policy, or misspelt; callers choose them, so not too many are."""
    jobs = Jobs(POLICY)
    for number in range(50):
        jobs.add(step(stage=f"s{number}"))
        jobs.add(step(stage="s0"))
    notes = jobs.measured().notes
    assert notes[0] == "51 steps are of the stage 's0', to which this policy gives no share."
    assert len(notes) == 21


def test_one_id_may_be_that_of_two_jobs() -> None:
    """Opened at another time, it is another job; a clock that is set a little changes nothing."""
    jobs, minute = Jobs(POLICY), 60_000 * MILLISECOND
    for at in (minute, minute + 900 * MILLISECOND, 10 * minute):
        jobs.add(step(elapsed_ms=100.0), at)
    assert about(jobs.measured(), "retrieval")[0] == 2


def test_few_jobs_are_held_at_once() -> None:
    """The one that was silent for longest is taken as finished."""
    steps = [{"budget_id": f"run-{number}"} for number in range(100)]
    jobs = Jobs(POLICY, most=3)
    for changes in steps:
        jobs.add(step(**changes))
        assert len(jobs._open) <= 3
    assert about(jobs.measured(), "retrieval")[0] == 100


# -- rungs -------------------------------------------------------------------------------------------------------------

CHAT: dict[str, Any] = {"stage": "llm", "route": "chat", "rung": "full"}


def rung(measured: Measured, name: str) -> tuple[int, int]:
    """Its samples, and how many of them were cut."""
    times = measured.rungs["chat", name]
    return times.total, times.censored


def test_a_rung_takes_what_its_steps_took_once_it_was_their_turn() -> None:
    """Without the wait for a slot, which another call has caused."""
    measured = of({**CHAT, "elapsed_ms": 900.0, "queued_ms": 600.0})
    low, high = measured.rungs["chat", "full"].quantile(0.95)
    assert high is not None
    assert (low + high) / 2 == pytest.approx(300 * MILLISECOND, rel=0.011)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (1, 0)),
        ({"tries": 2}, (0, 0)),
        ({"status": 503}, (0, 0)),
        (CUT, (1, 1)),
        ({"outcome": "client_gone"}, (1, 1)),
        ({"outcome": "upstream_failed"}, (0, 0)),
        ({"rung": "sorry", "tries": 0}, (0, 0)),
        ({"rung": None}, (0, 0)),
        ({"route": "other"}, (0, 0)),
    ],
)
def test_which_steps_tell_of_a_rung(changes: dict[str, Any], expected: tuple[int, int]) -> None:
    """One try, with a whole answer, or cut: a failure says nothing of how long an answer takes."""
    assert rung(of({**CHAT, **changes}), "full") == expected


def test_a_try_that_was_given_up_counts_against_the_rung_above() -> None:
    """After how long, its record does not say: it got what it needs at least."""
    slow = {"level": 1, "rung": "fast", "reason": "slow", "stage": "llm"}
    measured = of({**CHAT, "rung": "fast", "tries": 2, "degraded": slow})
    assert (rung(measured, "full"), rung(measured, "fast")) == ((1, 1), (0, 0))
    assert measured.rungs["chat", "full"].quantile(0.5).high is None
    assert "1 try of a better rung was given up" in measured.notes[-1]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["retrieval", "llm", "formatting", "slack", "other", None]),
            st.integers(0, 9000),
            st.integers(0, 20_000),
            st.sampled_from([end for end, _, _ in ENDS]),
            st.sampled_from([None, "full", "fast", "sorry", "nobody's"]),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_any_steps_are_counted_once(steps: list[Any], carry: bool) -> None:
    """A job is one sample of each stage that it came to, and no figure contradicts another."""
    made = [
        {"budget_id": f"b{job}", "stage": stage, "started_ms": float(at), "elapsed_ms": float(span), "rung": name, **end}
        for job, stage, at, span, end, name in steps
    ]  # fmt: skip
    measured = of(*made, policy=replace(POLICY, budget=replace(POLICY.budget, carry=carry)))
    for stage in ("retrieval", "llm", "formatting"):
        samples, censored, cut, short = about(measured, stage)
        came = {job for job, of_stage, *_ in steps if of_stage == stage}
        assert samples <= len(came)
        assert max(censored, cut, short) <= samples
