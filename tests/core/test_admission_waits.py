"""In how long a call that is turned away may come again: what is measured of the gates, and what is made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.core.admission import UNKNOWN_PACE, Lease, Scheduler, Shed, Task
from proxy.core.calls import Kind
from proxy.core.policy import Policy, Route
from proxy.core.reasons import Reason
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND

SLOW = Route("slow", concurrency=1)
ONE_AT_A_TIME = Policy(routes=(SLOW,))


def task(scheduler: Scheduler, route: Route = SLOW, deadline: int | None = None) -> Task:
    """A call that belongs to no job."""
    return scheduler.task("call", route, Kind.READ, None, deadline)


def granted(answer: Lease | Shed | str) -> Lease:
    """The answer of a call that starts."""
    assert isinstance(answer, Lease)
    return answer


def shed(answer: Lease | Shed | str) -> Shed:
    """The answer of a call that is turned away."""
    assert isinstance(answer, Shed)
    return answer


def full_for(scheduler: Scheduler, *spans: int, since: int = 0) -> int:
    """Have one place taken for these times, one after the other without a pause; return when the last has ended."""
    for span in spans:
        lease = granted(scheduler.ask(task(scheduler), since))
        since += span
        scheduler.release(lease, since)
    return since


def wait_of(scheduler: Scheduler, now: int, deadline: int | None = None) -> int:
    """What a call would be told that is turned away now."""
    scheduler.adopt(Policy(routes=(replace(SLOW, queue=0),)), now)
    return shed(scheduler.ask(task(scheduler, deadline=deadline), now)).wait


def test_the_wait_follows_the_pace_at_which_places_come_free() -> None:
    """Nothing is known at first; then what was measured; a tool that grows slow is believed soon."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    now = full_for(scheduler, *[200 * MILLISECOND] * 5)
    lease = granted(scheduler.ask(task(scheduler), now))
    assert wait_of(scheduler, now) == 200 * MILLISECOND
    scheduler.release(lease, now)
    now = full_for(scheduler, *[2 * SECOND] * 40, since=now)
    granted(scheduler.ask(task(scheduler), now))
    assert 1900 * MILLISECOND < wait_of(scheduler, now) <= 2 * SECOND


def test_who_is_before_a_call_counts_and_who_is_behind_it_does_not() -> None:
    """Each place takes its time, and an urgent call would not be the last in the queue."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    granted(scheduler.ask(task(scheduler), 0))
    for minutes in (1, 5):
        scheduler.ask(task(scheduler, deadline=minutes * MINUTE), 0)
    for deadline, places in ((SECOND, 1), (2 * MINUTE, 2), (None, 3)):
        assert wait_of(scheduler, 0, deadline) == places * UNKNOWN_PACE


def test_idle_time_says_nothing_of_the_pace() -> None:
    """It is measured from when the last place was taken, not from when the last call ended."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    now = 0
    for _ in range(10):
        now = full_for(scheduler, 100 * MILLISECOND, since=now + 50 * SECOND)
    granted(scheduler.ask(task(scheduler), now + HOUR))
    assert wait_of(scheduler, now + HOUR) == 100 * MILLISECOND


def test_a_place_that_is_not_the_last_says_nothing_of_the_pace() -> None:
    """Where another is free nobody waits for this one, however long it is taken."""
    scheduler = Scheduler(Policy(routes=(replace(SLOW, concurrency=2),)))
    now = full_for(scheduler, *[MINUTE] * 5)
    for _ in range(2):
        granted(scheduler.ask(task(scheduler), now))
    assert wait_of(scheduler, now) == 2 * UNKNOWN_PACE


def test_what_was_measured_long_ago_gives_way() -> None:
    """It is the best guess after a long pause, and yields to the first calls after it."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    now = full_for(scheduler, *[10 * SECOND] * 15) + HOUR
    now = full_for(scheduler, *[100 * MILLISECOND] * 9, since=now)
    granted(scheduler.ask(task(scheduler), now))
    assert wait_of(scheduler, now) == (10 * SECOND + 9 * 100 * MILLISECOND) // 10


@pytest.mark.parametrize("together", [False, True])
def test_several_slots_come_free_several_times_as_fast(together: bool) -> None:
    """Twenty slots for calls of ten seconds: one every half second, even if all that began together end together."""
    route = Route("slow", concurrency=20)
    scheduler = Scheduler(Policy(routes=(route,)))
    ends = [(place * SECOND // 2 if not together else 0) for place in range(20)]
    leases = [granted(scheduler.ask(task(scheduler, route), start)) for start in ends]
    for _ in range(5):
        ends = [end + 10 * SECOND for end in ends]
        for place, end in enumerate(ends):
            scheduler.release(leases[place], end)
            leases[place] = granted(scheduler.ask(task(scheduler, route), end))
    scheduler.adopt(Policy(routes=(replace(route, queue=0),)), ends[-1])
    wait = shed(scheduler.ask(task(scheduler, route), ends[-1])).wait
    assert 400 * MILLISECOND < wait < 600 * MILLISECOND


def test_when_nothing_comes_free_the_wait_grows() -> None:
    """A tool that hangs is not told of at the pace at which it went before: it may hang as long again."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    now = full_for(scheduler, *[200 * MILLISECOND] * 5)
    granted(scheduler.ask(task(scheduler), now))
    assert wait_of(scheduler, now + 100 * MILLISECOND) == 200 * MILLISECOND
    assert wait_of(scheduler, now + 30 * SECOND) == 30 * SECOND


def test_the_slowest_of_the_gates_counts() -> None:
    """A call needs all of them at once. Here the slot comes free soon, and the pod has others in line before it."""
    scheduler = Scheduler(Policy(limit=1, routes=(replace(SLOW, queue=0),)))
    granted(scheduler.ask(task(scheduler), 0))
    for _ in range(3):
        scheduler.ask(task(scheduler, Route("fallback")), 0)
    answer = shed(scheduler.ask(task(scheduler), 0))
    assert (answer.reason, answer.wait) == (Reason.QUEUE_FULL, 4 * UNKNOWN_PACE)


def test_what_is_held_beyond_the_capacity_must_end_first() -> None:
    """After a reload that leaves less room, or where calls were let through: as many releases as it takes."""
    scheduler = Scheduler(ONE_AT_A_TIME)
    now = full_for(scheduler, *[SECOND] * 3)
    leases = [scheduler.insist(task(scheduler), now) for _ in range(3)]
    assert wait_of(scheduler, now) == 3 * SECOND
    scheduler.release(leases[0], now + SECOND)
    assert wait_of(scheduler, now + SECOND) == 2 * SECOND


def test_a_limit_that_comes_with_a_reload_is_measured_from_then_on() -> None:
    """What went on before it, when nothing was full, is no part of the pace."""
    scheduler = Scheduler(Policy(routes=(Route("slow", concurrency=9),)))
    leases = [granted(scheduler.ask(task(scheduler), 0)) for _ in range(3)]
    scheduler.adopt(ONE_AT_A_TIME, HOUR)
    for place, lease in enumerate(leases[:2], 1):
        scheduler.release(lease, HOUR + place * SECOND)
    assert wait_of(scheduler, HOUR + 2 * SECOND) == SECOND
