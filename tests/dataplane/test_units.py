"""What counts as one unit of work, what uses up its attempts, and what its end makes of the job."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import (
    BudgetDefaults,
    Idempotency,
    LedgerBounds,
    Mode,
    Policy,
    Retries,
    Route,
    Share,
    Writes,
)
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.verdict import verdict_of
from proxy.core.writes import WriteEvent
from tests.dataplane.world import FakeClient, FakeUpstream, World

DONE, UNDONE = "complete; on_time", "incomplete; on_time"
AGAIN = Retries(max=1, statuses=frozenset({503}))


def _world(**route: Any) -> World:
    return World(Policy(fallback=Route("fallback", **route)))


def _asks(world: World, method: str = "GET", body: bytes = b"", **fields: Any) -> FakeClient:
    """A client of its own makes the call, for the job `b`."""
    return world.client().asks(method, body=body, **{"Budget_Id": "b"} | fields)


def _sent(world: World) -> int:
    """How many calls were sent."""
    return sum(len(upstream.heads) for upstream in world.upstreams)


def _verdict(world: World, id: str = "b") -> str:
    """What is said of a job by now."""
    budget = world.plane.budgets.get(id)
    assert budget is not None
    return verdict_of(budget, world.loop.now).field()


def _closed(world: World, id: str = "b") -> str:
    """Say that a job is done, and return what is said of it then."""
    now = world.loop.now
    budget = world.plane.budgets.get(id)
    assert budget is not None
    assert world.plane.budgets.close(budget, now, "request")
    world.plane.budget_finished(budget, now)
    return _verdict(world, id)


# -- equal calls side by side ------------------------------------------------------------------------------------------


def test_a_fan_out_of_equal_reads_is_as_many_units() -> None:
    """More than a unit gets attempts: all are sent, and none that succeeds uses one up."""
    world = _world(max_attempts=2)
    clients = [_asks(world) for _ in range(3)]
    for upstream in list(world.upstreams):
        upstream.answers()
    assert [client.statuses for client in clients] == [[200]] * 3
    assert [(record.attempt, record.tries, record.fresh) for record in world.records] == [(1, 1, 1)] * 3
    assert world.book.dead() == 0
    assert _asks(world).statuses == []
    world.upstream().answers()
    assert _closed(world) == DONE
    world.at_rest()


@pytest.mark.parametrize("succeeds", [True, False])
def test_while_the_last_attempts_run_nobody_else_gets_one(succeeds: bool) -> None:
    """It is given up when the last of them fails, and not before: one that succeeds settles the matter."""
    world = _world(max_attempts=2)
    _asks(world)
    world.upstream().answers(b"busy", 503)
    last = _asks(world)
    others = [_asks(world) for _ in range(2)]
    assert [client.statuses for client in others] == [[424]] * 2
    assert world.book.dead() == 0
    world.upstream().answers(b"ok", 200 if succeeds else 503)
    assert last.statuses == [200 if succeeds else 503]
    assert world.book.dead() == (0 if succeeds else 1)
    assert _sent(world) == 2
    assert _asks(world).statuses == ([] if succeeds else [424])


def test_a_fan_out_that_fails_is_given_up_once() -> None:
    """With the last of its calls; whoever comes when one has failed gets no further attempt."""
    world = _world(max_attempts=2)
    clients = [_asks(world) for _ in range(3)]
    for number, upstream in enumerate(list(world.upstreams)):
        assert world.book.dead() == 0
        upstream.answers(b"busy", 503)
        if number < 2:
            assert _asks(world).statuses == [424]
    assert [client.statuses for client in clients] == [[503]] * 3
    assert world.book.dead() == 1
    assert _asks(world).statuses == [424]
    assert _sent(world) == 3
    world.at_rest()


def test_one_that_succeeds_starts_the_count_of_its_key_anew() -> None:
    """503, 200, 503: two that failed, but no two of one piece of work."""
    world = _world(max_attempts=2)
    for status in (503, 200, 503):
        assert _asks(world, "POST", b"{}", Idempotency_Key="k").statuses == []
        world.upstream().answers(b"", status)
    assert world.book.dead() == 0
    _asks(world, "POST", b"{}", Idempotency_Key="k")
    world.upstream().answers(b"", 503)
    assert world.book.dead() == 1
    assert _asks(world, "POST", b"{}", Idempotency_Key="k").statuses == [424]
    world.at_rest()


# -- one key -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("GET", b""),
        ("HEAD", b""),
        ("DELETE", b""),
        ("PUT", b""),
        ("PUT", b"{}"),
        ("POST", b"{}"),
        ("PATCH", b"{}"),
    ],
)
def test_whatever_carries_a_key_is_sent_once(method: str, body: bytes) -> None:
    """Not writes alone: a key names a piece of work, whatever the method."""
    world = World()
    clients = [_asks(world, method, body, Idempotency_Key="k") for _ in range(3)]
    world.upstream().answers(b"" if method == "HEAD" else b"made", Content_Length=4)
    assert [client.statuses for client in clients] == [[200]] * 3
    assert [record.reason for record in world.records] == [None, "joined", "joined"]
    assert _sent(world) == 1
    world.at_rest()


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_who_waits_for_one_that_can_be_repeated_goes_on_when_its_caller_leaves(method: str) -> None:
    """Nobody listens for the answer to such a call: the next asks for itself, and the others wait for that."""
    world = World()
    first, second, third = (_asks(world, method, Idempotency_Key="k") for _ in range(3))
    first.leaves()
    assert _sent(world) == 2
    assert second.received == third.received == b""
    world.upstream().answers(b"made")
    assert second.body == third.body == b"made"
    world.at_rest()


@pytest.mark.parametrize("ending", ["it is cut", "its caller leaves"])
def test_where_keys_are_honoured_the_next_goes_on_at_once(ending: str) -> None:
    """The other side does it once, however often it comes: there is nothing to wait for."""
    world = World(Policy(fallback=Route("fallback", idempotency=Idempotency(honoured=True))))
    timer = {"Connect_Timeout_Ms": 100} if ending == "it is cut" else {}
    first = _asks(world, "POST", b"{}", Idempotency_Key="k", **timer)
    second = _asks(world, "POST", b"{}", Idempotency_Key="k")
    if timer:
        world.advance(100)
    else:
        first.leaves()
    assert _sent(world) == 2
    world.upstream().answers(b"made")
    assert second.body == b"made"
    assert [record.tries for record in world.records] == [1, 1]


def test_who_runs_out_of_time_while_a_late_answer_is_listened_for() -> None:
    """It is cut, and told which write is in doubt; whoever has more time gets the answer, and the doubt is over."""
    world = World(Policy(writes=Writes(linger=4 * SECOND)))
    first = _asks(world, "POST", b"{}", Idempotency_Key="k", Connect_Timeout_Ms=100)
    second = _asks(world, "POST", b"{}", Idempotency_Key="k", Connect_Timeout_Ms=300)
    third = _asks(world, "POST", b"{}", Idempotency_Key="k")
    world.advance(100)
    assert (first.statuses, second.received) == ([424], b"")
    world.advance(200)
    assert second.statuses == [424]
    cut = world.records[1]
    assert (cut.outcome, cut.effect, cut.tries) == ("deadline_exceeded", "none", 0)
    assert f'"record": "{world.records[0].record}"'.encode() in second.body
    assert second.field("x-should-retry") == "false"
    world.upstream().answers(b"made")
    assert third.body == b"made"
    (known,) = world.book.listed()
    assert (known.id, known.state.value) == (world.records[0].record, "reported")
    assert _sent(world) == 1
    world.at_rest()


@pytest.mark.parametrize("linger", [0, 4])
def test_who_waits_for_an_answer_that_never_comes(linger: int) -> None:
    """When nobody listens for it any more, it is refused as any repetition is, and nothing is sent twice."""
    world = World(Policy(writes=Writes(linger=linger * SECOND)))
    first = _asks(world, "POST", b"{}", Idempotency_Key="k")
    second = _asks(world, "POST", b"{}", Idempotency_Key="k")
    first.leaves()
    assert (second.received == b"") == (linger > 0)
    world.advance(linger * 1000)
    assert second.statuses == [424]
    assert "reason=unresolved_write" in (second.field("Budget-Outcome") or "")
    assert f'"record": "{world.records[0].record}"'.encode() in second.body
    assert _sent(world) == 1
    world.at_rest()


# -- what is said of the job -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(200, DONE), (404, DONE), (409, DONE), (429, UNDONE), (500, UNDONE), (503, UNDONE)],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_that_asks_for_another_attempt_is_not_done(method: str, status: int, verdict: str) -> None:
    """A whole answer with a status of 500 and more, or one that says not now, has done no work."""
    world = World()
    _asks(world, method)
    world.upstream().answers(b"", status)
    assert world.record.outcome == "completed"
    assert _closed(world) == verdict


def test_a_dead_letter_is_not_done() -> None:
    """Whatever else the job has done."""
    world = _world(max_attempts=1)
    _asks(world, "POST", b"{}")
    world.upstream().answers(b"", 503)
    _asks(world, "GET")
    world.upstream().answers()
    assert world.book.dead() == 1
    assert _closed(world) == UNDONE


@pytest.mark.parametrize(
    ("method", "body", "key"),
    [
        ("GET", b"", None),
        ("GET", b"", "k"),
        ("DELETE", b"", None),
        ("PUT", b"{}", None),
        ("POST", b"{}", None),
        ("POST", b"{}", "k"),
    ],
)
def test_what_was_refused_and_then_done_is_done(method: str, body: bytes, key: str | None) -> None:
    """Too deep at first; its body, if any, was not read then."""
    world = World(Policy(budget=BudgetDefaults(depth=1)))
    assert _asks(world, method, body, Budget_Depth=5, Idempotency_Key=key).statuses == [403]
    client = _asks(world, method, body, Idempotency_Key=key)
    world.upstream().answers()
    assert client.statuses == [200]
    assert [record.outcome for record in world.records] == ["refused", "completed"]
    assert _closed(world) == DONE


def test_what_was_refused_and_never_done_is_not_done() -> None:
    """Another call does not stand for it."""
    world = World(Policy(budget=BudgetDefaults(depth=1)))
    assert _asks(world, Budget_Depth=5).statuses == [403]
    world.client().asks(target="http://tool/other", Budget_Id="b")
    world.upstream().answers()
    assert _closed(world) == UNDONE


def _with_a_stage(mode: Mode = Mode.ENFORCE) -> World:
    budget = BudgetDefaults(default=10 * SECOND, stages=(Share("search", 300 * MILLISECOND),))
    return World(Policy(mode=mode, budget=budget))


def test_a_call_that_was_cut_by_its_stage_has_nothing_left_to_be_tried_with() -> None:
    """Though the budget has: in that stage it would be refused, and outside it may be made."""
    world = _with_a_stage()
    client = _asks(world, Budget_Stage="search")
    world.advance(300)
    assert client.statuses == [504]
    assert client.field("x-should-retry") == "false"
    assert "retry=never; reason=stage_share" in (client.field("Budget-Outcome") or "")
    assert int(client.field("Budget-Remaining-Ms") or 0) == 9700
    again = _asks(world, Budget_Stage="search")
    assert again.statuses == [403]
    outside = _asks(world)
    world.upstream().answers()
    assert outside.statuses == [200]
    assert _closed(world) == DONE


# -- after a job is closed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stray", ["is refused", "goes out"])
def test_a_stray_call_changes_nothing_that_was_said(stray: str) -> None:
    """Refused as it is, or sent where nothing is enforced: it is on record, and the verdict is what was counted."""
    world = World(Policy(mode=Mode.ENFORCE if stray == "is refused" else Mode.OBSERVE))
    _asks(world)
    world.upstream().answers()
    world.advance(1)
    assert _closed(world) == DONE
    world.advance(1)
    client = world.client().asks(target="http://tool/stray", Budget_Id="b")
    if stray == "goes out":
        world.upstream().answers(b"", 500)
    assert client.statuses == [403 if stray == "is refused" else 500]
    assert _verdict(world) == DONE
    ((counted, _),) = world.observed.budgets_closed
    assert counted.field() == DONE
    assert len(world.records) == 2


@pytest.mark.parametrize("status", [200, 500])
def test_a_call_that_ends_after_the_job_was_closed_changes_nothing(status: int) -> None:
    """It was under way when the job was said to be done, so that was not true."""
    world = World()
    _asks(world)
    world.upstream().answers(b"", 500)
    _asks(world)
    world.advance(5)
    assert _closed(world) == UNDONE
    world.upstream().answers(b"", status)
    assert _verdict(world) == UNDONE
    ((counted, counts),) = world.observed.budgets_closed
    assert (counted.field(), counts.in_flight) == (UNDONE, 1)
    world.at_rest()


@pytest.mark.parametrize(("found", "verdict"), [(True, DONE), (False, UNDONE)])
def test_a_doubt_that_is_resolved_changes_what_is_said(found: bool, verdict: str) -> None:
    """Of a closed job too: what is known of a write is known of its job."""
    world = World(Policy(writes=Writes(linger=0)))
    _asks(world, "POST", b"{}")
    world.upstream().breaks_off()
    assert _closed(world) == UNDONE
    (record,) = world.book.listed()
    event = WriteEvent.FOUND_APPLIED if found else WriteEvent.FOUND_ABSENT
    world.plane.keep(record.settled(event, "", world.plane.wall_ms()))
    assert _verdict(world) == verdict


# -- what is tried again -----------------------------------------------------------------------------------------------


EARLIER, NOW, LATER = (f"Sun, 09 Sep 2001 01:46:{second} GMT" for second in (35, 40, 42))


def _busy(world: World, **fields: Any) -> FakeUpstream:
    return world.upstream().answers(b"busy", 503, **fields)


@pytest.mark.parametrize(("until", "wait"), [(LATER, 2000), (NOW, 0), (EARLIER, 0)])
def test_a_date_to_come_again_is_reckoned_from_the_answers_own(until: str, wait: int) -> None:
    """Its clock may be years away from ours."""
    world = _world(retries=AGAIN)
    client = _asks(world)
    _busy(world, Date=NOW, Retry_After=until)
    if wait:
        world.advance(wait - 1)
        assert _sent(world) == 1
    world.advance(1)
    assert _sent(world) == 2
    world.upstream().answers()
    assert client.statuses == [200]


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_a_date_without_another_is_not_guessed_at(date: str | None) -> None:
    """The answer is passed on as it is."""
    world = _world(retries=AGAIN)
    client = _asks(world)
    _busy(world, Date=date, Retry_After=LATER)
    world.advance(5000)
    assert (client.statuses, client.field("Retry-After"), _sent(world)) == ([503], LATER, 1)
    assert world.observed.withheld == ["no_time"]


@pytest.mark.parametrize(("size", "sent"), [(100, 2), (101, 1)])
def test_a_body_that_was_not_kept_is_no_more_sent(size: int, sent: int) -> None:
    """And the metrics say why the retry that was asked for was not made."""
    policy = Policy(fallback=Route("fallback", retries=AGAIN), writes=Writes(fingerprint_bytes=100))
    world = World(policy)
    client = _asks(world, "PUT", b"x" * size)
    _busy(world)
    world.advance(1)
    assert _sent(world) == sent
    assert world.observed.withheld == ([] if sent == 2 else ["body_too_large"])
    assert client.statuses == ([] if sent == 2 else [503])


# -- what would be done ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "body"), [("GET", b""), ("POST", b"{}")])
def test_a_cap_of_attempts_is_observed_too(method: str, body: bytes) -> None:
    """Of a write as well, which would be cut and not be tried again."""
    route = Route("fallback", cap=100 * MILLISECOND, retries=Retries(statuses=frozenset({503, 504})))
    world = World(Policy(mode=Mode.OBSERVE, fallback=route))
    within, over = _asks(world, method, body), _asks(world, method, body)
    world.upstream(0).answers()
    world.advance(500)
    world.upstream(-1).answers()
    assert within.statuses == over.statuses == [200]
    assert [record.would for record in world.records] == [None, "cut"]


def test_one_that_would_wait_for_an_equal_one_is_not_refused() -> None:
    """Under one key the second would have been given the answer of the first."""
    world = World(Policy(mode=Mode.OBSERVE))
    for _ in range(2):
        _asks(world, "POST", b"{}", Idempotency_Key="k")
    for upstream in list(world.upstreams):
        upstream.answers()
    assert [record.would for record in world.records] == [None, None]
    assert _sent(world) == 2


def test_a_ledger_that_is_full_sheds() -> None:
    """It is no word of the budget's: there is room again when a job ends."""
    world = World(Policy(ledger=LedgerBounds(budgets=1)))
    _asks(world)
    turned_away = _asks(world, Budget_Id="other")
    assert (turned_away.statuses, turned_away.field("Retry-After")) == ([503], "1")
    assert (world.record.outcome, world.record.reason, world.record.phase) == ("shed", "busy", "not_sent")
    world.upstream().answers()
    world.advance(1)
    _closed(world)
    other = _asks(world, Budget_Id="other")
    world.upstream().answers()
    assert other.statuses == [200]
