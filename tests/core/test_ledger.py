"""The ledger: budgets are found by what a call says of itself, opened once, shared, never refreshed, and kept in bounds."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import Budget, CallPhase
from proxy.core.found import CROWDED, NO_BUDGET, Found
from proxy.core.history import step_bytes
from proxy.core.ledger import Ledger
from proxy.core.limits import NOTHING_STATED, Limits, read_limits
from proxy.core.policy import BudgetDefaults, Correlation, LedgerBounds, OnMissing, Share
from proxy.core.traces import MOST_TRACES
from proxy.core.units import MILLISECOND, MINUTE, SECOND
from tests.observe.records import plain

DEFAULTS = BudgetDefaults(default=10 * SECOND, reserve=SECOND, max=60 * SECOND)
EVERY_WAY = replace(
    DEFAULTS,
    correlate=(
        Correlation.BUDGET_ID,
        Correlation.PROXY_USER,
        Correlation.TRACEPARENT,
        Correlation.SOLE,
    ),
)


def find(ledger: Ledger, limits: Limits, at: int = 0, defaults: BudgetDefaults = DEFAULTS) -> Budget:
    """The budget of a call that has one."""
    budget = ledger.find(limits, defaults, at, f"fresh-{at}").budget
    assert budget is not None
    return budget


def enter(ledger: Ledger, limits: Limits, at: int = 0, fresh_id: str = "entry") -> Budget:
    """The budget of an entry request, which has been entered."""
    budget = ledger.find(limits, EVERY_WAY, at, fresh_id, entry=True).budget
    assert budget is not None
    ledger.enter(budget, limits)
    return budget


def call(ledger: Ledger, budget: Budget, begun: int = 0, ended: int = 0, **changes: Any) -> bool:
    """Have a step of a budget happen."""
    ledger.begin(budget, None, CallPhase.WORK, begun)
    return ledger.finish(budget, None, CallPhase.WORK, plain(**changes), ended)


# -- opening -----------------------------------------------------------------------------------------------------


def test_the_first_call_opens_and_the_next_shares() -> None:
    """Requests with one id share one budget, anchored at the arrival of the first."""
    ledger = Ledger()
    found = ledger.find(Limits(budget_id="run-42", remaining=8 * SECOND), DEFAULTS, 100 * SECOND, "fresh")
    first = found.budget
    assert first is not None
    assert not found.extended
    second = find(ledger, Limits(budget_id="run-42"), at=103 * SECOND)
    assert second is first
    assert (first.opened, first.deadline, first.reserve) == (100 * SECOND, 108 * SECOND, SECOND)
    assert ledger.get("run-42") is first


def test_a_stated_budget_is_clamped_before_any_arithmetic() -> None:
    """`max` first, then the transit allowance is taken off what an arriving header states."""
    defaults = replace(DEFAULTS, max=20 * SECOND, transit_allowance=100 * MILLISECOND)
    budget = find(Ledger(), Limits(remaining=99 * SECOND), defaults=defaults)
    assert budget.deadline == 20 * SECOND - 100 * MILLISECOND


def test_transit_is_taken_off_statements_only() -> None:
    """The configured default has not travelled, so nothing is taken off it."""
    defaults = replace(DEFAULTS, transit_allowance=100 * MILLISECOND)
    assert find(Ledger(), Limits(), defaults=defaults).deadline == DEFAULTS.default


def test_zero_is_spent_and_not_absent() -> None:
    """`Budget-Remaining-Ms: 0` makes a budget in which nothing starts."""
    assert find(Ledger(), Limits(remaining=0)).remaining(0, CallPhase.CLEANUP) == 0


def test_the_opener_may_want_another_reserve() -> None:
    """`Budget-Reserve-Ms` counts when the budget is opened, and is no way to lengthen the work afterwards."""
    ledger = Ledger()
    budget = find(ledger, Limits(budget_id="a", remaining=8 * SECOND, reserve=3 * SECOND))
    find(ledger, Limits(budget_id="a", reserve=0), at=SECOND)
    assert budget.end(CallPhase.WORK) == 5 * SECOND


@pytest.mark.parametrize("on_missing", [OnMissing.REFUSE, OnMissing.PASS])
def test_without_a_statement_there_may_be_no_budget(on_missing: OnMissing) -> None:
    """With `refuse` and `pass` no default is made up, not even for a new id that comes without a number."""
    ledger = Ledger()
    defaults = replace(DEFAULTS, on_missing=on_missing)
    assert ledger.find(NOTHING_STATED, defaults, 0, "fresh") == NO_BUDGET
    assert ledger.find(Limits(budget_id="new"), defaults, 0, "fresh") == NO_BUDGET
    assert len(ledger) == 0


@pytest.mark.parametrize("on_missing", OnMissing)
def test_a_known_id_needs_no_number(on_missing: OnMissing) -> None:
    """Whatever becomes of calls that state nothing, one that names a known budget belongs to it."""
    ledger = Ledger()
    defaults = replace(DEFAULTS, on_missing=on_missing)
    opened = find(ledger, Limits(budget_id="a", remaining=SECOND), defaults=defaults)
    assert ledger.find(Limits(budget_id="a"), defaults, 1, "fresh").budget is opened


@pytest.mark.parametrize("limits", [Limits(), Limits(remaining=SECOND)])
def test_a_budget_of_one_call_is_not_shared(limits: Limits) -> None:
    """Without a name, each call has a budget of its own, under a fresh id that nobody knows yet."""
    ledger = Ledger()
    found = ledger.find(limits, DEFAULTS, 0, "fresh")
    assert found.budget is not None
    assert found.budget.id == "fresh"
    assert ledger.get("fresh") is None
    assert len(ledger) == 0


# -- by what it is found -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "id"),
    [
        (Limits(budget_id="header", proxy_user="user", trace_id="trace"), "header"),
        (Limits(proxy_user="user", trace_id="trace"), "user"),
        (Limits(trace_id="trace"), "trace"),
        (Limits(), "fresh-0"),
    ],
)
def test_the_first_name_that_is_there_counts(limits: Limits, id: str) -> None:
    """`Budget-Id`, then the user of the proxy URL, then the trace."""
    assert find(Ledger(), limits, defaults=EVERY_WAY).id == id


EVERY_NAME = {
    Correlation.BUDGET_ID: Limits(budget_id="header"),
    Correlation.PROXY_USER: Limits(proxy_user="user", proxy_remaining=SECOND),
    Correlation.TRACEPARENT: Limits(trace_id="trace"),
}


@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.parametrize("configured", EVERY_NAME)
def test_a_way_that_is_not_configured_is_not_looked_at(name: Correlation, configured: Correlation) -> None:
    """With `correlate: [budget-id]` a proxy user and a trace name nothing, and its password states nothing."""
    budget = find(Ledger(), EVERY_NAME[name], defaults=replace(DEFAULTS, correlate=(configured,)))
    assert (budget.id == "fresh-0") is (name is not configured)
    if name is not configured:
        assert budget.deadline == DEFAULTS.default


def test_the_password_of_the_proxy_url_opens_once() -> None:
    """It is the same in each call of a client that cannot change it, so later it says nothing new."""
    ledger = Ledger()
    url = Limits(proxy_user="run-42", proxy_remaining=10 * SECOND)
    budget = find(ledger, url)
    for at in range(1, 30):
        assert find(ledger, url, at=at * SECOND) is budget
    assert (budget.deadline, budget.extensions_ignored) == (10 * SECOND, 0)
    assert budget.remaining(11 * SECOND, CallPhase.CLEANUP) < 0


def test_a_header_beside_the_proxy_url_counts_each_time() -> None:
    """A stated remainder is the fresher word: it opens in place of the password, and shortens later."""
    ledger = Ledger()
    url = Limits(proxy_user="run-42", proxy_remaining=10 * SECOND)
    budget = find(ledger, url._replace(remaining=8 * SECOND))
    assert budget.deadline == 8 * SECOND
    find(ledger, url._replace(remaining=2 * SECOND), at=SECOND)
    assert budget.deadline == 3 * SECOND


# -- promise 1 ---------------------------------------------------------------------------------------------------

NAMES = ["run-1", "run-2", "4bf92f3577b34da6a3ce929d0e0e4736"]
MS = st.integers(0, 120_000)


@st.composite
def heads(draw: st.DrawFn) -> dict[bytes, bytes]:
    """The limits of one request head, named in one of the ways, or in several."""
    fields: dict[bytes, bytes] = {}
    if draw(st.booleans()):
        fields[b"budget-id"] = draw(st.sampled_from(NAMES)).encode()
    if draw(st.booleans()):
        password = draw(st.one_of(st.just(""), MS.map(str)))
        user = f"{draw(st.sampled_from(NAMES))}:{password}".encode()
        fields[b"proxy-authorization"] = b"Basic " + base64.b64encode(user)
    if draw(st.booleans()):
        fields[b"traceparent"] = b"00-%b-00f067aa0ba902b7-01" % NAMES[2].encode()
    if draw(st.booleans()):
        fields[b"budget-remaining-ms"] = b"%d" % draw(MS)
    if draw(st.booleans()):
        fields[b"budget-reserve-ms"] = b"%d" % draw(MS)
    if draw(st.booleans()):
        fields[b"budget-phase"] = draw(st.sampled_from([b"work", b"cleanup"]))
    return fields


@given(
    st.lists(st.tuples(st.integers(0, 20 * SECOND), heads()), max_size=30),
    st.sampled_from(OnMissing),
    st.integers(0, SECOND),
)
def test_no_order_of_headers_and_ids_makes_a_budget_grow(
    calls: list[tuple[int, dict[bytes, bytes]]], on_missing: OnMissing, transit: int
) -> None:
    """Promise 1: while an id is known its two ends move only towards now, whoever names it and however."""
    ledger = Ledger(LedgerBounds(retention=10**18))
    defaults = replace(EVERY_WAY, on_missing=on_missing, transit_allowance=transit)
    ends: dict[str, tuple[int, int]] = {}
    now = 0
    for passed, fields in calls:
        now += passed
        limits = read_limits(fields, by_trace=True)
        found = ledger.find(limits, defaults, now, "fresh")
        if found.budget is not None and limits.remaining is not None:
            assert found.budget.deadline <= now + limits.remaining - transit
        for name in NAMES:
            budget = ledger.get(name)
            if budget is not None:
                work, cleanup = budget.end(CallPhase.WORK), budget.end(CallPhase.CLEANUP)
                assert (work, cleanup) <= ends.get(name, (work, cleanup))
                assert cleanup <= ends.get(name, (work, cleanup))[1]
                ends[name] = work, cleanup
            else:
                assert name not in ends


# -- entry requests ----------------------------------------------------------------------------------------------


def test_a_call_without_a_name_belongs_to_the_sole_entry_request() -> None:
    """Whatever it states; the entry request itself, that had no name either, is kept under its fresh id."""
    ledger = Ledger()
    budget = enter(ledger, Limits(remaining=8 * SECOND))
    assert (budget.id, budget.lone, len(ledger)) == ("entry", False, 1)
    assert find(ledger, Limits(), at=SECOND) is budget
    assert find(ledger, Limits(remaining=SECOND), at=SECOND) is budget
    assert budget.deadline == 2 * SECOND
    assert find(ledger, Limits(budget_id="other"), at=SECOND) is not budget


def test_sole_means_that_no_other_job_is_open() -> None:
    """With two jobs open nobody can say whose call it is; with two entry requests of one job everybody can."""
    ledger = Ledger()
    first, second = enter(ledger, Limits(budget_id="a")), enter(ledger, Limits(budget_id="b"))
    assert find(ledger, Limits()).lone
    ledger.leave(second, SECOND)
    assert find(ledger, Limits(), at=SECOND) is first
    assert enter(ledger, Limits(budget_id="a"), at=SECOND) is first
    assert find(ledger, Limits(), at=SECOND) is first
    ledger.leave(first, SECOND)
    assert find(ledger, Limits(), at=SECOND) is first
    ledger.leave(first, SECOND)
    assert find(ledger, Limits(), at=SECOND).lone


def test_beside_an_entry_request_without_a_budget_no_other_is_the_sole_one() -> None:
    """A call may be of either."""
    ledger = Ledger()
    budget = enter(ledger, Limits())
    ledger.others += 1
    assert find(ledger, Limits()).lone
    ledger.others -= 1
    assert find(ledger, Limits()) is budget


def test_an_entry_request_never_joins_the_sole_one() -> None:
    """It begins a job of its own."""
    ledger = Ledger()
    assert enter(ledger, Limits()) is not enter(ledger, Limits(), fresh_id="another")


def test_the_sole_one_is_found_only_where_that_is_configured() -> None:
    """And in its place in the order."""
    ledger = Ledger()
    budget = enter(ledger, Limits(budget_id="a"))
    named = Limits(budget_id="other")
    assert find(ledger, Limits(), defaults=replace(DEFAULTS, correlate=(Correlation.BUDGET_ID,))).lone
    sole_first = replace(DEFAULTS, correlate=(Correlation.SOLE, Correlation.BUDGET_ID))
    assert find(ledger, named, defaults=sole_first) is budget


def test_a_trace_leads_to_the_budget_of_its_entry_request() -> None:
    """A new trace is not taken for the name of a job while another way leads to one."""
    ledger = Ledger()
    budget = enter(ledger, Limits(budget_id="a", trace_id="t1"))
    enter(ledger, Limits(budget_id="b"))
    assert find(ledger, Limits(trace_id="t1"), defaults=EVERY_WAY) is budget
    assert find(ledger, Limits(trace_id="t2"), defaults=EVERY_WAY).id == "t2"
    ledger.leave(budget, 0)
    assert find(ledger, Limits(trace_id="t3"), defaults=EVERY_WAY).id == "b"


def test_the_last_traces_of_a_job_are_known_and_forgotten_with_it() -> None:
    """A conversation of many entry requests does not pile them up. A trace leads where it led last."""
    ledger = Ledger(LedgerBounds(retention=0))
    for number in range(3 * MOST_TRACES):
        ledger.leave(enter(ledger, Limits(budget_id="a", trace_id=f"t{number}")), 0)
    known = [ledger.by_trace(f"t{number}") is not None for number in range(3 * MOST_TRACES)]
    assert known == [False] * 2 * MOST_TRACES + [True] * MOST_TRACES
    other = enter(ledger, Limits(budget_id="b", remaining=50 * SECOND, trace_id=f"t{3 * MOST_TRACES - 1}"))
    ledger.sweep(20 * SECOND)
    assert ledger.get("a") is None
    assert [ledger.by_trace(f"t{number}") for number in range(2 * MOST_TRACES, 3 * MOST_TRACES)] == [
        *[None] * (MOST_TRACES - 1),
        other,
    ]


def test_the_last_entry_request_closes_and_a_further_one_opens_again() -> None:
    """The clock is the old one, whatever the further one states, and the deeper delegation counts."""
    ledger = Ledger()
    first = enter(ledger, Limits(budget_id="a", remaining=8 * SECOND, depth=2))
    enter(ledger, Limits(budget_id="a", depth=1), at=SECOND)
    assert [ledger.leave(first, SECOND), ledger.leave(first, 2 * SECOND)] == [False, True]
    assert (first.closed_at, first.closed_by, first.on_time, ledger.open) == (2 * SECOND, "entry", True, 0)
    limits = Limits(budget_id="a", remaining=50 * SECOND, depth=1)
    found = ledger.find(limits, DEFAULTS, 3 * SECOND, "fresh", entry=True)
    assert found == Found(first, extended=True)
    assert ledger.enter(first, limits)
    assert (first.closed_at, first.deadline, first.depth, ledger.open) == (None, 8 * SECOND, 2, 1)
    assert ledger.leave(first, 9 * SECOND)
    assert first.on_time is False


def test_a_job_whose_time_is_over_does_not_open_again() -> None:
    """What was said of it stands."""
    ledger = Ledger()
    budget = enter(ledger, Limits(budget_id="a", remaining=SECOND))
    assert ledger.leave(budget, SECOND)
    enter(ledger, Limits(budget_id="a"), at=2 * SECOND)
    assert (budget.closed_at, budget.on_time, ledger.open) == (SECOND, True, 0)
    assert not ledger.leave(budget, 3 * SECOND)
    assert budget.closed_at == SECOND


def test_a_job_that_opens_again_keeps_its_details_as_long_as_other_open_ones() -> None:
    """It was to give them up first, while it was finished."""
    ledger = Ledger(LedgerBounds(bytes=32 * step_bytes(plain())))
    reopened, closed = (enter(ledger, Limits(budget_id=id)) for id in "ab")
    for budget in (reopened, closed):
        for _ in range(16):
            call(ledger, budget)
        ledger.leave(budget, 0)
    enter(ledger, Limits(budget_id="a"))
    call(ledger, find(ledger, Limits(budget_id="c")))
    kept = [len(budget.history.steps) for budget in (reopened, closed) if budget.history is not None]
    assert kept == [16, 0]


@pytest.mark.parametrize("retention", [0, MINUTE])
def test_a_job_that_is_under_way_is_not_forgotten(retention: int) -> None:
    """However long after its end: its calls would find no clock, and be given a fresh one."""
    ledger = Ledger(LedgerBounds(retention=retention, budgets=1))
    budget = enter(ledger, Limits(budget_id="a", remaining=SECOND))
    for at in range(0, 60 * 60, 7):
        assert find(ledger, Limits(), at=at * SECOND) is budget
    assert ledger.find(Limits(budget_id="b"), DEFAULTS, 3600 * SECOND, "fresh") == CROWDED
    ledger.leave(budget, 3600 * SECOND)
    assert find(ledger, Limits(budget_id="b"), at=3600 * SECOND) is not budget


# -- transit, reserve, stages ------------------------------------------------------------------------------------


def test_what_it_took_to_arrive_is_taken_off_each_statement() -> None:
    """As far as it was measured, beside the configured allowance, and never off the default."""
    ledger, defaults = Ledger(), replace(DEFAULTS, transit_allowance=100 * MILLISECOND)
    limits = Limits(budget_id="a", remaining=8 * SECOND)
    budget = ledger.find(limits, defaults, 0, "fresh", transit=30 * MILLISECOND).budget
    assert budget is not None
    assert (budget.total, budget.deadline) == (7_870 * MILLISECOND, 7_870 * MILLISECOND)
    again = ledger.find(limits, defaults, -SECOND, "fresh", transit=30 * MILLISECOND)
    assert (again.extended, budget.deadline) == (False, 6_870 * MILLISECOND)
    unstated = ledger.find(Limits(budget_id="b"), defaults, 0, "fresh", transit=30 * MILLISECOND).budget
    assert unstated is not None
    assert unstated.total == DEFAULTS.default


def test_a_budget_has_the_shares_of_its_own_total() -> None:
    """In proportion: half of the default length, half of each share. Slack is nobody's."""
    stages = (Share("llm", 6 * SECOND), Share("slack", 2 * SECOND), Share("search", 2 * SECOND))
    ledger, defaults = Ledger(), replace(DEFAULTS, stages=stages)
    budget = find(ledger, Limits(budget_id="a", remaining=5 * SECOND), defaults=defaults)
    assert budget.stages is not None
    assert {stage.name: stage.share for stage in budget.stages} == {
        "llm": 3 * SECOND,
        "search": SECOND,
    }
