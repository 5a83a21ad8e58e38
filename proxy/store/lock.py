"""Keeps a second process away from a journal.

The lock is on a file beside the journal: closing any other descriptor of the journal itself would take SQLite's own
locks away. The kernel lets go of it when its holder dies, so it never has to be cleaned up, and the file stays:
removing it would let two processes hold two files of one name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from proxy.store.errors import JournalInUse


class FileLock:
    """An exclusive lock on the journal at `path`, held while this process lives or until it is released."""

    def __init__(self, path: Path) -> None:
        """Name the journal. Nothing is touched yet."""
        self._journal = path
        self._path = path.with_name(path.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self, remedy: str) -> None:
        """Take the lock, or raise JournalInUse with this remedy. Raises OSError where no lock can be made."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._holder(descriptor)
            os.close(descriptor)
            raise JournalInUse(self._journal, f"{holder} is using it", remedy) from None
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        # What follows only helps the next one to come: a full disk must not stop a journal that has room in itself.
        with contextlib.suppress(OSError):
            self._sign(descriptor)

    def release(self) -> None:
        """Let go; once is enough, and twice does no harm."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _sign(self, descriptor: int) -> None:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        if os.geteuid() == 0:
            # An operator's shell is often root's. The sidecar's user must be able to open what it left.
            owner = (self._journal if self._journal.exists() else self._journal.parent).stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)

    @staticmethod
    def _holder(descriptor: int) -> str:
        try:
            return os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
        except OSError:
            return "another process"
