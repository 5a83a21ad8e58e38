"""The file: how one is made, known again, and brought up to date.

A file is ours when it carries our application id. Its version is SQLite's `user_version`: the number of steps of
STEPS that were applied to it. A later version of the package adds steps at the end and never changes one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from proxy.core.policy import JournalSync
from proxy.store.errors import JournalError

APPLICATION_ID: Final = 0x57434C4B  # "WCLK"

# WITHOUT ROWID: one tree for each record, not a table and an index, and so half the pages to write for an intent.
# The index leaves intents out: they come and go a thousand times as often as what retention has to look at.
STEPS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """
        CREATE TABLE writes (
            id          TEXT    NOT NULL PRIMARY KEY,
            state       TEXT    NOT NULL,
            opened_at   INTEGER NOT NULL,
            origin      TEXT    NOT NULL,
            method      TEXT    NOT NULL,
            target      TEXT    NOT NULL,
            route       TEXT    NOT NULL,
            budget_id   TEXT    NOT NULL,
            step        INTEGER NOT NULL,
            key         TEXT,
            fingerprint TEXT    NOT NULL,
            phase       TEXT    NOT NULL,
            reason      TEXT    NOT NULL,
            resolved_by TEXT    NOT NULL,
            answer      TEXT,
            answer_body BLOB
        ) WITHOUT ROWID
        """,
        "CREATE INDEX writes_by_age ON writes (opened_at) WHERE state <> 'intent'",
    ),
    (
        "ALTER TABLE writes ADD COLUMN attempts INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE writes ADD COLUMN settled_at INTEGER NOT NULL DEFAULT 0",
    ),
)

VERSION: Final = len(STEPS)

_BUSY_S: Final = 1.0
_AUTOCHECKPOINT_PAGES: Final = 2000  # 8 MB; most checkpoints are made by the writer, when nobody waits
_WAL_BYTES: Final = 16 * 1024 * 1024
_SYNCHRONOUS: Final = {JournalSync.NORMAL: "NORMAL", JournalSync.FULL: "FULL"}


def make_folder(path: Path) -> None:
    """Make the folder of a journal, for its owner alone, and have the names of all that was made on disk."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(folder.parent)


def connect(path: Path, sync: JournalSync) -> sqlite3.Connection:
    """Open the file, making it where there is none. Raises JournalError, sqlite3.Error or OSError."""
    _make_file(path)
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        # Before the first read: no shared memory is then needed (network volumes have none), no lock is taken
        # for each transaction, and no other program writes behind our back.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        found = _version(path, connection)
        _set_up(path, connection, sync)
        _upgrade(connection, found)
    except BaseException:
        connection.close()
        raise
    return connection


def synchronize(connection: sqlite3.Connection, sync: JournalSync) -> None:
    """Say what the commits from here on survive: FULL syncs the log with each, NORMAL only before a checkpoint."""
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[sync]}")


def _make_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)) from None
        return
    os.close(descriptor)
    _sync_folder(path.parent)


def _version(path: Path, connection: sqlite3.Connection) -> int:
    """Return how many steps the file has had. Raises JournalError for a file that is not ours to write."""
    owner = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if owner != APPLICATION_ID and (
        owner or version or _number(connection, "SELECT count(*) FROM sqlite_master")
    ):
        raise JournalError(path, "it is the database of another program", "give the journal another path")
    if version > VERSION:
        raise JournalError(
            path,
            f"it was written by a newer Waterclock (schema {version}; this one knows {VERSION})",
            "run that version or a later one, or move the file aside",
        )
    return version


def _set_up(path: Path, connection: sqlite3.Connection, sync: JournalSync) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise JournalError(
            path, f"its file system allows no write-ahead log (only {mode})", "use a local volume"
        )
    synchronize(connection, sync)
    if sync is JournalSync.FULL:
        connection.execute("PRAGMA fullfsync = ON")  # macOS: its plain fsync leaves data in the drive's cache
    connection.execute(f"PRAGMA wal_autocheckpoint = {_AUTOCHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")


def _upgrade(connection: sqlite3.Connection, found: int) -> None:
    """Apply the steps that are missing, all or none. A file without a table is the trace of a start that was cut."""
    if found == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    for step in STEPS[found:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, as far as its file system can, and as far as we may open it."""
    with contextlib.suppress(OSError):
        _fsync(folder)


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
