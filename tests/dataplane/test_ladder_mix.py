"""Calls on routes with a ladder, a cache and streams that are closed, mixed in any order with whatever tools and clients do.

However it goes: each call leaves one record and gives back all that it held, nobody is given what was another's, what is
less than asked says so and nothing else does, and no rung is begun with less left than it needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from proxy.core.calls import Kind
from proxy.core.degrading import CachePolicy, CacheUse, Change, FixedAnswer, RouteCache, Rung
from proxy.core.json_path import parse
from proxy.core.policy import Policy, Retries, Route, Truncate
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.upstream import Upstream
from tests.dataplane.world import FakeClient, FakeUpstream, World, request, response

Draw = Callable[..., Any]

NEEDS = {"full": 100, "fast": 50, "minimal": 20, "cached": 5, "sorry": 0}
FULL = Rung("full", 100 * MILLISECOND)
FAST = Rung("fast", 50 * MILLISECOND, change=Change(json=((parse("$.model"), '"fast"'),)))
MINIMAL = Rung("minimal", 20 * MILLISECOND, upstream=Upstream("http", "small", 80))
CACHED = Rung("cached", 5 * MILLISECOND, cache=CacheUse())
SORRY = Rung("sorry", answer=FixedAnswer(503, "text/plain", b"sorry"))
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
LADDERS = st.lists(
    st.sampled_from([FULL, FAST, MINIMAL, CACHED, SORRY]), unique_by=lambda rung: rung.name
).map(lambda rungs: tuple(sorted(rungs, key=lambda rung: -(rung.needs or 0))))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Policies that make different things scarce."""
    ladder = draw(LADDERS)
    cache = RouteCache(
        ttl=SECOND, first=draw(st.booleans()), stale_if_error=draw(st.sampled_from([0, SECOND]))
    )
    route = Route(
        "fallback",
        effect=Kind.READ,
        ladder=ladder,
        cache=draw(st.sampled_from([None, cache])),
        truncate=draw(st.sampled_from([None, Truncate(margin=10 * MILLISECOND)])),
        degraded_body=draw(st.booleans()),
        concurrency=draw(st.sampled_from([None, 1])),
        queue=draw(st.sampled_from([0, 2])),
        retries=draw(
            st.sampled_from([None, Retries(max=1, statuses=frozenset({503}), base=5 * MILLISECOND)])
        ),
        max_attempts=draw(st.sampled_from([None, None, 2])),
    )
    return Policy(fallback=route, cache=CachePolicy(bytes=draw(st.sampled_from([2000, 100_000]))))


class Story:
    """A world, and who has asked what in it."""

    def __init__(self, policy: Policy) -> None:
        self.world = World(policy)
        self.made = 0
        self.asked: dict[FakeClient, tuple[str, bytes]] = {}
        self.streams: set[FakeUpstream] = set()
        self.seen = 0

    def call(self, client: FakeClient, draw: Draw) -> None:
        self.made += 1
        who = draw(st.sampled_from(["alice", "bob"]))
        body = draw(st.sampled_from([b'{"model":"big"}', b'{"model": "big"}', b"no json", b""]))
        left = draw(st.sampled_from([0, 1, 8, 30, 70, 200, None]))
        self.asked[client] = who, body
        budget = draw(st.sampled_from([None, "b"])) if left else None
        fields = {"Authorization": who, "Budget_Remaining_Ms": left, "Budget_Id": budget}
        note(f"call {self.made}: {who} {body!r} {left} {budget}")
        wire = request(
            "POST", "http://model/", body, **({"Content_Length": 0} | fields if not body else fields)
        )
        split = draw(st.integers(0, len(body)))
        client.sends(wire[: len(wire) - split])
        if split and not client.transport.closing:
            client.sends(wire[len(wire) - split :])

    def token(self, upstream: FakeUpstream) -> bytes:
        """What an answer says of whom it is for."""
        return (upstream.field("Authorization") or "nobody").encode()

    def begins(self, upstream: FakeUpstream, who: bytes) -> None:
        self.streams.add(upstream)
        upstream.says(STREAM + b"%x\r\n%b\r\n" % (len(who), who))

    def ends(self, upstream: FakeUpstream) -> None:
        self.streams.discard(upstream)
        upstream.says(b"0\r\n\r\n")

    def check(self) -> None:
        world = self.world
        assert len(world.records) + world.plane.in_flight == self.made, "each call is one step"
        for record in world.records[self.seen :]:
            route = world.plane.policy.fallback
            ladder = [rung.name for rung in route.ladder] or ["asked", "cached"]
            if record.degraded is not None and record.degraded.why != "truncated":
                assert record.degraded.level == ladder.index(record.degraded.rung) > 0
                assert record.degraded.rung == record.rung
            if record.outcome == "completed" and record.rung == "sorry":
                assert record.status == 503
            assert record.cache in (None, "hit", "stale", "miss")
        self.seen = len(world.records)
        for client, (who, _) in self.asked.items():
            other = b"bob" if who == "alice" else b"alice"
            assert other not in client.received, "nobody is given what was another's"
            assert len(client.statuses) <= 1, "an answer is followed by no other"
        for upstream in world.upstreams:
            if upstream.origin.host == "small":
                assert b"Authorization" not in upstream.received

    def finish(self) -> None:
        world = self.world
        world.dialer.held = False
        while world.dialer.waiting:
            world.dialer.release()
        world.advance(400_000)
        self.check()
        for client in world.clients:
            if not client.transport.lost:
                client.leaves()
        world.advance(400_000)
        world.at_rest()
        assert world.plane.clients == set()
        assert world.plane.pool.counts() == {"idle": 0, "active": 0, "opening": 0}
        assert world.loop.armed == 0
        assert len(world.records) == self.made
        degraded = sum(record.degraded is not None for record in world.records)
        assert degraded == len(world.observed.less)
        in_heads = rb"(?<!\n0)\r\nBudget-Degraded: "  # and not in the trailers
        said = sum(len(re.findall(in_heads, client.received)) for client in world.clients)
        assert said <= degraded, "nothing else says that it is less"


def _events(story: Story, draw: Draw) -> dict[str, Callable[[], object]]:
    world = story.world
    idle = [
        client
        for client in world.clients
        if not client.transport.closing and client.protocol._call is None and not client.protocol.body_open
    ]
    busy = [client for client in story.asked if not client.transport.closing and client not in idle]
    upstreams = [
        upstream
        for upstream in world.upstreams
        if not upstream.closed and upstream.connection._sink is not None and upstream.heads
    ]
    events: dict[str, Callable[[], object]] = {
        "a call": lambda: story.call(world.client(), draw),
        "time passes": lambda: world.advance(draw(st.sampled_from([0.5, 5, 21, 49, 110, 1500]))),
        "connections are refused": lambda: world.dialer.refused.update({"model", "small"}),
        "connections are opened": world.dialer.refused.clear,
        "opening hangs": lambda: setattr(world.dialer, "held", True),
        "opening goes on": lambda: _opens(world),
    }
    if busy:
        events["a client leaves"] = draw(st.sampled_from(busy)).leaves
    if upstreams:
        upstream = draw(st.sampled_from(upstreams))
        who = story.token(upstream)
        if upstream in story.streams:
            events["more of a stream"] = lambda: upstream.says(b"5\r\n more\r\n")
            events["the end of a stream"] = lambda: story.ends(upstream)
        else:
            body = json.dumps({"for": who.decode()}).encode()
            events["an answer"] = lambda: upstream.says(response(200, body, Content_Type="application/json"))
            events["a busy answer"] = lambda: upstream.says(response(503, who))
            events["a refusal"] = lambda: upstream.says(response(400, who))
            events["a stream"] = lambda: story.begins(upstream, who)
            events["garbage"] = lambda: upstream.says(b"\0\0\r\n\r\n")
        events["a break"] = upstream.breaks_off
        events["an end"] = upstream.ends
    return events


def _opens(world: World) -> None:
    world.dialer.held = False
    while world.dialer.waiting:
        world.dialer.release()


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(policies(), st.data())
def test_any_mix_of_less(policy: Policy, data: st.DataObject) -> None:
    story = Story(policy)
    story.world.loop.early = data.draw(st.sampled_from([0, 1_300_000]))
    story.world.plane.jitter = lambda: data.draw(st.sampled_from([0.0, 0.99]))
    for _ in range(data.draw(st.integers(5, 30))):
        events = _events(story, data.draw)
        name = data.draw(
            st.sampled_from(
                sorted(events) + 2 * [name for name in events if "a call" in name or "answer" in name]
            )
        )
        note(name)
        events[name]()
        story.world.loop.settle()
        story.check()
    story.finish()
