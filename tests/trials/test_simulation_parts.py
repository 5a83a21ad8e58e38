"""The simulated world keeps its own promises: those that asyncio, kernels and disks make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.core.policy import JournalSync
from proxy.core.units import HOUR, MILLISECOND, SECOND
from proxy.core.writes import WriteRecord, WriteState
from proxy.store.errors import JournalError
from trials.simulation.actors import Script, first_of, pause, play
from trials.simulation.clock import Clock
from trials.simulation.disk import Disk, SimulatedJournal
from trials.simulation.draws import Draws, split_at
from trials.simulation.loop import EARLY, Loop, Pace
from trials.simulation.network import Network
from trials.simulation.pipes import Connection
from trials.simulation.trace import Trace
from trials.simulation.transport import Socket, Transport


class Place:
    """A clock, a network and a loop."""

    def __init__(self, seed: int = 1) -> None:
        self.trace = Trace()
        self.clock = Clock(Draws(seed, "order"))
        self.network = Network(self.clock, Draws(seed, "network"), self.trace)
        self.faults: list[str] = []
        self.loop = Loop(self.clock, self.network, Draws(seed, "loop"), self.faults)
        self.loop.pace = Pace(0)

    def run(self, span: int = SECOND) -> None:
        self.clock.run(self.clock.now + span)

    def connection(self, seed: int = 1) -> Connection:
        return Connection(self.clock, Draws(seed, "connection"), self.trace, "it", "same cluster")


class Heard(asyncio.Protocol):
    """What a protocol is told."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.said: list[str] = []

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.said.append("end")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.said.append(type(exc).__name__ if exc is not None else "lost")


def transport_on(place: Place, connection: Connection, protocol: Heard) -> Transport:
    sock = Socket(1)
    sock.end = connection.b
    transport = Transport(place.loop, sock, protocol)
    transport.start()
    return transport


# -- draws and time ----------------------------------------------------------------------------------------------------


def test_the_same_part_of_the_same_seed_draws_the_same() -> None:
    one, other, third = Draws(7, "a"), Draws(7, "a"), Draws(7, "b")
    same = [one.random() for _ in range(5)]
    assert same == [other.random() for _ in range(5)]
    assert same != [third.random() for _ in range(5)]


def test_pieces_are_the_whole() -> None:
    draws = Draws(1, "pieces")
    for size in (0, 1, 2, 50):
        data = bytes(range(size))
        pieces = split_at(draws, data, 10)
        assert b"".join(pieces) == data
        assert size < 2 or all(pieces)


def test_time_jumps_and_what_is_called_off_does_not_happen() -> None:
    clock = Clock(Draws(1, "order"))
    seen: list[int] = []
    begin = clock.now
    clock.after(2 * HOUR, lambda: seen.append(clock.now - begin))
    clock.after(HOUR, seen.append, 0).call_off()
    clock.run(begin + 3 * HOUR)
    assert seen == [2 * HOUR]


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_callbacks_run_in_the_order_in_which_they_were_given() -> None:
    place = Place()
    seen: list[int] = []
    for number in range(20):
        place.loop.call_soon(seen.append, number)
    place.run()
    assert seen == list(range(20))


def test_a_timer_is_early_by_as_much_as_it_may_be_and_no_more() -> None:
    place = Place()
    begin, spans = place.clock.now, []
    for number in range(1, 200):
        span = number * MILLISECOND
        place.loop.call_later(span / SECOND, lambda span=span: spans.append(place.clock.now - begin - span))
    place.run()
    assert len(spans) == 199
    assert -EARLY <= min(spans) < -MILLISECOND
    assert max(spans) <= 0


def test_a_dead_process_runs_nothing_any_more() -> None:
    place = Place()
    seen: list[str] = []
    place.loop.call_soon(seen.append, "now")
    place.loop.call_later(0.1, seen.append, "later")
    place.loop.kill()
    place.run()
    assert seen == []


def test_what_arrives_in_a_long_turn_waits_for_the_next_one() -> None:
    place = Place()
    seen: list[int] = []
    begin = place.clock.now
    place.loop.call_soon(place.loop.block, 50 * MILLISECOND)
    place.clock.after(
        10 * MILLISECOND, lambda: place.loop.event(lambda: seen.append(place.clock.now - begin))
    )
    place.run()
    (when,) = seen
    assert when >= 50 * MILLISECOND


def test_tasks_and_futures_are_asyncio_s_own() -> None:
    place = Place()
    seen: list[str] = []

    async def waits() -> None:
        try:
            async with asyncio.timeout(0.2):
                await place.loop.create_future()
        except TimeoutError:
            seen.append("over")

    place.loop.create_task(waits())
    place.run()
    assert seen == ["over"]
    assert place.faults == []
    assert place.loop.pending == []


# -- connections -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_bytes_arrive_whole_and_in_order_however_they_are_cut(seed: int) -> None:
    place, protocol = Place(), Heard()
    connection = place.connection(seed)
    transport_on(place, connection, protocol)
    sent = bytearray()

    def send() -> None:
        piece = bytes([len(sent) % 251]) * 1000
        taken = connection.a.write(piece)
        sent.extend(piece[:taken])

    for number in range(100):
        place.clock.after(number * MILLISECOND, send)
    place.clock.after(150 * MILLISECOND, connection.a.end)
    place.run(10 * SECOND)
    assert protocol.data == sent
    assert protocol.said == ["end"]


def test_who_does_not_read_slows_the_writer_down() -> None:
    place, protocol = Place(), Heard()
    connection = place.connection()
    transport = transport_on(place, connection, protocol)
    transport.pause_reading()
    room = connection.b.room
    assert connection.a.write(b"x" * (room + 500)) == room
    told: list[bool] = []
    connection.a.on_room = lambda: told.append(True)
    place.run()
    assert not told
    transport.resume_reading()
    place.run()
    assert told
    assert len(protocol.data) == room


@pytest.mark.parametrize("how", ["unread", "after the close"])
def test_what_is_not_read_comes_back_as_a_reset(how: str) -> None:
    place, protocol = Place(), Heard()
    connection = place.connection()
    transport = transport_on(place, connection, protocol)
    if how == "unread":
        connection.a.inbox.append(b"unread")
        connection.a.unread = 6
        connection.a.close()
    else:
        connection.a.close()
        place.run()
        transport.write(b"too late")
    place.run()
    assert protocol.said[-1] == "ConnectionResetError"


def test_a_reset_is_not_noticed_while_nobody_reads() -> None:
    place, protocol = Place(), Heard()
    connection = place.connection()
    transport = transport_on(place, connection, protocol)
    transport.pause_reading()
    connection.a.close(hard=True)
    place.run()
    assert protocol.said == []
    transport.write(b"x")
    place.run()
    assert protocol.said == ["BrokenPipeError"]


# -- the disk ----------------------------------------------------------------------------------------------------------


def record(id: str) -> WriteRecord:
    return WriteRecord(id, WriteState.INTENT, 1, "http://tool:80", "POST", "/", "fallback", "", 1, None, "f")


def journal(place: Place, disk: Disk) -> SimulatedJournal:
    made = SimulatedJournal(
        disk, disk.path, JournalSync.NORMAL, HOUR, clock=lambda: place.clock.now, declared=lambda _: None
    )
    made.open(10)
    made.start(place.loop)  # type: ignore[arg-type]
    return made


def telling(seen: list[Any]) -> Callable[[JournalError | None], None]:
    return seen.append


def test_a_kill_leaves_what_was_committed_and_nothing_else(tmp_path: Path) -> None:
    place, told = Place(), list[Any]()
    disk = Disk(place.clock, Draws(1, "disk"), place.trace, tmp_path)
    first = journal(place, disk)
    first.put(record("there"), telling(told))
    place.run()
    assert told == [None]
    first.put(record("not there"), telling(told))
    assert first.worker is not None
    first.worker.kill()
    disk.crash()
    first.database.close()
    place.run()
    assert told == [None]
    found = journal(place, disk).database.held
    assert {id: kept.state for id, kept in found.items()} == {"there": WriteState.UNCERTAIN}


@pytest.mark.parametrize("trouble", ["full", "fails"])
def test_a_disk_in_trouble_tells_its_callers_and_mends(trouble: str, tmp_path: Path) -> None:
    place, told = Place(), list[Any]()
    disk = Disk(place.clock, Draws(1, "disk"), place.trace, tmp_path)
    used = journal(place, disk)
    disk.trouble = trouble
    used.put(record("a"), telling(told))
    place.run()
    assert [type(error) for error in told] == [JournalError]
    healthy = [used.healthy]
    disk.trouble = None
    place.run(3 * SECOND)
    healthy.append(used.healthy)
    assert healthy == [False, True]
    used.put(record("a"), telling(told))
    place.run()
    assert told[1:] == [None]
    assert used.close()


def test_a_disk_that_is_stuck_tells_nobody_until_it_goes_on(tmp_path: Path) -> None:
    place, told = Place(), list[Any]()
    disk = Disk(place.clock, Draws(1, "disk"), place.trace, tmp_path)
    used = journal(place, disk)
    disk.trouble = "stuck"
    used.put(record("a"), telling(told))
    place.run()
    assert told == []
    disk.trouble = None
    place.run()
    assert told == [None]
    assert used.close()


# -- scripts -----------------------------------------------------------------------------------------------------------


def test_a_script_waits_for_what_it_yields_and_for_no_longer_than_it_says() -> None:
    place, seen = Place(), list[Any]()

    def script() -> Script:
        yield pause(place.clock, SECOND)
        seen.append((yield first_of(place.clock, SECOND, lambda tell: place.clock.after(10, tell, "came"))))
        seen.append((yield first_of(place.clock, SECOND, lambda tell: None)))

    play(script(), lambda: seen.append("over"))
    place.run(5 * SECOND)
    assert seen == ["came", None, "over"]
