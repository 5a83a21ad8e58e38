"""A job that has done with less says so: in the answer to its entry request, in its record, and to whoever counts it."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.calls import Kind
from proxy.core.degrading import Degraded, FixedAnswer, Rung, Why
from proxy.core.policy import BudgetDefaults, OnMissing, Route
from proxy.core.units import SECOND
from proxy.core.verdict import ONE_DEGRADED, Verdict, verdict_of
from tests.core.structured import Token, dictionary, item
from tests.dataplane.entrance import app_of, enters, inbound, tool_of
from tests.dataplane.laddered import asks, laddered
from tests.dataplane.world import FakeClient, World, response

FULL = Rung("full", 5 * SECOND)
FAST = Rung("fast", 2 * SECOND)
PLAIN = Rung("plain", answer=FixedAnswer(body=b'{"answer":"later"}'))
CHUNKED: dict[str, Any] = {"Transfer_Encoding": "chunked"}


def job() -> tuple[World, FakeClient]:
    """A job of ten seconds, the last of which is reserved, and a model that can do with less."""
    world = inbound(Route("chat", effect=Kind.READ, ladder=(FULL, FAST, PLAIN)))
    return world, enters(world.entry_client(), "POST", Budget_Id="job")


def said(client: FakeClient) -> tuple[str | None, str | None]:
    """Both fields of the last answer."""
    return client.field("Budget-Steps"), client.field("Budget-Verdict")


def kept(world: World) -> str:
    """The verdict by the budget's own record."""
    budget = world.plane.budgets.get("job")
    assert budget is not None
    return verdict_of(budget, world.loop.now).field()


def chats(world: World) -> FakeClient:
    return world.client().asks("POST", "http://model/chat", b"{}", Budget_Id="job")


def test_a_job_whose_steps_did_with_less_is_not_plainly_complete() -> None:
    """Its first step has all that it asks for; six seconds later a lower rung must do, and in the end a fixed answer."""
    world, client = job()
    chats(world)
    world.advance(6000)
    tool_of(world).answers(b"{}")
    chats(world)
    world.advance(1500)
    tool_of(world).answers(b"{}")
    assert chats(world).field("Budget-Degraded") == "level=2; rung=plain; reason=time"
    app_of(world).answers(b"what I have")
    steps, verdict = said(client)
    assert steps == "total=3, completed=3, deadline_exceeded=0, degraded=2, uncertain=0"
    assert verdict == kept(world) == "complete; on_time; degraded=2"
    (entry,) = world.observed.entries
    assert (entry.steps, entry.verdict) == (steps, verdict)
    ((counted, counts),) = world.observed.budgets_closed
    assert (counted, counts.degraded) == (Verdict(True, True, 2), 2)
    assert dictionary(steps or "")["degraded"].value == 2
    assert item(verdict) == (Token("complete"), {"on_time": True, "degraded": 2})


def test_each_step_that_was_answered_with_less_is_told_once_with_its_budget() -> None:
    """After its record, as of its end; the steps that had all that they asked for are not among them."""
    world, _ = job()
    chats(world)
    world.advance(6000)
    tool_of(world).answers(b"{}")
    chats(world)
    world.advance(500)
    tool_of(world).answers(b"{}")
    ((record, budget, now),) = world.observed.less
    assert record is world.records[1]
    assert record.degraded == Degraded(1, "fast", Why.TIME)
    assert budget is world.plane.budgets.get("job")
    assert now == world.loop.now


def test_an_answer_that_came_before_its_verdict_says_less_in_both_places() -> None:
    """In the head what has happened so far, and the verdict itself in the trailers."""
    world, client = job()
    world.advance(6500)
    chats(world)
    tool_of(world).answers(b"{}")
    app = app_of(world)
    app.says(response(200, b"", **CHUNKED, Content_Type="application/x-ndjson") + b"2\r\nok\r\n")
    assert client.field("Budget-Verdict") == "in_progress; degraded=1"
    world.advance(1700)
    chats(world)
    app.says(b"0\r\n\r\n")
    trailers = client.received.partition(b"ok\r\n0\r\n")[2].decode()
    assert "Budget-Verdict: complete; on_time; degraded=2\r\n" in trailers
    assert "Budget-Steps: total=2, completed=2, deadline_exceeded=0, degraded=2, uncertain=0\r\n" in trailers


@pytest.mark.parametrize("theirs", ["complete; on_time; degraded=2", "incomplete; late; degraded=1"])
def test_a_job_is_as_little_as_the_jobs_that_it_has_asked(theirs: str) -> None:
    """A delegated job says that it did with less: that is one step with less here, however many they were there."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    caller = world.client().asks("GET", "http://agent-b/", Budget_Id="job")
    tool_of(world).answers(Budget_Verdict=theirs, Budget_Steps="total=3, degraded=2")
    assert caller.field("Budget-Verdict") == theirs
    app_of(world).answers()
    complete = theirs.partition(";")[0]
    assert said(client)[1] == f"{complete}; on_time; degraded=1"
    assert kept(world) == said(client)[1]


def test_a_job_of_one_call_that_did_with_less_is_counted_so() -> None:
    """Nobody named it, and nobody hears its verdict but who counts."""
    world = laddered()
    asks(world.client(), 300)
    world.upstream().answers(b"{}")
    ((verdict, counts),) = world.observed.budgets_closed
    assert (verdict.field(), counts) == ("complete; on_time; degraded=1", ONE_DEGRADED)


def test_a_step_that_has_no_budget_is_told_without_one() -> None:
    """Where nothing limits it, a rung can fail all the same."""
    world = laddered(Rung("full"), PLAIN, budget=BudgetDefaults(on_missing=OnMissing.PASS))
    world.client().asks("POST", "http://model/v1/chat", b"{}")
    world.upstream().answers(b"{}", 503)
    ((record, budget, _),) = world.observed.less
    assert (record.rung, record.budget_id, budget) == ("plain", None, None)
