"""The operators: they look at the writes that are in doubt, ask the other side, and decide, at the desk of the control API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteRecord, WriteState, WrongTransition
from proxy.store.errors import JournalError
from trials.simulation.actors import Script, pause
from trials.simulation.draws import Draws

if TYPE_CHECKING:
    from trials.simulation.world import World


def at_work(world: World, draws: Draws) -> Script:
    """Come by now and then, as long as the run is on."""
    while not world.winding_down:
        yield pause(world.clock, draws.span(100 * MILLISECOND, 10 * SECOND))
        process = world.process
        if not process.ready or process.plane is None:
            continue
        listed = [record for record in process.plane.book.listed() if _open(record)]
        if listed and draws.happens(0.6):
            _decide(world, draws, draws.one_of(listed))


def _open(record: WriteRecord) -> bool:
    return record.state in (WriteState.UNCERTAIN, WriteState.DEAD_LETTERED)


def _decide(world: World, draws: Draws, record: WriteRecord) -> None:
    """Say what has come of a write, as far as that can be known; or decide about a dead letter."""
    process = world.process
    number = world.calls_of.get(record.id)
    call = world.model.calls.get(number) if number is not None else None
    if call is None:
        return
    desk = process.desk
    if call.committed:
        decision = desk.resolve(record.id, applied=True)
        what = "applied"
    elif record.state is WriteState.DEAD_LETTERED and draws.happens(0.5):
        released = draws.happens(0.5) and not world.model.in_doubt(call)
        decision = desk.release(record.id) if released else desk.discard(record.id)
        what = "released" if released else "discarded"
    elif world.model.in_doubt(call) or world.clock.now - call.at < 100 * MILLISECOND:
        return
    else:
        decision = desk.resolve(record.id, applied=False)
        what = "absent"
    world.note("operator", f"{record.id} of call {number}: {what}")

    async def decide() -> None:
        try:
            await decision
        except (KeyError, WrongTransition, JournalError) as error:
            world.note("operator", f"{record.id}: {error!r}")

    process.loop.call_soon(lambda: process.loop.create_task(decide(), name="operator"))
