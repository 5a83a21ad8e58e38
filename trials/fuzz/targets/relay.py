"""Whole requests through a real data plane, without sockets: what a client sends, and what the tool says to it.

An input is a client's bytes, a line `=====`, and the bytes of the tool, which then closes the connection; without that line
the tool answers well. What stands behind a further such line it says later, and where that is `@stall` it does not close. The client comes by its proxy settings; where the first line says `@redirected` or `@inbound`, its
connection was led here, or is one to the app, and `@laddered` gives the route a ladder and a cache. Held:

- What leaves to a tool is well-formed to h11, and never two writes for one that was taken. A read may leave twice, where
  a connection that was kept turns out to be closed.
- What comes back is well-formed to h11, an answer for each request at the most, and then nothing.
- An answer that says `completed` is one that h11 finds complete in what the tool has said; else it never looks complete.
- One step record for each call that ended, and nothing is held when all is over.
"""

from __future__ import annotations

from typing import Final

import h11

from proxy.core.degrading import RouteCache
from proxy.core.policy import Truncate
from proxy.wire.events import RequestHead, Upgraded
from proxy.wire.parser import RequestParser
from tests.dataplane.entrance import inbound
from tests.dataplane.laddered import LADDER, laddered
from tests.dataplane.world import FakeClient, FakeUpstream, World
from tests.support.opinion import Opinion, of_request, of_response
from trials.fuzz.target import Seen, Target, hold

BETWEEN: Final = b"\n=====\n"
REDIRECTED: Final = b"@redirected\n"
INBOUND: Final = b"@inbound\n"
LADDERED: Final = b"@laddered\n"
STALL: Final = b"@stall"
_GOOD: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_READS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE"})
_MOST_TURNS: Final = 40
_MOST_PARTS: Final = 5
_LATER_MS: Final = 200
_LONG_MS: Final = 30 * 60_000


def check(data: bytes) -> Seen:
    """Let a client send it, the tools answer, and time pass until all is over."""
    way, sent = _way(data)
    sent, *parts = sent.split(BETWEEN)
    script = _Script(parts or [_GOOD])
    events = RequestParser().feed(sent)
    heads = [event for event in events if isinstance(event, RequestHead)]
    world, client = _came(way)
    client.sends(sent)
    _answer(world, script)
    client.ends()
    world.advance(_LONG_MS)
    seen = {f"by {way.decode().strip()}"}
    seen |= {f"{record.outcome} {record.reason} {record.effect}" for record in world.records}
    if any(isinstance(event, Upgraded) for event in events):
        client.leaves()
        world.advance(_LONG_MS)
        world.at_rest()
        return seen | {f"leaves HTTP, {client.statuses[:1]}"}
    _forward(world, heads, laddered=way == LADDERED)
    seen |= _back(client, heads, script)
    client.leaves()
    world.advance(_LONG_MS)
    world.at_rest()
    hold(client.transport.writes_after_the_end == 0, "nothing-is-written-behind-the-end")
    hold(len(world.records) <= len(heads), "one-record-for-a-call", world.records, heads)
    return seen | {
        f"requests {min(len(heads), 3)}, upstreams {min(len(world.upstreams), 3)}, {client.statuses[:2]}"
    }


def _way(data: bytes) -> tuple[bytes, bytes]:
    """Give the way by which the client comes, and what is left of the input."""
    for way in (REDIRECTED, INBOUND, LADDERED):
        if data.startswith(way):
            return way, data[len(way) :]
    return b"", data


def _came(way: bytes) -> tuple[World, FakeClient]:
    if way == INBOUND:
        world = inbound()
        return world, world.entry_client()
    if way == LADDERED:
        world = laddered(truncate=Truncate(), cache=RouteCache(ttl=10**10, share=True))
        return world, world.client()
    world = World()
    return world, world.client(("10.1.2.3", 80) if way == REDIRECTED else None)


class _Script:
    """What a tool says, part after part, and whether it then closes the connection."""

    def __init__(self, parts: list[bytes]) -> None:
        self.closes = parts[-1] != STALL
        self.parts = [part for part in parts[:_MOST_PARTS] if part != STALL]
        self.said = b"".join(self.parts)


def _answer(world: World, script: _Script) -> None:
    """Let each tool say it whenever it has received something, and close when it has not."""
    received: dict[FakeUpstream, int] = {}
    for _ in range(_MOST_TURNS):
        world.advance(0)
        for upstream in [each for each in world.upstreams if not each.transport.ended]:
            if len(upstream.received) > received.get(upstream, -1):
                received[upstream] = len(upstream.received)
                for part in script.parts:
                    upstream.says(part)
                    world.advance(_LATER_MS)
            elif script.closes:
                upstream.ends()
        if all(len(each.received) == received.get(each, -1) for each in world.upstreams) and (
            not script.closes or all(each.transport.ended for each in world.upstreams)
        ):
            break


def _forward(world: World, heads: list[RequestHead], *, laddered: bool) -> None:
    """What has left is requests with methods that were asked for, no more writes than came, and no read more than twice.

    On a ladder all calls are reads, and each rung may be tried.
    """
    count = writes = 0
    for upstream in world.upstreams:
        for opinion in _requests(upstream):
            count += 1
            hold(not opinion.refused, "what-leaves-is-well-formed", upstream.received, opinion.refused)
            head = opinion.head
            assert isinstance(head, h11.Request)
            hold(
                head.method.decode() in {each.method for each in heads}, "no-other-method-leaves", head.method
            )
            writes += head.method not in _READS
            names = {name for name, _ in head.headers}
            hold(b"proxy-authorization" not in names, "what-is-for-this-hop-stays", names)
            hold([name for name, _ in head.headers].count(b"host") == 1, "one-host-leaves", head.headers)
    hold(
        laddered or writes <= sum(each.method.encode() not in _READS for each in heads),
        "never-two-for-one",
        heads,
        world.sent,
    )
    # A read is sent again where a connection that was kept turns out to be closed.
    hold(
        count <= 2 * len(heads) * (len(LADDER) if laddered else 1),
        "never-three-for-one",
        count,
        heads,
        world.sent,
    )


def _requests(upstream: FakeUpstream) -> list[Opinion]:
    """What h11 finds in what one tool has received."""
    found: list[Opinion] = []
    rest = upstream.received
    while rest:
        opinion = of_request(rest)
        hold(not opinion.refused, "what-leaves-is-well-formed", rest, opinion.refused)
        if opinion.head is None:
            hold(False, "what-leaves-begins-with-a-head", rest)
        found.append(opinion)
        if not opinion.ended:
            break
        rest = opinion.rest
    return found


def _back(client: FakeClient, heads: list[RequestHead], script: _Script) -> set[str]:
    """What has come back is answers, one for each request at the most, and the last one may answer what was refused."""
    rest = client.received
    seen: set[str] = set()
    methods = [head.method for head in heads]
    for number in range(len(heads) + 2):
        if not rest:
            break
        # Behind the requests that were taken stands the one that was not.
        method = methods[number] if number < len(methods) else "GET"
        hold(number <= len(heads), "no-answer-without-a-request", client.received)
        opinion = of_response(method, rest, eof=client.transport.closing)
        if opinion.refused:
            # The connection is closed within a body, or while the client still owes its own.
            cut = "without sending complete" in opinion.refused or (
                opinion.interim and "ConnectionClosed" in opinion.refused
            )
            hold(cut and client.transport.closing, "what-comes-back-is-well-formed", rest, opinion.refused)
            seen.add("cut")
            break
        if opinion.head is None:
            hold(opinion.interim, "what-comes-back-begins-with-a-head", rest)
            break
        seen.add(_one(method, opinion, script))
        if not opinion.ended:
            break
        rest = opinion.rest
    return seen


def _one(method: str, opinion: Opinion, script: _Script) -> str:
    """Look at one answer: what looks complete is complete."""
    head, said = opinion.head, script.said
    assert isinstance(head, h11.Response)
    fields = dict(head.headers)
    outcome = (
        fields.get(b"budget-outcome") or dict(opinion.trailers).get(b"budget-outcome") or b""
    ).partition(b";")[0]
    own = (b"budget-outcome" in fields and outcome != b"completed") or b"budget-degraded" in fields
    kind = "own" if own else "relayed"
    if opinion.ended and not own:
        theirs = of_response(method, said.lstrip(b"\r\n"), eof=script.closes, asks_upgrade=True)
        complete = theirs.ended or theirs.switched
        stream = b"event-stream" in fields.get(b"content-type", b"")
        hold(
            complete or stream or _stricter(theirs),
            "what-looks-complete-is-complete",
            opinion.body,
            said,
            theirs.refused,
        )
        if complete and isinstance(theirs.head, h11.Response) and not stream:
            hold(opinion.body == theirs.body, "the-same-body-comes-back", opinion.body, theirs.body)
            hold(
                head.status_code == theirs.head.status_code,
                "the-same-status-comes-back",
                head.status_code,
                said,
            )
    return f"{kind} {head.status_code // 100}xx {'whole' if opinion.ended else 'open'} {outcome.decode()}"


def _stricter(theirs: Opinion) -> bool:
    """Whether h11 has refused what is no body at all: a length that stands where there can be none."""
    return theirs.head is None and theirs.refused != ""


TARGET: Final = Target(
    "relay",
    "whole requests through a real data plane: one well-formed request leaves for one that came, and nothing cut looks complete",
    check,
    tokens=(
        BETWEEN,
        BETWEEN + STALL,
        REDIRECTED,
        INBOUND,
        LADDERED,
        b'{"model":"large","messages":[]}',
        b"GET http://tool/ HTTP/1.1\r\nHost: tool\r\n\r\n",
        b"POST http://tool/ HTTP/1.1\r\nHost: tool\r\nContent-Length: 5\r\n\r\nhello",
        b"Budget-Remaining-Ms: 500\r\n",
        b"Budget-Remaining-Ms: 0\r\n",
        b"Budget-Id: j\r\n",
        b"Budget-Retry: confirmed\r\n",
        b"Idempotency-Key: k\r\n",
        b"Connection: close\r\n",
        b"Connection: host, content-length, x\r\n",
        b"Connection: upgrade\r\nUpgrade: x\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Expect: 100-continue\r\n",
        b"Content-Type: text/event-stream\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Trailer: T\r\n",
        b"TE: trailers\r\n",
        b"Via: 1.1 w\r\n",
        b"Max-Forwards: 0\r\n",
        b"Proxy-Authorization: Basic cnVuLTQy\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 104 X\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"0\r\nBudget-Outcome: completed\r\n\r\n",
        b"data: {}\n\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\0",
        b"HEAD",
        b"OPTIONS * ",
        b"tool:80",
        b"127.0.0.1:10800",
    ),
)
