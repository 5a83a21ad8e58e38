"""What can be wrong with a journal, said for the person who has to put it right. Foreign exceptions end here."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final


class JournalError(Exception):
    """A journal that cannot be used, or an operation that is not on disk: what is wrong, and what helps."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        """Name the file, the problem and the remedy."""
        super().__init__(f"journal {path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class JournalInUse(JournalError):
    """Another process, alive, holds the journal."""


class JournalMissing(JournalError):
    """There is no journal at this path."""


Reason = tuple[str, str]

_SPACE: Final[Reason] = (
    "the disk is full",
    "free space on its volume or enlarge it; writing resumes by itself",
)
_READ_ONLY: Final[Reason] = (
    "it cannot be written",
    "mount its volume for writing, owned by the sidecar's user",
)
_UNOPENED: Final[Reason] = (
    "it cannot be opened",
    "let the sidecar's user write to its folder, and to the file where there is one",
)
_DAMAGED: Final[Reason] = (
    "the file is damaged, or is no journal",
    "move it and its -wal file aside and look there for the writes of that time; without them a new one is made",
)
_DISK: Final[Reason] = ("the disk reports an error", "look at the volume and the node's kernel log")
_HELD: Final[Reason] = (
    "another program has the file open",
    "end that program; a journal has one user at a time",
)
_UNKNOWN: Final[Reason] = ("it cannot be used", "report this with the text above")

_BY_SQLITE_CODE: Final[dict[int, Reason]] = {
    sqlite3.SQLITE_FULL: _SPACE,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _UNOPENED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
}

_BY_ERRNO: Final[dict[int, Reason]] = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.ENOENT: _UNOPENED,
    errno.ENOTDIR: _UNOPENED,
    errno.EISDIR: ("it is a folder", "name a file in it"),
    errno.EIO: _DISK,
    errno.ENOLCK: ("its file system knows no locks", "put the journal on a local volume"),
    errno.EOPNOTSUPP: ("its file system knows no locks", "put the journal on a local volume"),
}


def explained(path: Path, error: BaseException) -> JournalError:
    """Return a foreign exception as a JournalError, which keeps the original text."""
    if isinstance(error, JournalError):
        return error
    detail = str(error)
    problem, remedy = _UNKNOWN
    if isinstance(error, sqlite3.Error):
        # Absent from errors that the module raises by itself. The low byte is the class; the rest says where.
        code = getattr(error, "sqlite_errorcode", 0)
        detail = f"{getattr(error, 'sqlite_errorname', type(error).__name__)}: {error}"
        problem, remedy = _BY_SQLITE_CODE.get(code & 0xFF, _UNKNOWN)
    elif isinstance(error, OSError) and error.errno is not None:
        where = "" if error.filename in (None, str(path)) else f": {os.fsdecode(error.filename)}"
        detail = f"{os.strerror(error.errno)}{where}"
        problem, remedy = _BY_ERRNO.get(error.errno, _UNKNOWN)
    return JournalError(path, f"{problem} ({detail})", remedy)
