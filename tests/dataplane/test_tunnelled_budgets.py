"""Whose budget holds for what comes through a CONNECT tunnel."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults, Correlation, OnMissing, Policy, Route
from proxy.core.units import MILLISECOND, SECOND
from tests.dataplane.tunnelling import asked, connect, through, user
from tests.dataplane.world import FakeClient, World


def told(world: World, client: FakeClient, wire: bytes) -> FakeClient:
    """Send a request through a tunnel, and have it answered."""
    client.sends(wire)
    world.loop.settle()
    world.upstream().answers()
    return client


# -- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [user("run", 10_000), {"Budget_Id": "run", "Budget_Remaining_Ms": 10_000}])
def test_a_budget_named_with_the_tunnel_holds_in_it(by: dict[str, Any]) -> None:
    """Opened by the CONNECT, once, and spent by all that comes through."""
    world = World()
    client = through(world, **by)
    world.advance(1000)
    told(world, client, asked())
    assert (client.field("Budget-Id"), client.field("Budget-Remaining-Ms")) == ("run", "9000")
    world.advance(3000)
    told(world, client, asked())
    assert client.field("Budget-Remaining-Ms") == "6000"
    assert [(record.budget_id, record.step) for record in world.records] == [("run", 1), ("run", 2)]
    assert (world.observed.budgets_opened, world.observed.extensions) == (1, 0)
    assert b"Proxy-Authorization" not in world.sent
    world.advance(6001)
    assert client.sends(asked()).statuses[-1] == 403
    assert (world.records[-1].reason, client.transport.closing) == ("budget_exhausted", False)
    world.at_rest()
    world.plane.attend()
    assert len(world.observed.budgets_closed) == 1


def test_a_later_header_can_only_shorten() -> None:
    world = World()
    client = through(world, **user("run", 10_000))
    told(world, client, asked(Budget_Remaining_Ms=20_000))
    assert (client.field("Budget-Remaining-Ms"), world.observed.extensions) == ("10000", 1)
    told(world, client, asked(Budget_Remaining_Ms=2000))
    assert (client.field("Budget-Id"), client.field("Budget-Remaining-Ms")) == ("run", "2000")
    told(world, client, asked())
    assert client.field("Budget-Remaining-Ms") == "2000"


def test_a_request_may_name_a_budget_of_its_own() -> None:
    world = World()
    client = through(world, Budget_Stage="llm", Budget_Depth=3, **user("run", 10_000))
    told(world, client, asked(Budget_Id="other", Budget_Remaining_Ms=700))
    assert (client.field("Budget-Id"), client.field("Budget-Remaining-Ms")) == ("other", "700")
    assert (world.record.stage, world.record.depth) == (None, 0)


def test_what_the_connect_says_of_its_job_is_said_of_the_requests() -> None:
    """Stage, phase and depth; but not what it says of itself alone: its own limits, its key, that somebody has looked."""
    world = World(Policy(budget=BudgetDefaults(reserve=SECOND)))
    itself: dict[str, Any] = {"Connect_Timeout_Ms": 500, "Idempotency_Key": "k", "Budget_Retry": "confirmed"}
    job: dict[str, Any] = {
        "Budget_Stage": "llm",
        "Budget_Phase": "cleanup",
        "Budget_Depth": 3,
        "Budget_Reserve_Ms": 4000,
    }
    client = through(world, Budget_Id="run", Budget_Remaining_Ms=9000, **itself, **job)
    told(world, client, asked("POST"))
    record = world.record
    assert (record.stage, record.depth, record.allowed_ms) == ("llm", 3, 9000)
    assert world.upstream().field("Budget-Depth") == "4"
    told(world, client, asked(Budget_Stage="search", Budget_Phase="work", Budget_Depth=0))
    record = world.records[-1]
    assert (record.stage, record.depth, record.allowed_ms) == ("search", 0, 5000)


def test_a_budget_that_nobody_named_holds_too() -> None:
    """Of what the CONNECT has stated there is left what is left of it by then, for each request."""
    world = World()
    client = through(world, Budget_Remaining_Ms=5000)
    world.advance(1000)
    told(world, client, asked())
    assert client.field("Budget-Remaining-Ms") == "4000"
    told(world, client, asked(Budget_Remaining_Ms=9000))
    assert client.field("Budget-Remaining-Ms") == "4000"
    told(world, client, asked(Budget_Remaining_Ms=300))
    assert client.field("Budget-Remaining-Ms") == "300"
    client.sends(asked(Budget_Remaining_Ms="x"))
    assert client.statuses[-1] == 400


def test_a_budget_that_nobody_named_stays_spent() -> None:
    """However long its connection lives."""
    world = World()
    client = told(world, through(world, Budget_Remaining_Ms=5000), asked())
    for _ in range(20):
        world.advance(250_000)
        assert client.sends(asked()).statuses[-1] == 403


def test_without_a_word_of_a_job_each_request_has_the_default() -> None:
    """And no budget is counted for the CONNECT."""
    world = World()
    client = through(world)
    for _ in range(3):
        told(world, client, asked())
    assert client.field("Budget-Remaining-Ms") == "300000"
    assert [record.step for record in world.records] == [1, 1, 1]
    assert (world.observed.budgets_opened, len(world.observed.budgets_closed)) == (3, 3)
    assert len(list(world.plane.budgets.listed())) == 3
    world.at_rest()


def test_a_request_joins_the_sole_job_of_its_time() -> None:
    """A client's pool keeps a tunnel across jobs: it is not the job of the one for which it was opened."""
    world = World(Policy(budget=BudgetDefaults(correlate=(Correlation.BUDGET_ID, Correlation.SOLE))))
    client = told(world, through(world), asked())
    budgets, limits = world.plane.budgets, Limits(budget_id="job")
    job = budgets.find(limits, world.plane.policy.budget, world.loop.now, "", entry=True).budget
    assert job is not None
    budgets.enter(job, limits)
    told(world, client, asked())
    assert client.field("Budget-Id") == "job"


def test_no_budget_no_tunnel() -> None:
    world = World(Policy(budget=BudgetDefaults(on_missing=OnMissing.REFUSE)))
    assert world.client().sends(connect()).statuses == [403]
    client = told(world, through(world, **user("run", 5000)), asked())
    assert client.statuses == [200, 200]


def test_a_request_is_cut_and_the_next_one_is_served() -> None:
    world = World(Policy(fallback=Route("fallback", cap=400 * MILLISECOND)))
    client = through(world).sends(asked())
    world.advance(400)
    assert (client.statuses, client.field("Budget-Outcome")) == (
        [200, 504],
        "deadline_exceeded; effect=none; retry=safe; reason=route_cap; phase=sent",
    )
    told(world, client, asked())
    assert client.statuses == [200, 504, 200]
