"""Which calls are one piece of work, so that they share an answer: the same key, body, caller, and nothing less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.core.policy import Idempotency, Mode, Policy, Retries, Route, Writes
from proxy.core.units import MILLISECOND
from tests.dataplane.world import FakeClient, World

HONOURED = Route("fallback", idempotency=Idempotency(honoured=True))


def _asks(world: World, body: bytes = b"{}", **fields: Any) -> FakeClient:
    """A client of its own makes the call, for the job `b`."""
    return world.client().asks("POST", body=body, **{"Budget_Id": "b", "Idempotency_Key": "k"} | fields)


def _sent(world: World) -> int:
    """How many calls were sent."""
    return sum(len(upstream.heads) for upstream in world.upstreams)


OTHERS: dict[str, dict[str, Any]] = {
    "another key": {"Idempotency_Key": "other"},
    "no key": {"Idempotency_Key": None},
    "another body": {"body": b"[]"},
    "other credentials": {"Authorization": "Bearer other"},
    "another cookie": {"Cookie": "a=b"},
    "another key of an API": {"X_Api_Key": "other"},
    "another language": {"Accept_Language": "de"},
    "another coding": {"Accept_Encoding": "gzip"},
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_not_the_same_is_not_joined(other: str) -> None:
    """Nobody is given an answer that was meant for somebody else. Under the same key it is refused as under way."""
    world = World()
    _asks(world)
    second = _asks(world, **OTHERS[other])
    same_key = "Idempotency_Key" not in OTHERS[other]
    assert _sent(world) == (1 if same_key else 2)
    assert second.statuses == ([424] if same_key else [])
    assert world.observed.joins == []


def test_another_place_is_another_unit() -> None:
    """Keys of different origins never meet."""
    world = World()
    _asks(world)
    world.client().asks("POST", "http://other/", b"{}", Idempotency_Key="k")
    assert _sent(world) == 2


def test_a_body_too_large_to_be_known_in_time_is_not_joined() -> None:
    """Only its key is known: it is refused, as it was before there was anything to join."""
    world = World(Policy(writes=Writes(fingerprint_bytes=10)))
    _asks(world, b"x" * 11)
    assert _asks(world, b"x" * 11).statuses == [424]
    assert _sent(world) == 1


def test_one_that_has_passed_unknown_joins_nobody_afterwards() -> None:
    """A reload makes room for bodies of its size, so an equal one is known: each goes its own way, once."""
    narrow = Route("fallback", concurrency=1)
    world = World(Policy(fallback=narrow, writes=Writes(fingerprint_bytes=10)))
    world.client().asks()
    first = _asks(world, b"x" * 11)
    world.plane.adopt(Policy(fallback=narrow))
    second = _asks(world, b"x" * 11)
    world.upstream().answers()
    world.upstream().answers(b"first")
    world.upstream().answers(b"second")
    assert (first.body, second.body) == (b"first", b"second")
    world.at_rest()


def test_a_confirmed_call_does_not_wait() -> None:
    """Its caller knows that the first did not happen; from now on it is the one that others wait for."""
    world = World()
    first = _asks(world)
    second = _asks(world)
    confirmed = _asks(world, Budget_Retry="confirmed")
    assert _sent(world) == 2
    last = _asks(world)
    world.upstream(1).answers(b"again")
    assert confirmed.body == last.body == b"again"
    assert second.received == b""
    world.upstream(0).answers(b"after all")
    assert first.body == second.body == b"after all"
    assert _sent(world) == 2
    world.at_rest()


def test_observing_joins_nobody() -> None:
    """Everything is sent as it comes."""
    world = World(Policy(mode=Mode.OBSERVE))
    for _ in range(3):
        _asks(world)
    assert _sent(world) == 3
    assert world.observed.joins == []
    assert len(world.plane.claims) == 0


def test_the_answer_that_is_shared_is_that_of_the_last_attempt() -> None:
    """What came before is nobody's."""
    retries = Retries(max=1, statuses=frozenset({503}))
    world = World(Policy(fallback=replace(HONOURED, retries=retries)))
    first, second = _asks(world), _asks(world)
    world.upstream().says(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nnot")
    third = _asks(world)
    world.upstream().says(b" this.")
    world.advance(1)
    world.upstream().answers(b"but this")
    assert first.body == second.body == third.body == b"but this"
    assert _sent(world) == 2
    world.at_rest()


def test_who_waits_while_the_first_backs_off_waits_on() -> None:
    """Until its own time is over: nothing is on record meanwhile, and nothing is sent twice."""
    world = World(Policy(fallback=Route("fallback", retries=Retries(base=100 * MILLISECOND))))
    world.plane.jitter = lambda: 1.0
    world.dialer.refused.add("tool")
    first = _asks(world)
    world.dialer.refused.clear()
    second, third = _asks(world), _asks(world, Connect_Timeout_Ms=50)
    world.advance(50)
    assert third.statuses == [504]
    assert _sent(world) == 0
    world.advance(50)
    world.upstream().answers(b"made")
    assert first.body == second.body == b"made"
    assert _sent(world) == 1
    world.at_rest()
