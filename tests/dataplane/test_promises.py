"""The promises, held against anything that can happen in any order.

A few calls are sent on a few connections, and then events come as they like: parts of requests, answers or parts of
them, breaks on either side, time, a slow disk, a slow peer. Whatever the order, each call leaves one record, nothing is
in flight at the end, nothing is sent after a refusal, no write is sent twice, and a connection is given back once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from types import FunctionType
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from proxy.core.calls import Kind
from proxy.core.policy import Connections, Mode, Policy, Route, Writes
from proxy.core.units import MILLISECOND
from proxy.net.connection import UpstreamConnection
from proxy.net.pool import Pool
from tests.dataplane.world import FakeClient, FakeDialer, FakeJournal, World, request, response

Draw = Callable[..., Any]
METHODS = ("GET", "HEAD", "PUT", "DELETE", "POST")

ANSWERS: dict[str, bytes] = {
    "whole": response(200, b"ok"),
    "whole, last": response(200, b"ok", Connection="close"),
    "no content": response(204, b""),
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "head": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "piece": b"2\r\nok\r\n",
    "last chunk": b"0\r\n\r\n",
    "stream": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n",
    "until close": b"HTTP/1.1 200 OK\r\n\r\npart",
    "interim": response(103, b""),
    "go on": response(100, b""),
    "upgrade": response(101, b"", Upgrade="x", Connection="upgrade"),
    "garbage": b"\0\0\0",
    "large": response(200, b"x" * 70_000),
}

LIKELY = ("whole", "chunked", "head", "piece", "last chunk", "stream")

_DECISIONS = st.sampled_from(
    [{}, {}, {"Budget_Remaining_Ms": 0}, {"Budget_Remaining_Ms": 40}, {"Budget_Remaining_Ms": "x"}]
)
_EXTRAS = st.sampled_from([{}, {}, {}, {"Expect": "100-continue"}, {"Upgrade": "x", "Connection": "upgrade"}])
_VERSIONS = st.sampled_from(["1.1", "1.1", "1.1", "1.0"])


class Story:
    """A world and the calls that were made in it. Each call has a path of its own, by which it is known everywhere."""

    def __init__(self, policy: Policy) -> None:
        self.world = World(policy)
        self.given_back: Counter[UpstreamConnection] = Counter()
        self.handed_out: Counter[UpstreamConnection] = Counter()
        self.made = 0
        self.tunnels: set[FakeClient] = set()
        self._watch_pool()

    def _watch_pool(self) -> None:
        if not isinstance(Pool.give_back, FunctionType):
            return  # compiled: nobody can come between a call and its pool
        pool = self.world.plane.pool
        give_back = pool.give_back

        def watched(connection: UpstreamConnection) -> None:
            self.given_back[connection] += 1
            assert self.given_back[connection] <= connection.uses, "given back once for each time it was used"
            give_back(connection)

        pool.give_back = watched  # type: ignore[method-assign]

    def tunnel(self) -> None:
        """A client comes, and asks for a tunnel."""
        self.made += 1
        client = self.world.client()
        self.tunnels.add(client)
        client.sends(request("CONNECT", "tool:80"))

    def request(self, draw: Draw, client: FakeClient | None = None) -> bytes:
        """Draw a request; who has a tunnel asks in it as he would ask the tool."""
        self.made += 1
        method = draw(st.sampled_from(METHODS))
        body = b"" if method in ("GET", "HEAD", "DELETE") else b'{"n": %d}' % self.made
        fields = draw(_DECISIONS) | draw(_EXTRAS)
        if body and draw(st.booleans()):
            fields |= {"Transfer_Encoding": "chunked"}
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        if client in self.tunnels:
            return request(method, f"/{self.made}", body, Host="tool", version=draw(_VERSIONS), **fields)
        return request(method, f"http://tool/{self.made}", body, version=draw(_VERSIONS), **fields)

    def check(self) -> None:
        """What holds at any time."""
        world = self.world
        records = world.records
        ids = Counter(record.record for record in records)
        assert set(ids.values()) <= {1}, "one record each"
        begun = len(records) + world.plane.in_flight
        assert begun <= self.made
        sent = Counter(re.findall(rb"(?:[A-Z]+) /(\d+) HTTP", world.sent))
        for record in records:
            path = record.target.rpartition("/")[2].encode()
            if record.phase == "not_sent":
                assert sent[path] == 0, "promise 2: not a byte"
            assert sent[path] <= record.attempt, "promise 7: sent once for each attempt"
            if record.kind in (Kind.WRITE, Kind.IDEMPOTENT):
                assert sent[path] <= 1
            if record.outcome == "refused" and record.reason != "malformed":
                assert record.phase == "not_sent"
            if (
                record.outcome == "deadline_exceeded"
                and record.allowed_ms is not None
                and record.kind != "opaque"
            ):
                early = min(10, record.allowed_ms / 10) if record.status == 200 else 0
                assert record.elapsed_ms >= record.allowed_ms - early - 0.001, "promise 3: never early"
        for client in world.clients:
            assert (
                client.transport.writes_after_the_end == 0
                or client.transport.lost
                or client.transport.closing
            )
        for upstream in world.upstreams:
            assert upstream.transport.writes_after_the_end == 0, (
                "promise 12: nothing is sent on what has ended"
            )

    def finish(self) -> None:
        """Let everything end, and look at what is left."""
        world = self.world
        for client in world.clients:
            client.transport.unstick()
            if not client.transport.lost:
                client.leaves()
        world.journal.held = False
        world.journal.release()
        for _ in range(20):
            world.dialer.held = False
            world.dialer.release()
        for upstream in world.upstreams:
            upstream.transport.unstick()
        world.advance(400_000)
        assert world.plane.in_flight == 0, "promise 10"
        assert world.plane.clients == set()
        assert world.plane.relays == set()
        assert world.plane.lingering == set()
        counts = world.plane.pool.counts()
        assert counts == {"idle": 0, "active": 0, "opening": 0}
        assert world.loop.armed == 0, "nothing is armed for what has ended"
        for written in world.journal.kept.values():
            assert written.state != "intent", "what was begun was settled"
        in_doubt = {
            record.record
            for record in world.records
            if record.kind == "write" and record.effect == "uncertain"
        }
        uncertain = {id for id, written in world.journal.kept.items() if written.state == "uncertain"}
        assert uncertain <= in_doubt
        assert all(world.book.get(id) is not None for id in in_doubt), "promise 8: what is in doubt is known"
        self.check()


def _events(story: Story, draw: Draw) -> dict[str, Callable[[], object]]:
    """What may happen next."""
    world = story.world
    clients = [client for client in world.clients if not client.transport.closing]
    upstreams = [upstream for upstream in world.upstreams if not upstream.transport.closing]
    events: dict[str, Callable[[], object]] = {
        "time passes": lambda: world.advance(draw(st.sampled_from([0.5, 9, 30, 45, 260, 1100]))),
        "the disk stops": lambda: setattr(world.journal, "held", True),
        "the disk goes on": lambda: _goes_on(world.journal),
        "dialling stops": lambda: setattr(world.dialer, "held", True),
        "dialling goes on": lambda: _goes_on(world.dialer),
    }
    if len(world.clients) < 4:
        events["a client comes"] = world.client
        events["a tunnel is asked for"] = story.tunnel
    if clients:
        client = draw(st.sampled_from(clients))
        events["a request"] = lambda: _send(client, story.request(draw, client), draw)
        events["two requests"] = lambda: _send(
            client, story.request(draw, client) + story.request(draw, client), draw
        )
        events["garbage"] = lambda: client.sends(b"\0 / HTTP\r\n\r\n")
        events["half-close"] = client.ends
        events["half-close of who has gone"] = lambda: _gone(world, client)
        events["a client leaves"] = client.leaves
        events["a client reads slowly"] = lambda: setattr(client.transport, "stuck", True)
        events["a client catches up"] = client.transport.unstick
    if upstreams:
        upstream = draw(st.sampled_from(upstreams))
        name = draw(st.sampled_from([*ANSWERS, *LIKELY, *LIKELY]))
        events[f"says {name}"] = lambda: upstream.says(ANSWERS[name])
        events["says half of it"] = lambda: upstream.says(ANSWERS[name][:20])
        events["an upstream ends"] = upstream.ends
        events["an upstream breaks off"] = upstream.breaks_off
        events["an upstream reads slowly"] = lambda: setattr(upstream.transport, "stuck", True)
        events["an upstream catches up"] = upstream.transport.unstick
    return events


def _send(client: FakeClient, wire: bytes, draw: Draw) -> None:
    """Send all of it, or a part now and the rest at once, or only a part."""
    cut = draw(st.integers(0, len(wire)))
    client.sends(wire[:cut])
    if draw(st.integers(0, 3)):
        client.sends(wire[cut:])


def _goes_on(fake: FakeJournal | FakeDialer) -> None:
    fake.held = False
    fake.release()


def _gone(world: World, client: FakeClient) -> None:
    world.kernel.left = True
    client.ends()
    world.advance(1)
    world.kernel.left = False


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Policies that make different things happen."""
    return Policy(
        mode=draw(st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE])),
        fallback=Route(
            "fallback",
            cap=draw(st.sampled_from([None, 100 * MILLISECOND])),
            originate_tls=draw(st.sampled_from([False, False, False, True])),
        ),
        writes=Writes(
            fingerprint_bytes=draw(st.sampled_from([0, 1_000_000])),
            linger=draw(st.sampled_from([0, 50 * MILLISECOND])),
            hold_back_bytes=draw(st.sampled_from([0, 1_000_000])),
        ),
        connections=Connections(
            max=draw(st.sampled_from([1, 2, 100])), opening=draw(st.sampled_from([1, 64]))
        ),
    )


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(policies(), st.data())
def test_whatever_happens(policy: Policy, data: st.DataObject) -> None:
    """Promises 2, 3, 7, 8, 10, 11 and 12."""
    story = Story(policy)
    story.world.loop.early = data.draw(st.sampled_from([0, 1_300_000]))
    story.world.client().sends(story.request(data.draw))
    for _ in range(data.draw(st.integers(5, 40))):
        events = _events(story, data.draw)
        # What calls are made of comes more often than what disturbs them.
        common = [name for name in events if name.startswith(("a request", "says", "time"))]
        name = data.draw(st.sampled_from(sorted(events) + 6 * common))
        note(name)
        events[name]()
        story.check()
    story.finish()
