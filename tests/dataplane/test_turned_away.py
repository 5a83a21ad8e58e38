"""Calls that never start: what they are told, and that they are known again when they come back."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import BudgetDefaults, LedgerBounds, Policy
from proxy.core.verdict import verdict_of
from tests.dataplane.world import FakeClient, World


def _asks(world: World, method: str, **fields: Any) -> FakeClient:
    return world.client().asks(method, **{"Budget_Id": "job"} | fields)


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_what_was_refused_and_then_let_in_is_done(method: str) -> None:
    """Without a body it is known before anything of it was sent, a write by the same fingerprint as later."""
    world = World(Policy(budget=BudgetDefaults(depth=1)))
    assert _asks(world, method, Budget_Depth=5).statuses == [403]
    client = _asks(world, method)
    world.upstream().answers()
    assert client.statuses == [200]
    budget = world.plane.budgets.get("job")
    assert budget is not None
    assert world.plane.budgets.close(budget, world.loop.now, "request")
    assert verdict_of(budget, world.loop.now).field() == "complete; on_time"


@pytest.mark.parametrize(
    ("remaining", "status", "again", "after"), [(60_000, 503, "true", "1"), (500, 403, "false", None)]
)
def test_a_full_ledger_turns_away(remaining: int, status: int, again: str, after: str | None) -> None:
    """Not now, where a second's wait fits in what the call states; else there is nothing to wait for."""
    world = World(Policy(ledger=LedgerBounds(budgets=1)))
    _asks(world, "GET")
    client = _asks(world, "GET", Budget_Id="other", Budget_Remaining_Ms=remaining)
    assert client.statuses == [status]
    assert (client.field("x-should-retry"), client.field("Retry-After")) == (again, after)
    assert (world.record.outcome, world.record.reason) == ("shed", "busy")
    assert world.record.retry == ("safe" if status == 503 else "never"), "as the answer says"


def test_who_waits_for_a_write_in_doubt_is_not_told_to_repeat_it_at_a_stop() -> None:
    """The first has left, and the sidecar stops while it still listens for the answer that another call waits for."""
    world = World()
    key: dict[str, Any] = {"Idempotency_Key": "k", "body": b"{}"}
    first, second = (world.client().asks("POST", **key) for _ in range(2))
    first.leaves()
    second.protocol.stop()
    assert second.statuses == [424]
    assert second.field("x-should-retry") == "false"
    assert f'"record": "{world.records[0].record}"'.encode() in second.body
    world.advance(20_000)
    world.at_rest()
