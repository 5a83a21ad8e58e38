"""What may be left when everybody has gone: nothing that anybody holds, and books that agree with the disk.

It reads what is private to the product, since what an object would say of itself is what is in doubt here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.admission import Gate
from proxy.core.writes import WriteState

if TYPE_CHECKING:
    from trials.simulation.process import Process

_TIMERS_OF_THE_PROCESS: Final = ("Sidecar._attend", "Pool._sweep")
"""Those that look at things every now and then, and find out by themselves that there is nothing left to look at."""


def left_over(process: Process) -> list[str]:
    """Return what is still held when nobody asks for anything."""
    plane = process.plane
    assert plane is not None
    counts = plane.pool.counts()
    # What is in doubt is asked about for long, every half minute, and the connection then lies idle for a while.
    spared = counts["idle"] if len(plane.verifier) else 0
    found: dict[str, object] = {
        "calls in flight": plane.in_flight,
        "leases": plane.scheduler.leases,
        "queued": sum(plane.scheduler.queued().values()),
        "claims": len(plane.claims),
        "clients": len(plane.clients),
        "relays": len(plane.relays),
        "lingering": len(plane.lingering),
        "turns": len(plane.turns._waiting),
        "connections": sum(counts.values()) - spared,
        "sites": max(0, len(plane.pool._sites) - spared),
        "other entries": plane.budgets.others,
        "units under way": sum(known.running for known in plane.attempts._units.values()),
        "questions": plane.verifier._asking,
    }
    for budget in plane.budgets.listed():
        found[f"in flight of {budget.id}"] = budget.in_flight
    for gate in gates(process):
        found[f"places at the gate {gate.kind}"] = gate.held + len(gate.waiting)
    listening = len(process.world.network._ports)
    found["sockets"] = len(process.world.network.sockets) - spared
    found["ports too many"] = max(0, listening - 2)
    timers = [name for name in process.loop.armed if not name.startswith(_TIMERS_OF_THE_PROCESS)]
    found["timers"] = len(timers) - len(plane.verifier)
    found["tasks"] = [name for name in process.loop.pending if name != "main"]
    return [f"{what}: {held} {timers if what == 'timers' else ''}" for what, held in found.items() if held]


def gates(process: Process) -> list[Gate]:
    """Return all that is scarce."""
    plane = process.plane
    assert plane is not None
    found = [plane.scheduler._pod]
    for lane in plane.scheduler._lanes.values():
        found += [lane.workers, lane.writes]
    return found + [budget.gate for budget in plane.budgets.listed() if budget.gate is not None]


def over_full(process: Process) -> str | None:
    """Of no gate is more held than it has. Who had it when there was more may keep it, and who is only observed gets it."""
    if len(process.policies) > 1 or process.lax:
        return None
    for gate in gates(process):
        if gate.capacity is not None and gate.held > gate.capacity:
            return f"{gate.held} at {gate.kind}, which has {gate.capacity}"
    return None


def books_agree(process: Process) -> str | None:
    """What the book knows of writes is on disk, and nothing else is."""
    plane = process.plane
    assert plane is not None
    held = process.journal.database.held
    book = {record.id: record for record in plane.book._records.values()}
    for id in sorted(held.keys() | book.keys()):
        if held.get(id) != book.get(id):
            return f"{id}: the book has {book.get(id)}, the disk {held.get(id)}"
    intents = [id for id, record in book.items() if record.state is WriteState.INTENT]
    return f"{intents} are intents still" if intents else None
