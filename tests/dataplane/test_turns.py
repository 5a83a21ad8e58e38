"""Handing leases out: one after the other, never from within one another, and none to somebody who has left."""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.admission import Lease, Scheduler, Task
from proxy.core.calls import Kind
from proxy.core.policy import Policy, Route
from proxy.dataplane.turns import Turns

ROUTE = Route("fallback", concurrency=2)


class Call:
    """A call that notes its turn, and then does as it is told."""

    def __init__(self, then: Callable[[Lease], None] | None = None) -> None:
        self.leases: list[Lease] = []
        self._then = then

    def on_lease(self, lease: Lease, now: int) -> None:
        self.leases.append(lease)
        if self._then is not None:
            self._then(lease)


def _turns() -> tuple[Scheduler, Turns, Callable[[str], Task]]:
    scheduler = Scheduler(Policy(fallback=ROUTE))
    return scheduler, Turns(scheduler, lambda: 0), lambda id: scheduler.task(id, ROUTE, Kind.READ, None, None)


def _first(turns: Turns, task: Callable[[str], Task]) -> list[Lease]:
    """Take both places."""
    leases = [turns.ask(task(id), Call(), 0) for id in ("first", "second")]
    return [lease for lease in leases if isinstance(lease, Lease)]


def test_who_leaves_before_its_lease_is_handed_out_gives_it_back() -> None:
    """It was granted together with that of the call that made it leave."""
    scheduler, turns, task = _turns()
    leases = _first(turns, task)
    leaving = task("leaving")
    calls = [Call(lambda _: turns.leave(leaving)), Call(), Call()]
    for waiting, call in zip((task("waiting"), leaving, task("last")), calls, strict=True):
        assert turns.ask(waiting, call, 0) is None
    granted = [lease for each in leases for lease in scheduler.release(each, 0)]
    turns.hand(granted)
    assert [len(call.leases) for call in calls] == [1, 0, 1]
    assert scheduler.leases == 2


def test_a_lease_that_is_given_back_at_once_is_handed_on_after_the_others() -> None:
    """However many do so: it is a loop, and no recursion."""
    scheduler, turns, task = _turns()
    leases = _first(turns, task)
    depth = deepest = 0

    def ends_at_once(lease: Lease) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        turns.give_back(lease, 0)
        depth -= 1

    calls = [Call(ends_at_once) for _ in range(50)]
    for number, call in enumerate(calls):
        assert turns.ask(task(str(number)), call, 0) is None
    for lease in leases:
        turns.give_back(lease, 0)
    assert [len(call.leases) for call in calls] == [1] * 50
    assert deepest == 1
    assert scheduler.leases == 0
