"""Everything that arrives has a bound, and what goes beyond it is refused, left out or made to wait: never kept.

The bounds of the wire, of the ledger, the cache, the log and the policy file have tests beside them; docs/threat-model.md names
them all. Here are those that stand between these parts.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import pytest

from proxy.admin.control import control_app
from proxy.core.policy import Journal, OnJournalFailure, Policy, Writes
from proxy.core.reasons import Reason
from proxy.core.target import Origin
from proxy.core.units import SECOND
from proxy.core.upstream import Upstream
from proxy.core.writes import LateAnswer, WriteBook, WriteState
from proxy.dataplane import client as client_module
from proxy.dataplane.redirected import Redirected
from proxy.net import resolver as resolver_module
from proxy.net.connection import EARLY_BYTES, UpstreamConnection
from proxy.net.errors import DialError
from proxy.net.parent import ConnectExchange
from proxy.wire.events import WireFault
from proxy.wire.limits import Limits
from proxy.wire.parser import RequestParser, ResponseParser
from tests.admin.asking import ask, served
from tests.admin.writes import NOW_MS, Sidecar, write
from tests.dataplane.world import HIGH_WATER, Socket, Transport, World, request
from tests.net.hosts import name_server, resolving

LIMITS = Limits()
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


# -- from clients ----------------------------------------------------------------------------------------------------------

TOO_MUCH: dict[str, tuple[bytes, int]] = {
    "a head": (b"GET http://tool/ HTTP/1.1\r\nHost: tool\r\nX: " + b"a" * (LIMITS.head_bytes + 2 * 65_536), 431),
    "many fields": (b"GET http://tool/ HTTP/1.1\r\nHost: tool\r\n" + b"X: a\r\n" * (LIMITS.field_count + 1) + b"\r\n", 431),
    "a target": (b"GET http://tool/" + b"a" * (LIMITS.target_bytes + 1) + b" HTTP/1.1\r\nHost: tool\r\n\r\n", 414),
    "a host": (b"GET / HTTP/1.1\r\nHost: " + b"a" * 600 + b"\r\n\r\n", 400),
    "a job's id": (request(Budget_Id="x" * 129), 400),
    "a stage's name": (request(Budget_Stage="x" * 65), 400),
    "a key": (request("POST", body=b"{}", Idempotency_Key="x" * 1025), 400),
    "a number": (request(Budget_Remaining_Ms="1" * 11), 400),
    "a depth": (request(Budget_Depth="9" * 11), 400),
}  # fmt: skip


@pytest.mark.parametrize("what", TOO_MUCH)
def test_too_much_in_a_head_is_refused(what: str) -> None:
    """Before anything is opened."""
    sent, status = TOO_MUCH[what]
    world = World()
    client = world.client().sends(sent)
    assert client.statuses == [status]
    assert world.upstreams == []


@pytest.mark.parametrize(
    "rest",
    [
        b"1;" + b"a" * 400_000,
        b"0\r\n" + b"X: a\r\n" * 101 + b"\r\n",
        b"1" * 40 + b"\r\n",
        b"0\r\nX: " + b"a" * 300_000,
    ],
    ids=["an extension", "trailers", "a size", "a trailer"],
)
def test_too_much_around_a_body_ends_it(rest: bytes) -> None:
    """What was sent of it can never become whole, so the other side is broken off."""
    world = World()
    head = request("PUT", "http://tool/", Transfer_Encoding="chunked")
    client = world.client().sends(head + b"1\r\na\r\n")
    client.sends(rest)
    world.loop.settle()
    assert client.statuses in ([400], [431])
    assert world.upstream().closed


def test_a_head_has_its_time() -> None:
    world = World()
    client = world.client().sends(b"GET http://tool/ HT")
    world.advance(client_module.HEAD_TIME // 1_000_000 + 1)
    assert client.statuses == [408]


def test_a_connection_that_says_nothing_has_its_time() -> None:
    world = World()
    client = world.client()
    world.advance(client_module.IDLE_TIME // 1_000_000 + 1)
    assert client.transport.closing


def test_pipelined_requests_wait_in_the_kernel() -> None:
    """A client is not read from while one of its requests is under way."""
    world = World()
    client = world.client().sends(request() * 50)
    assert not client.transport.reading
    assert len(world.upstreams) == 1


def test_a_client_that_takes_no_answers_is_asked_no_further() -> None:
    """Its upstream is not read from while it does not read."""
    world = World()
    client = world.client().asks()
    client.transport.stuck = True
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * (HIGH_WATER + 1))
    assert not world.upstream().transport.reading


def test_what_nobody_can_tell_the_protocol_of_is_read_to_a_bound() -> None:
    """Words of a redirected connection that is being dialled."""
    world = World()
    world.dialer.held = True
    transport = Transport(world.loop, Socket())
    protocol = Redirected(world.plane, ("192.0.2.1", 25))
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    for _ in range(10):
        transport.arrive(b"\xff" * 20_000)
    assert not transport.reading


# -- from upstreams --------------------------------------------------------------------------------------------------------


def test_interim_responses_come_to_an_end() -> None:
    """A server may send as many as a long job takes, and not for ever."""
    world = World()
    client = world.client().asks()
    world.upstream().says(EARLY_HINTS * LIMITS.interim_count)
    assert client.statuses == [103] * LIMITS.interim_count
    world.upstream().says(EARLY_HINTS)
    assert client.statuses[-1] == 502
    assert world.upstream().closed
    assert world.record.reason == "http_protocol_error"


def test_interim_responses_are_counted_for_each_request() -> None:
    """A connection that carries many of them is well."""
    world = World()
    client = world.client()
    for _ in range(3):
        client.asks()
        world.upstream().says(EARLY_HINTS * (LIMITS.interim_count - 1)).answers()
    assert client.statuses.count(200) == 3
    assert len(world.upstreams) == 1


def test_interim_responses_wait_for_a_client_that_does_not_read() -> None:
    """They are no way around the pace at which it reads."""
    world = World()
    client = world.client().asks()
    client.transport.stuck = True
    long = b"HTTP/1.1 103 Early Hints\r\nLink: " + b"a" * 60_000 + b"\r\n\r\n"
    for _ in range(5):
        world.upstream().says(long)
    assert not world.upstream().transport.reading
    assert len(client.transport.pending) < HIGH_WATER + 2 * len(long)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000,
        b"HTTP/1.1 200 " + b"a" * 300_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 101 + b"\r\n",
    ],
    ids=["a field", "a reason", "fields"],
)
def test_too_much_in_an_answers_head_is_no_answer(said: bytes) -> None:
    world = World()
    client = world.client().asks()
    world.upstream().says(said)
    assert client.statuses == [502]
    assert world.upstream().closed


def test_a_server_that_speaks_unasked_is_heard_to_a_bound() -> None:
    connection = UpstreamConnection(Origin("http", "tool", 80), lambda _: None)
    world = World()
    transport = Transport(world.loop, None)
    transport.set_protocol(cast(asyncio.BaseProtocol, connection))
    connection.connection_made(transport)
    for _ in range(20):
        transport.arrive(b"x" * 10_000)
    assert transport.closing
    assert len(connection.early) <= EARLY_BYTES + 20_000


async def test_a_parent_proxy_is_heard_to_a_bound() -> None:
    """Its answer to a CONNECT: a head of 16 KiB, and not one interim response after the other."""
    for said in (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000, EARLY_HINTS * (LIMITS.interim_count + 1)):
        exchange = ConnectExchange(Upstream("http", "parent", 3128), "tool", 443)
        transport = Transport(World().loop, None)
        exchange.connection_made(transport)
        exchange.data_received(said)
        with pytest.raises(DialError) as error:
            await exchange.answered()
        assert error.value.reason is Reason.PARENT_PROXY_REFUSED


# -- writes, their records, and who listens for them -----------------------------------------------------------------------


def uncertain(world: World, number: int) -> None:
    """A write that was sent, and broken off."""
    world.client().asks("POST", "http://tool/orders", b"%d" % number)
    world.upstream().breaks_off()


def test_a_full_book_takes_no_further_write() -> None:
    """Nothing in doubt is forgotten for it: the next write is refused before it is sent, with what helps. Reads go on."""
    world = World()
    world.book.most = 5_000
    for number in range(10):
        if world.book.full:
            break
        uncertain(world, number)
    known = len(world.book)
    assert (3 < known < 6, world.book.full) == (True, True)
    upstreams = len(world.upstreams)
    client = world.client().asks("POST", "http://tool/orders", b"another")
    assert client.statuses == [503]
    assert world.records[-1].reason == "journal_unavailable"
    assert b"waterclock uncertain" in client.body
    assert (len(world.upstreams), len(world.book)) == (upstreams, known)
    reading = world.client().asks("GET", "http://tool/")
    world.upstream().answers()
    assert reading.statuses == [200]


def test_a_full_book_stays_full_where_writes_go_on_without_it() -> None:
    """`on_failure: continue`: they pass, say that nothing is on record, and nothing is kept of them."""
    world = World(Policy(journal=Journal(on_failure=OnJournalFailure.CONTINUE)))
    world.book.most = 0
    client = world.client().asks("POST", "http://tool/orders", b"1")
    world.upstream().answers(b"made", 201)
    assert client.statuses == [201]
    assert "journal=off" in str(client.field("Budget-Outcome"))
    uncertain(world, 2)
    assert (len(world.book), world.journal.kept) == (0, {})
    world.at_rest()


def test_who_waits_for_a_write_that_is_not_kept_is_not_told_that_nothing_was_sent() -> None:
    """An equal call under the same key, which has joined it: what it asks for may have happened, as much as if it were on record."""
    world = World(Policy(journal=Journal(on_failure=OnJournalFailure.CONTINUE)))
    world.book.most = 0
    world.client().asks("POST", "http://tool/orders", b"{}", Idempotency_Key="k", Budget_Remaining_Ms=5_000)
    second = world.client()
    second.asks("POST", "http://tool/orders", b"{}", Idempotency_Key="k", Budget_Remaining_Ms=50)
    assert len(world.upstreams) == 1
    world.advance(60)
    assert second.statuses == [424]
    assert b"The same write was sent" in second.body
    world.upstream().answers(b"made", 201)
    world.at_rest()


def test_a_book_knows_its_weight() -> None:
    """Late answers and long targets count; what is dropped or settled counts no more."""
    book = WriteBook()
    answer = LateAnswer(200, (("a", "b"),), b"x" * 60_000, 60_000, 1.0)
    book.put(write("w1"))
    plain = book.bytes
    book.put(write("w2", answer=answer))
    assert book.bytes > plain + 60_000
    book.put(write("w2")._replace(state=WriteState.APPLIED))
    assert book.bytes == 2 * plain
    book.drop("w1")
    book.drop("w1")
    book.drop("w2")
    assert book.bytes == 0


def test_few_late_answers_are_listened_for_at_a_time() -> None:
    """Each holds a connection. One more is left uncertain at once, and its connection closed."""
    world = World(Policy(writes=Writes(linger=10 * SECOND)))
    world.plane.most_lingering = 2
    for number in range(3):
        world.client().asks("POST", "http://tool/orders", b"%d" % number, Budget_Remaining_Ms=100)
    world.advance(150)
    assert len(world.plane.lingering) == 2
    assert [upstream.closed for upstream in world.upstreams].count(True) == 1
    assert world.book.pending() == 3


def test_a_late_answer_is_read_to_a_bound() -> None:
    world = World()
    world.client().asks("POST", "http://tool/orders", b"{}", Budget_Remaining_Ms=100)
    world.advance(150)
    upstream = world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
    for _ in range(30):
        upstream.says(b"x" * 65_536)
    assert upstream.closed
    assert (len(world.plane.lingering), world.book.pending()) == (0, 1)


# -- names -----------------------------------------------------------------------------------------------------------------


async def test_what_the_name_server_has_said_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """c-ares keeps each answer for its TTL, as many as there are, so its channel is exchanged for a fresh one."""
    monkeypatch.setattr(resolver_module, "MOST_REMEMBERED", 3)
    names = {f"n{number}.test": ["192.0.2.1"] for number in range(5)}
    async with name_server(names) as (dns, at), resolving(at) as resolver:
        dns.ttl = 3600
        for name in ("n0.test", "n0.test", "n1.test"):
            await resolver.lookup(name, 80)
        before, asked = resolver._channel, len(dns.asked)
        await resolver.lookup("n0.test", 80)
        assert resolver._channel is not before
        assert len(dns.asked) > asked, "what the first channel knew is asked anew"
        del before
        gc.collect()
        assert list(resolver._former) == []


async def test_a_channel_that_is_exchanged_answers_who_still_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver_module, "MOST_REMEMBERED", 1)
    names = {f"n{number}.test": [f"192.0.2.{number + 1}"] for number in range(5)}
    async with name_server(names) as (dns, at), resolving(at) as resolver:
        dns.delay = 0.05
        found = [asyncio.ensure_future(resolver.lookup(name, 80)) for name in names]
        assert [(await each)[0][4][0] for each in found] == [f"192.0.2.{number + 1}" for number in range(5)]


async def test_a_name_of_many_addresses_is_tried_at_few() -> None:
    names = {"many.test": [f"192.0.2.{number}" for number in range(1, 28)] + [f"2001:db8::{number}" for number in range(1, 17)]}  # fmt: skip
    async with name_server(names) as (_, at), resolving(at) as resolver:
        assert len(await resolver.lookup("many.test", 80)) == resolver_module.MAX_ADDRESSES


# -- what is told ----------------------------------------------------------------------------------------------------------


async def test_the_control_api_takes_small_bodies() -> None:
    sidecar = Sidecar(write("w1"))
    async with served(control_app(sidecar, lambda: NOW_MS)) as at:
        said = await ask(
            at, "/uncertain/w1/resolve", "POST", body=b'{"applied": true, "x": "' + b"a" * 5_000 + b'"}'
        )
        assert said.status == 413
    assert sidecar.resolved == []


# -- the parsers themselves ------------------------------------------------------------------------------------------------


def held(parser: Any, data: bytes) -> WireFault | None:
    """Feed without end; return why it stopped."""
    for _ in range(100):
        for event in parser.feed(data):
            if isinstance(event, WireFault):
                return event
    return None


@pytest.mark.parametrize("piece", [b"a" * 65_536, b"\t" * 65_536])
def test_a_line_without_an_end_stops_the_reading(piece: bytes) -> None:
    """On both sides, wherever it stands."""
    parser = RequestParser()
    parser.feed(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
    assert held(parser, piece) is not None
    answers = ResponseParser()
    answers.start("GET")
    answers.feed(b"HTTP/1.1 200 OK\r\nX: ")
    assert held(answers, piece) is not None
