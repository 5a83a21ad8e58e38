"""One journal file in use: opened, read, changed in whole groups, pruned, closed. It blocks; it knows no threads."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from proxy.core.calls import Phase
from proxy.core.policy import JournalSync
from proxy.core.writes import WriteEvent, WriteRecord, WriteState
from proxy.store import schema
from proxy.store.errors import JournalError
from proxy.store.lock import FileLock
from proxy.store.rows import COLUMNS, record_of, row_of

RECOVERED: Final = "recovered"
PURGE_BATCH: Final = 1000

_READ: Final = f"SELECT {', '.join(COLUMNS)} FROM writes ORDER BY opened_at, id"  # noqa: S608 - our own names
_PUT: Final = f"INSERT OR REPLACE INTO writes ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
_DROP: Final = "DELETE FROM writes WHERE id = ?"
_EXPIRED: Final = "SELECT id FROM writes WHERE state <> 'intent' AND opened_at < ? ORDER BY opened_at LIMIT ?"


class Database:
    """The file at `path`, held against every other process from `hold` to `close`.

    The lock and the connection are apart: a connection that failed is given up and made anew by the next operation,
    and nobody else may come between.
    """

    def __init__(self, path: Path, sync: JournalSync) -> None:
        """Name the file. Nothing is touched yet."""
        self.path = path
        self._sync = sync
        self._level = sync
        self._lock = FileLock(path)
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def hold(self, remedy: str) -> None:
        """Take the journal, its folder being there. Raises JournalInUse with this remedy, or OSError."""
        self._lock.acquire(remedy)

    def connect(self) -> sqlite3.Connection:
        """Return the connection, opened now if there is none."""
        if self._connection is None:
            self._connection = schema.connect(self.path, self._sync)
            self._level = self._sync
            self._identity = self._found()
        return self._connection

    def recover(self, before_ms: int | None) -> list[WriteRecord]:
        """Return the records that are kept, the oldest first, after making the intents of a dead process uncertain.

        Whoever wrote them is gone, since we hold the lock, and may have been sending when it died. With
        `before_ms`, older records are deleted first.
        """
        kept, expired, changed = [], [], {}
        for record in self._read():
            if before_ms is not None and record.opened_at < before_ms:
                expired.append(record.id)
                continue
            if record.state is WriteState.INTENT:
                record = record.after(WriteEvent.LOST, phase=Phase.SENDING, reason=RECOVERED)
                changed[record.id] = record
            kept.append(record)
        self.apply({**dict.fromkeys(expired), **changed})
        self.checkpoint()
        return kept

    def apply(self, changes: Mapping[str, WriteRecord | None], *, awaited: bool = True) -> bool:
        """Write records, or delete them where there is None: all of it durable, or none of it done and an exception.

        Return whether anything was written: to delete what is not there succeeds on a broken disk too.

        Not `awaited`: nobody acts on its being there, so it is not synced by itself, and the next sync covers it.
        Raises sqlite3.Error for the file, and what Python raises for a record that no row can hold.
        """
        puts = [row_of(record) for record in changes.values() if record is not None]
        drops = [(id,) for id, record in changes.items() if record is None]
        return bool(puts or drops) and self._transact(puts, drops, synced=awaited)

    def purge(self, before_ms: int) -> list[str]:
        """Delete some records opened before `before_ms`, and return their ids: PURGE_BATCH when there may be more.

        An intent is not touched, however old: somebody is still waiting for its answer.
        """
        ids = self.connect().execute(_EXPIRED, (before_ms, PURGE_BATCH)).fetchall()
        if ids:
            self._transact([], ids, synced=False)
        return [id for (id,) in ids]

    def probe(self) -> None:
        """Write without changing anything: a failed disk may work again."""
        # SQLite writes the page even when the number stays the same.
        self.connect().execute(f"PRAGMA user_version = {schema.VERSION}")

    def checkpoint(self) -> None:
        """Move what stands in the write-ahead log into the file, so that the log starts over."""
        self.connect().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def measure(self) -> int:
        """Return the size in bytes, with the log. Raises JournalError when the file is no longer the one we opened.

        A file that was removed can be written to for ever without an error, and is gone with the process.
        """
        found = self._found()
        if self._identity is not None and found != self._identity:
            problem = "it was removed or replaced while in use"
            raise JournalError(
                self.path, problem, "nothing to do: a new file is begun; do not touch it again"
            )
        size = 0
        for path in (self.path, self.path.with_name(self.path.name + "-wal")):
            with contextlib.suppress(FileNotFoundError):
                size += path.stat().st_size
        return size

    def disconnect(self) -> None:
        """Give the connection up, keeping the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def close(self) -> None:
        """Give up everything. Closing the last connection checkpoints and removes the log."""
        self.disconnect()
        self._lock.release()

    def _read(self) -> Iterator[WriteRecord]:
        for row in self.connect().execute(_READ):
            try:
                yield record_of(row)
            except ValueError as error:
                raise JournalError(
                    self.path, str(error), "move the file aside, or put that row right"
                ) from error

    def _transact(
        self, puts: Iterable[tuple[object, ...]], drops: Iterable[tuple[str]], *, synced: bool
    ) -> bool:
        connection = self.connect()
        before = connection.total_changes
        level = self._sync if synced else JournalSync.NORMAL
        if level is not self._level:
            schema.synchronize(connection, level)
            self._level = level
        try:
            connection.execute("BEGIN IMMEDIATE")
            if puts:
                connection.executemany(_PUT, puts)
            if drops:
                connection.executemany(_DROP, drops)
            connection.execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise
        return connection.total_changes > before

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        # Some errors have rolled back already. The connection stays: what a failed commit left at the end of the
        # log is then written over, while a new connection could find it whole and take it for done.
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.disconnect()

    def _found(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
