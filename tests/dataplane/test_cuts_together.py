"""Many cuts at one moment: all answers leave first, then come the books, and nothing that arrives is served in between."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.calls import Outcome
from proxy.core.policy import Policy, Route, Writes
from proxy.core.step import StepRecord
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteState
from proxy.dataplane.answers import LAST_ATTEMPT
from proxy.dataplane.door import Door
from proxy.dataplane.entrance import Entrance, InboundEntrance
from tests.dataplane.entrance import enters, inbound
from tests.dataplane.world import FakeClient, Socket, Transport, World

MANY = 5


def _asks(world: World, method: str = "GET", number: int = 0, ms: int = 50, **fields: Any) -> FakeClient:
    body = b"{}" if method == "POST" else b""
    return world.client().asks(method, f"http://tool/{number}", body, **{"Budget_Remaining_Ms": ms} | fields)


def _answered(world: World) -> int:
    return sum(bool(client.received) for client in world.clients)


def _watch_records(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return each record's outcome with how many callers had their answer when it was written, as they come."""
    seen: list[tuple[str, int]] = []
    keep = world.observed.step

    def step(record: StepRecord) -> None:
        seen.append((record.outcome, _answered(world)))
        keep(record)

    monkeypatch.setattr(world.observed, "step", step)
    return seen


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_all_answers_leave_before_the_first_record(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the last caller does not wait for the books of all the others."""
    world = World()
    clients = [_asks(world, method, number) for number in range(MANY)]
    seen = _watch_records(world, monkeypatch)
    world.advance(60)
    status = 424 if method == "POST" else 504
    assert [client.statuses for client in clients] == [[status]] * MANY
    assert seen == [("deadline_exceeded", MANY)] * MANY
    assert sorted(record.record for record in world.records) == sorted(
        str(client.field("Budget-Record")) for client in clients
    )
    world.at_rest()


def test_what_arrives_finds_the_books_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may be late: then the bytes of somebody else are what it sees first, and what is due still comes before them."""
    world = World()
    first = [_asks(world, number=number) for number in range(MANY)]
    seen = _watch_records(world, monkeypatch)
    other = world.client()
    world.loop.now += 70 * MILLISECOND  # no timer has woken yet
    other.transport._deliver = lambda: None  # type: ignore[method-assign]
    arrived = other.protocol.data_received
    arrived(b"GET http://tool/other HTTP/1.1\r\nHost: tool\r\n\r\n")
    assert [client.statuses for client in first] == [[504]] * MANY
    assert seen == [("deadline_exceeded", MANY)] * MANY
    assert world.plane.in_flight == 1
    assert [record.late_ms for record in world.records] == [20.0] * MANY
    world.loop.settle()
    world.upstream().answers()
    assert other.statuses == [200]
    world.at_rest()


def test_the_next_request_of_the_same_client_is_served_after_its_record() -> None:
    """It was sent behind the one that is cut, on the same connection."""
    world = World()
    client = _asks(world)
    client.asks("GET", "http://tool/next")
    world.advance(60)
    assert client.statuses == [504]
    world.upstream().answers()
    assert client.statuses == [504, 200]
    assert [record.outcome for record in world.records] == ["deadline_exceeded", "completed"]
    world.at_rest()


def test_a_place_is_handed_on_once_all_that_are_due_have_their_answers() -> None:
    """It is given back once, with the record; whoever waits for it starts then."""
    world = World(Policy(fallback=Route("fallback", concurrency=MANY)))
    clients = [_asks(world, "POST", number) for number in range(MANY)]
    waiting = _asks(world, "POST", 99, ms=5_000)
    assert not waiting.received
    world.advance(60)
    assert [client.statuses for client in clients] == [[424]] * MANY
    assert world.plane.scheduler.leases == 1
    world.upstream().answers()
    assert waiting.statuses == [200]
    assert len(world.records) == MANY + 1
    world.at_rest()


def test_an_uncertain_write_is_in_the_book_before_its_caller_hears_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the step's record comes after, not what guards the write."""
    world = World(Policy(writes=Writes(linger=0)))
    clients = [_asks(world, "POST", number, Idempotency_Key=f"k{number}") for number in range(MANY)]
    states: list[set[WriteState]] = []
    for client in clients:
        write = client.transport.write

        def watched(data: Any, write: Any = write, client: FakeClient = client) -> None:
            write(data)
            record = world.book.get(str(client.field("Budget-Record")))
            states.append({record.state} if record is not None else set())

        monkeypatch.setattr(client.transport, "write", watched)
    world.advance(60)
    assert states == [{WriteState.UNCERTAIN}] * MANY
    world.at_rest()


def test_who_has_used_up_the_attempts_is_told_so_though_both_are_due_at_once() -> None:
    """How many there still are stands in the answers, so these are accounted for one by one."""
    world = World(Policy(fallback=Route("fallback", max_attempts=2)))
    clients = [_asks(world, ms=5_000, Budget_Id="b") for _ in range(2)]
    world.advance(5_000)
    told = [LAST_ATTEMPT.encode() in client.received for client in clients]
    assert sorted(told) == [False, True]
    assert world.book.dead() == 1
    world.at_rest()


def test_the_answer_to_an_entry_request_counts_the_steps_that_are_cut_with_it() -> None:
    """The loop was late, and both are due: what the answer says of the job is what its record says."""
    world = inbound()
    client = enters(world.entry_client(), "POST", Budget_Id="job")
    for number in range(MANY):
        world.client().asks("GET", f"http://tool/{number}", Budget_Id="job")
    world.loop.now += 60 * SECOND
    world.loop.settle()
    (entry,) = world.observed.entries
    assert client.field("Budget-Steps") == f"total={MANY}, completed=0, deadline_exceeded={MANY}, uncertain=0"
    assert (client.field("Budget-Steps"), client.field("Budget-Verdict")) == (entry.steps, entry.verdict)
    world.at_rest()


@pytest.mark.parametrize("what", ["leaves", "is stopped"])
def test_whatever_comes_between_answer_and_record_the_call_ends_once(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its answer it has ended for everybody: it is not answered again, and leaves one record."""
    world = World()
    first, *others = [_asks(world, number=number) for number in range(3)]
    write = others[-1].transport.write

    def meanwhile(data: Any) -> None:
        write(data)
        assert first.received
        assert not world.records
        if what == "leaves":
            first.protocol.connection_lost(ConnectionResetError())
        else:
            first.protocol.stop()

    monkeypatch.setattr(others[-1].transport, "write", meanwhile)
    world.advance(60)
    assert [client.statuses for client in (first, *others)] == [[504]] * 3
    assert [record.outcome for record in world.records] == [Outcome.DEADLINE_EXCEEDED] * 3
    world.at_rest()


def test_what_is_due_does_not_wait_for_many_connections_to_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them begin in one turn of the loop, and each of them takes its time."""
    world = World()
    due = _asks(world)
    answered: list[bool] = []
    dial = world.dialer.dial

    def slow(*args: Any, **named: Any) -> Any:
        answered.append(bool(due.received))
        return dial(*args, **named)

    monkeypatch.setattr(world.dialer, "dial", slow)
    for number in range(MANY):
        other = world.client()
        other.protocol.data_received(
            b"GET http://tool-%d/ HTTP/1.1\r\nHost: tool-%d\r\n\r\n" % (number, number)
        )
    world.loop.now += 60 * MILLISECOND
    world.loop.settle()
    assert answered == [True] * MANY


def test_a_call_that_is_due_as_its_own_connection_begins_to_open_opens_none() -> None:
    """It is cut first, and nobody dials for it."""
    world = World()
    client = world.client()
    client.protocol.data_received(
        b"GET http://tool/ HTTP/1.1\r\nHost: tool\r\nBudget-Remaining-Ms: 50\r\n\r\n"
    )
    world.loop.now += 60 * MILLISECOND
    world.loop.settle()
    assert client.statuses == [504]
    assert world.dialer.asked == 0
    assert world.plane.pool.counts() == {"idle": 0, "active": 0, "opening": 0}
    world.at_rest()


def test_what_is_due_does_not_wait_for_many_connections_to_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of all calls that were cut end in one turn of the loop."""
    world = World()
    for number in range(2):
        _asks(world, number=number)
    later = _asks(world, ms=55)
    first, second = (upstream.transport for upstream in world.upstreams[:2])
    answered: list[bool] = []
    lose, lose_too = first._lose, second._lose

    def slow(fault: Exception | None) -> None:
        world.loop.now += 10 * MILLISECOND
        lose(fault)

    def next_one(fault: Exception | None) -> None:
        answered.append(bool(later.received))
        lose_too(fault)

    monkeypatch.setattr(first, "_lose", slow)
    monkeypatch.setattr(second, "_lose", next_one)
    world.advance(52)
    assert answered == [True]
    world.at_rest()


def test_what_is_due_does_not_wait_for_many_connections_that_have_been_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may all stand in one turn of the loop, and each is sent its request then."""
    world = World()
    due = _asks(world)
    answered: list[bool] = []
    dial = world.dialer.dial

    async def slow(*args: Any, **named: Any) -> Any:
        opened = await dial(*args, **named)
        answered.append(bool(due.received))
        world.loop.now += 60 * MILLISECOND
        return opened

    monkeypatch.setattr(world.dialer, "dial", slow)
    for number in range(2):
        other = world.client()
        other.protocol.data_received(
            b"GET http://tool-%d/ HTTP/1.1\r\nHost: tool-%d\r\n\r\n" % (number, number)
        )
    world.loop.settle()
    assert answered == [False, True]


@pytest.mark.parametrize("entrance", [Entrance, InboundEntrance])
def test_what_is_due_does_not_wait_for_many_clients_that_connect(entrance: type[Any]) -> None:
    """All that stand at the door are let in within one turn of the loop."""
    world = World()
    due = _asks(world)
    answered: list[bool] = []

    def crowd() -> int:
        answered.append(bool(due.received))
        return 1_000_000

    door = Door(crowd, world.loop.clock, lambda why, peer, count: None)
    world.loop.now += 60 * MILLISECOND
    entrance(world.plane, door).connection_made(Transport(world.loop, Socket()))
    assert answered == [True]
