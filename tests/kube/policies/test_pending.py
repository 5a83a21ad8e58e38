"""Nothing is lost, nothing is done twice at once, and nobody is written to without an end."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import MINUTE, SECOND
from proxy.kube.policies.pending import BURST, ECHO, EVERY, FIRST_RETRY, LONGEST_RETRY, Pending
from proxy.kube.policies.queue import Queue
from tests.kube.server.manual import until


def test_ten_changes_are_one_look() -> None:
    """Whoever looks sees all of them."""
    pending = Pending()
    for _ in range(10):
        pending.add("a", 5)
    assert pending.take(5) == "a"
    assert pending.take(5) is None
    pending.done("a", 6, wrote=False)
    assert pending.take(6) is None
    assert pending.seconds_to_next(6) is None


def test_what_changes_during_a_look_is_looked_at_again() -> None:
    """And not before the look is over."""
    pending = Pending()
    pending.add("a", 0)
    assert pending.take(0) == "a"
    pending.add("a", 1)
    assert pending.take(1) is None
    assert pending.seconds_to_next(1) is None
    pending.done("a", 2, wrote=False)
    assert pending.take(2) == "a"


def test_after_a_write_the_mirrors_have_a_moment() -> None:
    """What was written is not there yet for who looks at once."""
    pending = Pending()
    pending.add("a", 0)
    assert pending.take(0) == "a"
    pending.add("a", 1)
    pending.done("a", 2, wrote=True)
    assert pending.take(1 + ECHO) is None
    assert pending.take(2 + ECHO) == "a"
    pending.done("a", 3 + ECHO, wrote=False)
    pending.add("a", 4 + ECHO)
    assert pending.take(4 + ECHO) == "a"


def test_who_waits_longest_is_first() -> None:
    """No namespace is starved by others."""
    pending = Pending()
    for at, key in enumerate("cab"):
        pending.add(key, at)
    assert [pending.take(9), pending.take(9), pending.take(9)] == ["c", "a", "b"]


def test_waits_double() -> None:
    """Up to a minute, and begin anew when it went well."""
    pending, now, waits = Pending(), 0, []
    for _ in range(10):
        pending.add("a", now)  # does not make it any sooner
        seconds = pending.seconds_to_next(now)
        assert seconds is not None
        waits.append(seconds)
        now += round(seconds * SECOND)
        assert pending.take(now - 1) is None or seconds == 0
        assert pending.take(now) == "a"
        pending.failed("a", now)
    assert waits == [0, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert LONGEST_RETRY == MINUTE
    now += MINUTE
    assert pending.take(now) == "a"
    pending.done("a", now, wrote=False)
    pending.add("a", now)
    assert pending.take(now) == "a"
    pending.failed("a", now)
    assert pending.seconds_to_next(now) == FIRST_RETRY / SECOND


def writes_in(pending: Pending, span: int, step: int) -> int:
    """How often a key is written to whose every write is undone at once."""
    writes = 0
    for now in range(0, span, step):
        pending.add("a", now)
        if pending.take(now) == "a":
            writes += 1
            pending.done("a", now, wrote=True)
    return writes


def test_a_fight_gets_slower() -> None:
    """Somebody else undoes every write: after the first thirty there is one in five seconds."""
    assert writes_in(Pending(), 1000 * SECOND, SECOND // 4) == BURST + 1000 * SECOND // EVERY - 1


def test_quiet_namespaces_are_forgotten() -> None:
    """What is remembered does not grow with the number of namespaces that there ever were."""
    pending = Pending()
    for number in range(100):
        pending.add(str(number), number)
        key = pending.take(number)
        assert key is not None
        pending.done(key, number, wrote=False)
    assert pending._past == {}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "take", "wrote", "same", "failed"]), st.integers(0, 5 * SECOND))))  # fmt: skip
def test_whatever_comes(story: list[tuple[str, str, int]]) -> None:
    """What was added comes out, sooner or later, unless it is in somebody's hands; and never twice at once."""
    pending, taken, wanted, now = Pending(), set[str](), set[str](), 0
    for key, what, passes in story:
        now += passes
        if what == "add":
            pending.add(key, now)
            wanted.add(key)
        elif what == "take":
            got = pending.take(now)
            assert got not in taken
            if got is not None:
                assert got in wanted
                wanted.discard(got)
                taken.add(got)
        elif key in taken:
            taken.discard(key)
            if what == "failed":
                pending.failed(key, now)
                wanted.add(key)
            else:
                pending.done(key, now, wrote=what == "wrote")
    for key in taken:
        pending.done(key, now, wrote=False)
    found = set()
    while (seconds := pending.seconds_to_next(now)) is not None:
        now += round(seconds * SECOND) + 1
        got = pending.take(now)
        assert got is not None
        found.add(got)
    assert found == wanted


async def test_workers() -> None:
    """Several work side by side, none on the same key; what fails comes again; all of it at once when it is added."""
    queue, seen, busy, failing = Queue(), list[str](), set[str](), {"b"}

    async def look_after(key: str) -> bool | None:
        assert key not in busy
        busy.add(key)
        await asyncio.sleep(0.01)
        busy.discard(key)
        seen.append(key)
        if key in failing:
            failing.discard(key)
            return None
        return True

    loop = asyncio.get_running_loop()
    workers = [loop.create_task(queue.work(look_after)) for _ in range(3)]
    for key in "abcda":
        queue.add(key)
    await until(lambda: seen.count("b") == 2)
    queue.add("e")
    await until(lambda: "e" in seen)
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)
    assert sorted(set(seen)) == ["a", "b", "c", "d", "e"]
