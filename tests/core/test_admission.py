"""Who may start, who waits, who is turned away: the rules of admission, one at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.core.admission import UNHURRIED, WAITS, Lease, Scheduler, Shed, Task
from proxy.core.budget import Budget
from proxy.core.calls import Kind
from proxy.core.policy import BudgetDefaults, Policy, Route
from proxy.core.reasons import Reason
from proxy.core.units import HOUR, MINUTE, SECOND

SLOW = Route("slow", concurrency=1)
LEDGER = Route("ledger", serialize=True)
ONE_AT_A_TIME = Policy(routes=(SLOW,))


def task(
    scheduler: Scheduler,
    route: Route = SLOW,
    kind: Kind = Kind.READ,
    budget: Budget | None = None,
    deadline: int | None = None,
) -> Task:
    """A call of which the test names what matters to it."""
    return scheduler.task("call", route, kind, budget, deadline)


def granted(answer: Lease | Shed | str) -> Lease:
    """The answer of a call that starts."""
    assert isinstance(answer, Lease)
    return answer


def shed(answer: Lease | Shed | str) -> Shed:
    """The answer of a call that is turned away."""
    assert isinstance(answer, Shed)
    return answer


def budget(id: str) -> Budget:
    """A budget with an hour to go."""
    return Budget(id, 0, HOUR, 0)


def queue_up(scheduler: Scheduler, *tasks: Task, now: int = 0) -> None:
    """Have tasks wait, in this order."""
    for each in tasks:
        assert scheduler.ask(each, now) == WAITS


def order_of_turns(scheduler: Scheduler, lease: Lease, *, now: int = SECOND) -> list[Task]:
    """Release one lease after the other, and tell whose turn came."""
    turns, leases = [], [lease]
    while leases:
        began = scheduler.release(leases.pop(0), now)
        leases += began
        turns += [each.task for each in began]
    return turns


# -- leases ------------------------------------------------------------------------------------------------------


def test_where_nothing_is_scarce_every_call_starts() -> None:
    """A policy without limits has no gates, and a call waits for nothing."""
    scheduler = Scheduler(Policy())
    tasks = [task(scheduler, Policy().fallback) for _ in range(1000)]
    assert {each.gates for each in tasks} == {()}
    slots = [granted(scheduler.ask(each, 0)).slot for each in tasks]
    assert len(set(slots)) == scheduler.leases == 1000


def test_a_lease_is_a_slot_and_a_slice_until_a_deadline() -> None:
    """The slice is what is left of the allowance when it starts; it is taken anew when the call begins anew."""
    scheduler = Scheduler(Policy())
    lease = granted(scheduler.ask(task(scheduler, deadline=10 * SECOND), 4 * SECOND))
    assert (lease.task.id, lease.slot, lease.deadline, lease.slice) == ("call", 0, 10 * SECOND, 6 * SECOND)
    lease.renew(9 * SECOND, 7 * SECOND)
    assert (lease.deadline, lease.slice) == (9 * SECOND, 2 * SECOND)
    lease.renew(None, 8 * SECOND)
    assert (lease.deadline, lease.slice) == (None, None)


def test_a_lease_ends_once() -> None:
    """A second release frees no second place, whoever has the first one by now."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    first, second, third = (task(scheduler) for _ in range(3))
    lease = granted(scheduler.ask(first, 0))
    queue_up(scheduler, second, third)
    assert [each.task for each in scheduler.release(lease, SECOND)] == [second]
    assert scheduler.release(lease, SECOND) == []
    assert scheduler.leases == 1
    assert scheduler.slots() == {"slow": (1, 1)}


def test_slots_are_used_again() -> None:
    """There are as many as there ever were leases at once."""
    scheduler = Scheduler(Policy())
    for _ in range(100):
        leases = [granted(scheduler.ask(task(scheduler), 0)) for _ in range(3)]
        assert {lease.slot for lease in leases} == {0, 1, 2}
        for lease in leases:
            scheduler.release(lease, 0)


# -- why not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "reason", "words"),
    [
        (Policy(limit=1), Reason.BUSY, "limit allows (1)"),
        (Policy(routes=(SLOW,)), Reason.QUEUE_FULL, "All worker slots of this route (1)"),
        (Policy(routes=(LEDGER,)), Reason.QUEUE_FULL, "one write at a time"),
        (Policy(budget=BudgetDefaults(width=1)), Reason.WIDTH, "width allows (1)"),
    ],
)
@pytest.mark.parametrize(
    ("size", "queue"), [(2, "2 of this route wait already; no more than 2 may."), (0, "do not wait.")]
)
def test_a_call_is_shed_with_the_reason_that_stands_in_its_way(
    policy: Policy, reason: Reason, words: str, size: int, queue: str
) -> None:
    """What is full, and how many wait for it; a queue of size 0 takes nobody."""
    policy = replace(
        policy,
        routes=tuple(replace(route, queue=size) for route in policy.routes),
        fallback=replace(policy.fallback, queue=size),
    )
    scheduler, job = Scheduler(policy), budget("job")
    route = (*policy.routes, policy.fallback)[0]
    granted(scheduler.ask(task(scheduler, route, Kind.WRITE, job), 0))
    queue_up(scheduler, *(task(scheduler, route, Kind.WRITE, job) for _ in range(size)))
    answer = shed(scheduler.ask(task(scheduler, route, Kind.WRITE, job), 0))
    assert answer.reason is reason
    assert words in answer.detail
    assert answer.detail.endswith(queue)


def test_a_call_waits_no_longer_than_it_can_still_start() -> None:
    """When its alarm goes off it leaves the queue, for a reason of its own."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    lease, late = (
        granted(scheduler.ask(task(scheduler), 0)),
        task(scheduler, deadline=10 * SECOND),
    )
    queue_up(scheduler, late)
    assert late.latest == 10 * SECOND - 1
    assert scheduler.late(late).reason is Reason.QUEUE_DEADLINE
    assert not late.waits
    assert scheduler.queued() == {"slow": 0, "fallback": 0}
    assert scheduler.release(lease, 10 * SECOND) == []


@pytest.mark.parametrize(("at", "starts"), [(7 * SECOND, True), (7 * SECOND + 1, False)])
def test_min_start_counts_in_the_queue(at: int, starts: bool) -> None:
    """With exactly that much left it is started, with less it is not, be it asked for or called up."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    choosy = replace(SLOW, min_start=3 * SECOND)
    lease = granted(scheduler.ask(task(scheduler), 0))
    queue_up(scheduler, task(scheduler, choosy, deadline=10 * SECOND))
    assert len(scheduler.release(lease, at)) == starts
    answer = Scheduler(Policy()).ask(
        task(scheduler, Route("free", min_start=3 * SECOND), deadline=10 * SECOND), at
    )
    assert isinstance(answer, Lease if starts else Shed)


def test_who_is_too_late_does_not_stand_in_the_way() -> None:
    """Its alarm has not gone off yet, but the place goes to the next."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    lease = granted(scheduler.ask(task(scheduler), 0))
    late, next_one = task(scheduler, deadline=SECOND), task(scheduler, deadline=9 * SECOND)
    queue_up(scheduler, late, next_one)
    assert [each.task for each in scheduler.release(lease, 2 * SECOND)] == [next_one]
    assert late.waits


# -- whose turn --------------------------------------------------------------------------------------------------


def test_the_earlier_deadline_goes_first() -> None:
    """Whoever came first; without a deadline, as if it had an hour. Equal ones go in the order of their arrival."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    lease = granted(scheduler.ask(task(scheduler), 0))
    deadlines = [None, 2 * HOUR, 9 * MINUTE, 5 * MINUTE, 9 * MINUTE, None]
    tasks = [task(scheduler, deadline=deadline) for deadline in deadlines]
    queue_up(scheduler, *tasks)
    assert order_of_turns(scheduler, lease) == [tasks[place] for place in (3, 2, 4, 0, 5, 1)]
    assert UNHURRIED < 2 * HOUR


def test_a_task_that_waits_holds_nothing() -> None:
    """It takes all its places at once: while it waits for one, the others are for those who need no more."""
    scheduler = Scheduler(Policy(limit=2, routes=(SLOW,)))
    granted(scheduler.ask(task(scheduler), 0))
    queue_up(scheduler, task(scheduler))
    granted(scheduler.ask(task(scheduler, Route("fallback")), 0))


def test_nobody_who_could_start_waits_behind_one_who_cannot() -> None:
    """The first at the pod's limit lacks a slot of its route as well: the next one goes, and it keeps its place."""
    scheduler = Scheduler(Policy(limit=2, routes=(SLOW,)))
    pod_full = [granted(scheduler.ask(task(scheduler, Route("fallback")), 0)) for _ in range(2)]
    urgent, slow, other = (
        task(scheduler, deadline=SECOND),
        task(scheduler, deadline=MINUTE),
        task(scheduler, Route("fallback")),
    )
    queue_up(scheduler, urgent, slow, other)
    [first] = scheduler.release(pod_full[0], 1)
    [second] = scheduler.release(pod_full[1], 1)
    assert (first.task, second.task) == (urgent, other)
    assert slow.waits
    assert [each.task for each in scheduler.release(first, 1)] == [slow]


def test_the_order_holds_whichever_gate_a_task_has_come_to_wait_at() -> None:
    """Of two with the same needs one came when only the pod was full, the other when its route was full too."""
    scheduler = Scheduler(Policy(limit=1, routes=(SLOW,)))
    pod_full = granted(scheduler.ask(task(scheduler, Route("fallback")), 0))
    first, early = task(scheduler, deadline=MINUTE), task(scheduler, deadline=2 * MINUTE)
    queue_up(scheduler, first, early)
    [lease] = scheduler.release(pod_full, 1)
    late = task(scheduler, deadline=3 * MINUTE)
    queue_up(scheduler, late)
    assert early.gate is not late.gate
    assert order_of_turns(scheduler, lease) == [early, late]


def test_writes_go_one_at_a_time_and_reads_go_through() -> None:
    """`serialize` is for writes that must not meet. Reads, and writes that may be repeated, do not wait for them."""
    scheduler = Scheduler(Policy(routes=(LEDGER,)))
    first = granted(scheduler.ask(task(scheduler, LEDGER, Kind.WRITE), 0))
    second = task(scheduler, LEDGER, Kind.WRITE)
    queue_up(scheduler, second)
    for kind in (Kind.READ, Kind.IDEMPOTENT, Kind.OPAQUE):
        granted(scheduler.ask(task(scheduler, LEDGER, kind), 0))
    assert order_of_turns(scheduler, first) == [second]


def test_width_is_that_of_each_budget() -> None:
    """One job at its width holds up no other, nor calls without a budget, or with one that is theirs alone."""
    scheduler = Scheduler(Policy(budget=BudgetDefaults(width=2)))
    job, other, lone = budget("job"), budget("other"), budget("lone")
    lone.lone = True
    leases = [granted(scheduler.ask(task(scheduler, budget=job), 0)) for _ in range(2)]
    third = task(scheduler, budget=job)
    queue_up(scheduler, third)
    for whose in (other, lone, lone, lone, None, None, None):
        granted(scheduler.ask(task(scheduler, budget=whose), 0))
    assert [each.task for each in scheduler.release(leases[0], 1)] == [third]
    assert lone.gate is None


def test_leaving_and_insisting() -> None:
    """Who has left is called up no more; who insists (`mode: observe`) starts at once, and counts like any other."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    lease = granted(scheduler.ask(task(scheduler), 0))
    leaves, insists, waits = (task(scheduler) for _ in range(3))
    queue_up(scheduler, leaves, insists, waits)
    scheduler.leave(leaves)
    scheduler.leave(leaves)
    insisted = scheduler.insist(insists, 0)
    assert scheduler.slots() == {"slow": (2, 1)}
    assert scheduler.release(lease, 1) == []
    assert [each.task for each in scheduler.release(insisted, 1)] == [waits]


def test_queues_are_counted_by_route() -> None:
    """Wherever in it a call is held up: the queue of one route takes no place in that of another."""
    scheduler = Scheduler(
        Policy(limit=1, routes=(replace(SLOW, queue=1),), fallback=Route("fallback", queue=2))
    )
    granted(scheduler.ask(task(scheduler), 0))
    queue_up(
        scheduler, task(scheduler), task(scheduler, Route("fallback")), task(scheduler, Route("fallback"))
    )
    assert scheduler.queued() == {"slow": 1, "fallback": 2}
    for route in ("slow", "fallback"):
        shed(scheduler.ask(task(scheduler, Route(route)), 0))


# -- reloads -----------------------------------------------------------------------------------------------------


def test_more_room_is_used_at_once() -> None:
    """Those whose turn it is are returned, in order, up to the new limit."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    granted(scheduler.ask(task(scheduler), 0))
    tasks = [task(scheduler, deadline=deadline) for deadline in (MINUTE, 3 * MINUTE, 2 * MINUTE)]
    queue_up(scheduler, *tasks)
    began = scheduler.adopt(Policy(routes=(replace(SLOW, concurrency=3),)), 1)
    assert [each.task for each in began] == [tasks[0], tasks[2]]
    assert [each.task for each in scheduler.adopt(Policy(routes=(Route("slow"),)), 1)] == [tasks[1]]


def test_less_room_ends_nothing_and_lets_nobody_in() -> None:
    """What is in flight goes on, and the next one starts when less than the new limit is."""
    scheduler = Scheduler(Policy(limit=3))
    leases = [granted(scheduler.ask(task(scheduler), 0)) for _ in range(3)]
    queue_up(scheduler, task(scheduler))
    assert scheduler.adopt(Policy(limit=1), 1) == []
    assert [len(scheduler.release(lease, 1)) for lease in leases] == [0, 0, 1]


def test_what_one_setting_gives_another_may_take() -> None:
    """All of the new policy is in force before anybody is let in by it."""
    scheduler = Scheduler(Policy(limit=2, routes=(replace(SLOW, concurrency=2),)))
    leases = [granted(scheduler.ask(task(scheduler), 0)) for _ in range(2)]
    queue_up(scheduler, task(scheduler))
    assert scheduler.adopt(Policy(limit=9, routes=(replace(SLOW, concurrency=1),)), 1) == []
    assert [len(scheduler.release(lease, 1)) for lease in leases] == [0, 1]


def test_the_width_of_budgets_changes_with_the_policy() -> None:
    """For those whose calls wait at once, for the others with their next call."""
    scheduler = Scheduler(Policy(budget=BudgetDefaults(width=1)))
    job, other = budget("job"), budget("other")
    for whose in (job, other):
        granted(scheduler.ask(task(scheduler, budget=whose), 0))
    queue_up(scheduler, *(task(scheduler, budget=job) for _ in range(3)))
    assert len(scheduler.adopt(Policy(budget=BudgetDefaults(width=2)), 1)) == 1
    granted(scheduler.ask(task(scheduler, budget=other), 1))
    assert scheduler.ask(task(scheduler, budget=other), 1) == WAITS
    assert len(scheduler.adopt(Policy(), 1)) == 3


def test_a_route_that_is_taken_out_limits_nothing() -> None:
    """Its calls go on, those that waited start, and it is forgotten when the last of them has ended."""
    scheduler = Scheduler(Policy(limit=2, routes=(SLOW,)))
    first = granted(scheduler.ask(task(scheduler), 0))
    queue_up(scheduler, task(scheduler), task(scheduler))
    [second] = scheduler.adopt(Policy(limit=2), 1)
    assert scheduler.queued() == {"slow": 1, "fallback": 0}
    assert scheduler.slots() == {}
    assert (
        scheduler.ask(task(scheduler), 1) == WAITS
    )  # a call that came under the earlier policy, at the pod's limit
    assert len([scheduler.release(lease, 2) for lease in (first, second)]) == 2
    scheduler.adopt(Policy(), 3)
    assert scheduler.queued() == {"slow": 0, "fallback": 0}


def test_a_route_that_comes_back_finds_its_calls() -> None:
    """What is still in flight from before takes its place under the new limit."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    granted(scheduler.ask(task(scheduler), 0))
    scheduler.adopt(Policy(), 1)
    scheduler.adopt(ONE_AT_A_TIME, 2)
    assert scheduler.slots() == {"slow": (1, 1)}
    assert scheduler.ask(task(scheduler), 2) == WAITS
