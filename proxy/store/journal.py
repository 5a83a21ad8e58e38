"""The journal of writes, as the event loop uses it: hand a record over, be called when it is durable.

What is stored, and when. Before a write's first byte may leave, its intent is put here, and the byte waits for
`done`. When the answer has been relayed whole, the intent is dropped; when it has not, the record is put again as
uncertain. So whatever happens, the disk never knows less than it must: a sidecar that dies at any moment leaves an
intent for every write that may have been sent, and `open` makes each of them uncertain.

What survives what, once `done(None)` was called:

    the sidecar is killed (kill -9, out of memory)  always. A commit hands its pages to the kernel before it returns,
                                                    and the kernel does not forget them when a process dies
    the node crashes or loses power, sync: full     yes. Each group is one commit with an fsync of the log, and folders
                                                    made by `open` are synced too. It holds as far as the volume
                                                    honours fsync
    the node crashes, sync: normal                  the file is sound (a checkpoint syncs the log before it touches
                                                    the file), but the last commits, since the kernel last wrote
                                                    pages back or a checkpoint ran, may be gone: whole groups, the
                                                    newest first
    the pod is deleted or moved to another node     only with a volume that moves too. An emptyDir lives as long as
                                                    its pod; it survives the restart of a container, and of the node
                                                    unless its medium is memory
    the disk is full or fails                       what was acknowledged before; what fails is told to its caller

A group is one transaction: all of it is there, or none. An operation whose `done` got an error is not on disk, with
one exception: under `full`, when an fsync fails and the sidecar dies before another group has been committed, the
failed group may be found after all, whole. For an intent this errs on the careful side.

An operation without `done` is the journal's own to see through: when it fails it is tried again until it succeeds,
and under `full` it has no fsync to itself but shares the next one. If the sidecar or the node dies in between, the
older state is found, which is the more careful one: an intent that was answered is then taken for uncertain.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from proxy.core.policy import JournalSync
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteRecord
from proxy.store import schema
from proxy.store.database import Database
from proxy.store.errors import JournalError, explained
from proxy.store.writer import Change, Done, Writer

QUEUE_BOUND: Final = 100_000
SETTLING_BOUND: Final = 2 * QUEUE_BOUND  # what ends a write finds room where no new write does
CLOSE_WITHIN: Final = 10 * SECOND

_SHARED: Final = "give each sidecar a journal of its own (journal.path)"


class Worker(Protocol):
    """Who takes the writer's turns, as `threading.Thread` does."""

    def join(self, timeout: float | None = None, /) -> None:
        """Wait for its end, for so many seconds at the most."""

    def is_alive(self) -> bool:
        """Say whether it has not ended."""


class Journal:
    """One journal, from `open` through `start` to `close`. All methods belong to the event loop's thread."""

    def __init__(
        self,
        path: str | Path,
        sync: JournalSync,
        retention_ns: int,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Describe a journal. Nothing is touched yet. `clock` is monotonic, in nanoseconds."""
        self.path = Path(path)
        self._retention_ms = retention_ns // MILLISECOND
        self._database = Database(self.path, sync)
        self._clock = clock
        self._opened_ms = 0
        self._opened_at = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expired: Callable[[list[str]], None] | None = None
        self._thread: Worker | None = None
        self._writer = Writer(
            self._database, self._oldest_kept_ms, self._deliver, self._report_expired, clock
        )
        self._changes = self._writer.changes
        self._refused = 0
        self._waking = False

    def open(self, now_ms: int) -> list[WriteRecord]:
        """Take the journal and return its records, the oldest first. It blocks: call it before the loop serves.

        `now_ms` is the time of day, for retention. Raises JournalError; it may then be called again.
        """
        self._opened_ms = now_ms
        self._opened_at = self._clock()
        try:
            schema.make_folder(self.path)
            self._database.hold(_SHARED)
            records = self._database.recover(now_ms - self._retention_ms)
            self._writer.size = self._database.measure()
        except Exception as error:
            self._database.close()
            raise explained(self.path, error) from error
        return records

    def start(
        self, loop: asyncio.AbstractEventLoop, expired: Callable[[list[str]], None] | None = None
    ) -> None:
        """Start the thread. `expired` is called on the loop with the ids that retention has deleted."""
        self._loop = loop
        self._expired = expired
        self._thread = self._employ(self._writer)

    def put(self, record: WriteRecord, done: Done | None = None) -> None:
        """Store a record, or a new state of one. `done` is called on the loop, later, once it is durable or failed."""
        self._take((record.id, record, done))

    def drop(self, id: str, done: Done | None = None) -> None:
        """Delete the record with this id, if there is one."""
        self._take((id, None, done))

    def close(self) -> bool:
        """Write what is queued, end the thread, leave one whole file. It blocks, for CLOSE_WITHIN at the most.

        Callers are still told, on the loop's next turn. False: the disk did not answer in that time, or it fails and
        something is owed.
        """
        self._writer.closing = True
        thread, self._thread = self._thread, None
        if thread is not None:
            self._writer.wake()
            thread.join(CLOSE_WITHIN / SECOND)
            if thread.is_alive():
                return False  # the lock stays, as the thread may still write
        self._database.close()
        return not self._writer.owes

    @property
    def healthy(self) -> bool:
        """Whether the last attempt to write succeeded."""
        return self._writer.last_error is None

    @property
    def last_error(self) -> JournalError | None:
        """Why it cannot be written; None when it can."""
        return self._writer.last_error

    @property
    def depth(self) -> int:
        """How many operations are not durable yet."""
        return len(self._changes) + self._writer.in_hand

    @property
    def commits(self) -> int:
        """How many groups have been committed."""
        return self._writer.commits

    @property
    def written(self) -> int:
        """How many operations these groups held."""
        return self._writer.written

    @property
    def failures(self) -> int:
        """How many groups failed, and how many operations were refused because the queue was full."""
        return self._writer.failures + self._refused

    @property
    def size(self) -> int:
        """How many bytes the file and its log take, as of a second ago."""
        return self._writer.size

    def _employ(self, writer: Writer) -> Worker:
        """Have somebody take the writer's turns: a thread, and what stands for one where threads and time are simulated."""
        # A daemon: a process that fails to call `close` must still be able to end, and a commit is whole or nothing.
        thread = threading.Thread(target=writer.run, name="journal", daemon=True)
        thread.start()
        return thread

    def _take(self, change: Change) -> None:
        done = change[2]
        if self._thread is None or len(self._changes) >= (
            QUEUE_BOUND if done is not None else SETTLING_BOUND
        ):
            self._refuse(done)
            return
        self._changes.append(change)
        if not self._waking and self._loop is not None:
            # Not at once: the thread would fight for the interpreter with what this turn of the loop still has to
            # do, and take a group of one or two. Measured on a busy loop on one core: 17 µs for a write, with this 7.
            self._waking = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._waking = False
        self._writer.wake()

    def _refuse(self, done: Done | None) -> None:
        if self._loop is None:
            raise RuntimeError("the journal has not been started")
        self._refused += 1
        if done is None:
            return
        if self._thread is None:
            error = JournalError(self.path, "it is closed", "start the sidecar again")
        else:
            problem = f"{QUEUE_BOUND} operations are waiting for the disk"
            error = self.last_error or JournalError(
                self.path, problem, "look at the volume: it does not keep up"
            )
        self._loop.call_soon(self._tell, [done], error)

    def _deliver(self, told: list[Done], error: JournalError | None) -> None:
        """Visit the loop, from the writer's thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed: there is nobody left to tell
                self._loop.call_soon_threadsafe(self._tell, told, error)

    def _tell(self, told: list[Done], error: JournalError | None) -> None:
        for done in told:
            try:
                done(error)
            except Exception as fault:  # noqa: BLE001 - one caller's fault must not keep the news from the others
                context = {"message": "a caller of the journal failed", "exception": fault}
                if self._loop is not None:
                    self._loop.call_exception_handler(context)

    def _report_expired(self, ids: list[str]) -> None:
        if self._loop is not None and self._expired is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._expired, ids)

    def _oldest_kept_ms(self) -> int:
        """Return the time of day before which records are deleted. It moves with the monotonic clock, and never jumps."""
        elapsed = (self._clock() - self._opened_at) // MILLISECOND
        return self._opened_ms + elapsed - self._retention_ms
