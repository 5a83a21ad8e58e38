"""Admission: which calls may start now, which wait their turn, which are turned away.

What is scarce is a `Gate`: the pod's limit, a route's worker slots, a route that takes one write at a time, a budget's
width. A call is a `Task` that needs one place in each of its gates, all at once. It is granted a `Lease` when all of
them have room; it waits while one has not; it is shed when its queue is full, or its time is over.

A task waits at one gate that is full, in the order of deadlines. When gates have room again, the first of all who wait
at them is looked at: it is granted, or goes on to wait at another gate of its own that is full. So

    a task that waits always has a gate that is full: none that could start is kept waiting, whatever stands before it
    of two that wait for the same gates the earlier deadline goes first, at whichever of them each has come to wait

A call goes by the gates that it came with. What a reload says of their capacity holds at once, and a gate that is new
counts the calls that come after it. Pure: time is an argument, and what follows from a grant is for the caller to do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from enum import StrEnum
from operator import itemgetter
from typing import Final, NamedTuple

from proxy.core.budget import Budget
from proxy.core.calls import Kind
from proxy.core.policy import Policy, Route
from proxy.core.reasons import Reason
from proxy.core.units import HOUR, MINUTE, SECOND

UNHURRIED: Final = HOUR
"""The place in the order of a task without a deadline: as if it had this long from its arrival (nanoseconds)."""
UNKNOWN_PACE: Final = SECOND
"""How long a place is taken to need to come free at a gate of which nothing is known yet."""
_REMEMBERED: Final = 16
"""The pace of a gate is that of about so many releases, or twice as many as it has places: calls that began together
end together, and only whole rounds of them tell how fast they go."""
_OUTDATED: Final = MINUTE
"""What was measured this long before a gate filled up again counts as a single release."""


class GateKind(StrEnum):
    """What a gate stands for, and so what is said when it is full."""

    POD = "pod"
    ROUTE = "route"
    SERIAL = "serial"
    WIDTH = "width"


_FULL: Final = {
    GateKind.POD: (Reason.BUSY, "As many calls of the pod as its limit allows ({}) are in flight"),
    GateKind.ROUTE: (Reason.QUEUE_FULL, "All worker slots of this route ({}) are taken"),
    GateKind.SERIAL: (Reason.QUEUE_FULL, "This route takes one write at a time, and one is in flight"),
    GateKind.WIDTH: (Reason.WIDTH, "As many calls of this budget as its width allows ({}) are in flight"),
}


class Gate:
    """One scarce thing: `capacity` places (None: as many as anyone wants), of which `held` are taken."""

    __slots__ = ("_measured", "_released", "_since", "capacity", "held", "kind", "waiting")

    def __init__(self, kind: GateKind, capacity: int | None) -> None:
        """Start empty."""
        self.kind = kind
        self.capacity = capacity
        self.held = 0
        self.waiting: list[Seat] = []  # sorted
        self._measured = 0  # the time, while it was full, in which
        self._released = 0  # so many places came free
        self._since = 0  # when it became full, or when the last place came free

    @property
    def full(self) -> bool:
        """Whether there is no place."""
        return self.capacity is not None and self.held >= self.capacity

    def take(self, now: int) -> None:
        """Take a place, whether or not there is one."""
        self.held += 1
        if self.held == self.capacity:
            if self._released and now - self._since > _OUTDATED:
                self._measured //= self._released
                self._released = 1
            self._since = now

    def give_back(self, now: int) -> None:
        """Give a place back. How long that took is measured while there is no other: idle places say nothing."""
        if self.capacity is not None and self.held >= self.capacity:
            self._measured += max(0, now - self._since)
            self._released += 1
            self._since = now
            if self._released >= max(_REMEMBERED, 2 * self.capacity):
                self._measured //= 2
                self._released //= 2
        self.held -= 1

    def resize(self, capacity: int | None, now: int) -> None:
        """Have another capacity from now on, be it less than what is held."""
        if not self.full:
            self._since = now  # it may be full with this one
        self.capacity = capacity

    def wait(self, key: int, now: int) -> int:
        """Return in how long a full gate may have a place for a task with this place in the order: as many releases as it
        takes, at the measured pace; but if nothing has come free for longer than that, as long again.
        """
        assert self.capacity is not None
        ahead = bisect_right(self.waiting, key, key=itemgetter(0))
        pace = self._measured // self._released if self._released else UNKNOWN_PACE
        return max(pace * (self.held - self.capacity + ahead + 1), now - self._since)


class Task:
    """A call that wants to start. Times are nanoseconds.

    `deadline`: when its allowance is over; `latest`: after which it would not be started any more, since less than its
    route's `min_start` would be left; `gate`: at which it waits, in the place that `seat` gives it.
    """

    __slots__ = ("deadline", "gate", "gates", "id", "lane", "latest", "seat")

    def __init__(
        self, id: str, gates: tuple[Gate, ...], lane: Lane, deadline: int | None, latest: int | None
    ) -> None:
        """Want one place in each of `gates`."""
        self.id = id
        self.gates = gates
        self.lane = lane
        self.deadline = deadline
        self.latest = latest
        self.gate: Gate | None = None
        self.seat: Seat

    @property
    def waits(self) -> bool:
        """Whether it is in a queue."""
        return self.gate is not None

    def key(self, now: int) -> int:
        """Return its place in the order, if it comes now."""
        return self.deadline if self.deadline is not None else now + UNHURRIED

    def over(self, now: int) -> bool:
        """Whether it is too late to start it."""
        return self.latest is not None and now > self.latest

    def blocked_by(self) -> Gate | None:
        """Return the first of its gates that has no room."""
        for gate in self.gates:
            if gate.capacity is not None and gate.held >= gate.capacity:
                return gate
        return None

    def sit(self, gate: Gate, seat: Seat) -> None:
        """Wait at a gate, in the place that deadline and arrival give it."""
        assert self.gate is None, "a task waits at one gate"
        self.gate = gate
        self.seat = seat
        insort(gate.waiting, seat)

    def rise(self) -> Seat:
        """Wait no longer; return the place that it had, which it keeps at another gate."""
        assert self.gate is not None
        del self.gate.waiting[bisect_left(self.gate.waiting, self.seat)]
        self.gate = None
        return self.seat


Seat = tuple[int, int, Task]
"""Where a task stands among those that wait: by its deadline, then by its arrival, which no two share."""


class Lease:
    """What a task is granted: a worker slot, and a slice of its budget until a deadline (None: without any).

    It ends once, when it is released, whatever happens; a second release is no release.
    """

    __slots__ = ("deadline", "held", "slice", "slot", "task")

    def __init__(self, task: Task, slot: int, now: int) -> None:
        """Grant a slot at `now`."""
        self.task = task
        self.slot = slot
        self.deadline = task.deadline
        self.slice = task.deadline - now if task.deadline is not None else None
        self.held = True

    def renew(self, deadline: int | None, now: int) -> None:
        """Take another slice: the call has begun anew, or is limited by something else from here on."""
        self.deadline = deadline
        self.slice = deadline - now if deadline is not None else None


class Lane:
    """What one route has: its own gates, who of its calls waits, and how many may (`size`)."""

    __slots__ = ("for_others", "for_writes", "size", "waiting", "workers", "writes")

    def __init__(self) -> None:
        """Start empty."""
        self.waiting: set[Task] = set()
        self.workers = Gate(GateKind.ROUTE, None)
        self.writes = Gate(GateKind.SERIAL, None)

    @property
    def idle(self) -> bool:
        """Whether nobody waits in it or holds one of its gates."""
        return not (self.waiting or self.workers.held or self.writes.held)

    def adopt(self, route: Route, pod: tuple[Gate, ...], now: int) -> None:
        """Be as the policy wants the route."""
        self.size = route.queue
        self.workers.resize(route.concurrency, now)
        self.writes.resize(1 if route.serialize else None, now)
        self.for_others = pod if route.concurrency is None else (self.workers, *pod)
        self.for_writes = (self.writes, *self.for_others) if route.serialize else self.for_others


class Shed(NamedTuple):
    """A call that is turned away. `wait`: in how long a place may be free for it, as far as that can be told (ns)."""

    reason: Reason
    detail: str
    wait: int


WAITS: Final = "waits"
"""The answer to a task that has been put in its queue."""


class Scheduler:
    """All gates of the sidecar, and who waits at them."""

    def __init__(self, policy: Policy) -> None:
        """Put a policy in force, with nobody in flight."""
        self._pod = Gate(GateKind.POD, None)
        self._everyone: tuple[Gate, ...] = ()  # the gates of every call, wherever it goes
        self._lanes: dict[str, Lane] = {}
        self._width: int | None = None
        self._adopted = 0
        self._free: list[int] = []  # slots that were given back
        self._arrivals = 0
        self.leases = 0
        self.adopt(policy, 0)

    # -- what a call asks ------------------------------------------------------------------------------------------

    def task(self, id: str, route: Route, kind: Kind, budget: Budget | None, deadline: int | None) -> Task:
        """Return the task of a call, to be asked for at once: what it needs, by its route, its kind and its budget."""
        lane = self._lanes.get(route.name)
        if lane is None:  # the call came under an earlier policy, and nothing limits this route any more
            lane = self._lanes[route.name] = Lane()
            lane.adopt(Route(route.name, queue=route.queue), self._everyone, self._adopted)
        gates = lane.for_writes if kind is Kind.WRITE else lane.for_others
        if self._width is not None and budget is not None and not budget.lone:
            if budget.gate is None:
                budget.gate = Gate(GateKind.WIDTH, self._width)
            elif budget.gate.capacity != self._width:
                budget.gate.resize(self._width, self._adopted)
            gates = (budget.gate, *gates)
        latest = deadline - (route.min_start or 1) if deadline is not None else None
        return Task(id, gates, lane, deadline, latest)

    def ask(self, task: Task, now: int) -> Lease | Shed | str:
        """Grant a lease, put the task in its queue (`WAITS`), or turn it away."""
        if task.latest is not None and now > task.latest:
            return _shed(task, None, now)
        gate = task.blocked_by() if task.gates else None
        if gate is None:
            return self._grant(task, now)
        lane = task.lane
        if len(lane.waiting) >= lane.size:
            return _shed(task, gate, now)
        lane.waiting.add(task)
        self._arrivals += 1
        task.sit(gate, (task.key(now), self._arrivals, task))
        return WAITS

    def insist(self, task: Task, now: int) -> Lease:
        """Grant a lease whether or not there is room: `mode: observe` applies nothing."""
        self.leave(task)
        return self._grant(task, now)

    def leave(self, task: Task) -> None:
        """Take a task out of its queue: its caller has left, or its time is over."""
        if task.waits:
            task.rise()
            task.lane.waiting.remove(task)

    def late(self, task: Task) -> Shed:
        """Take out of its queue a task that can no longer start in time, and say so."""
        self.leave(task)
        return _shed(task, None, task.latest or 0)

    def release(self, lease: Lease, now: int) -> list[Lease]:
        """End a lease, and return those that are granted in its place. A lease that has ended already frees nothing."""
        if not lease.held:
            return []
        lease.held = False
        self.leases -= 1
        self._free.append(lease.slot)
        gates = lease.task.gates
        wanted = False
        for gate in gates:
            gate.give_back(now)
            if gate.waiting:
                wanted = True
        granted: list[Lease] = []
        while wanted and (task := _first(gates, now)) is not None:
            self._look_at(task, now, granted)
        return granted

    # -- what the policy changes -----------------------------------------------------------------------------------

    def adopt(self, policy: Policy, now: int) -> list[Lease]:
        """Put another policy in force, and return the leases that it makes room for. Nobody who is in flight is stopped."""
        routes = {route.name: route for route in (*policy.routes, policy.fallback)}
        self._width, self._adopted = policy.budget.width, now
        self._pod.resize(policy.limit, now)
        self._everyone = () if policy.limit is None else (self._pod,)
        for name in routes:
            self._lanes.setdefault(name, Lane())
        for name, lane in self._lanes.items():
            lane.adopt(routes.get(name) or Route(name, queue=lane.size), self._everyone, now)
        waiting = [task.seat for lane in self._lanes.values() for task in lane.waiting]
        for _, _, task in waiting:
            for gate in task.gates:
                if gate.kind is GateKind.WIDTH:
                    gate.resize(self._width, now)
        # Every gate has its new capacity before anybody is let in; then everybody is looked at once, in order.
        granted: list[Lease] = []
        for _, _, task in sorted(waiting):
            if not task.over(now):
                self._look_at(task, now, granted)
        self._lanes = {name: lane for name, lane in self._lanes.items() if name in routes or not lane.idle}
        return granted

    # -- what is to be seen ----------------------------------------------------------------------------------------

    def queued(self) -> dict[str, int]:
        """Return how many calls wait, by route."""
        return {name: len(lane.waiting) for name, lane in self._lanes.items()}

    def slots(self) -> dict[str, tuple[int, int]]:
        """Return how many worker slots are taken and how many there are, by the routes that limit them."""
        return {
            name: (lane.workers.held, lane.workers.capacity)
            for name, lane in self._lanes.items()
            if lane.workers.capacity is not None
        }

    # -- inside ----------------------------------------------------------------------------------------------------

    def _grant(self, task: Task, now: int) -> Lease:
        for gate in task.gates:
            gate.take(now)
        slot = self._free.pop() if self._free else self.leases  # none is free: all that there are, are taken
        self.leases += 1
        return Lease(task, slot, now)

    def _look_at(self, task: Task, now: int, granted: list[Lease]) -> None:
        """Grant a task that waits, or let it wait at another of its gates."""
        gate = task.blocked_by()
        seat = task.rise()
        if gate is not None:
            task.sit(gate, seat)
        else:
            task.lane.waiting.remove(task)
            granted.append(self._grant(task, now))


def _first(gates: tuple[Gate, ...], now: int) -> Task | None:
    """Return who comes first at the gates that have room. Who is too late is passed over, and about to be taken out."""
    first: Seat | None = None
    for gate in gates:
        for seat in () if gate.full else gate.waiting:
            if first is not None and first < seat:
                break
            if not seat[2].over(now):
                first = seat
                break
    return first[2] if first is not None else None


def _shed(task: Task, gate: Gate | None, now: int) -> Shed:
    """Turn a task away from a gate that is full, and the queue with it; None: because it is too late."""
    key, lane = task.key(now), task.lane
    wait = max((gate.wait(key, now) for gate in task.gates if gate.full), default=0)
    if gate is None:
        too_late = "Its turn did not come while there was still time to start it."
        return Shed(Reason.QUEUE_DEADLINE, too_late, wait)
    reason, taken = _FULL[gate.kind]
    queue = f"{len(lane.waiting)} of this route wait already; no more than {lane.size} may"
    detail = (
        f"{taken.format(gate.capacity)}, and {queue if lane.size else 'calls of this route do not wait'}."
    )
    return Shed(reason, detail, wait)
