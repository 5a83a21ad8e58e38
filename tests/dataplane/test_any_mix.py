"""Calls of every kind on routes that limit, retry and give up, mixed in any order with whatever tools and clients do.

However it goes: at the end all is given back, each call has left one record, no write was sent twice unless that does no
harm, nothing was sent over the head of an unresolved write, and each answer is that of the attempt that was its call's last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from proxy.core.calls import Outcome
from proxy.core.policy import BudgetDefaults, Idempotency, Match, Policy, Retries, Route, Writes
from proxy.core.units import MILLISECOND
from proxy.core.writes import DEAD, WriteState
from tests.dataplane.world import FakeClient, FakeUpstream, World, request, response

Draw = Callable[..., Any]

AGAIN = Retries(
    max=2,
    outcomes=frozenset({Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED, Outcome.DEADLINE_EXCEEDED}),
    statuses=frozenset({503}),
    base=20 * MILLISECOND,
)
HONOURED = Idempotency(honoured=True)
ROUTES: dict[str, Route] = {
    "plain": Route("plain"),
    "narrow": Route("narrow", concurrency=1, queue=2),
    "serial": Route("serial", serialize=True, min_start=10 * MILLISECOND),
    "again": Route("again", retries=AGAIN, cap=60 * MILLISECOND, concurrency=2),
    "honoured": Route("honoured", retries=AGAIN, cap=60 * MILLISECOND, idempotency=HONOURED),
    "few": Route("few", max_attempts=2, retries=replace(AGAIN, max=1), serialize=True),
}


HALF = b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\npart"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"


class Made(NamedTuple):
    """A call that was made."""

    host: str
    method: str
    key: str | None
    body: bytes
    confirmed: bool
    known: bool
    """Its body is held, so that it can be told from others in time."""
    record: str

    @property
    def unit(self) -> tuple[str, str, bytes]:
        return self.host, self.method, self.body

    @property
    def honoured(self) -> bool:
        return self.host == "honoured" and self.key is not None


class Story:
    """A world and the calls that were made in it. Each call has a number, which it carries in a field of its own."""

    def __init__(self, policy: Policy) -> None:
        self.world = World(policy)
        self.calls: dict[int, Made] = {}
        self.by_client: dict[FakeClient, int] = {}
        self.heard: dict[FakeClient, int] = {}
        self.dials_fail = False
        self.sent: Counter[int] = Counter()
        self.blocked: set[tuple[str, str, bytes]] = set()
        self.past_the_guard: set[str] = set()
        self.half_said: set[FakeUpstream] = set()

    # -- what happens ------------------------------------------------------------------------------------------------

    def call(self, client: FakeClient, draw: Draw) -> None:
        """Make a call."""
        number = len(self.calls) + 1
        method = draw(st.sampled_from(["GET", "HEAD", "PUT", "POST", "POST", "POST"]))
        key = draw(st.sampled_from([None, "k", "l"]))
        body = draw(st.sampled_from([b'{"a": 1}', b"[]", b"x" * 50])) if method in ("PUT", "POST") else b""
        host = draw(st.sampled_from(sorted(ROUTES)))
        confirmed = draw(st.integers(0, 9)) == 9
        fields = {
            "X_Call": number,
            "Idempotency_Key": key,
            "Budget_Id": draw(st.sampled_from([None, "b", "c"])),
            "Connect_Timeout_Ms": draw(st.sampled_from([None, 15, 100, 400])),
            "Budget_Retry": "confirmed" if confirmed else None,
            "x_stainless_retry_count": draw(st.sampled_from([None, None, 0, 1])),
        }
        wire = request(method, f"http://{host}/", body, **fields)
        ids = {record.record for record in self.world.records}
        self.heard[client] = len(client.received)
        self.by_client[client] = number
        split = draw(st.integers(0, len(body)))
        record = ""
        known = len(body) <= self.world.plane.policy.writes.fingerprint_bytes
        self.calls[number] = Made(host, method, key, body, confirmed, known, record)
        client.sends(wire[: len(wire) - split])
        call = client.protocol._call
        if call is not None:
            record = call.record_id
        else:
            record = next((each.record for each in self.world.records if each.record not in ids), "")
        self.calls[number] = self.calls[number]._replace(record=record)
        note(f"call {number}: {method} {host} {fields} split {split}")
        if split:
            client.sends(wire[len(wire) - split :])

    def answer(self, upstream: FakeUpstream, status: int, **fields: Any) -> None:
        """Answer the request that this connection has received last."""
        number = self.number_of(upstream)
        body = b"%d.%d" % (number, self.sent[number])
        upstream.says(response(status, body, **fields))

    def say_half(self, upstream: FakeUpstream, half: bytes = HALF) -> None:
        """Begin to answer; only an end can follow."""
        self.half_said.add(upstream)
        upstream.says(half)

    def number_of(self, upstream: FakeUpstream) -> int:
        return int(upstream.field("X-Call") or "0") if upstream.heads else 0

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What holds at any time."""
        world, plane = self.world, self.world.plane
        assert len(world.records) + plane.in_flight == len(self.calls), "each call is one step"
        assert len({record.record for record in world.records}) == len(world.records)
        sent = Counter(int(number) for number in re.findall(rb"X-Call: (\d+)\r", world.sent))
        for number, times in sent.items():
            made = self.calls[number]
            if made.method == "POST":
                assert times == 1 or made.honoured, "promise 7"
            fresh = times - self.sent[number]
            guarded = made.method == "POST" and made.known and not (made.honoured or made.confirmed)
            if fresh and guarded:
                assert made.unit not in self.blocked or made.record in self.past_the_guard, "promise 9"
        self.sent = sent
        by_record = {made.record: number for number, made in self.calls.items()}
        for record in world.records:
            number = by_record[record.record]
            assert sent[number] <= record.tries
            if not self.dials_fail:
                assert sent[number] == record.tries, "what was tried was sent"
            assert (record.phase == "not_sent") <= (sent[number] == 0), "promise 2"
            if record.kind == "write" and record.effect == "none":
                assert sent[number] == 0
        self.look_at_the_book()
        self.look_at_the_answers()

    def look_at_the_book(self) -> None:
        """Note which units are blocked from now on, and who was past that before."""
        book = self.world.book
        self.past_the_guard = {
            made.record
            for made in self.calls.values()
            if (record := book.get(made.record)) is not None and record.state is WriteState.INTENT
        }
        self.blocked = {
            made.unit
            for made in self.calls.values()
            if made.method == "POST"
            and (record := book.get(made.record)) is not None
            and (record.state in DEAD or record.state is WriteState.UNCERTAIN)
        }

    def look_at_the_answers(self) -> None:
        """Each whole answer of a tool is that of its call's last attempt, or of the call that it has joined."""
        for client, number in self.by_client.items():
            said = client.received[self.heard[client] :]
            if b"\r\nBudget-Outcome: completed" not in said or self.calls[number].method == "HEAD":
                continue
            token = said.partition(b"\r\n\r\n")[2]
            if b"reason=joined" in said:
                joined = self.calls[int(token.partition(b".")[0])]
                assert (joined.unit, joined.key) == (self.calls[number].unit, self.calls[number].key)
            else:
                assert token == b"%d.%d" % (number, self.sent[number])

    def finish(self) -> None:
        """Let everything end, and look at what is left."""
        world = self.world
        world.journal.error = None
        world.journal.held = world.dialer.held = False
        world.journal.release()
        while world.dialer.waiting:
            world.dialer.release()
        self.check()
        world.advance(400_000)
        self.check()
        for client in world.clients:
            if not client.transport.lost:
                client.leaves()
        world.advance(400_000)
        world.at_rest()
        assert world.plane.clients == set()
        assert world.plane.lingering == set()
        assert world.plane.pool.counts() == {"idle": 0, "active": 0, "opening": 0}
        assert world.plane.turns._waiting == {}
        assert world.loop.armed == 0
        assert not any(kept.state is WriteState.INTENT for kept in world.journal.kept.values())
        assert len(world.records) == len(self.calls)
        for record in world.records:
            if record.kind == "write" and record.effect == "uncertain":
                assert world.book.get(record.record) is not None, "promise 8"


def _events(story: Story, draw: Draw) -> dict[str, Callable[[], object]]:
    """What may happen next."""
    world = story.world
    idle = [
        client
        for client in world.clients
        if not client.transport.closing and client.protocol._call is None and not client.protocol.body_open
    ]
    upstreams = [
        upstream
        for upstream in world.upstreams
        if not upstream.closed and upstream.connection._sink is not None and upstream.heads
    ]
    events: dict[str, Callable[[], object]] = {
        "a call on a new connection": lambda: story.call(world.client(), draw),
        "time passes": lambda: world.advance(draw(st.sampled_from([0.5, 5, 16, 25, 61, 110]))),
        "the disk stops": lambda: setattr(world.journal, "held", True),
        "the disk goes on": lambda: _goes_on(story),
        "the policy changes": lambda: world.plane.adopt(draw(policies())),
    }
    if story.dials_fail:
        events["connections are refused"] = lambda: world.dialer.refused.update(ROUTES)
        events["connections are opened"] = world.dialer.refused.clear
        events["opening hangs"] = lambda: setattr(world.dialer, "held", True)
        events["opening goes on"] = lambda: _opens(story)
    if idle:
        events["a call"] = lambda: story.call(draw(st.sampled_from(idle)), draw)
    if busy := [client for client in story.by_client if not client.transport.closing and client not in idle]:
        events["a client leaves"] = draw(st.sampled_from(busy)).leaves
    if upstreams:
        upstream = draw(st.sampled_from(upstreams))
        if upstream not in story.half_said:
            events["an answer"] = lambda: story.answer(upstream, 200)
            events["a busy tool's answer"] = lambda: story.answer(upstream, 503)
            events["an error for an answer"] = lambda: story.answer(upstream, 500)
            events["garbage"] = lambda: upstream.says(b"\0\0\0\r\n\r\n")
            events["a stream that begins"] = lambda: story.say_half(upstream, STREAM)
            events["half of it"] = lambda: story.say_half(upstream)
        events["a break"] = upstream.breaks_off
        events["an end"] = upstream.ends
    return events


def _goes_on(story: Story) -> None:
    story.world.journal.held = False
    story.world.journal.release()


def _opens(story: Story) -> None:
    story.world.dialer.held = False
    while story.world.dialer.waiting:
        story.world.dialer.release()


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Policies that make different things scarce."""
    routes = tuple(replace(route, match=Match(host=re.compile(name))) for name, route in ROUTES.items())
    return Policy(
        routes=routes,
        limit=draw(st.sampled_from([None, None, 2, 4])),
        budget=BudgetDefaults(width=draw(st.sampled_from([None, None, 1, 2]))),
        writes=Writes(
            fingerprint_bytes=draw(st.sampled_from([20, 1_000_000])),
            hold_back_bytes=draw(st.sampled_from([1, 1_000_000, 1_000_000])),
            linger=draw(st.sampled_from([0, 50 * MILLISECOND])),
        ),
    )


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(policies(), st.data())
def test_any_mix(policy: Policy, data: st.DataObject) -> None:
    """Promises 2, 7, 8, 9, 10 and 11, with admission, retries, joins and dead letters between."""
    story = Story(policy)
    story.world.loop.early = data.draw(st.sampled_from([0, 1_300_000]))
    story.world.plane.jitter = lambda: data.draw(st.sampled_from([0.0, 0.5, 0.99]))
    story.dials_fail = data.draw(st.booleans())
    for _ in range(data.draw(st.integers(5, 40))):
        events = _events(story, data.draw)
        calls = [name for name in events if "call" in name or "answer" in name]
        name = data.draw(st.sampled_from(sorted(events) + 3 * calls))
        note(name)
        events[name]()
        story.world.loop.settle()
        story.check()
    story.finish()
