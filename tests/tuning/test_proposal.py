"""The table and the proposal: verdicts that are not smoothed over, and shares that add up exactly, whatever was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.policy import BudgetDefaults, Share
from proxy.core.units import MILLISECOND, SECOND
from proxy.tuning.distribution import Rate
from proxy.tuning.faults import Untunable
from proxy.tuning.measured import Measured, Use
from proxy.tuning.proposal import Basis, Proposal, apportioned, in_ms, propose
from proxy.tuning.sketched import Sketched
from proxy.tuning.table import Row, Verdict, rows

BUDGET = BudgetDefaults(
    default=10 * SECOND,
    reserve=SECOND,
    stages=(
        Share("retrieval", 1500 * MILLISECOND),
        Share("llm", 5500 * MILLISECOND),
        Share("formatting", 500 * MILLISECOND),
        Share("slack", 500 * MILLISECOND),
    ),
)
SPANS = {share.stage: share.span for share in BUDGET.stages}


def use(stage: str, whole: dict[int, int], cut: int = 0, budget: BudgetDefaults = BUDGET) -> Use:
    """What jobs needed: so many of so many milliseconds; and so many were cut at the share."""
    span = {share.stage: share.span for share in budget.stages}[stage]
    needs = Sketched(span)
    for need, count in whole.items():
        for _ in range(count):
            needs.add(need * MILLISECOND)
    for _ in range(cut):
        needs.add(span, cut=True)
    return Use(needs, cut)


def table(uses: dict[str, Use]) -> list[Row]:
    return rows(Measured(uses), BUDGET, margin=0.1, least=100)


def proposal(table_: list[Row], *, give: str | None = None, **more: Any) -> Proposal:
    terms: dict[str, Any] = {"total": 9 * SECOND, "slack": 500 * MILLISECOND, "margin": 0.1}
    found = propose(table_, give=give, **terms | more)
    assert found is not None
    return found


def shares_ms(found: Proposal) -> list[int]:
    assert all(each.after % MILLISECOND == 0 for each in found.shares)
    return [each.after // MILLISECOND for each in found.shares]


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_worked_example() -> None:
    """Retrieval has more than enough, the model is cut in 2 of 100 jobs, and of formatting too little is known."""
    found = table(
        {
            "retrieval": use("retrieval", {300: 195, 600: 5}),
            "llm": use("llm", {3000: 196}, cut=4),
            "formatting": use("formatting", {60: 99}),
        }
    )
    retrieval, llm, formatting = found
    assert (retrieval.verdict, retrieval.samples, retrieval.cut) == (Verdict.GENEROUS, 200, 0.0)
    assert retrieval.p50 is not None
    assert retrieval.p50.low <= 300 * MILLISECOND <= (retrieval.p50.high or 0) < 304 * MILLISECOND
    assert retrieval.headroom is not None
    assert 890 * MILLISECOND < retrieval.headroom <= 900 * MILLISECOND
    assert (llm.verdict, llm.cut, llm.headroom) == (Verdict.TIGHT, 0.02, None)
    assert llm.p99 == (SPANS["llm"], None)
    assert (formatting.verdict, formatting.samples) == (Verdict.TOO_FEW, 99)
    assert (formatting.p50, formatting.p95, formatting.p99, formatting.headroom) == (None,) * 4


@pytest.mark.parametrize(
    ("needs", "cut", "verdict"),
    [
        ({1000: 100}, 0, Verdict.FITS),
        ({1000: 99}, 1, Verdict.FITS),
        ({1000: 98}, 2, Verdict.TIGHT),
        ({1000: 98, 1600: 2}, 0, Verdict.TIGHT),
        ({1000: 99, 1600: 1}, 0, Verdict.FITS),
        ({1500: 100}, 0, Verdict.FITS),
        ({600: 100}, 0, Verdict.GENEROUS),
        ({1000: 98}, 1, Verdict.TOO_FEW),
    ],
)
def test_verdicts(needs: dict[int, int], cut: int, verdict: Verdict) -> None:
    """One job in a hundred is the measure; the margin counts when a share is called generous."""
    assert table({"retrieval": use("retrieval", needs, cut)})[0].verdict is verdict


def test_a_stage_that_nobody_came_to() -> None:
    """It has no samples, and no rate."""
    row = table({})[0]
    assert (row.verdict, row.samples, row.cut, row.use) == (Verdict.TOO_FEW, 0, None, None)
    assert table({"retrieval": use("retrieval", {})})[0].cut is None


# -- the proposal ------------------------------------------------------------------------------------------------------

GOOD = {
    "retrieval": use("retrieval", {500: 200}),
    "llm": use("llm", {3000: 200}),
    "formatting": use("formatting", {100: 200}),
}


def test_what_is_over_goes_to_one_stage_or_to_all() -> None:
    """Wanted are 500, 3000 and 100 ms, a tenth more each, and the sketch's half a percent; 8.5 s are there."""
    given_one = proposal(table(GOOD), give="llm")
    assert (given_one.total, given_one.slack, given_one.missing) == (9 * SECOND, 500 * MILLISECOND, 0)
    retrieval, llm, formatting = shares_ms(given_one)
    assert retrieval + llm + formatting == 8500
    assert retrieval == pytest.approx(553, abs=4)
    assert formatting == pytest.approx(111, abs=2)
    in_proportion = shares_ms(proposal(table(GOOD)))
    assert sum(in_proportion) == 8500
    assert in_proportion == [pytest.approx(8500 * part / 3600, rel=0.02) for part in (500, 3000, 100)]


def test_what_is_missing_is_said_and_shared() -> None:
    """Of 5.5 s, 3.96 are wanted by 3 stages with 3.4 there: each gets its part, and 0.56 s are missing."""
    found = proposal(table(GOOD), total=3900 * MILLISECOND, give="llm")
    assert 550 <= found.missing // MILLISECOND <= 600
    assert sum(shares_ms(found)) == 3400
    assert shares_ms(found)[1] == pytest.approx(3400 * 3000 / 3600, rel=0.02)


def test_a_stage_with_too_few_samples_keeps_its_share() -> None:
    """Whether there is too much for the others or too little."""
    few = GOOD | {"formatting": use("formatting", {100: 5})}
    for total in (9 * SECOND, 3900 * MILLISECOND):
        found = proposal(table(few), total=total)
        assert (found.shares[2].after, found.shares[2].basis) == (500 * MILLISECOND, Basis.KEPT)
        assert (found.shares[2].cut_before, found.shares[2].cut_after) == (None, None)
        assert sum(shares_ms(found)) == total // MILLISECOND - 500


def test_a_stage_with_too_few_samples_may_be_given_what_is_over() -> None:
    """That is for who runs the jobs to say; it is no measurement."""
    found = proposal(table(GOOD | {"llm": use("llm", {100: 5})}), give="llm")
    assert (found.shares[1].basis, sum(shares_ms(found))) == (Basis.RAISED, 8500)
    assert found.shares[1].after > 5500 * MILLISECOND


def test_it_keeps_it_only_while_there_is_room() -> None:
    """Beside what it has, nothing would be left for the others: then it gets its part like them, and that is said."""
    few = GOOD | {"llm": use("llm", {100: 5})}
    found = proposal(table(few), total=5500 * MILLISECOND)
    assert (sum(shares_ms(found)), found.shares[1].basis) == (5000, Basis.SQUEEZED)


def test_where_only_the_least_is_known_no_share_gets_smaller() -> None:
    """What was cut at 5.5 s needs more: a tenth more is proposed, and at least is said."""
    found = proposal(table(GOOD | {"llm": use("llm", {3000: 150}, cut=50)}))
    llm = found.shares[1]
    assert (llm.basis, llm.after >= 6050 * MILLISECOND) == (Basis.AT_LEAST, True)
    assert llm.cut_before == Rate(0.25, 0.25)
    assert llm.cut_after == Rate(0.0, 0.25)


def test_the_predicted_rates() -> None:
    """Of what is known, which jobs need more than the share; of a share that shrinks, those are more."""
    found = proposal(table(GOOD | {"retrieval": use("retrieval", {500: 990, 1200: 10})}), give="llm")
    retrieval = found.shares[0]
    assert retrieval.cut_before == Rate(0.0, 0.0)
    assert retrieval.cut_after == Rate(0.01, 0.01)


def test_without_samples_nothing_is_proposed() -> None:
    """Not even that all stays as it is."""
    assert propose(table({}), total=9 * SECOND, slack=0, give=None, margin=0.1) is None


def test_an_unknown_stage_gets_nothing() -> None:
    """Those that there are, are named."""
    with pytest.raises(Untunable, match=r"no stage 'lm'.*\n.*retrieval, llm, formatting"):
        propose(table(GOOD), total=9 * SECOND, slack=0, give="lm", margin=0.1)


def test_a_budget_that_is_used_up_by_its_reserve() -> None:
    """There is no millisecond for each stage."""
    with pytest.raises(Untunable, match="the budget has 2 ms for 3 stages"):
        propose(table(GOOD), total=4 * MILLISECOND, slack=2 * MILLISECOND, give=None, margin=0.1)


def test_a_slack_with_a_fraction_is_rounded_up() -> None:
    """Else the shares and it would be more than the whole."""
    found = proposal(table(GOOD), slack=500 * MILLISECOND + 1)
    assert sum(shares_ms(found)) == 9000 - 501


USES = st.tuples(
    st.dictionaries(st.integers(0, 20_000), st.integers(1, 40), max_size=6),
    st.integers(0, 60),
)


@given(
    st.lists(USES, min_size=1, max_size=6),
    st.lists(st.integers(1, 8000), min_size=6, max_size=6),
    st.integers(0, 40_000),
    st.integers(0, 3000),
    st.none() | st.integers(0, 5),
    st.floats(0, 3),
)
def test_the_shares_of_a_proposal_add_up(
    uses: list[tuple[dict[int, int], int]],
    spans: list[int],
    spare: int,
    slack: int,
    give: int | None,
    margin: float,
) -> None:
    """To exactly what there is: whole milliseconds, at least one each, and rates that are such."""
    names = [f"s{at}" for at in range(len(uses))]
    stages = tuple(Share(name, span * MILLISECOND) for name, span in zip(names, spans, strict=False))
    budget = replace(BUDGET, default=(sum(spans) + spare) * MILLISECOND, reserve=0, stages=stages)
    measured = {name: use(name, *each, budget=budget) for name, each in zip(names, uses, strict=True)}
    made = rows(Measured(measured), budget, margin=margin, least=100)
    total = budget.default
    stage = None if give is None else names[give % len(names)]
    if slack + len(names) > sum(spans) + spare:
        return
    found = propose(made, total=total, slack=slack * MILLISECOND, give=stage, margin=margin)
    if found is None:
        assert all(row.verdict is Verdict.TOO_FEW for row in made)
        return
    assert sum(share.after for share in found.shares) + found.slack == total
    assert min(shares_ms(found)) >= 1
    for share, row in zip(found.shares, made, strict=True):
        assert (share.cut_before is None) is (row.verdict is Verdict.TOO_FEW)
        for rate in (share.cut_before, share.cut_after):
            assert rate is None or 0 <= rate.least <= rate.most <= 1
        if not found.missing and share.basis is Basis.MEASURED:
            assert row.p99 is not None
            assert share.after >= (row.p99.high or 0)
        if share.basis is Basis.KEPT:
            assert share.after == share.before


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9), st.floats(0, 1))
def test_what_is_too_little_is_divided_in_proportion(wants: list[int], part: float) -> None:
    """Nobody gets more than it wants, or less than 1; who wants more gets no less."""
    room = len(wants) + int(part * (sum(wants) - len(wants)))
    parts = apportioned(room, wants)
    assert sum(parts) == room
    assert all(1 <= got <= want for got, want in zip(parts, wants, strict=True))
    for want, got in zip(wants, parts, strict=True):
        fair = 1 + (room - len(wants)) * (want - 1) / max(1, sum(wants) - len(wants))
        assert abs(got - fair) <= 1


@pytest.mark.parametrize(("span", "ms"), [(0, 1), (1, 1), (MILLISECOND, 1), (MILLISECOND + 1, 2), (2.5e6, 3)])
def test_milliseconds_are_rounded_up(span: float, ms: int) -> None:
    """A share that is a little too small would cut."""
    assert in_ms(span) == ms
