"""The journal on a simulated disk: the real store code and a real SQLite file, with time, thread and faults from the run.

The writer takes its turns as events of the simulation, after a pause as a thread and an fsync have one. A disk that is
full, or that fails, lets no group be committed. When the process is killed, what the kernel has of the file is all that
the next one finds: it is copied as it stands, with its log, before SQLite could tidy anything up.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from proxy.core.policy import JournalSync
from proxy.core.units import MICROSECOND, MILLISECOND
from proxy.core.writes import WriteRecord
from proxy.store.database import Database
from proxy.store.journal import Journal, Worker
from proxy.store.writer import Done, Writer
from trials.simulation.clock import Clock, Event
from trials.simulation.draws import Draws
from trials.simulation.trace import Trace

FILE: Final = "journal.db"
STUCK: Final = 5 * MILLISECOND
"""How often it is looked whether a disk that is stuck goes on."""
_CODES: Final = {
    "full": (sqlite3.SQLITE_FULL, "SQLITE_FULL", "database or disk is full"),
    "fails": (sqlite3.SQLITE_IOERR, "SQLITE_IOERR", "disk I/O error"),
}


def _nobody() -> None:
    """Nobody waits for a change."""


class Disk:
    """The disk of the pod. `trouble`: `full`, `fails`, `stuck`, or nothing; `slow`: how long a commit takes at most (ns)."""

    def __init__(self, clock: Clock, draws: Draws, trace: Trace, folder: Path) -> None:
        """Begin empty, in a folder of the real disk."""
        self.clock = clock
        self.draws = draws
        self.trace = trace
        self.trouble: str | None = None
        self.troubled = False
        self.on_change: Callable[[], None] = _nobody
        self.slow = draws.one_of((50 * MICROSECOND, MILLISECOND, 20 * MILLISECOND))
        self.changes = 0
        self._folder = folder
        self._files = 0
        self.path = self._fresh()

    def crash(self) -> None:
        """Keep what is there of the file, and nothing of who had it open."""
        before, self.path = self.path, self._fresh()
        for suffix in ("", "-wal"):
            found = before.with_name(before.name + suffix)
            if found.exists():
                shutil.copyfile(found, self.path.with_name(self.path.name + suffix))

    def _fresh(self) -> Path:
        self._files += 1
        folder = self._folder / str(self._files)
        folder.mkdir(parents=True)
        return folder / FILE


class FaultyConnection:
    """A connection to SQLite that fails where the disk does: at a commit, or at a write outside of one."""

    def __init__(self, connection: sqlite3.Connection, disk: Disk) -> None:
        """Pass on."""
        self._connection = connection
        self._disk = disk

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Execute one statement. Raises sqlite3.OperationalError while the disk is in trouble."""
        if self._disk.trouble in _CODES and sql.startswith(("COMMIT", "PRAGMA user_version =")):
            raise _error(self._disk.trouble)
        return self._connection.execute(sql, *parameters)

    def executemany(self, sql: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        """Execute one statement for each row."""
        return self._connection.executemany(sql, rows)

    @property
    def total_changes(self) -> int:
        """How many rows were changed."""
        return self._connection.total_changes

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    def close(self) -> None:
        """Close."""
        self._connection.close()


class SimulatedDatabase(Database):
    """The database, seen by the trace and struck by the disk's faults. `held`: what has been committed, by id."""

    def __init__(self, path: Path, sync: JournalSync, disk: Disk) -> None:
        """Name the file."""
        super().__init__(path, sync)
        self._disk = disk
        self.held: dict[str, WriteRecord] = {}

    def connect(self) -> Any:
        """Return the connection, which may fail."""
        connection = super().connect()
        if isinstance(connection, sqlite3.Connection):
            self._connection = FaultyConnection(connection, self._disk)  # type: ignore[assignment]
        return self._connection

    def recover(self, before_ms: int | None) -> list[WriteRecord]:
        """Return what is kept, and hold it."""
        kept = super().recover(before_ms)
        self.held = {record.id: record for record in kept}
        return kept

    def apply(self, changes: Mapping[str, WriteRecord | None], *, awaited: bool = True) -> bool:
        """Write, and say so."""
        wrote = super().apply(changes, awaited=awaited)
        disk = self._disk
        for id, record in changes.items():
            disk.changes += 1
            if record is None:
                self.held.pop(id, None)
            else:
                self.held[id] = record
            what = f"{id} {record.state if record is not None else 'dropped'}"
            disk.trace.note(disk.clock.now, "disk", what)
        disk.on_change()
        return wrote

    def purge(self, before_ms: int) -> list[str]:
        """Delete old records, and say so."""
        gone = super().purge(before_ms)
        for id in gone:
            self.held.pop(id, None)
        return gone


class SimulatedJournal(Journal):
    """The journal, whose writer takes its turns on simulated time."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        sync: JournalSync,
        retention_ns: int,
        *,
        clock: Callable[[], int],
        declared: Callable[[WriteRecord], None],
    ) -> None:
        """`declared` is told of each record that is put, before it is on disk."""
        super().__init__(path, sync, retention_ns, clock=clock)
        self.database = SimulatedDatabase(path, sync, disk)
        self._database = self._writer._database = self.database
        self._disk = disk
        self._declared = declared
        self.worker: SimulatedWorker | None = None

    def put(self, record: WriteRecord, done: Done | None = None) -> None:
        """Store a record, and say so."""
        self._declared(record)
        super().put(record, done)

    def _employ(self, writer: Writer) -> Worker:
        self.worker = SimulatedWorker(writer, self._disk)
        return self.worker

    def _wake(self) -> None:
        super()._wake()
        if self.worker is not None:
            self.worker.nudge()


class SimulatedWorker:
    """Who takes the writer's turns, in place of its thread."""

    def __init__(self, writer: Writer, disk: Disk) -> None:
        """Take the first turn as soon as there is one to take."""
        self.alive = True
        self._writer = writer
        self._disk = disk
        self._turn: Event | None = None
        self._quiet = True
        self._sleep()

    def nudge(self) -> None:
        """There is something to write, or to see to: look soon."""
        if self._quiet and self.alive:
            if self._turn is not None:
                self._turn.call_off()
            self._quiet = False
            self._turn = self._disk.clock.after(self._delay(), self._take_turn, False)

    def join(self, timeout: float | None = None, /) -> None:
        """Take all turns that are left, for whoever waits for them."""
        for _ in range(10_000):
            if not self.alive or self._disk.trouble == "stuck":
                break
            self.alive = self._writer.turn(quiet=False)

    def is_alive(self) -> bool:
        """Say whether there are turns left to take."""
        return self.alive

    def kill(self) -> None:
        """Take no more turns: the process is gone."""
        self.alive = False
        if self._turn is not None:
            self._turn.call_off()

    def _take_turn(self, quiet: bool) -> None:
        if not self.alive:
            return
        if self._disk.trouble == "stuck":
            self._turn = self._disk.clock.after(STUCK, self._take_turn, quiet)
            return
        self.alive = self._writer.turn(quiet=quiet)
        if self.alive and (self._writer.changes or self._writer._signalled):
            self._turn = self._disk.clock.after(self._delay(), self._take_turn, False)
        elif self.alive:
            self._sleep()

    def _sleep(self) -> None:
        self._quiet = True
        self._turn = self._disk.clock.after(self._writer.period(), self._take_turn, True)

    def _delay(self) -> int:
        disk = self._disk
        return disk.draws.span(20 * MICROSECOND, disk.slow)


def _error(trouble: str) -> sqlite3.OperationalError:
    code, name, text = _CODES[trouble]
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    error.sqlite_errorname = name
    return error
