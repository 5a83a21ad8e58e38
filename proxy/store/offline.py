"""The journal without a sidecar: for the command line, to list, show and settle what a stopped one has left."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from proxy.core.policy import JournalSync
from proxy.core.writes import WriteBook, WriteEvent, WriteRecord
from proxy.store.database import Database
from proxy.store.errors import JournalMissing, explained

_RUNNING: Final = "ask that sidecar, through its control API, or stop it first"


class OfflineJournal:
    """A journal that no sidecar holds, for the length of a `with` block, which keeps sidecars out.

    It is read like by a sidecar that starts: what was in flight when the last one ended is uncertain from now on.
    Nothing is deleted, however old. Entering raises JournalError: JournalInUse while a sidecar runs, JournalMissing
    where there is no file.
    """

    def __init__(self, path: str | Path, now_ms: int = 0) -> None:
        """Name the file. `now_ms`: the time of day that decisions are dated with (Unix milliseconds)."""
        self._now_ms = now_ms
        self.path = Path(path)
        # What a person has found out is written once and by hand: worth an fsync under either setting.
        self._database = Database(self.path, JournalSync.FULL)
        self._book = WriteBook()

    def __enter__(self) -> Self:
        try:
            if not self.path.exists():
                raise JournalMissing(self.path, "there is none here", "name the file that the sidecar wrote")
            self._database.hold(_RUNNING)
            self._book = WriteBook(self._database.recover(before_ms=None))
        except Exception as error:
            self._database.close()
            raise explained(self.path, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def listed(self) -> list[WriteRecord]:
        """Return every record, the oldest first."""
        return self._book.listed()

    def get(self, id: str) -> WriteRecord | None:
        """Return the record with this id, if there is one."""
        return self._book.get(id)

    def resolve(self, id: str, event: WriteEvent, by: str) -> WriteRecord | None:
        """Settle a record of unknown effect as found applied or found absent, by whom; None when there is no such record.

        Raises WrongTransition when it is settled already, JournalError when it cannot be written.
        """
        return self._settle(id, event, by)

    def release(self, id: str, by: str = "operator") -> WriteRecord | None:
        """Let the unit of a dead letter be attempted again. As `resolve`."""
        return self._settle(id, WriteEvent.RELEASED, by)

    def discard(self, id: str, by: str = "operator") -> WriteRecord | None:
        """Have the unit of a dead letter never sent again. As `resolve`."""
        return self._settle(id, WriteEvent.DISCARDED, by)

    def _settle(self, id: str, event: WriteEvent, by: str) -> WriteRecord | None:
        record = self._book.get(id)
        if record is None:
            return None
        settled = record.settled(event, by, self._now_ms)
        try:
            self._database.apply({id: settled})
        except Exception as error:
            raise explained(self.path, error) from error
        self._book.put(settled)
        return settled
