"""Uncertain writes of which nobody has found out in time whether they happened: they become dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import Guard, Idempotency, Mode, Policy, Route, Writes
from proxy.core.units import MINUTE
from proxy.core.writes import WriteEvent, WriteRecord, WriteState
from tests.dataplane.world import FakeClient, World

HOLD_MS = 15 * 60_000


def _asks(world: World, budget: str = "b", **fields: Any) -> FakeClient:
    """A write for a job."""
    return world.client().asks("POST", body=b"{}", Budget_Id=budget, **fields)


def _fails(world: World) -> None:
    world.upstream().breaks_off()


def _letter(world: World) -> WriteRecord:
    """The one dead letter that there is, which book and journal agree on."""
    world.loop.settle()
    (letter,) = [record for record in world.book.listed() if record.state is WriteState.DEAD_LETTERED]
    assert world.book.dead() == 1
    assert world.journal.kept[letter.id] == letter
    return letter


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("found", ["by a repetition", "in time"])
def test_a_write_that_nobody_found_out_about_is_given_up(found: str, key: str | None) -> None:
    """It blocks its repetition on, as a dead letter, until someone decides; the caller's word does not count any more."""
    world = World()
    _asks(world, Idempotency_Key=key, Budget_Remaining_Ms=3_600_000)
    _fails(world)
    first = world.record.record
    world.advance(HOLD_MS)
    world.plane.attend()
    assert world.book.pending() == 1
    world.advance(1)
    if found == "in time":
        world.plane.attend()
        assert _letter(world).id == first
    for confirmed in (None, "confirmed"):
        client = _asks(world, "another", Idempotency_Key=key, Budget_Retry=confirmed)
        assert client.statuses == [424]
        assert f'"record": "{first}"'.encode() in client.body
        assert world.records[-1].reason == "dead_lettered"
    letter = _letter(world)
    assert (letter.id, letter.reason, letter.attempts) == (first, "hold_over", 1)
    assert world.happened("b")[-1] == ("dead_lettered", 1)
    letter = _letter(world)
    world.plane.keep(letter.after(WriteEvent.RELEASED))
    world.plane.attempts.forget(f"{letter.origin} {letter.unit}")
    client = _asks(world, "another", Idempotency_Key=key)
    world.upstream().answers()
    assert client.statuses == [200]
    world.at_rest()


def test_an_honoured_key_is_left_to_the_other_side() -> None:
    """Until its write is a dead letter: then somebody has to look first."""
    world = World(Policy(fallback=Route("fallback", idempotency=Idempotency(honoured=True))))
    for _ in range(2):
        _asks(world, Idempotency_Key="k")
        _fails(world)
    assert [record.reason for record in world.records] == ["connection_terminated"] * 2, "both were sent"
    world.advance(HOLD_MS + 1)
    world.plane.attend()
    assert _asks(world, "another", Idempotency_Key="k").statuses == [424]
    assert world.book.dead() == 2


def test_a_route_without_a_guard_gives_nothing_up_for_its_age() -> None:
    """Nothing is blocked there, so nobody has to decide."""
    world = World(Policy(fallback=Route("fallback", guard=Guard.NONE)))
    _asks(world)
    _fails(world)
    world.advance(HOLD_MS + 1)
    world.plane.attend()
    assert (world.book.dead(), world.book.pending()) == (0, 1)


def test_observing_leaves_a_write_uncertain() -> None:
    """What it would refuse, it sends."""
    world = World(Policy(mode=Mode.OBSERVE, writes=Writes(hold=MINUTE)))
    _asks(world)
    _fails(world)
    world.advance(60_001)
    client = _asks(world, "another")
    world.upstream().answers()
    assert client.statuses == [200]
    assert world.records[-1].would == "refuse"
    assert world.book.pending() == 1
