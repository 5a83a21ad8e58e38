"""Records to store, and the ways the tests wait for a journal."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from proxy.core.policy import JournalSync
from proxy.core.units import HOUR
from proxy.core.writes import LateAnswer, WriteRecord, WriteState
from proxy.store.errors import JournalError
from proxy.store.journal import Journal

ROOT = Path(__file__).parents[2]
NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
ANSWER = LateAnswer(
    201, (("content-type", "application/json"), ("x-two", "a")), b'{"id":7}\x00\xff', 10, 10_250.5
)


def write(
    id: str, state: WriteState = WriteState.INTENT, opened_at: int = NOW_MS, **more: object
) -> WriteRecord:
    """Return a record with this id."""
    plain: dict[str, object] = {
        "origin": "https://api.example.com:443",
        "method": "POST",
        "target": "/v1/orders?token=*",
        "route": "orders",
        "budget_id": "run-42",
        "step": 3,
        "key": f"key-{id}",
        "fingerprint": f"fp-{id}",
    }
    return WriteRecord(id=id, state=state, opened_at=opened_at, **(plain | more))  # type: ignore[arg-type]


def opened(path: Path, *, sync: JournalSync = JournalSync.NORMAL, now_ms: int = NOW_MS) -> Journal:
    """Return a journal that was opened and whose thread serves the running loop."""
    journal = Journal(path, sync, 24 * HOUR)
    journal.open(now_ms)
    journal.start(asyncio.get_running_loop())
    return journal


def found(path: Path, *, now_ms: int = NOW_MS) -> dict[str, WriteRecord]:
    """Return by id what the next sidecar would find."""
    journal = Journal(path, JournalSync.NORMAL, 24 * HOUR)
    records = journal.open(now_ms)
    journal.close()
    return {record.id: record for record in records}


async def put(journal: Journal, record: WriteRecord) -> JournalError | None:
    """Store a record, wait, and return what its caller is told."""
    told: asyncio.Future[JournalError | None] = asyncio.get_running_loop().create_future()
    journal.put(record, told.set_result)
    return await told


async def drop(journal: Journal, id: str) -> JournalError | None:
    """Delete a record, wait, and return what its caller is told."""
    told: asyncio.Future[JournalError | None] = asyncio.get_running_loop().create_future()
    journal.drop(id, told.set_result)
    return await told


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something has come true, in the writer's thread for one."""
    while not condition():  # noqa: ASYNC110 - that thread has no event of this loop to set
        await asyncio.sleep(0.001)


def snapshot(path: Path, *, with_log: bool = True) -> Path:
    """Copy a journal that is in use: what would be found if its process died now."""
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    log = path.with_name(path.name + "-wal")
    if with_log and log.exists():
        copy.with_name("copy.db-wal").write_bytes(log.read_bytes())
    return copy


def python(script: str, *arguments: object, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a Python process that sees the package, its stdout a pipe."""
    return subprocess.Popen(
        [*before, sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
