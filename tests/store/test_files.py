"""What can lie where a journal should be, and what is said of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from proxy.core.calls import Phase
from proxy.core.policy import JournalSync
from proxy.core.units import HOUR
from proxy.core.writes import WriteRecord, WriteState
from proxy.store import schema
from proxy.store.database import Database
from proxy.store.errors import JournalError, JournalInUse
from proxy.store.journal import Journal
from proxy.store.rows import COLUMNS, row_of
from tests.store.samples import ANSWER, NOW_MS, found, python, snapshot, write

OPEN = """
import sys
from proxy.core.policy import JournalSync
from proxy.store.errors import JournalError
from proxy.store.journal import Journal
journal = Journal(sys.argv[1], JournalSync.NORMAL, 10**18)
try:
    journal.open(0)
    print("opened", flush=True)
    sys.stdin.read()
except JournalError as error:
    print(type(error).__name__, "|", error.problem, "|", error.remedy, flush=True)
"""


def journal_at(path: Path) -> Journal:
    return Journal(path, JournalSync.NORMAL, 24 * HOUR)


def refused(path: Path) -> JournalError:
    """Return why a journal cannot be opened, having seen that the attempt left nothing behind it."""
    journal = journal_at(path)
    with pytest.raises(JournalError) as caught:
        journal.open(NOW_MS)
    with pytest.raises(JournalError) as again:
        journal.open(NOW_MS)
    assert again.value.problem == caught.value.problem
    assert caught.value.path == path
    assert str(path) in str(caught.value)
    return caught.value


def filled(path: Path, records: int = 500) -> None:
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    database.apply({f"{n:04}": write(f"{n:04}", target="/" + "x" * 300) for n in range(records)})
    database.close()


def of_version_1(path: Path, records: list[WriteRecord]) -> sqlite3.Connection:
    """Make a journal as the first version did, and leave it open as a sidecar that is killed does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    for statement in schema.STEPS[0]:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    columns = [column for column in COLUMNS if column not in ("attempts", "settled_at")]
    for record in records:
        row = dict(zip(COLUMNS, row_of(record), strict=True))
        holes = ", ".join("?" * len(columns))
        connection.execute(
            f"INSERT INTO writes ({', '.join(columns)}) VALUES ({holes})",
            [row[column] for column in columns],
        )
    return connection


def version_of(path: Path) -> tuple[int, set[str]]:
    with closing(sqlite3.connect(path)) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(writes)")}
        return connection.execute("PRAGMA user_version").fetchone()[0], columns


def test_a_new_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "var" / "waterclock" / "journal.db"
    umask = os.umask(0)
    try:
        journal = journal_at(path)
        assert journal.open(NOW_MS) == []
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db.lock": 0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
        journal.close()
    finally:
        os.umask(umask)


def test_nothing_is_touched_before_open(tmp_path: Path) -> None:
    journal_at(tmp_path / "a" / "journal.db").close()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_a_new_journal(tmp_path: Path) -> None:
    """A node that crashes just after the file was made leaves one."""
    path = tmp_path / "journal.db"
    path.touch()
    assert found(path) == {}
    assert found(path) == {}


def test_a_start_that_was_cut_before_the_schema_is_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert path.stat().st_size > 0
    assert found(path) == {}


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    error = refused(path)
    assert f"newer Waterclock (schema {schema.VERSION + 1}; this one knows {schema.VERSION})" in error.problem
    assert "run that version or a later one" in error.remedy
    assert path.read_bytes() == before


FIRST = [
    write("cut", WriteState.UNCERTAIN, phase=Phase.SENT, reason="allowance"),
    write("late", WriteState.REPORTED, phase=Phase.COMPLETE, answer=ANSWER),
    write("keyless", WriteState.NOT_APPLIED, key=None, resolved_by="ops"),
]


@pytest.mark.parametrize("killed", [False, True])
def test_a_journal_of_the_first_version_is_brought_up_to_date(tmp_path: Path, killed: bool) -> None:
    """What it holds was attempted once, as far as anybody counted; where its sidecar died, with what is in its log."""
    path = tmp_path / "journal.db"
    with closing(of_version_1(path, [*FIRST, write("intent")])):
        if killed:
            path = snapshot(path)
    records = found(path)
    intent = records.pop("intent")
    assert (intent.state, intent.reason, intent.attempts) == (WriteState.UNCERTAIN, "recovered", 1)
    assert records == {record.id: record for record in FIRST}
    assert version_of(path) == (schema.VERSION, set(COLUMNS))
    again = write("again", WriteState.DEAD_LETTERED, attempts=3)
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    database.apply({"again": again})
    database.close()
    assert found(path) == {**records, "intent": intent, "again": again}


def test_a_journal_is_brought_up_to_date_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    of_version_1(path, FIRST).close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, ("a statement that fails",)))
        patch.setattr(schema, "VERSION", schema.VERSION + 1)
        assert "syntax error" in refused(path).problem
    assert version_of(path) == (1, set(COLUMNS) - {"attempts", "settled_at"})
    assert found(path) == {record.id: record for record in FIRST}


def test_an_earlier_version_leaves_a_journal_of_this_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    filled(path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[:1])
        patch.setattr(schema, "VERSION", 1)
        assert "newer Waterclock (schema 2; this one knows 1)" in refused(path).problem
    assert len(found(path)) == 1


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
    before = path.read_bytes()
    assert "another program" in refused(path).problem
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"some text that somebody wrote here\n" * 200)
    error = refused(path)
    assert "damaged, or is no journal" in error.problem
    assert "SQLITE_NOTADB" in error.problem
    assert "move it" in error.remedy
    assert path.read_bytes().startswith(b"some text")


@pytest.mark.parametrize("cut", ["truncated", "overwritten"])
def test_a_damaged_file_is_told_before_anything_is_served(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "journal.db"
    filled(path)
    whole = path.read_bytes()
    if cut == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.write_bytes(whole[:8192] + b"\xff" * 8192 + whole[16384:])
    assert "damaged" in refused(path).problem


def test_a_damaged_log_loses_its_end_and_nothing_else(tmp_path: Path) -> None:
    """A node that crashes under `normal` may leave a log of which only the beginning was written back."""
    path = tmp_path / "journal.db"
    database = Database(path, JournalSync.NORMAL)
    database.hold("")
    for n in range(20):
        database.apply({str(n): write(str(n))})
    log = path.with_name("journal.db-wal")
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    content = log.read_bytes()
    copy.with_name("copy.db-wal").write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))
    database.close()
    numbers = sorted(int(id) for id in found(copy))
    assert numbers == list(range(len(numbers)))
    assert 0 < len(numbers) < 20


def test_a_row_that_somebody_wrote_by_hand_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE writes SET state = 'fine' WHERE id = '0007'")
    error = refused(path)
    assert "0007" in error.problem
    assert "put that row right" in error.remedy


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.mkdir()
    assert "it is a folder" in refused(path).problem


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "waterclock").touch()
    assert "cannot be opened" in refused(tmp_path / "waterclock" / "journal.db").problem


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_a_folder_that_cannot_be_made() -> None:
    assert "cannot be opened" in refused(Path("/proc/waterclock/journal.db")).problem


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "cannot be written" in refused(tmp_path / "journal.db").problem
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("there", [False, True])
def test_a_volume_mounted_for_reading(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "volume" / "journal.db"
    path.parent.mkdir()
    if there:
        filled(path)
    mounting = 'mount --bind -o ro "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    command = ("unshare", "--mount", "--map-root-user", "sh", "-c", mounting, str(path.parent))
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    process = python(OPEN, path, before=command)
    said = process.communicate(timeout=20)[0].decode()
    assert said.startswith("JournalError | it cannot be written (Read-only file system")


def test_two_sidecars_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    first, second = journal_at(path), journal_at(path)
    first.open(NOW_MS)
    with pytest.raises(JournalInUse) as caught:
        second.open(NOW_MS)
    assert f"process {os.getpid()} on {os.uname().nodename} is using it" in caught.value.problem
    assert "give each sidecar a journal of its own" in caught.value.remedy
    first.close()
    assert second.open(NOW_MS) == []
    second.close()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    process = python(OPEN, path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"opened\n"
    assert f"process {process.pid} on" in refused(path).problem
    process.kill()
    process.communicate()
    assert found(path) == {}


def test_another_program_that_writes_to_the_file_is_told_apart(tmp_path: Path) -> None:
    """It knows nothing of our lock, but SQLite's own stops it, and us."""
    path = tmp_path / "journal.db"
    filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "another program has the file open" in refused(path).problem
        other.execute("ROLLBACK")
    journal = journal_at(path)
    journal.open(NOW_MS)
    with closing(sqlite3.connect(path, timeout=0)) as other, pytest.raises(sqlite3.OperationalError):
        other.execute("DELETE FROM writes")
    journal.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_root_leaves_can_be_opened_by_the_owner_of_the_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, 2180, 2180)
    path = tmp_path / "journal.db"
    found(path)
    assert (tmp_path / "journal.db.lock").stat().st_uid == 2180
