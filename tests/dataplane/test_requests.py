"""What becomes of requests on their way in: their order, their bodies, and what is made to wait."""

from __future__ import annotations

import pytest

from proxy.core.policy import Connections, Policy, Writes
from tests.dataplane.world import World, request

CHUNKED = {"Transfer_Encoding": "chunked"}


def test_answers_come_in_the_order_of_the_requests() -> None:
    """One feed may hold several requests, and then an error: each is answered in its turn, the error last."""
    world = World()
    client = world.client()
    client.sends(
        request("GET", "http://tool/1")
        + request("GET", "http://tool/2", Budget_Remaining_Ms=0)
        + request("PUT", "http://tool/3", b"body")
        + b"GET / HTTP/1.1\r\nno colon\r\n\r\n"
        + request("GET", "http://tool/never")
    )
    assert client.statuses == []
    assert len(world.upstream().heads) == 1
    world.upstream().answers(b"1")
    assert client.statuses == [200, 403]
    assert b"PUT /3 " in world.upstream().heads[1]
    world.upstream().answers(b"3")
    assert client.statuses == [200, 403, 200, 400]
    assert client.field("Connection") == "close"
    assert [record.target[-2:] for record in world.records] == ["/1", "/2", "/3"]
    assert world.observed.faults == ["bad_field"]
    assert b"never" not in world.sent


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_request_may_come_in_any_pieces(size: int) -> None:
    """However the network cuts it, the same is sent on."""
    world = World()
    client = world.client()
    wire = request("PUT", "http://tool/1", b"4\r\nbody\r\n0\r\n\r\n", **CHUNKED) + request(
        "GET", "http://tool/2"
    )
    for at in range(0, len(wire), size):
        client.sends(wire[at : at + size])
    world.upstream().answers()
    world.upstream().answers()
    assert client.statuses == [200, 200]
    body = world.upstream().received.partition(b"\r\n\r\n")[2].partition(b"0\r\n\r\n")[0]
    assert b"".join(line for line in body.split(b"\r\n") if line and not line.isdigit()) == b"body"


def test_a_pipelined_body_is_read_on() -> None:
    """What a request needs before it can go on is read, though the one before it made the reading stop."""
    world = World()
    client = world.client()
    whole = request("POST", "http://tool/2", b"0123456789")
    client.sends(request("GET", "http://tool/1") + whole[:-5])
    assert not client.transport.is_reading(), "nobody takes more for now"
    world.upstream().answers()
    assert client.transport.is_reading()
    client.sends(whole[-5:])
    assert world.upstream().received.endswith(b"0123456789")


def test_no_more_is_read_than_is_served() -> None:
    """A client that pipelines without end is read as far as its requests are taken, and no further."""
    world = World()
    client = world.client()
    many = request("GET", "http://tool/") * 100
    client.sends(many)
    for served in range(50):
        assert not client.transport.is_reading()
        client.transport.arrive(many)
        assert len(client.transport.kept_back) == served + 1, "it stays in the kernel"
        world.upstream().answers()


def test_a_client_that_takes_no_answer_is_given_no_second_one() -> None:
    """Answers do not pile up for a client that does not read: the next request waits until it does."""
    world = World()
    client = world.client()
    client.sends(request("GET", "http://tool/") * 3)
    client.transport.stuck = True
    world.upstream().answers(b"x" * 100_000)
    assert len(world.upstream().heads) == 1
    client.transport.unstick()
    assert len(world.upstream().heads) == 2
    world.upstream().answers()
    world.upstream().answers()
    assert client.statuses == [200, 200, 200]


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_waits_for_its_connection(method: str) -> None:
    """While there is nowhere to put it, a body is read up to a bound, and no further."""
    world = World(Policy(writes=Writes(fingerprint_bytes=1000)))
    world.dialer.held = True
    client = world.client()
    client.sends(request(method, body=b"x" * 200_000)[:70_000])
    assert not client.transport.is_reading()
    world.dialer.release()
    assert client.transport.is_reading()
    assert world.sent.count(b"x") > 69_000


def test_a_body_waits_for_a_slow_tool() -> None:
    """A tool that reads slowly makes the client wait, and it goes on when the tool does."""
    world = World()
    client = world.client()
    client.sends(request("PUT", body=b"x" * 1_000_000)[:1000])
    upstream = world.upstream()
    upstream.transport.stuck = True
    client.sends(b"x" * 100_000)
    assert not client.transport.is_reading()
    upstream.transport.unstick()
    assert client.transport.is_reading()


def test_an_answer_waits_for_a_slow_client() -> None:
    """A client that reads slowly makes the tool wait, and it goes on when the client does."""
    world = World()
    client = world.client()
    client.asks()
    client.transport.stuck = True
    upstream = world.upstream()
    upstream.says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"ffff\r\n" + b"x" * 65_535 + b"\r\n"
    )
    assert not upstream.transport.is_reading()
    client.transport.unstick()
    assert upstream.transport.is_reading()
    upstream.says(b"0\r\n\r\n")
    assert world.record.outcome == "completed"
    assert client.body.endswith(b"0\r\n\r\n")


def test_a_connection_that_carried_a_stalled_answer_reads_again_in_its_next_life() -> None:
    """Reading that was stopped for one client is not stopped for the next one."""
    world = World()
    slow, quick = world.client(), world.client()
    slow.asks()
    slow.transport.stuck = True
    upstream = world.upstream()
    upstream.says(b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + b"x" * 69_999)
    assert not upstream.transport.is_reading()
    slow.transport.unstick()
    upstream.says(b"x")
    quick.asks()
    upstream.answers(b"quick")
    assert quick.body == b"quick"
    assert len(world.upstreams) == 1


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_that_breaks_the_rules(method: str) -> None:
    """A body that turns out to be none is answered 400 and its connection closed; the tool never gets the end of it."""
    world = World()
    client = world.client()
    client.sends(request(method, body=b"4\r\nbody\r\n", **CHUNKED))
    client.sends(b"oops\r\n")
    assert client.statuses == [400]
    assert client.transport.eof_sent, "and the client is told at once that there is no more"
    assert all(upstream.closed for upstream in world.upstreams)
    assert not world.sent.endswith(b"0\r\n\r\n")
    outcome = "refused" if method == "POST" else "client_gone"  # of the held one not a byte was sent
    assert (world.record.outcome, world.record.reason) == (outcome, "malformed")
    assert len(world.upstreams) == (method == "PUT"), "a write is held until it is whole"


def test_a_slow_head_is_answered_408() -> None:
    """A head has its time from its first byte, however it drips; silence between requests is only closed."""
    world = World()
    dripping, silent, done = world.client(), world.client(), world.client()
    done.asks()
    world.upstream().answers()
    for byte in b"GET / HTTP/1.1\r\nHo":
        dripping.sends(bytes([byte]))
        world.advance(1000)
    assert dripping.statuses == []
    world.advance(13_000)
    assert dripping.statuses == [408]
    assert dripping.transport.eof_sent
    world.advance(6000)
    assert dripping.transport.lost, "one that does not go by itself is made to"
    world.advance(300_000)
    assert silent.transport.lost
    assert done.transport.lost
    assert (silent.received, done.statuses) == (b"", [200])
    assert world.loop.armed == 0 or world.upstreams


def test_a_slow_head_behind_another_request_has_its_time_too() -> None:
    """A head that was begun while another request was served is held to its time as well."""
    world = World()
    client = world.client()
    client.sends(request() + b"GET / HT")
    world.upstream().answers()
    world.advance(31_000)
    assert client.statuses in ([200, 408], [200])
    world.advance(300_000)
    assert client.transport.lost


def test_half_close_is_no_leave_while_the_kernel_says_so() -> None:
    """A FIN is either: the kernel knows. One who waits is served, one who has gone is not waited for."""
    world = World()
    waits, left = world.client(), world.client()
    waits.asks("POST", body=b"{}").ends()
    world.advance(500)
    world.upstream().answers()
    assert waits.statuses == [200]
    assert waits.transport.lost, "it can ask nothing more"
    left.asks("POST", body=b"{}")
    world.kernel.left = True
    left.ends()
    assert [record.outcome for record in world.records] == ["completed", "client_gone"]


@pytest.mark.parametrize(("method", "gone"), [("GET", True), ("POST", False), ("PUT", False)])
def test_half_close_where_the_kernel_does_not_know(method: str, gone: bool) -> None:
    """Then it is guessed: who asks to read and ends has mostly left, who writes mostly waits for the answer."""
    world = World()
    world.kernel.left = None
    client = world.client().asks(method, body=b"" if method == "GET" else b"{}").ends()
    world.advance(200)
    assert (len(world.records) == 1) == gone
    if not gone:
        world.upstream().answers()
        assert client.statuses == [200]


def test_a_client_that_is_not_read_from_is_seen_to_leave() -> None:
    """While a slow tool keeps the client from being read, its leave is found out by asking."""
    world = World()
    for leaves_by_reset in (False, True):
        client = world.client()
        client.sends(request("PUT", "http://other/", b"x" * 1_000_000)[:1000])
        world.upstream().transport.stuck = True
        client.sends(b"x" * 100_000)
        assert not client.transport.is_reading()
        world.advance(300)
        before = len(world.records)
        if leaves_by_reset:
            world.kernel.left, client.socket.dead = None, True
        else:
            world.kernel.left = True
        world.advance(150)
        assert len(world.records) == before + 1
        assert world.records[-1].outcome == "client_gone"
        world.kernel.left = False


def test_the_rest_of_a_refused_body_is_read_away() -> None:
    """A short rest is read to keep the connection; a long one is not, and the client hears that this is the end."""
    world = World()
    short, long = world.client(), world.client()
    short.sends(request("PUT", body=b"x" * 1000, Budget_Remaining_Ms=0)[:-500])
    assert short.statuses == [403]
    assert short.field("Connection") is None
    short.sends(b"x" * 500)
    short.asks()
    world.upstream().answers()
    assert short.statuses == [403, 200]
    long.sends(request("PUT", body=b"x" * 1_000_000, Budget_Remaining_Ms=0)[:5000])
    assert long.statuses == [403]
    assert long.field("Connection") == "close"
    assert long.transport.eof_sent
    long.sends(b"x" * 990_000)
    assert not long.transport.lost, "an answer must not be lost in a reset"
    long.ends()
    assert long.transport.lost


def test_the_client_has_gone_means_gone() -> None:
    """Nothing is armed or kept for a connection that is lost, whenever that was."""
    world = World()
    for wire in (b"", b"GET / HT", request(), request("POST", body=b"{}"), request("POST", body=b"{}")[:-1]):
        client = world.client()
        if wire:
            client.sends(wire)
        client.leaves()
        client.transport.arrive(b"more")
    for upstream in world.upstreams:
        upstream.breaks_off()
    world.advance(11_000)
    assert world.plane.clients == set()
    assert world.plane.in_flight == 0
    assert world.plane.lingering == set()
    assert world.loop.armed == 0
    assert len(world.records) == 3


def test_a_client_that_leaves_in_the_turn_in_which_it_came_frees_its_place() -> None:
    """A connection that was to be opened for it, and was not begun, is not counted for ever (encode/httpcore#1093)."""
    world = World()
    for _ in range(100):
        client = world.client()
        client.protocol.data_received(request())
        client.protocol.connection_lost(None)
        client.transport.lost = client.transport.closing = True
    world.loop.settle()
    assert world.plane.pool.counts() == {"idle": 0, "active": 0, "opening": 0}
    client = world.client().asks()
    world.upstream().answers()
    assert client.statuses == [200]


def test_one_who_waits_for_room_does_not_empty_the_pool() -> None:
    """At the bound, a write that needs a fresh connection has one idle connection closed for it, not all of them."""
    world = World(Policy(connections=Connections(max=4)))
    clients = [world.client().asks() for _ in range(4)]
    for upstream in world.upstreams:
        upstream.answers()
    world.advance(2000)
    clients[0].asks("POST", body=b"{}")
    assert [upstream.closed for upstream in world.upstreams].count(True) == 1
    world.upstream().answers()
    assert clients[0].statuses == [200, 200]
