"""The record of one write, kept in step with the book and the journal.

Each method is one event of the write's life (`core.writes.TRANSITIONS`). The book knows at once; the journal calls
back when the disk knows.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.calls import Phase
from proxy.core.writes import TRANSITIONS, LateAnswer, WriteEvent, WriteRecord
from proxy.dataplane.plane import Plane


class BookFull(Exception):
    """There is no room for another record."""

    def __init__(self, known: int) -> None:
        """Say how many there are, and what helps."""
        super().__init__(
            f"{known} writes are on record, and no more can be kept; settle some of them (waterclock uncertain), or shorten "
            "journal.retention"
        )


class Intent:
    """A write that is about to be sent, or was."""

    __slots__ = ("_plane", "record")

    def __init__(self, plane: Plane, record: WriteRecord) -> None:
        """Take a record in its first state; nothing is kept of it before `declare`."""
        self._plane = plane
        self.record = record

    def declare(self, done: Callable[[Exception | None], None]) -> None:
        """Put the intent on disk; `done` says when it is there, and only then may a byte leave.

        Where the book is full, nothing is kept of it, and `done` is told so (`BookFull`).
        """
        if self._plane.book.full:
            self._plane.loop.call_soon(done, BookFull(len(self._plane.book)))
            return
        self._plane.book.put(self.record)
        self._plane.journal.put(self.record, done)

    def withdraw(self) -> None:
        """Take the intent back: not a byte has left."""
        self.record = self.record.after(WriteEvent.WITHDRAWN)
        self._plane.book.drop(self.record.id)
        self._plane.journal.drop(self.record.id)

    def identify(self, fingerprint: str) -> None:
        """Add the fingerprint of a body that was too large to be held, now that it has passed."""
        self._keep(self.record._replace(fingerprint=fingerprint))

    def answered(self, answer: LateAnswer | None, done: Callable[[Exception | None], None]) -> None:
        """Settle: the whole answer is here. `done` says when the disk knows, and only then may its caller hear of it.

        So a sidecar that dies in between finds the write reported: neither forgotten nor, once answered, uncertain.
        """
        self.record = self.record.after(WriteEvent.ANSWERED, phase=Phase.COMPLETE, answer=answer)
        self._plane.book.put(self.record)
        self._plane.journal.put(self.record, done)

    def delivered(self) -> None:
        """Forget the write: its caller has the answer. The journal sees to it in its own time."""
        self._plane.book.drop(self.record.id)
        self._plane.journal.drop(self.record.id)

    def undelivered(self, answer: LateAnswer | None) -> None:
        """Keep the answer of a caller that left before it could be given: the only trace of what happened."""
        self._keep(self.record._replace(resolved_by="answer not delivered", answer=answer))

    def lost(self, phase: Phase, reason: str) -> None:
        """Give up on the answer: from here on the effect is uncertain."""
        self._keep(self.record.after(WriteEvent.LOST, phase=phase, reason=reason))

    def answered_late(self, answer: LateAnswer, *, partial: bool) -> None:
        """Keep the answer that came after the caller had been told that the effect is uncertain.

        `partial`: it says of a delegated job that its work is not complete. Someone may have settled the record in the
        meantime; the answer is evidence, so it is kept all the same.
        """
        current = self._plane.book.get(self.record.id) or self.record
        if (current.state, WriteEvent.ANSWERED) in TRANSITIONS:
            current = current.settled(WriteEvent.ANSWERED, "late answer", self._plane.wall_ms())
        self._keep(current._replace(phase=Phase.COMPLETE, answer=answer), partial=partial)

    def _keep(self, record: WriteRecord, *, partial: bool = False) -> None:
        self.record = record
        self._plane.keep(record, partial=partial)
