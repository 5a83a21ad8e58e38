"""The disk of the journal, which can be filled and given back under a running sidecar.

With the rights for it, a small volume of its own; without, a limit on the size of any file that the sidecar writes, which
looks like a disk that reports errors.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import threading
import time
from pathlib import Path
from typing import Final, Protocol

_SIZE: Final = "96m"
_BLOCK: Final = b"0" * 65_536


class Disk(Protocol):
    """Where the journal is. `what`: how it breaks, for the table."""

    folder: Path
    what: str

    def breaks(self, pid: int) -> None:
        """From now on, nothing more can be written."""

    def mends(self, pid: int) -> None:
        """All is well again."""

    def close(self) -> None:
        """Give it up."""


class Limited:
    """An error for whatever would make a file grow."""

    what = "the disk reports errors (a limit of the process; no volume can be mounted here)"

    def __init__(self, folder: Path) -> None:
        """Use a folder that is there."""
        self.folder = folder

    def breaks(self, pid: int) -> None:
        """Let no file grow."""
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def mends(self, pid: int) -> None:
        """Take the limit away, of a process that may be another one by now."""
        unlimited = resource.RLIM_INFINITY
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))

    def close(self) -> None:
        """Leave nothing behind."""


class Volume:
    """A volume in memory."""

    what = "the volume of the journal is full"

    def __init__(self, folder: Path) -> None:
        """Mount it. Raises OSError where that is not allowed."""
        self.folder = folder
        self._filler = folder / "filler"
        self._enough = threading.Event()
        self._greedy: threading.Thread | None = None
        mounted = subprocess.run(
            ("mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=700", "waterclock-chaos", str(folder)),
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            raise OSError(mounted.stderr.decode().strip())

    def breaks(self, pid: int) -> None:
        """Take all the room there is, and go on taking."""
        self._enough.clear()
        self._greedy = threading.Thread(target=self._fill, daemon=True)
        self._greedy.start()

    def mends(self, pid: int) -> None:
        """Give the room back."""
        self._enough.set()
        if self._greedy is not None:
            self._greedy.join()
            self._greedy = None
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it."""
        self.mends(0)
        subprocess.run(("umount", "-l", str(self.folder)), check=False)

    def _fill(self) -> None:
        """SQLite makes room by itself for a while: what it gives back is taken at once, down to the last block."""
        size = len(_BLOCK)
        with self._filler.open("ab", buffering=0) as filler:
            while not self._enough.is_set():
                try:
                    filler.write(_BLOCK[:size])
                except OSError:
                    size = 4096
                    time.sleep(0.002)


def disk(folder: Path) -> Disk:
    """Return a disk at a folder, which is made."""
    folder.mkdir()
    try:
        return Volume(folder)
    except OSError:
        return Limited(folder)
