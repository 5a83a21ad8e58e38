"""One question and its answer: a whole one, or the reason why there is none, once; and no connection is used after a fault."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import Connections, Policy
from proxy.core.target import Origin
from proxy.core.units import MILLISECOND
from proxy.net.ask import Answer, Ask, Failure, Question
from proxy.net.connection import UpstreamConnection
from tests.dataplane.world import World

ORIGIN = Origin("http", "service", 8080)
ASKED = b"GET /a HTTP/1.1\r\nHost: service\r\n\r\n"
WITHIN_MS = 50


class Asking:
    """A world in which a question is asked, and what came of it."""

    def __init__(self, world: World | None = None, **question: Any) -> None:
        self.world = world if world is not None else World()
        self.heard: list[Answer | Failure] = []
        values: dict[str, Any] = {
            "origin": ORIGIN,
            "method": "GET",
            "render": lambda _: ASKED,
            "most": 10,
            "within": WITHIN_MS * MILLISECOND,
        }
        plane = self.world.plane
        self.ask = Ask(
            plane.loop, plane.clock, plane.pool, Question(**(values | question)), self.heard.append
        )
        assert not self.heard, "nobody is called from inside"
        self.world.loop.settle()

    def says(self, data: bytes) -> Asking:
        """Let the service say something."""
        self.world.upstream().says(data)
        self.world.loop.settle()
        return self

    def at_rest(self) -> bool:
        """Whether no connection is in use, and none is being opened."""
        counts = self.world.plane.pool.counts()
        return counts["active"] == 0 and counts["opening"] == 0 and self.world.loop.armed <= counts["idle"]


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_whole_answer_is_told_once_and_its_connection_is_used_again() -> None:
    asking = Asking()
    assert asking.world.upstream().received == ASKED
    for byte in OK:
        asking.says(bytes([byte]))
    assert asking.heard == [Answer(200, b"ok")]
    again = Asking(asking.world)
    assert len(again.world.upstreams) == 1
    again.says(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
    assert again.heard == [Answer(503, b"")]
    again.world.advance(1000)
    assert (len(asking.heard), len(again.heard)) == (1, 1)


def test_an_interim_answer_is_none() -> None:
    asking = Asking().says(b"HTTP/1.1 103 Early Hints\r\n\r\n").says(OK)
    assert asking.heard == [Answer(200, b"ok")]


def test_an_answer_that_lasts_until_the_end_is_whole_and_its_connection_is_not_used_again() -> None:
    asking = Asking().says(b"HTTP/1.1 200 OK\r\n\r\nok")
    asking.world.upstream().ends()
    asking.world.loop.settle()
    assert asking.heard == [Answer(200, b"ok")]
    assert asking.at_rest()
    assert asking.world.plane.pool.counts()["idle"] == 0


NO_WHOLE_ANSWERS: dict[str, tuple[bytes | None, Failure]] = {
    "broken off": (None, Failure.BROKEN),
    "no HTTP": (b"what?\r\n\r\n", Failure.BROKEN),
    "another protocol": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        Failure.BROKEN,
    ),
    "too long": (b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello, worl", Failure.TOO_LONG),
    "too long in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello, worl\r\n",
        Failure.TOO_LONG,
    ),
    "not all of it": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Failure.LATE),
    "not a word": (b"", Failure.LATE),
}


@pytest.mark.parametrize("what", NO_WHOLE_ANSWERS)
def test_what_is_no_whole_answer_ends_the_connection(what: str) -> None:
    said, failure = NO_WHOLE_ANSWERS[what]
    asking = Asking()
    if said is None:
        asking.world.upstream().breaks_off()
    else:
        asking.says(said)
    asking.world.advance(WITHIN_MS)
    assert asking.heard == [failure]
    assert asking.world.upstream().closed
    assert asking.at_rest()


def test_the_time_is_over_not_a_moment_before_it_is() -> None:
    """Though timers may wake early."""
    asking = Asking()
    asking.world.loop.early = MILLISECOND
    asking.world.advance(WITHIN_MS - 1)
    assert asking.heard == []
    asking.world.advance(2)
    assert asking.heard == [Failure.LATE]


def test_nobody_is_there() -> None:
    world = World()
    world.dialer.refused.add("service")
    assert Asking(world).heard == [Failure.UNREACHABLE]


def test_no_time_is_no_question() -> None:
    """No connection is opened, and no byte is sent."""
    asking = Asking(within=0)
    assert asking.heard == [Failure.LATE]
    assert asking.world.upstreams == []
    assert asking.world.dialer.asked == 0


def test_opening_a_connection_counts() -> None:
    """And what was being opened is dropped."""
    world = World()
    world.dialer.held = True
    asking = Asking(world)
    world.advance(WITHIN_MS)
    assert asking.heard == [Failure.LATE]
    world.dialer.release()
    assert world.upstreams == []
    assert asking.at_rest()


@pytest.mark.parametrize("when", ["opening", "waiting", "answered"])
def test_a_question_that_is_withdrawn_tells_nobody(when: str) -> None:
    world = World()
    world.dialer.held = when == "opening"
    asking = Asking(world)
    if when == "answered":
        asking.says(OK)
    asking.ask.cancel()
    asking.ask.cancel()
    world.dialer.release()
    world.advance(1000)
    assert asking.heard == ([Answer(200, b"ok")] if when == "answered" else [])
    assert asking.at_rest()


def test_a_connection_that_has_lain_too_long_is_not_taken() -> None:
    """It may be closed already on the other side."""
    asking = Asking().says(OK)
    asking.world.advance(20)
    Asking(asking.world, fresher_than=10 * MILLISECOND)
    assert len(asking.world.upstreams) == 2


def test_questions_wait_for_each_other_where_connections_are_few() -> None:
    """As calls do; a time that ends while waiting is told all the same."""
    world = World(Policy(connections=Connections(max=1)))
    first, second, third = Asking(world), Asking(world), Asking(world, within=5 * MILLISECOND)
    world.advance(5)
    assert third.heard == [Failure.LATE]
    first.says(OK)
    second.says(OK)
    assert (first.heard, second.heard) == ([Answer(200, b"ok")], [Answer(200, b"ok")])
    assert len(world.upstreams) == 1


def test_the_request_is_made_for_its_connection() -> None:
    """To a parent proxy it takes another form."""
    world = World()
    world.dialer.via_parent = True

    def render(connection: UpstreamConnection) -> bytes:
        return b"GET http://service:8080/a HTTP/1.1\r\n\r\n" if connection.via_parent else ASKED

    Asking(world, render=render)
    assert world.upstream().received.startswith(b"GET http://")
