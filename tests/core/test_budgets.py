"""Finding the budget of a call: by its id, its proxy user or its trace; opened once, shared, and never refreshed."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import Budget, CallPhase
from proxy.core.budgets import CROWDED, NO_BUDGET, Budgets
from proxy.core.limits import NOTHING_STATED, Limits, read_limits
from proxy.core.policy import BudgetDefaults, Correlation, OnMissing
from proxy.core.units import MILLISECOND, MINUTE, SECOND

DEFAULTS = BudgetDefaults(default=10 * SECOND, reserve=SECOND, max=60 * SECOND)
EVERY_WAY = replace(DEFAULTS, correlate=tuple(Correlation))


def find(budgets: Budgets, limits: Limits, at: int = 0, defaults: BudgetDefaults = DEFAULTS) -> Budget:
    """The budget of a call that has one."""
    budget = budgets.find(limits, defaults, at, "fresh").budget
    assert budget is not None
    return budget


# -- opening -----------------------------------------------------------------------------------------------------


def test_the_first_call_opens_and_the_next_shares() -> None:
    """Requests with one id share one budget, anchored at the arrival of the first."""
    budgets = Budgets()
    found = budgets.find(Limits(budget_id="run-42", remaining=8 * SECOND), DEFAULTS, 100 * SECOND, "fresh")
    first = found.budget
    assert first is not None
    assert not found.extended
    second = find(budgets, Limits(budget_id="run-42"), at=103 * SECOND)
    assert second is first
    assert (first.opened, first.deadline, first.reserve) == (100 * SECOND, 108 * SECOND, SECOND)
    assert budgets.get("run-42") is first


def test_a_stated_budget_is_clamped_before_any_arithmetic() -> None:
    """`max` first, then the transit allowance is taken off what an arriving header states."""
    defaults = replace(DEFAULTS, max=20 * SECOND, transit_allowance=100 * MILLISECOND)
    budget = find(Budgets(), Limits(remaining=99 * SECOND), defaults=defaults)
    assert budget.deadline == 20 * SECOND - 100 * MILLISECOND


def test_transit_is_taken_off_statements_only() -> None:
    """The configured default has not travelled, so nothing is taken off it."""
    defaults = replace(DEFAULTS, transit_allowance=100 * MILLISECOND)
    assert find(Budgets(), Limits(), defaults=defaults).deadline == DEFAULTS.default


def test_zero_is_spent_and_not_absent() -> None:
    """`Budget-Remaining-Ms: 0` makes a budget in which nothing starts."""
    assert find(Budgets(), Limits(remaining=0)).remaining(0, CallPhase.CLEANUP) == 0


def test_the_opener_may_want_another_reserve() -> None:
    """`Budget-Reserve-Ms` counts when the budget is opened, and is no way to lengthen the work afterwards."""
    budgets = Budgets()
    budget = find(budgets, Limits(budget_id="a", remaining=8 * SECOND, reserve=3 * SECOND))
    find(budgets, Limits(budget_id="a", reserve=0), at=SECOND)
    assert budget.end(CallPhase.WORK) == 5 * SECOND


@pytest.mark.parametrize("on_missing", [OnMissing.REFUSE, OnMissing.PASS])
def test_without_a_statement_there_may_be_no_budget(on_missing: OnMissing) -> None:
    """With `refuse` and `pass` no default is made up, not even for a new id that comes without a number."""
    budgets = Budgets()
    defaults = replace(DEFAULTS, on_missing=on_missing)
    assert budgets.find(NOTHING_STATED, defaults, 0, "fresh") == NO_BUDGET
    assert budgets.find(Limits(budget_id="new"), defaults, 0, "fresh") == NO_BUDGET
    assert len(budgets) == 0


@pytest.mark.parametrize("on_missing", OnMissing)
def test_a_known_id_needs_no_number(on_missing: OnMissing) -> None:
    """Whatever becomes of calls that state nothing, one that names a known budget belongs to it."""
    budgets = Budgets()
    defaults = replace(DEFAULTS, on_missing=on_missing)
    opened = find(budgets, Limits(budget_id="a", remaining=SECOND), defaults=defaults)
    assert budgets.find(Limits(budget_id="a"), defaults, 1, "fresh").budget is opened


@pytest.mark.parametrize("limits", [Limits(), Limits(remaining=SECOND)])
def test_a_budget_of_one_call_is_not_shared(limits: Limits) -> None:
    """Without a name, each call has a budget of its own, under a fresh id that nobody can name."""
    budgets = Budgets()
    found = budgets.find(limits, DEFAULTS, 0, "fresh")
    assert found.budget is not None
    assert found.budget.id == "fresh"
    assert budgets.get("fresh") is None
    assert len(budgets) == 0


# -- by what it is found -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "id"),
    [
        (Limits(budget_id="header", proxy_user="user", trace_id="trace"), "header"),
        (Limits(proxy_user="user", trace_id="trace"), "user"),
        (Limits(trace_id="trace"), "trace"),
        (Limits(), "fresh"),
    ],
)
def test_the_first_name_that_is_there_counts(limits: Limits, id: str) -> None:
    """`Budget-Id`, then the user of the proxy URL, then the trace."""
    assert find(Budgets(), limits, defaults=EVERY_WAY).id == id


EVERY_NAME = {
    Correlation.BUDGET_ID: Limits(budget_id="header"),
    Correlation.PROXY_USER: Limits(proxy_user="user", proxy_remaining=SECOND),
    Correlation.TRACEPARENT: Limits(trace_id="trace"),
}


@pytest.mark.parametrize("name", EVERY_NAME)
@pytest.mark.parametrize("configured", EVERY_NAME)
def test_a_way_that_is_not_configured_is_not_looked_at(name: Correlation, configured: Correlation) -> None:
    """With `correlate: [budget-id]` a proxy user and a trace name nothing, and its password states nothing."""
    budget = find(Budgets(), EVERY_NAME[name], defaults=replace(DEFAULTS, correlate=(configured,)))
    assert (budget.id == "fresh") is (name is not configured)
    if name is not configured:
        assert budget.deadline == DEFAULTS.default


def test_the_password_of_the_proxy_url_opens_once() -> None:
    """It is the same in each call of a client that cannot change it, so later it says nothing new."""
    budgets = Budgets()
    url = Limits(proxy_user="run-42", proxy_remaining=10 * SECOND)
    budget = find(budgets, url)
    for at in range(1, 30):
        assert find(budgets, url, at=at * SECOND) is budget
    assert (budget.deadline, budget.extensions_ignored) == (10 * SECOND, 0)
    assert budget.remaining(11 * SECOND, CallPhase.CLEANUP) < 0


def test_a_header_beside_the_proxy_url_counts_each_time() -> None:
    """A stated remainder is the fresher word: it opens in place of the password, and shortens later."""
    budgets = Budgets()
    url = Limits(proxy_user="run-42", proxy_remaining=10 * SECOND)
    budget = find(budgets, url._replace(remaining=8 * SECOND))
    assert budget.deadline == 8 * SECOND
    find(budgets, url._replace(remaining=2 * SECOND), at=SECOND)
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
    budgets = Budgets(retention=10**18)
    defaults = replace(EVERY_WAY, on_missing=on_missing, transit_allowance=transit)
    ends: dict[str, tuple[int, int]] = {}
    now = 0
    for passed, fields in calls:
        now += passed
        limits = read_limits(fields, by_trace=True)
        found = budgets.find(limits, defaults, now, "fresh")
        if found.budget is not None and limits.remaining is not None:
            assert found.budget.deadline <= now + limits.remaining - transit
        for name in NAMES:
            budget = budgets.get(name)
            if budget is not None:
                work, cleanup = budget.end(CallPhase.WORK), budget.end(CallPhase.CLEANUP)
                assert (work, cleanup) <= ends.get(name, (work, cleanup))
                assert cleanup <= ends.get(name, (work, cleanup))[1]
                ends[name] = work, cleanup
            else:
                assert name not in ends


# -- what is kept ------------------------------------------------------------------------------------------------


def test_a_late_call_gets_no_fresh_start() -> None:
    """An ended budget stays known, so that a call under its id is refused, whatever it states."""
    budgets = Budgets(retention=5 * MINUTE)
    budget = find(budgets, Limits(budget_id="a", remaining=SECOND))
    late = find(budgets, Limits(budget_id="a", remaining=9 * SECOND), at=4 * MINUTE)
    assert late is budget
    assert late.remaining(4 * MINUTE) < 0
    assert late.extensions_ignored == 1


def test_an_id_is_free_again_after_its_retention() -> None:
    """Until then it is known, and the moment does not depend on what other jobs do."""
    budgets = Budgets(retention=5 * MINUTE)
    budget = find(budgets, Limits(budget_id="a", remaining=SECOND))
    assert find(budgets, Limits(budget_id="a"), at=SECOND + 5 * MINUTE) is budget
    assert find(budgets, Limits(budget_id="a"), at=SECOND + 5 * MINUTE + 1) is not budget


def test_ending_a_budget_early_does_not_free_its_id_early() -> None:
    """A statement of zero ends it at once; the id is kept as long as if it had not been made."""
    budgets = Budgets(retention=0)
    budget = find(budgets, Limits(budget_id="a", remaining=10 * SECOND))
    find(budgets, Limits(budget_id="a", remaining=0), at=SECOND)
    assert find(budgets, Limits(budget_id="a"), at=10 * SECOND) is budget


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1000), st.integers(0, 400)), max_size=80),
    st.integers(1, 8),
)
def test_the_table_is_bounded_and_forgets_no_open_budget(
    calls: list[tuple[int, int, int]], capacity: int
) -> None:
    """However many ids come, no more than `capacity` are kept, and one that is open is never opened anew (promise 1)."""
    budgets = Budgets(retention=10**9, capacity=capacity)
    now, opened = 0, dict[str, Budget]()
    for number, stated, passed in calls:
        now += passed * MILLISECOND
        id = f"run-{number}"
        found = budgets.find(Limits(budget_id=id, remaining=stated * MILLISECOND), DEFAULTS, now, "fresh")
        assert len(budgets) <= capacity
        before = opened.get(id)
        if before is not None and before.deadline >= now:
            assert found.budget is before
        if found.budget is not None:
            opened[id] = found.budget
        else:
            assert found.crowded
            assert len(budgets) == capacity


def test_a_full_table_is_full() -> None:
    """`capacity` budgets are kept, not one less; the next makes room by what has ended first, and by no other."""
    budgets = Budgets(capacity=3)
    for number in (5, 7, 6):
        find(budgets, Limits(budget_id=f"ends-at-{number}", remaining=number * SECOND))
    assert len(budgets) == 3
    another = Limits(budget_id="ends-at-9", remaining=9 * SECOND)
    assert budgets.find(another, DEFAULTS, 0, "fresh") == CROWDED
    assert budgets.find(another, DEFAULTS, 5 * SECOND + 1, "fresh").budget is not None
    assert len(budgets) == 3
    assert budgets.get("ends-at-5") is None


def test_open_budgets_are_those_that_have_not_ended() -> None:
    """For the gauge: what is only kept to refuse late calls does not count."""
    budgets = Budgets()
    for number in (1, 2, 3):
        find(budgets, Limits(budget_id=f"run-{number}", remaining=number * SECOND))
    assert [budgets.open_at(at * SECOND) for at in (0, 1, 2, 3)] == [3, 2, 1, 0]
    assert len(budgets) == 3


def test_memory_does_not_grow_with_the_number_of_jobs() -> None:
    """Jobs come and go for a day; what is kept is what ended within the retention."""
    budgets = Budgets(retention=MINUTE)
    for number in range(24 * 60):
        find(budgets, Limits(budget_id=f"run-{number}", remaining=SECOND), at=number * MINUTE)
        assert len(budgets) <= 3
