"""What a sidecar still has in use when nothing goes on any more: its own gauges, its control API, the kernel's view of it."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trials.chaos.evidence import CONNECTION, Rest
from trials.chaos.sidecars import Chaotic

_WITHIN: Final = 30.0
"""Longer than the upstream stalls: a question about a write may meet a connection on which it still does."""
_GAUGES: Final = (
    "waterclock_steps_in_flight",
    "waterclock_leases_in_flight",
    "waterclock_client_connections",
    "waterclock_opaque_connections_active",
    'waterclock_upstream_connections{state="active"}',
    'waterclock_upstream_connections{state="opening"}',
    'waterclock_upstream_connections{state="idle"}',
)
_BY_ROUTE: Final = ("waterclock_queue_depth", "waterclock_worker_slots_taken")
_LISTEN: Final = "0A"
_SPARE: Final = 3
"""How many descriptors other than connections, and how many tasks, may come and go: of the journal, the resolver, the scrape."""


class Usual(NamedTuple):
    """What a sidecar has in use that has done nothing yet: descriptors other than connections, and tasks."""

    descriptors: int
    tasks: float


def usual_of(sidecar: Chaotic) -> Usual:
    """Return what a sidecar has in use that has just started."""
    return Usual(descriptors(sidecar.pid)[1], sidecar.samples()["waterclock_tasks"])


def at_rest(sidecar: Chaotic, usual: Usual) -> Rest:
    """Wait until nothing is left, and return what is after a while. `usual`: what there was at first."""
    end = time.monotonic() + _WITHIN
    while True:
        left, counted = _left(sidecar, usual)
        if not left or time.monotonic() > end:
            return Rest(left, counted)
        time.sleep(0.05)


def at_the_end(sidecar: Chaotic) -> Rest:
    """Return what a sidecar that was stopped at rest said that it had to wait for: calls, and answers of writes."""
    draining = next(event for event in reversed(sidecar.events) if event["event"] == "draining")
    waited_for = ("in_flight", "lingering")
    return Rest({name: draining[name] for name in waited_for if draining[name]}, len(waited_for))


def _left(sidecar: Chaotic, usual: Usual) -> tuple[dict[str, float], int]:
    samples = sidecar.samples()
    seen = {name: samples[name] for name in _GAUGES}
    seen |= {name: value for name, value in samples.items() if name.startswith(_BY_ROUTE)}
    budgets = sidecar.ask("/budgets?state=all&limit=500")["budgets"]
    seen["steps in flight of budgets"] = sum(budget["in_flight"] for budget in budgets)
    connections, others = descriptors(sidecar.pid)
    seen |= {f"{CONNECTION}{each}": 1 for each in connections}
    seen.setdefault(CONNECTION, 0)
    seen["further descriptors"] = max(0, others - usual.descriptors - _SPARE)
    seen["further tasks"] = max(0, samples["waterclock_tasks"] - usual.tasks - _SPARE)
    return {name: value for name, value in seen.items() if value}, len(seen)


def descriptors(pid: int) -> tuple[list[str], int]:
    """Return the connections that a process has open, whatever their state, and how many other descriptors.

    A connection is told as `near port -> far port`, with its state and the bytes in its queues as the kernel counts them.
    """
    connected: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, near, far, state, queues, *others = line.split()
            if state != _LISTEN:
                ports = [int(end.rpartition(":")[2], 16) for end in (near, far)]
                connected[others[4]] = f"{ports[0]} -> {ports[1]}, state {state}, queues {queues}"
    connections, others_open = [], 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            inode = re.fullmatch(r"socket:\[(\d+)\]", str(each.readlink()))
            if inode is not None and inode[1] in connected:
                connections.append(connected[inode[1]])
            else:
                others_open += 1
    return connections, others_open
