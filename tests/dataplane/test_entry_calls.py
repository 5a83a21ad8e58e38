"""Which entry request a call belongs to, how deep it is, and what several entry requests of one budget share."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import Correlation, OnMissing
from tests.dataplane.entrance import EVERY_WAY, OTHER_TRACE, TRACE, app_of, enters, inbound, tool_of
from tests.dataplane.world import World


def budget_of(world: World, **fields: Any) -> str | None:
    """The budget of a call that the app makes now."""
    before = len(world.records)
    world.client().asks("GET", "http://tool/", **fields)
    tool_of(world).answers()
    return world.records[before].budget_id


# -- finding it ----------------------------------------------------------------------------------------------------


def test_by_the_id_that_the_app_was_told() -> None:
    """Whatever the call states beside it: a fresh total is no fresh clock."""
    world = inbound()
    enters(world.entry_client(), Budget_Remaining_Ms=4000)
    id = app_of(world).field("Budget-Id")
    world.advance(1000)
    assert budget_of(world, Budget_Id=id, Budget_Remaining_Ms=4000) == id
    assert world.records[0].allowed_ms == 2000.0, "less the second that has passed, and the reserve"
    assert world.observed.extensions == 1


def test_by_the_one_entry_request_that_is_open() -> None:
    """No header is needed; what the call states of the time is taken as any statement is."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    assert budget_of(world) == "job"
    assert budget_of(world, Budget_Remaining_Ms=2000) == "job"
    assert world.records[1].allowed_ms == 1000.0
    app_of(world).answers()
    assert client.statuses == [200]
    assert budget_of(world) != "job", "it is open no more"


def test_not_when_two_are_open() -> None:
    """Nobody knows whose it is. One of two that share a budget is as good as one."""
    world = inbound()
    enters(world.entry_client(), Budget_Id="job")
    one = app_of(world)
    enters(world.entry_client(), Budget_Id="job")
    same = app_of(world)
    assert budget_of(world) == "job"
    enters(world.entry_client(), Budget_Id="other")
    assert budget_of(world) not in ("job", "other")
    one.answers()
    assert budget_of(world) not in ("job", "other")
    same.answers()
    assert budget_of(world) == "other"


@pytest.mark.parametrize("beside", ["job", "probe", "ear", "websocket", "refused"])
def test_what_is_open_beside_it(beside: str) -> None:
    """An entry request without a budget has calls too. A probe has none, nor who only listens, nor who was turned away."""
    world = inbound(on_missing=OnMissing.PASS, depth=3)
    enters(world.entry_client(), Budget_Id="job", Budget_Remaining_Ms=5000)
    others: dict[str, dict[str, Any]] = {
        "job": {},
        "probe": {"User_Agent": "kube-probe/1.31"},
        "ear": {"Accept": "text/event-stream"},
        "websocket": {"Upgrade": "websocket", "Connection": "Upgrade"},
        "refused": {"Budget_Depth": 9, "Budget_Id": "deep", "Budget_Remaining_Ms": 5000},
    }
    client = enters(world.entry_client(), "GET", "/other", **others[beside])
    assert (budget_of(world) == "job") is (beside not in ("job", "websocket"))
    if beside != "refused":
        client.leaves()
    assert budget_of(world) == "job"
    assert world.plane.budgets.others == 0


def test_by_the_trace_of_the_entry_request() -> None:
    """The app's tracing carries it; of two jobs that are open, each call finds its own."""
    world = inbound(correlate=EVERY_WAY)
    enters(world.entry_client(), traceparent=TRACE)
    one = app_of(world).field("Budget-Id")
    assert app_of(world).field("traceparent") == TRACE
    enters(world.entry_client(), Budget_Id="two", traceparent=OTHER_TRACE)
    assert budget_of(world, traceparent=TRACE.replace("b7ad", "c7ad")) == one
    assert budget_of(world, traceparent=OTHER_TRACE) == "two"
    assert budget_of(world, traceparent=OTHER_TRACE, Budget_Id=one) == one, "who says it names it"


def test_a_trace_that_is_not_known() -> None:
    """A client that begins a trace of its own for each call still belongs to the one job that is open."""
    world = inbound(correlate=(Correlation.TRACEPARENT, Correlation.SOLE))
    enters(world.entry_client(), Budget_Id="job", traceparent=TRACE)
    job = app_of(world).field("Budget-Id")
    assert budget_of(world, traceparent=OTHER_TRACE) == job
    enters(world.entry_client(), traceparent=TRACE.replace("0af7", "2af7"))
    assert budget_of(world, traceparent=OTHER_TRACE) == OTHER_TRACE.split("-")[1]


def test_traces_are_not_looked_at_unless_the_policy_says_so() -> None:
    """They are there for other reasons."""
    world = inbound()
    enters(world.entry_client(), Budget_Id="one", traceparent=TRACE)
    enters(world.entry_client(), Budget_Id="two", traceparent=OTHER_TRACE)
    assert budget_of(world, traceparent=TRACE) not in ("one", "two")


# -- one budget, several entry requests ----------------------------------------------------------------------------


def test_a_second_entry_request_shares_the_clock() -> None:
    """It can shorten the budget, and never lengthen it."""
    world = inbound()
    enters(world.entry_client(), Budget_Id="job", Budget_Remaining_Ms=5000)
    world.advance(1000)
    second = enters(world.entry_client(), Budget_Id="job", Budget_Remaining_Ms=5000)
    assert app_of(world).field("Budget-Remaining-Ms") == "4000"
    assert world.observed.extensions == 1
    enters(world.entry_client(), Budget_Id="job", Budget_Remaining_Ms=2000)
    assert app_of(world).field("Budget-Remaining-Ms") == "2000"
    world.advance(3999)
    assert second.received == b"", "what it was allowed at its start is its own"
    world.advance(1)
    assert second.statuses == [504]
    assert (world.observed.budgets_opened, len(world.observed.budgets_closed)) == (1, 1)


def test_a_closed_budget_opens_again_without_a_fresh_clock() -> None:
    """It is counted as opened again, and closed again; when its time is over, it does not open."""
    world = inbound()
    for at in (0, 2000):
        client = enters(world.entry_client(), Budget_Id="job", Budget_Remaining_Ms=5000)
        assert app_of(world).field("Budget-Remaining-Ms") == str(5000 - at)
        app_of(world).answers()
        assert client.statuses == [200]
        world.advance(2000)
    assert (world.observed.budgets_opened, len(world.observed.budgets_closed)) == (2, 2)
    world.advance(2000)
    late = enters(world.entry_client(), Budget_Id="job", Budget_Remaining_Ms=5000)
    assert late.statuses == [403]
    budget = world.plane.budgets.get("job")
    assert budget is not None
    assert (budget.entries, budget.on_time, budget.closed_by) == (0, True, "entry")
    assert (world.observed.budgets_opened, len(world.observed.budgets_closed)) == (2, 2)


def test_the_last_entry_request_closes() -> None:
    """Not the first of several that ends."""
    world = inbound()
    first, second = world.entry_client(), world.entry_client()
    enters(first, Budget_Id="job")
    app = app_of(world)
    enters(second, Budget_Id="job")
    app.answers()
    assert (first.statuses, world.observed.budgets_closed) == ([200], [])
    second.leaves()
    assert len(world.observed.budgets_closed) == 1


# -- how deep ------------------------------------------------------------------------------------------------------


def test_calls_inherit_the_depth_and_send_on_one_more() -> None:
    """Whether or not the app passes it on."""
    world = inbound(depth=3)
    enters(world.entry_client(), Budget_Id="job", Budget_Depth=2)
    assert app_of(world).field("Budget-Depth") == "2"
    budget_of(world)
    assert tool_of(world).field("Budget-Depth") == "3"
    budget_of(world, Budget_Depth=2)
    assert tool_of(world).field("Budget-Depth") == "3"
    client = world.client().asks(Budget_Depth=4)
    assert client.statuses == [403]
    assert [record.depth for record in world.records] == [2, 2, 4]


def test_an_entry_request_that_is_too_deep() -> None:
    """It is refused; what it opened is closed again, and done with."""
    world = inbound(depth=3)
    client = enters(world.entry_client(), Budget_Id="job", Budget_Depth=4)
    assert client.statuses == [403]
    assert b"4 delegations deep" in client.body
    assert client.field("Budget-Verdict") == "incomplete; on_time"
    (entry,) = world.observed.entries
    assert (entry.outcome, entry.reason, entry.depth) == ("refused", "depth_exceeded", 4)
    assert (world.observed.budgets_opened, len(world.observed.budgets_closed)) == (1, 1)
    assert world.plane.budgets.open == 0


def test_a_refused_entry_request_changes_nothing_for_the_job_that_is_open() -> None:
    """Say, one that has come back to the agent that it began with: its own calls are not as deep as that."""
    world = inbound(depth=3)
    job = enters(world.entry_client(), Budget_Id="job", Budget_Depth=1)
    enters(world.entry_client(), Budget_Id="job", Budget_Depth=5)
    budget_of(world)
    assert tool_of(world).field("Budget-Depth") == "2"
    app_of(world).answers()
    assert job.field("Budget-Verdict") == "complete; on_time"
    assert world.observed.budgets_closed[0][0].field() == "complete; on_time"
