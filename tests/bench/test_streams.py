"""The event streams that a proxy holds open: what the server sends, what the reader takes for broken, what is promised."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bench.peers.base import chosen, largest
from bench.report import MIB
from bench.streams.command import SHORT_PEERS
from bench.streams.figures import STEP, SUBSCRIPTION, Row, promises, table
from bench.streams.reader import Orders, Reading, Seen, Watch, open_stream
from bench.streams.server import HEAD, Stream, Wheel, event

ORDERS = Orders(
    port=1, target="http://a/events", authority="a", fields=["Accept: text/event-stream"], count=1, seconds=1
)


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def opened(wheel: Wheel) -> tuple[Stream, Transport]:
    stream, transport = Stream(wheel), Transport()
    stream.connection_made(transport)
    stream.data_received(ORDERS.request)
    return stream, transport


def test_an_event_is_a_chunk_of_some_sixty_bytes() -> None:
    size, _, text = event(7, 123_456_789_012_345).partition(b"\r\n")
    assert int(size, 16) == len(text) - 2
    assert text == b'id: 7\ndata: {"n":7,"at":123456789012345,"of":"weather"}\n\n\r\n'
    assert 50 < len(text) < 70


def test_a_stream_begins_with_its_first_event_and_goes_on() -> None:
    wheel = Wheel(4)
    stream, transport = opened(wheel)
    assert transport.written.startswith(HEAD)
    stream.send()
    assert re.findall(rb'"n":(\d+)', transport.written) == [b"1", b"2"]


def test_streams_share_the_slots_evenly_and_leave_them() -> None:
    wheel = Wheel(4)
    streams = [opened(wheel)[0] for _ in range(10)]
    assert sorted(map(len, wheel.slots)) == [2, 2, 3, 3]
    for stream in streams:
        stream.connection_lost(None)
    assert [len(slot) for slot in wheel.slots] == [0, 0, 0, 0]


def test_a_request_may_come_in_pieces() -> None:
    stream, transport = Stream(Wheel(1)), Transport()
    stream.connection_made(transport)
    for byte in ORDERS.request:
        stream.data_received(bytes([byte]))
    assert transport.written.count(b'"n":') == 1


@asynccontextmanager
async def reading() -> AsyncIterator[tuple[Reading, Watch, asyncio.Future[float]]]:
    watch: Watch = Watch()
    first: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    one = Reading(ORDERS.request, watch, first)
    one.connection_made(Transport())
    yield one, watch, first


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_events_are_found_however_they_are_cut(size: int) -> None:
    """And their delays kept while they are watched only."""

    async def run() -> None:
        async with reading() as (one, watch, first):
            data = HEAD + b"".join(event(number, 1) for number in (1, 2, 3))
            for at in range(0, len(data), size):
                one.data_received(data[at : at + size])
            assert first.result() > 0
            assert one.broke is None
            assert not watch.delays
            watch.on = True
            one.data_received(event(4, 1))
            assert len(watch.delays) == 1

    asyncio.run(run())


@pytest.mark.parametrize("numbers", [(1, 3), (1, 1), (2,)])
def test_an_event_lost_or_repeated_breaks_a_stream(numbers: tuple[int, ...]) -> None:
    async def run() -> None:
        async with reading() as (one, _, first):
            one.data_received(HEAD + b"".join(event(number, 1) for number in numbers))
            assert one.broke == "an event was lost or came twice"
            if first.done():
                first.exception()

    asyncio.run(run())


def test_another_answer_breaks_a_stream_and_is_told() -> None:
    async def run() -> None:
        async with reading() as (one, _, first):
            one.data_received(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            assert one.broke == "answered HTTP/1.1 503 Service Unavailable"
            with pytest.raises(ConnectionError, match="503"):
                await first

    asyncio.run(run())


@pytest.mark.parametrize(("ending", "broke"), [(False, "closed"), (True, None)])
def test_a_stream_that_ends_before_its_time_is_broken(ending: bool, broke: str | None) -> None:
    async def run() -> None:
        async with reading() as (one, watch, _):
            one.data_received(HEAD + event(1, 1))
            watch.ending = ending
            one.connection_lost(None)
            assert one.broke == broke

    asyncio.run(run())


def test_a_proxy_that_nobody_answers_for_is_told() -> None:
    async def run() -> None:
        seen = Seen(1)
        orders = Orders(1, "http://a/", "a", [], count=1, seconds=0, patience=5)
        assert await open_stream(orders, Watch(), seen, asyncio.Semaphore(1)) is None
        assert sum(seen.broke.values()) == 1

    asyncio.run(run())


def row(kind: str = STEP, opened: int = 1_000, size: float = 50, **changed: Any) -> Row:
    made: dict[str, Any] = {
        "name": "waterclock",
        "kind": kind,
        "asked": opened,
        "opened": opened,
        "seconds": 2.0,
        "idle_bytes": 38 * MIB,
        "open_bytes": int(size * MIB),
        "closed_bytes": 45 * MIB,
        "cpu_us": 30.0,
        "busy": 0.1,
        "firsts": [10.0, 20.0],
        "delays": [0.5, 1.5, 2.5, 3.5],
    }
    return Row(**(made | changed))


def test_what_a_stream_holds_is_what_it_adds() -> None:
    one = row(size=48)
    assert one.each_kib == pytest.approx(10.24)
    assert one.rate == 2.0
    assert one.summary()["delay_ms"]["0.5"] == 1.5
    assert "delays" not in one.summary()


def test_few_streams_say_nothing_of_many() -> None:
    assert [each.target.figure for each in promises([row()])] == [
        "event streams that broke",
        "resident memory, idle",
    ]


def test_memory_is_judged_with_many_steps() -> None:
    """Not with subscriptions, which hold less; and a number that did not fit is told."""
    rows = [row(), row(SUBSCRIPTION, 9_970, 130), row(STEP, 9_970, 160)]
    verdict = promises(rows)[-1]
    assert (verdict.measured, verdict.reached) == (160.0, "met")
    assert verdict.note == "9,970 streams: as many as there are descriptors for"
    assert promises([row(STEP, 10_000, 251)])[-1].reached == "missed"
    assert promises([row(STEP, 10_000, 150)])[-1].note == ""


def test_a_broken_stream_is_a_miss_and_is_named() -> None:
    rows = [row(broke={"closed": 2})]
    assert promises(rows)[0].reached == "missed"
    assert table(rows, 1_000).notes == ["waterclock (step), 1,000 streams: 2 closed."]
    assert promises([])[0].reached == "not measured"


def test_as_many_streams_as_fit() -> None:
    assert largest(10_000, 20_000) == 9_970
    assert largest(10_000, 65_536) == 10_000


def test_the_short_form_has_the_sidecar_and_envoy() -> None:
    from bench.streams.command import PEERS

    assert chosen(None, PEERS, SHORT_PEERS) == list(SHORT_PEERS)
    assert chosen("envoy, haproxy", PEERS, None) == ["envoy", "haproxy"]
