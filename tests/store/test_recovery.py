"""What is found after a sidecar has died: all that was acknowledged, no group by halves, intents made uncertain."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from proxy.core.calls import Phase
from proxy.core.policy import JournalSync
from proxy.core.units import HOUR
from proxy.core.writes import WriteState
from proxy.store.database import Database
from proxy.store.journal import Journal
from tests.store.samples import ANSWER, HOUR_MS, NOW_MS, found, python, write

# Writes for ever: sixty-four at a time, each an intent that ends in one of three ways, and tells on stdout what it was
# promised. "-" is said before the change is asked for, "+" and "=" after it was acknowledged.
WRITER = """
import asyncio, os, sys
from dataclasses import replace
from proxy.core.policy import JournalSync
from proxy.core.writes import WriteEvent
from proxy.store.journal import Journal
from tests.store.samples import NOW_MS, write

def say(line):
    os.write(1, line.encode() + b"\\n")

async def main():
    journal = Journal(sys.argv[1], JournalSync(sys.argv[2]), 24 * 3600 * 10**9)
    journal.open(NOW_MS)
    journal.start(asyncio.get_running_loop())
    count = 0

    def begin():
        nonlocal count
        record = write(f"{count:07}")
        count += 1

        def stored(error):
            assert error is None
            say("+" + record.id)
            ending = int(record.id) % 3
            if ending == 0:
                say("-" + record.id)
                journal.drop(record.id, dropped)
            elif ending == 1:
                journal.put(replace(record.after(WriteEvent.LOST), reason="cut"), lost)
            else:
                begin()

        def dropped(error):
            assert error is None
            say("=" + record.id)
            begin()

        def lost(error):
            assert error is None
            say("~" + record.id)
            begin()

        journal.put(record, stored)

    for _ in range(64):
        begin()
    await asyncio.Event().wait()

asyncio.run(main())
"""

# Commits groups of fifty for ever, each under a name of its own.
GROUPS = """
import sys
from pathlib import Path
from proxy.core.policy import JournalSync
from tests.store.samples import write
from proxy.store.database import Database

database = Database(Path(sys.argv[1]), JournalSync.NORMAL)
database.hold("")
group = 0
while True:
    records = [write(f"{group}.{n}", budget_id=str(group), target="/" + "x" * 500) for n in range(50)]
    database.apply({record.id: record for record in records})
    print(group, flush=True)
    group += 1
"""


@pytest.mark.parametrize("sync", JournalSync)
@pytest.mark.parametrize("moment_s", [0.05, 0.2, 0.6])
def test_kill_9_loses_nothing_that_was_acknowledged(
    tmp_path: Path, sync: JournalSync, moment_s: float
) -> None:
    path = tmp_path / "journal.db"
    process = python(WRITER, path, sync)
    assert process.stdout is not None
    said = process.stdout.readline()
    time.sleep(moment_s)
    process.kill()
    said += process.stdout.read()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL

    ids: dict[str, set[str]] = {mark: set() for mark in "+-=~"}
    for line in said.decode().splitlines():
        ids[line[0]].add(line[1:])
    records = found(path)
    assert len(ids["+"]) > 64
    assert ids["+"] - ids["-"] <= set(records)
    assert not ids["="] & set(records)
    assert {record.state for record in records.values()} == {WriteState.UNCERTAIN}
    assert {records[id].reason for id in ids["~"]} <= {"cut"}
    # An intent of which nothing more was said may have been sent: it is uncertain, and says why.
    in_flight = [records[id] for id in ids["+"] if int(id) % 3 == 2]
    assert {(record.reason, record.phase) for record in in_flight} <= {("recovered", Phase.SENDING)}


@pytest.mark.parametrize("groups", [1, 20, 60])
def test_kill_9_leaves_no_group_by_halves(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "journal.db"
    process = python(GROUPS, path)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(groups)]
    process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    sizes = Counter(record.budget_id for record in found(path).values())
    assert set(sizes.values()) == {50}
    assert {line.decode().strip() for line in lines if line.endswith(b"\n")} <= set(sizes)


def test_an_intent_on_disk_becomes_uncertain_and_the_rest_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    records = [
        write("intent", WriteState.INTENT, NOW_MS - 2, attempts=2),
        write("cut", WriteState.UNCERTAIN, phase=Phase.SENT, reason="allowance"),
        write("late", WriteState.REPORTED, NOW_MS - 1, phase=Phase.COMPLETE, answer=ANSWER),
        write("seen", WriteState.APPLIED, NOW_MS - 3, resolved_by="ops"),
    ]
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    database.apply({record.id: record for record in records})
    database.close()

    journal = Journal(path, JournalSync.NORMAL, 24 * HOUR)
    recovered = journal.open(NOW_MS)
    assert [record.id for record in recovered] == ["seen", "intent", "late", "cut"]
    intent = recovered.pop(1)
    assert (intent.state, intent.phase, intent.reason) == (WriteState.UNCERTAIN, Phase.SENDING, "recovered")
    assert intent.attempts == 2
    assert recovered == [records[3], records[2], records[1]]
    journal.close()
    assert found(path)["intent"] == intent, "the recovery itself is on disk, and happens once"


def test_what_was_given_up_stays_given_up(tmp_path: Path) -> None:
    """A dead letter, and what someone has decided of one, outlives the sidecar, and is found as it was."""
    path = tmp_path / "journal.db"
    states = (WriteState.DEAD_LETTERED, WriteState.RELEASED, WriteState.DISCARDED)
    kept = [
        write(f"{state} {phase}", state, phase=phase, reason="max_attempts", attempts=3)
        for state in states
        for phase in (Phase.NOT_SENT, Phase.SENT)
    ]
    records = {record.id: record for record in kept}
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    database.apply(records)
    database.close()
    assert found(path) == records
    assert found(path) == records


def test_what_is_past_retention_is_deleted_when_a_journal_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    for state in WriteState:
        for age, opened_at in (("old", NOW_MS - 24 * HOUR_MS - 1), ("new", NOW_MS - 24 * HOUR_MS)):
            record = write(f"{age} {state}", state, opened_at)
            database.apply({record.id: record})
    database.close()
    assert set(found(path)) == {f"new {state}" for state in WriteState}
    assert set(found(path, now_ms=NOW_MS - HOUR_MS)) == {f"new {state}" for state in WriteState}
