"""Disks that hang, fill up and break, seen from the writer's thread, which alone may touch its connection."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from proxy.store.database import Database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold every commit up until the gate is set: a disk that hangs."""
    gate = threading.Event()
    apply = Database.apply

    def slow(self: Database, *arguments: Any, **more: Any) -> None:
        gate.wait(20)
        apply(self, *arguments, **more)

    monkeypatch.setattr(Database, "apply", slow)
    return gate


class Disk:
    """A disk that can be filled up and broken while a journal is in use."""

    def __init__(self) -> None:
        self.pages = 1_000_000
        self.broken: sqlite3.Error | None = None
        self.opened = 0
        self._connect = Database.connect

    def connect(self, database: Database) -> sqlite3.Connection:
        if self.broken is not None:
            database.disconnect()
            raise self.broken
        self.opened += database._connection is None
        connection = self._connect(database)
        connection.execute(f"PRAGMA max_page_count = {self.pages}")
        return connection

    def breaks(self) -> None:
        """Have every attempt to use the file fail, until `mended`."""
        self.broken = sqlite3.OperationalError("disk I/O error")
        self.broken.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
        self.broken.sqlite_errorname = "SQLITE_IOERR_WRITE"

    def mended(self) -> None:
        self.broken = None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(Database, "connect", lambda database: disk.connect(database))  # noqa: PLW0108 - a bound method gets no `self`
    return disk
