"""The journal as the event loop uses it: callbacks, groups, bounds, the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.core.calls import Phase
from proxy.core.policy import JournalSync
from proxy.core.units import HOUR
from proxy.core.writes import WriteState
from proxy.store import journal as journal_module
from proxy.store import writer as writer_module
from proxy.store.database import Database
from proxy.store.errors import JournalError
from proxy.store.journal import Journal
from tests.store.samples import ANSWER, HOUR_MS, NOW_MS, drop, found, opened, put, snapshot, until, write


async def test_a_record_is_on_disk_when_its_caller_is_told(path: Path) -> None:
    journal = opened(path)
    record = write("a", WriteState.UNCERTAIN, phase=Phase.SENT, reason="cut", answer=ANSWER)
    assert await put(journal, record) is None
    assert found(snapshot(path)) == {"a": record}
    journal.close()


async def test_a_late_answer_is_kept_with_its_record(path: Path) -> None:
    journal = opened(path)
    await put(journal, write("a"))
    await put(journal, write("a", WriteState.REPORTED, phase=Phase.COMPLETE, answer=ANSWER))
    journal.close()
    assert found(path)["a"].answer == ANSWER


async def test_the_last_change_of_a_record_counts(path: Path) -> None:
    journal = opened(path)
    journal.put(write("a"))
    journal.drop("a")
    journal.put(write("b"))
    journal.drop("b")
    journal.put(write("b", WriteState.UNCERTAIN, reason="cut"))
    journal.drop("never there")
    assert journal.close()
    assert {id: record.reason for id, record in found(path).items()} == {"b": "cut"}


async def test_callers_are_told_on_the_loop_and_never_from_within_put(path: Path) -> None:
    journal = opened(path)
    threads: list[int] = []
    end = asyncio.Event()

    def done(error: JournalError | None) -> None:
        threads.append(threading.get_ident())
        end.set()

    journal.put(write("a"), done)
    assert threads == []
    await end.wait()
    assert threads == [threading.get_ident()]
    journal.close()


async def test_all_that_waits_is_committed_together_and_told_in_one_visit(
    path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.set()
    journal = opened(path)
    gate.clear()
    visits = 0
    loop = asyncio.get_running_loop()
    call_soon_threadsafe = loop.call_soon_threadsafe

    def counted(callback: Callable[..., object], *arguments: Any, **more: Any) -> asyncio.Handle:
        nonlocal visits
        visits += 1
        return call_soon_threadsafe(callback, *arguments, **more)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    order: list[str] = []
    journal.put(write("first"), lambda _: order.append("first"))
    await until(lambda: journal._writer.in_hand)
    for n in range(100):
        journal.put(write(f"{n:03}"), lambda _, n=n: order.append(f"{n:03}"))  # type: ignore[misc]
    assert journal.depth == 101
    gate.set()
    await until(lambda: len(order) == 101)
    assert order == ["first", *(f"{n:03}" for n in range(100))]
    assert (journal.commits, journal.written, visits, journal.depth) == (2, 101, 2, 0)
    journal.close()


async def test_a_group_is_bounded(path: Path, gate: threading.Event) -> None:
    gate.set()
    journal = opened(path)
    gate.clear()
    told = 0

    def done(_: JournalError | None) -> None:
        nonlocal told
        told += 1

    count = 3 * writer_module.GROUP_BOUND
    for n in range(count):
        journal.put(write(str(n)), done)
    gate.set()
    await until(lambda: told == count)
    assert 3 <= journal.commits <= 4
    journal.close()


async def test_past_the_bound_new_writes_are_refused_and_old_ones_can_still_end(
    path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "QUEUE_BOUND", 10)
    monkeypatch.setattr(journal_module, "SETTLING_BOUND", 20)
    gate.set()
    journal = opened(path)
    gate.clear()
    journal.put(write("x"))
    await until(lambda: journal._writer.in_hand)
    for n in range(10):
        journal.put(write(str(n)), lambda _: None)
    error = await put(journal, write("refused"))
    assert error is not None
    assert "10 operations are waiting" in error.problem
    for n in range(12):
        journal.drop(str(n))
    assert journal.failures == 3
    gate.set()
    assert journal.close()
    assert set(found(path)) == {"x"}


async def test_one_caller_that_fails_does_not_keep_the_news_from_the_others(path: Path) -> None:
    journal = opened(path)
    loop = asyncio.get_running_loop()
    seen: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: seen.append(context))
    told = loop.create_future()

    def fails(_: JournalError | None) -> None:
        raise RuntimeError("a fault of the caller")

    journal.put(write("a"), fails)
    journal.put(write("b"), told.set_result)
    assert await told is None
    assert [str(context["exception"]) for context in seen] == ["a fault of the caller"]
    journal.close()


async def test_close_writes_what_is_queued_and_leaves_one_file(path: Path) -> None:
    journal = opened(path)
    for n in range(2000):
        journal.put(write(str(n)))
    assert journal.close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["journal.db", "journal.db.lock"]
    assert len(found(path)) == 2000


async def test_close_does_not_wait_for_a_disk_that_hangs(
    path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.set()
    journal = opened(path)
    gate.clear()
    monkeypatch.setattr(journal_module, "CLOSE_WITHIN", 10_000_000)
    thread = journal._thread
    assert thread is not None
    journal.put(write("a"))
    assert not journal.close()
    gate.set()
    thread.join()
    journal._database.close()


async def test_after_close_every_caller_is_told_so(path: Path) -> None:
    journal = opened(path)
    journal.close()
    for change in (put(journal, write("a")), drop(journal, "a")):
        error = await change
        assert error is not None
        assert error.problem == "it is closed"
    journal.drop("a")
    assert journal.close()


def test_before_start_nothing_is_taken(path: Path) -> None:
    journal = Journal(path, JournalSync.NORMAL, HOUR)
    journal.open(NOW_MS)
    with pytest.raises(RuntimeError):
        journal.put(write("a"))
    assert journal.close()


def test_a_loop_that_is_gone_takes_nothing_with_it(path: Path) -> None:
    """The app may crash and close its loop before the thread has told it."""
    loop = asyncio.new_event_loop()
    journal = Journal(path, JournalSync.NORMAL, HOUR)
    journal.open(NOW_MS)
    journal.start(loop)
    journal.put(write("a"), lambda _: None)
    loop.close()
    assert journal.close()
    assert set(found(path)) == {"a"}


async def test_figures(path: Path) -> None:
    journal = opened(path)
    assert (journal.healthy, journal.last_error, journal.depth) == (True, None, 0)
    assert (journal.commits, journal.failures) == (0, 0)
    await put(journal, write("a"))
    assert (journal.commits, journal.written, journal.failures) == (1, 1, 0)
    assert journal.size >= 4096
    journal.close()


@pytest.mark.parametrize("sync", JournalSync)
async def test_only_what_somebody_waits_for_is_synced(
    path: Path, sync: JournalSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(path, sync=sync)

    def level() -> int:
        return int(journal._database.connect().execute("PRAGMA synchronous").fetchone()[0])

    normal, full = 1, 2
    await put(journal, write("a"))
    assert level() == (full if sync is JournalSync.FULL else normal)
    journal.drop("a")
    await until(lambda: not journal.depth)
    assert level() == normal
    await put(journal, write("a"))
    assert level() == (full if sync is JournalSync.FULL else normal)
    journal.close()


async def test_retention_deletes_what_is_old_and_not_in_flight(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_PURGE_EVERY", 10_000_000)
    monkeypatch.setattr(writer_module, "PURGE_BATCH", 2)
    monkeypatch.setattr("proxy.store.database.PURGE_BATCH", 2)
    expired: list[str] = []
    journal = Journal(path, JournalSync.NORMAL, 24 * HOUR)
    journal.open(NOW_MS)
    journal.start(asyncio.get_running_loop(), expired.extend)
    old = NOW_MS - 24 * HOUR_MS
    for n, state in enumerate(WriteState):
        journal.put(write(f"old {state}", state, old - 1 - n))
        journal.put(write(f"new {state}", state, old + HOUR_MS))
    gone = [f"old {state}" for state in WriteState if state is not WriteState.INTENT]
    await until(lambda: len(expired) >= len(gone))
    assert sorted(expired) == sorted(gone)
    journal.close()
    kept = {f"new {state}" for state in WriteState}
    assert set(found(path, now_ms=NOW_MS - HOUR_MS)) == kept | {"old intent"}


async def test_retention_goes_by_the_clock_of_the_process_from_the_time_it_was_given(path: Path) -> None:
    journal = opened(path)
    first = journal._oldest_kept_ms()
    await asyncio.sleep(0.02)
    assert NOW_MS - 24 * HOUR_MS <= first < journal._oldest_kept_ms() < NOW_MS - 24 * HOUR_MS + 60_000
    journal.close()


async def test_a_quiet_moment_is_used_for_a_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_QUIET", 10_000_000)
    monkeypatch.setattr(writer_module, "_CHECKPOINT_AFTER", 10)
    checkpoints: list[None] = []
    checkpoint = Database.checkpoint

    def counted(self: Database) -> None:
        checkpoint(self)
        checkpoints.append(None)

    journal = opened(path)
    monkeypatch.setattr(Database, "checkpoint", counted)
    for n in range(10):
        assert await put(journal, write(str(n))) is None
    await until(lambda: checkpoints)
    await asyncio.sleep(0.05)
    assert len(checkpoints) == 1
    assert len(found(snapshot(path, with_log=False))) == 10
    journal.close()
