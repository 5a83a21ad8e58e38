"""What befalls the sidecar and its surroundings in a run: kills, restarts, reloads, disks, moods, name servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.units import MICROSECOND, MILLISECOND, SECOND
from trials.simulation.draws import Draws
from trials.simulation.policies import policy_of

if TYPE_CHECKING:
    from trials.simulation.world import World

KINDS: Final = {
    "kill -9": 5.0,
    "SIGTERM": 2.0,
    "reload": 3.0,
    "disk full": 2.0,
    "disk fails": 1.0,
    "disk stuck": 1.5,
    "mood": 6.0,
    "lookups hang": 1.0,
}

SUDDEN: Final = frozenset({"kill -9", "SIGTERM", "disk full", "disk fails", "disk stuck"})
"""What may wait for its moment."""


def befall(world: World, draws: Draws, within: int, many: int | None) -> None:
    """Let so many misfortunes come within a while, or as many as are drawn."""
    given = draws.weighted({0: 2.0, 2: 2.0, 5: 2.0, 9: 1.0})
    for number in range(given):
        what, when = draws.weighted(KINDS), int(within * draws.random())
        own = Draws(world.seed, f"misfortune {number}")
        lurks = draws.happens(0.6)
        if many is not None and number >= many:
            continue
        if lurks and what in SUDDEN:
            world.clock.after(when, _lie_in_wait, world, own, what)
        else:
            world.clock.after(when, _happen, world, own, what)


def _lie_in_wait(world: World, draws: Draws, what: str) -> None:
    """Strike when a write has just been sent, or something of it was written down, or shortly after: that is where it hurts."""
    moment = draws.one_of(("a write leaves", "the disk changes"))
    delay = draws.span(MICROSECOND, 30 * MILLISECOND if moment == "a write leaves" else MILLISECOND)
    let_pass = draws.between(0, 3)

    def strike() -> None:
        nonlocal let_pass
        let_pass -= 1
        if let_pass >= 0:
            world.lie_in_wait(moment, strike)
        else:
            world.clock.after(delay, _happen, world, draws, what)

    world.lie_in_wait(moment, strike)


def _happen(world: World, draws: Draws, what: str) -> None:
    if world.winding_down:
        return
    world.note("fate", what)
    process, disk = world.process, world.disk
    if what == "kill -9":
        process.kill()
    elif what == "SIGTERM":
        process.terminate()
    elif what == "reload" and process.ready:
        world.policy = policy_of(draws, like=world.policy)
        process.reload(world.policy)
    elif what in ("disk full", "disk fails", "disk stuck"):
        disk.trouble, disk.troubled = what.removeprefix("disk "), True
        world.clock.after(draws.span(10 * MILLISECOND, 8 * SECOND), _mend, world)
    elif what == "mood":
        draws.one_of(world.servers).change()
    elif what == "lookups hang":
        world.network.lookups_hang = True
        world.clock.after(draws.span(10 * MILLISECOND, 5 * SECOND), _find_again, world)


def _mend(world: World) -> None:
    world.disk.trouble = None
    world.note("fate", "the disk works again")


def _find_again(world: World) -> None:
    world.network.lookups_hang = False
