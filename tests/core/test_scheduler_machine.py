"""The scheduler as a whole against a naive one: plain lists, and a look at everybody after everything that happens."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.core.admission import UNHURRIED, WAITS, Gate, Lease, Scheduler, Shed, Task
from proxy.core.budget import Budget
from proxy.core.calls import Kind
from proxy.core.policy import BudgetDefaults, Policy, Route
from proxy.core.reasons import Reason

TICK = UNHURRIED // 3
"""The step of the clock: a few make up the hour that is put in place of a deadline, so that the two meet."""

FEW = st.sampled_from([1, 1, 2, 3, None])


def routes(name: str) -> st.SearchStrategy[Route]:
    """A route with few places and a short queue."""
    return st.builds(
        Route, st.just(name), concurrency=FEW, serialize=st.booleans(), queue=st.sampled_from([5, 5, 2, 1, 0])
    )


POLICIES = st.builds(
    Policy,
    limit=FEW,
    budget=st.builds(BudgetDefaults, width=FEW),
    routes=st.tuples(routes("a"), routes("b")) | st.tuples(routes("a")) | st.just(()),
    fallback=routes("fallback"),
)


class Wish(NamedTuple):
    """What a call comes with. Spans are in ticks."""

    route: str
    kind: Kind
    budget: str | None
    left: int | None
    min_start: int
    observed: bool


WISHES = st.builds(
    Wish,
    st.sampled_from(["a", "b", "fallback"]),
    st.sampled_from([Kind.WRITE, Kind.READ, Kind.IDEMPOTENT]),
    st.sampled_from([None, "x", "y", "lone"]),
    st.sampled_from([None, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from([False] * 9 + [True]),
)
FULL = {"width": Reason.WIDTH, "serial": Reason.QUEUE_FULL, "route": Reason.QUEUE_FULL, "pod": Reason.BUSY}


@dataclass(eq=False)
class Call:
    """A call as the model knows it. `needs`: one place in each; `order`: its deadline, then its arrival."""

    task: Task
    route: str
    needs: tuple[str, ...]
    order: tuple[int, int]
    min_start: int
    lease: Lease | None = None

    def over(self, now: int) -> bool:
        """Whether nothing is left, or less than it would be started with."""
        if self.task.deadline is None:
            return False
        left = self.task.deadline - now
        return left <= 0 or left < self.min_start


class SchedulerMachine(RuleBasedStateMachine):
    """What is granted is what a look at everybody would grant, and each promise holds after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.arrivals = 0
        self.waiting: list[Call] = []
        self.running: list[Call] = []
        self.ended: list[Lease] = []
        self.sizes: dict[str, int] = {}
        self.budgets = {id: Budget(id, 0, 10**15, 0) for id in ("x", "y", "lone")}
        self.budgets["lone"].lone = True
        self.gates: set[Gate] = set()

    @initialize(policy=POLICIES)
    def begin(self, policy: Policy) -> None:
        self.scheduler = Scheduler(policy)
        self.know(policy)

    # -- the model -----------------------------------------------------------------------------------------------

    def know(self, policy: Policy) -> None:
        self.policy = policy
        self.routes = {route.name: route for route in (*policy.routes, policy.fallback)}
        self.sizes = self.sizes | {name: route.queue for name, route in self.routes.items()}

    def capacity(self, place: str) -> int | None:
        what, _, name = place.partition(" ")
        if what == "pod":
            return self.policy.limit
        if what == "width":
            return self.policy.budget.width
        route = self.routes.get(name)
        if route is None:
            return None
        return route.concurrency if what == "route" else 1 if route.serialize else None

    def needs(self, route: str, kind: Kind, budget: str | None) -> tuple[str, ...]:
        """The scarce things of which a call needs one each."""
        places = [f"width {budget}"] if budget in ("x", "y") else []
        places += [f"serial {route}"] if kind is Kind.WRITE else []
        places += [f"route {route}", "pod"]
        return tuple(place for place in places if self.capacity(place) is not None)

    def full(self, place: str) -> bool:
        capacity = self.capacity(place)
        return capacity is not None and sum(place in call.needs for call in self.running) >= capacity

    def has_room(self, call: Call) -> bool:
        return not any(self.full(place) for place in call.needs)

    def in_queue(self, route: str) -> int:
        return sum(call.route == route for call in self.waiting)

    def arrival(self, wish: Wish) -> Call:
        """A call of this route, or of one that an earlier policy had and this one has not."""
        name = wish.route
        route = self.routes.get(name, Route(name, concurrency=1, queue=3))
        self.sizes.setdefault(name, route.queue)
        self.arrivals += 1
        task = self.scheduler.task(
            f"call {self.arrivals}",
            replace(route, min_start=wish.min_start * TICK),
            wish.kind,
            self.budgets[wish.budget] if wish.budget is not None else None,
            self.now + wish.left * TICK if wish.left is not None else None,
        )
        self.gates |= set(task.gates)
        key = task.deadline if task.deadline is not None else self.now + UNHURRIED
        return Call(
            task, name, self.needs(name, wish.kind, wish.budget), (key, self.arrivals), wish.min_start * TICK
        )

    def start(self, call: Call, lease: Lease, *, insisted: bool = False) -> None:
        """Take note of a grant, which must have been right just then."""
        if not insisted:
            assert not call.over(self.now)
            assert self.has_room(call)
            for other in self.waiting:
                assert (
                    other is call
                    or other.needs != call.needs
                    or other.over(self.now)
                    or other.order > call.order
                )
        assert not call.task.waits
        assert lease.held
        assert lease.task is call.task
        assert lease.deadline == call.task.deadline
        assert lease.slice == (lease.deadline - self.now if lease.deadline is not None else None)
        call.lease = lease
        self.running.append(call)
        if call in self.waiting:
            self.waiting.remove(call)

    def start_all(self, granted: list[Lease]) -> None:
        """Compare what was granted with what a look at everybody grants: always the first who has room and time."""
        for lease in granted:
            ready = [call for call in self.waiting if self.has_room(call) and not call.over(self.now)]
            call = min(ready, key=lambda call: call.order)
            self.start(call, lease)

    # -- what happens ----------------------------------------------------------------------------------------------

    @rule(wishes=st.lists(WISHES, min_size=1, max_size=5))
    def arrive(self, wishes: list[Wish]) -> None:
        for wish in wishes:
            call = self.arrival(wish)
            if wish.observed:
                self.start(call, self.scheduler.insist(call.task, self.now), insisted=True)
            else:
                self.ask(call)

    def ask(self, call: Call) -> None:
        answer = self.scheduler.ask(call.task, self.now)
        full = [place for place in call.needs if self.full(place)]
        if call.over(self.now):
            assert isinstance(answer, Shed)
            assert answer.reason is Reason.QUEUE_DEADLINE
        elif not full:
            assert isinstance(answer, Lease)
            self.start(call, answer)
        elif self.in_queue(call.route) >= self.sizes[call.route]:
            assert isinstance(answer, Shed)
            assert answer.reason is FULL[full[0].partition(" ")[0]]
            assert answer.wait >= 0
        else:
            assert answer == WAITS
            self.waiting.append(call)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99))
    def release(self, which: int) -> None:
        call = self.running.pop(which % len(self.running))
        assert call.lease is not None
        self.ended.append(call.lease)
        self.start_all(self.scheduler.release(call.lease, self.now))
        again = self.ended[which % len(self.ended)]
        assert self.scheduler.release(again, self.now) == []

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 99), observed=st.booleans())
    def leave(self, which: int, observed: bool) -> None:
        call = self.waiting[which % len(self.waiting)]
        if observed:
            self.start(call, self.scheduler.insist(call.task, self.now), insisted=True)
        else:
            self.scheduler.leave(call.task)
            self.waiting.remove(call)
        self.scheduler.leave(call.task)  # nothing comes of leaving a queue that one is not in

    @rule(ticks=st.integers(1, 3))
    def pass_time(self, ticks: int) -> None:
        self.now += ticks * TICK

    @precondition(lambda self: any(call.over(self.now) for call in self.waiting))
    @rule()
    def alarms(self) -> None:
        for call in [call for call in self.waiting if call.over(self.now)]:
            self.waiting.remove(call)
            assert self.scheduler.late(call.task).reason is Reason.QUEUE_DEADLINE

    @precondition(lambda self: self.waiting or len(self.running) > 2)
    @rule(policy=POLICIES)
    def reload(self, policy: Policy) -> None:
        granted = self.scheduler.adopt(policy, self.now)
        self.know(policy)
        self.start_all(granted)
        in_use = {call.route for call in self.waiting}
        in_use |= {place.partition(" ")[2] for call in self.running for place in call.needs if " " in place}
        self.sizes = {
            name: size for name, size in self.sizes.items() if name in self.routes or name in in_use
        }

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def no_call_that_could_start_is_kept_waiting(self) -> None:
        for call in self.waiting:
            assert call.over(self.now) or not self.has_room(call)

    @invariant()
    def each_place_is_held_by_who_holds_a_lease(self) -> None:
        assert self.scheduler.leases == len(self.running)
        gates: dict[str, Gate] = {}
        for call in (*self.running, *self.waiting):
            assert len(call.task.gates) == len(call.needs)
            for place, gate in zip(call.needs, call.task.gates, strict=True):
                assert gates.setdefault(place, gate) is gate
        for place, gate in gates.items():
            assert gate.held == sum(place in call.needs for call in self.running)
        assert sum(gate.held for gate in self.gates) == sum(len(call.needs) for call in self.running)

    @invariant()
    def no_two_leases_share_a_slot(self) -> None:
        slots = [call.lease.slot for call in self.running if call.lease is not None]
        assert len(set(slots)) == len(slots)
        assert all(0 <= slot < len(self.running) + len(self.ended) for slot in slots)

    @invariant()
    def who_waits_stands_in_one_line_and_in_order(self) -> None:
        assert sum(len(gate.waiting) for gate in self.gates) == len(self.waiting)
        for gate in self.gates:
            assert gate.waiting == sorted(gate.waiting)
        for call in self.waiting:
            assert call.task.waits
            assert call.task.gate in call.task.gates
        assert not any(call.task.waits for call in self.running)

    @invariant()
    def what_is_shown_is_so(self) -> None:
        queued = self.scheduler.queued()
        assert Counter(queued) == Counter(call.route for call in self.waiting)
        assert queued.keys() == self.sizes.keys()
        assert self.scheduler.slots() == {
            name: (sum(f"route {name}" in call.needs for call in self.running), route.concurrency)
            for name, route in self.routes.items()
            if route.concurrency is not None
        }

    def teardown(self) -> None:
        """Everything ends, and nothing is left: no place taken, nobody in a queue."""
        if not hasattr(self, "scheduler"):
            return
        while self.running:
            self.release(0)
        assert all(call.over(self.now) for call in self.waiting)
        self.waiting.sort(key=lambda call: call.order)
        while self.waiting:
            self.leave(0, observed=False)
        assert self.scheduler.leases == 0
        assert not any(gate.held or gate.waiting for gate in self.gates)
        self.scheduler.adopt(Policy(), self.now)
        assert self.scheduler.queued() == {"fallback": 0}


TestScheduler = SchedulerMachine.TestCase
