"""Disks that can be broken and mended under a running sidecar."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.sidecar import Sidecar


class Disk(Protocol):
    """Where a journal is. `problem` and `remedy` are what its owner should be told once it is broken."""

    folder: Path
    problem: str
    remedy: str

    def breaks(self, sidecar: Sidecar) -> None:
        """From now on nothing can be written."""

    def mends(self, sidecar: Sidecar) -> None:
        """All is well again."""


class Failing:
    """An error for whatever would make a file grow, by a limit of the process; everybody can have that."""

    problem = "the disk reports an error"
    remedy = "look at the volume and the node's kernel log"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def breaks(self, sidecar: Sidecar) -> None:
        resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def mends(self, sidecar: Sidecar) -> None:
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))


class Mounted:
    """A small volume of its own, which only root can have."""

    problem = "the disk is full"
    remedy = "free space on its volume or enlarge it"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        self._enough = threading.Event()
        self._greedy: threading.Thread | None = None
        if os.geteuid() != 0:
            pytest.skip("only root can mount a volume")
        self._run("mount", "-t", "tmpfs", "-o", "size=1m", "waterclock-test", str(folder))

    def breaks(self, sidecar: Sidecar) -> None:
        self._greedy = threading.Thread(target=self._fill, daemon=True)
        self._greedy.start()

    def mends(self, sidecar: Sidecar) -> None:
        self._enough.set()
        if self._greedy is not None:
            self._greedy.join()
        self._filler.unlink(missing_ok=True)

    def _fill(self) -> None:
        """Take all room there is, and at once what others give back: SQLite makes room by itself for a while."""
        with self._filler.open("ab", buffering=0) as filler:
            while not self._enough.is_set():
                try:
                    filler.write(b"0" * 4096)
                except OSError:
                    time.sleep(0.0005)

    def turn_read_only(self) -> None:
        """Nothing can be changed any more. Only while no file is open for writing."""
        self._run("mount", "-o", "remount,ro", str(self.folder))

    def unmount(self) -> None:
        """Give the volume up."""
        self._enough.set()
        subprocess.run(["umount", "-l", str(self.folder)], check=False)

    @staticmethod
    def _run(*command: str) -> None:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            pytest.skip(f"no volume can be mounted here: {ended.stderr.strip()}")
