"""A disk that fails while the sidecar runs: every caller is told, nothing is half done, and it gets well again."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from proxy.core.policy import JournalSync
from proxy.core.writes import WriteState
from proxy.store import writer as writer_module
from proxy.store.database import Database
from proxy.store.errors import JournalError
from tests.store.conftest import Disk
from tests.store.samples import ANSWER, drop, found, opened, put, python, until, write

POISON = """
CREATE TRIGGER poison BEFORE INSERT ON writes WHEN NEW.id LIKE 'poison%'
BEGIN SELECT RAISE(ABORT, 'a fault in the middle'); END
"""
Change = Callable[[Callable[[JournalError | None], None]], None]
BALLAST = replace(ANSWER, body=bytes(200_000))


async def test_a_group_that_fails_is_not_half_done_and_all_its_callers_are_told(
    path: Path, gate: threading.Event
) -> None:
    gate.set()
    kept = {f"kept {n}": write(f"kept {n}", WriteState.UNCERTAIN) for n in range(10)}
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    database.apply(kept)
    database.connect().execute(POISON)
    database.close()
    journal = opened(path)
    gate.clear()
    journal.drop("nothing")  # held up at the gate, so that all that follows is one group
    await until(lambda: journal._writer.in_hand)
    changes: list[Change] = [partial(journal.drop, id) for id in kept]
    changes += [partial(journal.put, write(id)) for id in ("before", "poison", "after")]
    answers: list[JournalError | None] = []
    for change in changes:
        change(answers.append)
    gate.set()
    await until(lambda: len(answers) == len(changes))
    assert {answer.problem for answer in answers if answer} == {
        "it cannot be used (SQLITE_CONSTRAINT_TRIGGER: a fault in the middle)"
    }
    assert None not in answers
    assert (journal.commits, journal.failures) == (1, 1)
    journal.close()
    assert found(path) == kept


async def test_a_full_disk_is_told_and_writing_resumes_when_there_is_room(path: Path, disk: Disk) -> None:
    journal = opened(path)
    assert await put(journal, write("a")) is None
    disk.pages = 20
    for attempt in range(3):  # the second gives the connection up, the third makes another
        error = await put(journal, write(f"big {attempt}", WriteState.REPORTED, answer=BALLAST))
        assert error is not None
        assert "the disk is full (SQLITE_FULL" in error.problem
        assert "free space" in error.remedy
    assert disk.opened > 1
    assert await drop(journal, "a") is None
    disk.pages = 1_000_000
    assert await put(journal, write("big", WriteState.REPORTED, answer=BALLAST)) is None
    assert journal.healthy
    assert journal.failures == 3
    assert journal.close()
    assert set(found(path)) == {"big"}


async def test_a_full_disk_that_has_room_for_a_little_is_not_called_well(path: Path, disk: Disk) -> None:
    """Else the log would say "full", "well", "full" for as long as it lasts."""
    journal = opened(path)
    disk.pages = 20
    for attempt in range(50):
        await put(journal, write(f"big {attempt}", WriteState.REPORTED, answer=BALLAST))
        await asyncio.sleep(0.001)
        assert not journal.healthy
    journal.close()


async def test_without_traffic_the_journal_finds_out_that_it_works_again(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer_module, "_PROBE_EVERY", 20_000_000)
    caplog.set_level(logging.WARNING)
    journal = opened(path)
    disk.breaks()
    error = await put(journal, write("a"))
    assert error is not None
    assert "the disk reports an error (SQLITE_IOERR_WRITE: disk I/O error)" in error.problem
    assert journal.last_error is error
    failures = journal.failures
    await until(lambda: journal.failures > failures + 1)
    assert await put(journal, write("b")) is not None
    disk.mended()
    await until(lambda: journal.healthy)
    assert await put(journal, write("c")) is None
    journal.close()
    assert set(found(path)) == {"c"}
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"], (
        "once each, not for each attempt"
    )


async def test_what_nobody_waits_for_is_made_up_for(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_PROBE_EVERY", 20_000_000)
    journal = opened(path)
    for id in ("answered", "cut", "again"):
        await put(journal, write(id))
    disk.breaks()
    journal.drop("answered")
    journal.put(write("cut", WriteState.UNCERTAIN, reason="cut"))
    journal.put(write("again", WriteState.UNCERTAIN, reason="first"))
    assert await put(journal, write("refused")) is not None
    await until(lambda: journal.failures >= 3)
    disk.mended()
    # A later change of the same record counts more than what is owed.
    assert await put(journal, write("again", WriteState.UNCERTAIN, reason="second")) is None
    await until(lambda: journal.healthy and not journal._writer.owes)
    assert journal.close()
    records = found(path)
    assert {id: record.reason for id, record in records.items()} == {"cut": "cut", "again": "second"}


async def test_close_is_the_last_chance_for_what_is_owed(path: Path, disk: Disk) -> None:
    journal = opened(path)
    await put(journal, write("a"))
    await put(journal, write("b"))
    disk.breaks()
    journal.drop("a")
    await until(lambda: not journal.healthy and not journal.depth)
    disk.mended()
    assert journal.close()
    assert set(found(path)) == {"b"}


async def test_close_says_when_something_is_still_owed(path: Path, disk: Disk) -> None:
    journal = opened(path)
    await put(journal, write("a"))
    disk.breaks()
    journal.drop("a")
    assert not journal.close()
    disk.mended()
    assert set(found(path)) == {"a"}


async def test_a_record_that_fits_no_row_is_not_owed_for_ever(path: Path, disk: Disk) -> None:
    journal = opened(path)
    disk.breaks()
    journal.put(write("bad", WriteState.UNCERTAIN, route="\ud800"))
    journal.put(write("good", WriteState.UNCERTAIN))
    await until(lambda: not journal.healthy and not journal.depth)
    disk.mended()
    assert await put(journal, write("next")) is None
    await until(lambda: not journal._writer.owes)
    assert journal.healthy
    assert journal.close()
    assert set(found(path)) == {"good", "next"}


async def test_owed_deletions_are_bounded_and_records_are_kept(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "OWED_DROPS_BOUND", 10)
    journal = opened(path)
    disk.breaks()
    for n in range(100):
        journal.drop(f"gone {n}")
    for n in range(20):
        journal.put(write(f"{n}", WriteState.UNCERTAIN))
    await until(lambda: not journal.depth)
    assert len(journal._writer._owed) == 30
    monkeypatch.setattr(writer_module, "GROUP_BOUND", 4)
    disk.mended()
    assert journal.close()
    assert len(found(path)) == 20


async def test_a_record_that_fits_no_row_fails_alone(path: Path) -> None:
    """Half of a surrogate pair can come out of JSON; SQLite stores no such text."""
    journal = opened(path)
    records = [write("a"), write("b", route="\ud800"), write("c", WriteState.INTENT, 2**70), write("d")]
    answers: list[JournalError | None] = []
    for record in records:
        journal.put(record, answers.append)
    await until(lambda: len(answers) == 4)
    assert [answer is None for answer in answers] == [True, False, False, True]
    assert "the record b cannot be stored (UnicodeEncodeError" in str(answers[1])
    assert "the record c cannot be stored (OverflowError" in str(answers[2])
    assert journal.healthy
    assert journal.failures == 2
    journal.close()
    assert set(found(path)) == {"a"} | {"d"}


async def test_a_file_that_is_removed_while_in_use_is_noticed_and_begun_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_MEASURE_EVERY", 0)
    monkeypatch.setattr(writer_module, "_PROBE_EVERY", 20_000_000)
    journal = opened(path)
    await put(journal, write("lost"))
    for file in (path, path.with_name("journal.db-wal")):
        file.unlink()
    journal.put(write("lost, or not"))  # before it is noticed, or after
    await until(lambda: journal.failures)
    await until(lambda: journal.healthy)
    assert await put(journal, write("kept")) is None
    journal.close()
    assert set(found(path)) - {"lost, or not"} == {"kept"}


FILL = """
import asyncio, os, sys
from dataclasses import replace
from pathlib import Path
from proxy.core.policy import JournalSync
from proxy.core.writes import WriteState
from tests.store.samples import ANSWER, drop, found, opened, put, write

async def main():
    path = Path(sys.argv[1]) / "journal.db"
    ballast = Path(sys.argv[1]) / "ballast"
    ballast.write_bytes(bytes(400_000))
    journal = opened(path, sync=JournalSync.FULL)
    kept = set()
    for n in range(1000):
        error = await put(journal, write(str(n), WriteState.REPORTED, answer=replace(ANSWER, body=bytes(9000))))
        if error is not None:
            break
        kept.add(str(n))
    print(error.problem)
    assert not journal.healthy
    ballast.unlink()
    assert await put(journal, write("after")) is None
    assert journal.healthy
    assert journal.close()
    assert set(found(path)) == kept | {"after"}, (kept, found(path))
    print("well again")

asyncio.run(main())
"""


def test_a_volume_that_is_really_full(tmp_path: Path) -> None:
    mounting = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    command = ("unshare", "--mount", "--map-root-user", "sh", "-c", mounting, str(tmp_path))
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    process = python(FILL, tmp_path, before=command)
    said = process.communicate(timeout=30)[0].decode()
    assert said.startswith("the disk is full (SQLITE_FULL")
    assert said.endswith("well again\n")
