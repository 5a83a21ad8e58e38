"""What passes through a tunnel: every byte, both ways, at the pace of the slower side; and what is left when it ends."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.behaviours import answer
from tests.support.callers import Caller, call
from tests.support.ports import nobody_at
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream, Wire
from tests.support.waiting import eventually
from tests.ways.tunnels import (
    Tunnel,
    chatter,
    echo,
    farewell,
    flood,
    monologue,
    report,
    reset_when_spoken_to,
    silence,
    stop_talking_first,
)

MIB = 1024 * 1024


def noise(seed: int, size: int) -> bytes:
    """Bytes that look like nothing, the same each time."""
    return random.Random(seed).randbytes(size)


def in_pieces(data: bytes, seed: int = 1) -> Iterator[bytes]:
    """The same, cut at any place."""
    chance, at = random.Random(seed), 0
    while at < len(data):
        size = chance.choice([1, 17, 1_460, 16_384, 65_536, 70_001])
        yield data[at : at + size]
        at += size


# -- intact --------------------------------------------------------------------------------------------------------


def test_mebibytes_both_ways_at_once(sidecar: Sidecar) -> None:
    """Neither side waits for the other one, and each ends its own side when it is done."""
    size = 12 * MIB
    up, down = noise(1, size), noise(2, size)
    arrived = hashlib.sha256()

    async def talk(wire: Wire) -> None:
        async def speak() -> None:
            for piece in in_pieces(down, 3):
                await wire.send(piece)
            wire.half_close()

        async with asyncio.TaskGroup() as both:
            both.create_task(speak())
            while data := await wire.receive():
                arrived.update(data)

    with Upstream(talk=talk) as upstream, Tunnel(sidecar, upstream.authority) as tunnel:

        def speak() -> None:
            for piece in in_pieces(up, 4):
                tunnel.add(piece)
            tunnel.half_close()

        speaker = threading.Thread(target=speak)
        speaker.start()
        received = tunnel.rest()
        speaker.join()
        assert hashlib.sha256(received).digest() == hashlib.sha256(down).digest()
        assert sidecar.record(tunnel.opened.record)["bytes"] == size
        upstream.wait(lambda up: not up.open)
        assert upstream.bytes == size
        assert arrived.digest() == hashlib.sha256(up).digest()
        assert tunnel.ended_by == "fin"


def test_many_at_once_do_not_mix(sidecar: Sidecar) -> None:
    with Upstream(talk=echo) as upstream, ThreadPoolExecutor(16) as threads:

        def converse(number: int) -> bool:
            sent = noise(number, 200_000)
            with Tunnel(sidecar, upstream.authority) as tunnel:
                received = b""
                for piece in in_pieces(sent, number):
                    tunnel.add(piece)
                    received += tunnel.exactly(len(piece))
                return received == sent

        assert all(threads.map(converse, range(32)))


# -- half-close ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 3 * MIB])
def test_the_client_ends_its_side_first(sidecar: Sidecar, size: int) -> None:
    """It has asked its whole question, and still gets its answer."""
    with Upstream(talk=report) as upstream, Tunnel(sidecar, upstream.authority) as tunnel:
        tunnel.add(noise(size, size)).half_close()
        assert tunnel.rest() == b"%d" % size
        assert tunnel.ended_by == "fin"
        record = sidecar.record(tunnel.opened.record)
        assert (record["outcome"], record["effect"]) == ("completed", "reported")


def test_the_server_ends_its_side_first(sidecar: Sidecar) -> None:
    """The client sees the end, and may go on sending until it has done."""
    with Upstream(talk=stop_talking_first) as upstream, Tunnel(sidecar, upstream.authority) as tunnel:
        sent = noise(5, MIB)
        tunnel.add(sent[:1])
        assert tunnel.rest() == b""
        assert tunnel.ended_by == "fin"
        tunnel.add(sent[1:]).half_close()
        upstream.wait(lambda up: not up.open)
        assert bytes(upstream.connections[0].received) == sent
        assert sidecar.record(tunnel.opened.record)["outcome"] == "completed"


def test_a_server_that_speaks_and_leaves(sidecar: Sidecar) -> None:
    """Its words are not lost, however fast it was."""
    with Upstream(talk=farewell) as upstream:
        for _ in range(30):
            with Tunnel(sidecar, upstream.authority) as tunnel:
                assert tunnel.rest() == b"it is noon\r\n"
        assert len(upstream.connections) == 30
    sidecar.at_rest()


# -- the pace of the slower side -----------------------------------------------------------------------------------

LARGE = 32 * MIB
ROOM = 12.0
"""What the sidecar may need more while one side does not read (MiB): far less than what the other one sends."""


def test_a_client_that_reads_slowly(sidecar: Sidecar) -> None:
    """The server is made to wait, nothing piles up here, and nothing is lost."""
    sent = 0

    async def talk(wire: Wire) -> None:
        nonlocal sent
        piece = noise(7, 65_536)
        while sent < LARGE:
            await wire.send(piece)
            sent += len(piece)

    with Upstream(talk=talk) as upstream, Tunnel(sidecar, upstream.authority) as tunnel:
        before, moving = sidecar.memory_mib(), -1
        while moving != sent:  # until nothing moves any more
            moving = sent
            time.sleep(0.2)
        assert 0 < sent < LARGE
        assert sidecar.memory_mib() - before < ROOM
        assert len(tunnel.rest()) == LARGE
        assert sidecar.memory_mib() - before < ROOM


def test_a_server_that_reads_slowly(sidecar: Sidecar) -> None:
    """The client is made to wait."""
    go_on = threading.Event()
    read = 0

    async def talk(wire: Wire) -> None:
        nonlocal read
        wire.deaf()
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait)
        wire.transport.resume_reading()
        while data := await wire.receive():
            read += len(data)
        await wire.send(b"done")

    with Upstream(talk=talk) as upstream, Tunnel(sidecar, upstream.authority) as tunnel:
        before, sent, piece = sidecar.memory_mib(), 0, noise(8, 65_536)

        def speak() -> None:
            nonlocal sent
            while sent < LARGE:
                tunnel.add(piece)
                sent += len(piece)
            tunnel.half_close()

        speaker = threading.Thread(target=speak)
        speaker.start()
        moving = -1
        while moving != sent:
            moving = sent
            time.sleep(0.2)
        assert 0 < sent < LARGE
        assert sidecar.memory_mib() - before < ROOM
        go_on.set()
        speaker.join()
        assert tunnel.rest() == b"done"
        assert read == LARGE
        assert sidecar.memory_mib() - before < ROOM


def test_who_never_reads_holds_nothing_for_ever() -> None:
    """A client that hangs with its window full is silent like any other, and what it was to get is given up."""
    with Sidecar("tunnel: {idle: 300ms}") as sidecar, Upstream(talk=flood) as upstream:
        sidecar.at_rest()
        before = sidecar.open_files()
        with Tunnel(sidecar, upstream.authority) as tunnel:
            record = sidecar.record(tunnel.opened.record)
            assert (record["outcome"], record["reason"], record["effect"]) == (
                "client_gone",
                "idle",
                "uncertain",
            )
            sidecar.at_rest()
            eventually(lambda: sidecar.open_files() <= before, what="its descriptors are closed")
            upstream.wait(lambda up: not up.open)
            tunnel.rest()
            assert tunnel.ended_by == "reset", "what it has got is not all"


def test_who_never_reads_its_last_words_holds_nothing_for_ever() -> None:
    """The same when both sides have ended already, and only the bytes in between are left."""

    async def speak_at_length(wire: Wire) -> None:
        await wire.receive()
        piece = b"x" * 65_536
        while wire.transport.get_write_buffer_size() < MIB:
            wire.transport.write(piece)
            await asyncio.sleep(0)

    with Sidecar("tunnel: {idle: 400ms}") as sidecar, Upstream(talk=speak_at_length) as upstream:
        sidecar.at_rest()
        before = sidecar.open_files()
        with Tunnel(sidecar, upstream.authority) as tunnel:
            tunnel.add(b"speak").half_close()
            eventually(lambda: sidecar.open_files() <= before, what="its descriptors are closed")
            sidecar.at_rest()


# -- ends that are none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("in_use", [False, True])
def test_the_client_leaves(sidecar: Sidecar, budget: str, how: str, in_use: bool) -> None:
    """Idle, it is how a client's pool closes a connection. In use, nobody hears the answer."""
    with Upstream(talk=monologue if in_use else echo) as upstream:
        tunnel = Tunnel(sidecar, upstream.authority, {"Budget-Id": budget})
        tunnel.add(b"hello")
        assert tunnel.receive()
        if not in_use:
            time.sleep(0.35)  # longer than a quiet spell
        tunnel.leave(reset=how == "reset")
        (record,) = sidecar.records_of(budget)
        if in_use:
            assert (record["outcome"], record["effect"], record["reason"]) == (
                "client_gone",
                "uncertain",
                "client_left",
            )
        else:
            assert (record["outcome"], record["effect"]) == ("completed", "reported")
        upstream.wait(lambda up: not up.open)
        sidecar.at_rest()


def test_a_client_that_is_reset_has_not_ended_its_question(sidecar: Sidecar) -> None:
    """To the server a FIN would say that this was all; it sees what the sidecar saw."""
    with Upstream(talk=silence) as upstream:
        tunnel = Tunnel(sidecar, upstream.authority, first=b"half of a questi")
        upstream.wait(lambda up: up.bytes == 16)
        tunnel.leave(reset=True)
        upstream.wait(lambda up: not up.open)
        assert upstream.connections[0].reset


@pytest.mark.parametrize("in_use", [False, True])
def test_the_server_resets(sidecar: Sidecar, in_use: bool) -> None:
    """The client sees a reset where it waits for an answer: a FIN would have been one."""

    async def reset_later(wire: Wire) -> None:
        await wire.receive()
        await wire.send(b"x")
        await wire.sleep(0.02 if in_use else 0.35)
        wire.reset()

    with Upstream(talk=reset_later) as upstream, Tunnel(sidecar, upstream.authority, first=b"x") as tunnel:
        assert tunnel.rest() == b"x"
        record = sidecar.record(tunnel.opened.record)
        if in_use:
            assert tunnel.ended_by == "reset"
            assert (record["outcome"], record["reason"]) == ("upstream_failed", "connection_terminated")
            assert (record["effect"], record["retry"]) == ("uncertain", "verify")
        else:
            assert (record["outcome"], record["effect"]) == ("completed", "reported")
        sidecar.at_rest()


# -- nothing left --------------------------------------------------------------------------------------------------

_Ending = Callable[[Sidecar, dict[str, str], dict[str, str]], None]


def _closes(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    with Tunnel(sidecar, places["echo"], headers, first=b"x") as tunnel:
        assert tunnel.exactly(1) == b"x"


def _resets(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    Tunnel(sidecar, places["silence"], headers, first=b"x").leave(reset=True)


def _half_closes(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    with Tunnel(sidecar, places["report"], headers, first=b"xyz") as tunnel:
        assert tunnel.half_close().rest() == b"3"


def _is_left(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    with Tunnel(sidecar, places["farewell"], headers) as tunnel:
        assert tunnel.rest() == b"it is noon\r\n"


def _is_reset(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    with Tunnel(sidecar, places["reset"], headers, first=b"x") as tunnel:
        tunnel.rest()


def _is_cut(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    with Tunnel(sidecar, places["chatter"], {**headers, "Budget-Remaining-Ms": "60"}, first=b"x") as tunnel:
        tunnel.rest()


def _is_abandoned_full(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    tunnel = Tunnel(sidecar, places["flood"], headers)
    tunnel.receive(1)
    tunnel.leave()


def _is_refused(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    assert call(sidecar, "CONNECT", places["nobody"], headers={**headers, "Host": "a"}).status == 502


def _is_spent(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    spent = {**headers, "Host": "a", "Budget-Remaining-Ms": "0"}
    assert call(sidecar, "CONNECT", places["echo"], headers=spent).status == 403


def _goes_at_once(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    with Caller(sidecar) as caller:
        caller.request("CONNECT", places["echo"], {**headers, "Host": "a"}).leave(reset=True)


def _is_no_tunnel(sidecar: Sidecar, places: dict[str, str], headers: dict[str, str]) -> None:
    assert call(sidecar, "GET", f"http://{places['http']}/", headers=headers).status == 200


ENDINGS: list[_Ending] = [
    _closes,
    _resets,
    _half_closes,
    _is_left,
    _is_reset,
    _is_cut,
    _is_abandoned_full,
    _is_refused,
    _is_spent,
    _goes_at_once,
    _is_no_tunnel,
]


def steps_counted(sidecar: Sidecar) -> float:
    """How many steps the counters know."""
    return sum(
        value for name, value in sidecar.samples().items() if name.startswith("waterclock_steps_total{")
    )


def test_hundreds_of_tunnels_leave_nothing_behind() -> None:
    """Ended in every way at once: nothing in flight, no descriptor, and one record for each."""
    talks = {
        "echo": echo,
        "silence": silence,
        "report": report,
        "farewell": farewell,
        "reset": reset_when_spoken_to,
        "chatter": chatter,
        "flood": flood,
    }
    servers = {name: Upstream(talk=talk).start() for name, talk in talks.items()}
    servers["http"] = Upstream(answer(keep=False)).start()
    with nobody_at() as nobody, Sidecar("{tunnel: {idle: 2s}, connections: {max: 64}}") as sidecar:
        places = {name: server.authority for name, server in servers.items()} | {
            "nobody": f"127.0.0.1:{nobody}"
        }
        sidecar.at_rest()
        before = sidecar.open_files()
        chance = random.Random(42)
        chosen = ENDINGS * 40
        chance.shuffle(chosen)

        def end(row: tuple[int, _Ending]) -> None:
            number, ending = row
            ending(sidecar, places, {"Budget-Id": f"many-{number}"})

        with ThreadPoolExecutor(24) as threads:
            for _ in threads.map(end, enumerate(chosen)):
                pass
        sidecar.at_rest()
        eventually(lambda: sidecar.open_files() <= before, what="as many descriptors as before")
        eventually(lambda: len(sidecar.records) == steps_counted(sidecar), what="a record for each step")
        by_budget = Counter(record["budget_id"] for record in sidecar.records)
        assert set(by_budget.values()) == {1}
        # One that is gone before its request was read leaves no step.
        assert len(chosen) - 40 <= len(by_budget) <= len(chosen)
        for server in servers.values():
            server.wait(lambda up: not up.open)
            server.stop()
