"""The thread that writes the journal: it alone waits for the disk.

It sleeps until it is signalled, takes all that has been queued since, and commits it as one group. While it commits,
more is queued: so the busier the sidecar, the larger the groups, and nothing has to be tuned. All of a group's
callers are told in one visit to the event loop.

What can go wrong, and what follows:

    a group fails              none of it is on disk, and all its callers are told
    ... and nobody was to be   the change is owed: it is made up for as soon as a group succeeds, unless a later one
        told                   of the same record did. Else a write that was answered would be uncertain after the
                               next restart
    a record fits no row       it alone fails; the rest of its group is written
    two failures in a row      the connection is given up, and made anew by the next attempt
    no traffic while failing   an empty write after each second, so that the journal is found to work again
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Final

from proxy.core.units import MINUTE, SECOND
from proxy.core.writes import WriteRecord
from proxy.store.database import PURGE_BATCH, Database
from proxy.store.errors import JournalError, explained

Done = Callable[[JournalError | None], None]
Change = tuple[str, WriteRecord | None, Done | None]  # a record, or None to delete the one with this id
Deliver = Callable[[list[Done], JournalError | None], None]

GROUP_BOUND: Final = 512  # larger groups are no faster, and telling their callers would hold the loop up
OWED_DROPS_BOUND: Final = 100_000
_PROBE_EVERY: Final = SECOND
_MEASURE_EVERY: Final = SECOND
_PURGE_EVERY: Final = 5 * MINUTE
_CHECKPOINT_AFTER: Final = 500  # changes; each is a page of the log or two
_QUIET: Final = (
    SECOND  # a checkpoint waits for such a silence: it syncs, and whoever came meanwhile would wait too
)

# What Python or its SQLite binding raises for a value that no column can hold. A fault of the record, not of the disk.
_UNFIT: Final = (sqlite3.InterfaceError, sqlite3.ProgrammingError, OverflowError, TypeError, ValueError)

logger = logging.getLogger(__name__)


class Writer:
    """Commits what is queued. `changes` is filled by one other thread, which then calls `wake`; the rest is ours.

    `deliver` and `expired` are called in this thread. The attributes without an underscore may be read from any.
    """

    def __init__(
        self,
        database: Database,
        oldest_kept_ms: Callable[[], int],
        deliver: Deliver,
        expired: Callable[[list[str]], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Take over an open database. `oldest_kept_ms` says at any time which records retention still covers.

        `clock` is monotonic, in nanoseconds.
        """
        self.changes: deque[Change] = deque()
        self.in_hand = 0
        self.closing = False
        self.commits = 0
        self.written = 0
        self.failures = 0
        self.size = 0
        self.last_error: JournalError | None = None
        self._database = database
        self._oldest_kept_ms = oldest_kept_ms
        self._deliver = deliver
        self._expired = expired
        self._clock = clock
        self._signal: SimpleQueue[None] = SimpleQueue()
        self._signalled = False
        self._owed: dict[str, WriteRecord | None] = {}
        self._since_checkpoint = 0
        self._failures_in_a_row = 0
        self._next_probe = self._next_purge = self._next_measure = 0

    @property
    def owes(self) -> bool:
        """Whether a change that failed has not been made up for."""
        return bool(self._owed)

    def wake(self) -> None:
        """Have the thread look at `changes`. Cheap when it is about to look anyway."""
        if not self._signalled:
            self._signalled = True
            self._signal.put(None)

    def run(self) -> None:
        """Write until `closing` is set and all that was queued is written or has failed. The body of the thread."""
        while self.turn(quiet=not self.changes and self._sleep()):
            pass

    def turn(self, *, quiet: bool) -> bool:
        """Write what is queued, as one group, and see to the rest; return whether there is to be another turn.

        `quiet`: it is time for this turn, and nothing was queued.
        """
        changes = self.changes
        # First lowered, then looked: a change that comes in between is signalled once too often, never too seldom.
        self._signalled = False
        if changes:
            count = self.in_hand = min(len(changes), GROUP_BOUND)
            self._commit([changes.popleft() for _ in range(count)])
            self.in_hand = 0
        if self.closing:
            self._next_probe = 0  # the last chance to make up for what is owed
        self._attend(quiet)
        return not self.closing or bool(changes) or (self.last_error is None and bool(self._owed))

    def period(self) -> int:
        """Return how long to sleep at most before the next turn, while nothing is queued (nanoseconds)."""
        if self.last_error is not None:
            return _PROBE_EVERY
        return _QUIET if self._since_checkpoint >= _CHECKPOINT_AFTER else _PURGE_EVERY

    def _sleep(self) -> bool:
        """Wait for a signal, or until there is something to attend to. Return whether nothing came."""
        try:
            self._signal.get(timeout=self.period() / SECOND)
        except Empty:
            return True
        return False

    def _commit(self, group: list[Change]) -> None:
        """Write a group and tell its callers."""
        error: JournalError | None = None
        told = [done for _, _, done in group if done is not None]
        try:
            wrote = self._database.apply({id: record for id, record, _ in group}, awaited=bool(told))
        except _UNFIT as unfit:
            if len(group) > 1:
                for change in group:
                    self._commit([change])
                return
            problem = f"the record {group[0][0]} cannot be stored ({type(unfit).__name__}: {unfit})"
            error = JournalError(self._database.path, problem, "report this; other records are not affected")
            self.failures += 1
            logger.error("%s", error)  # the disk is well, so it is not `last_error`
        except Exception as failure:  # noqa: BLE001 - whatever it is, the callers wait, and this thread must go on
            error = self._failed(failure)
            self._owe(group)
        else:
            self._succeeded(len(group), wrote=wrote)
            if self._owed:
                for id, _, _ in group:
                    self._owed.pop(id, None)
        if told:
            self._deliver(told, error)

    def _owe(self, group: list[Change]) -> None:
        """Remember what nobody will ask for again. Records are in memory anyway; deletions are bounded."""
        for id, record, done in group:
            if done is None and (record is not None or len(self._owed) < OWED_DROPS_BOUND):
                self._owed[id] = record

    def _attend(self, quiet: bool) -> None:
        """Between groups: find out whether the disk works again, make up for what is owed, prune, measure."""
        now = self._clock()
        if self.last_error is not None and now < self._next_probe:
            return
        try:
            if self.last_error is not None:
                self._database.probe()
                self._succeeded(0)
            if self._owed:
                self._make_up()
            if quiet and self._since_checkpoint >= _CHECKPOINT_AFTER:
                self._since_checkpoint = 0
                self._database.checkpoint()
            if now >= self._next_purge:
                self._purge(now)
            if now >= self._next_measure:
                self._next_measure = now + _MEASURE_EVERY
                self.size = self._database.measure()
        except Exception as failure:  # noqa: BLE001 - as above
            self._failed(failure)

    def _make_up(self) -> None:
        ids = list(islice(self._owed, GROUP_BOUND))
        self._commit([(id, self._owed.pop(id), None) for id in ids])
        if self._owed:
            self.wake()

    def _purge(self, now: int) -> None:
        self._next_purge = now + _PURGE_EVERY
        gone = self._database.purge(self._oldest_kept_ms())
        if len(gone) == PURGE_BATCH:
            self._next_purge = now  # the rest after the next group, so that nobody waits for a long deletion
            self.wake()
        if gone:
            self._expired(gone)

    def _succeeded(self, changes: int, *, wrote: bool = True) -> None:
        self.commits += 1
        self.written += changes
        self._since_checkpoint += changes
        if not wrote:  # nothing reached the disk, so nothing is known of it
            return
        self._failures_in_a_row = 0
        if self.last_error is not None:
            self.last_error = None
            logger.warning("journal %s: it can be written again", self._database.path)

    def _failed(self, failure: Exception) -> JournalError:
        error = explained(self._database.path, failure)
        self.failures += 1
        self._failures_in_a_row += 1
        # Traffic is the better probe: a full disk can have room for the empty write and for no other.
        self._next_probe = self._clock() + _PROBE_EVERY
        if self._failures_in_a_row > 1 or isinstance(failure, JournalError):
            self._database.disconnect()
        if self.last_error is None:
            logger.error("%s", error)
        self.last_error = error
        return error
