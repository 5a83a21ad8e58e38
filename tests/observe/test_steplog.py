"""The log never makes its writer wait, holds a bounded amount, and counts what it gives up."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.observe.sink import LineSink
from proxy.observe.steplog import StepLog
from tests.observe.records import plain

AN_ENTIRE_PIPE = 1 << 20


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose ends are closed afterwards, unless the test has."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def objects(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def until(condition: Any, within: float = 5) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def test_lines_arrive_in_order(tmp_path: Path) -> None:
    """Steps and events, as they were written, all there after close."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = StepLog(fd)
    log.event("start", version="1.2.3")
    for number in range(5000):
        log.write(plain(step=number))
    log.event("shutdown")
    assert log.close() == 0
    os.close(fd)
    first, *steps, last = objects(path.read_bytes())
    assert (first["event"], first["version"], last["event"]) == ("start", "1.2.3", "shutdown")
    assert [step["step"] for step in steps] == list(range(5000))
    assert all("event" not in step for step in steps)
    assert log.dropped == log.errors == 0


def test_a_line_is_seen_soon_without_close(pipe: tuple[int, int]) -> None:
    """Whoever tails the log sees a step within a moment, though nothing follows it."""
    read, write = pipe
    log = StepLog(write)
    for number in range(3):
        started = time.monotonic()
        log.write(plain(step=number))
        (line,) = objects(os.read(read, 1 << 16))
        assert line["step"] == number
        assert time.monotonic() - started < 1
    assert log.close() == 0


def test_lines_of_a_moment_go_out_together(pipe: tuple[int, int]) -> None:
    """Many calls in a moment cost one write, not one each."""
    read, write = pipe
    log = StepLog(write, delay=0.2)
    for number in range(50):
        log.write(plain(step=number))
    assert len(objects(os.read(read, 1 << 20))) == 50
    assert log.close() == 0


async def test_stuck_reader_blocks_nothing(pipe: tuple[int, int]) -> None:
    """A full pipe: the loop goes on, memory is bounded, what does not fit is counted, what fits comes once it is read."""
    read, write = pipe
    bound = 4 * AN_ENTIRE_PIPE
    log = StepLog(write, delay=0.01, bound=bound)
    loop = asyncio.get_running_loop()
    slowest = 0.0
    for number in range(40_000):
        begun = loop.time()
        log.write(plain(step=number))
        slowest = max(slowest, loop.time() - begun)
        if number % 1000 == 0:
            await asyncio.sleep(0)
    assert slowest < 0.5
    kept = 40_000 - log.dropped
    held = log._sink._taken - log._sink._settled
    assert 0 < kept < 40_000
    assert held <= bound
    assert sum(map(len, log._sink._lines)) <= bound

    reading = loop.run_in_executor(None, read_all, read)
    assert await loop.run_in_executor(None, log.close, 10) == 0
    os.close(write)
    lines = objects(await reading)
    assert [line["step"] for line in lines] == list(range(kept))


def test_close_gives_up_at_its_deadline(pipe: tuple[int, int]) -> None:
    """A reader that never reads cannot hold up the end of the process, and what it did not get is told."""
    _, write = pipe
    log = StepLog(write, delay=0.01)
    for number in range(2000):
        log.write(plain(step=number))
    begun = time.monotonic()
    left = log.close(within=0.2)
    assert time.monotonic() - begun < 2
    assert 1000 < left <= 2000
    dropped = log.dropped
    log.write(plain())
    assert log.dropped == dropped + 1


def test_process_ends_while_the_reader_is_stuck() -> None:
    """The thread that hangs in write(2) is no reason to stay."""
    code = (
        "from proxy.observe.steplog import StepLog\n"
        "log = StepLog()\n"
        "for number in range(100_000): log.event('x', filler='y' * 100)\n"
        "log.close(0.1)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.wait(20) == 0


def test_reader_that_has_gone_is_counted(pipe: tuple[int, int]) -> None:
    """EPIPE: no exception, no signal; every line is counted as dropped, and so are those to come."""
    read, write = pipe
    os.close(read)
    log = StepLog(write, delay=0.01)
    for _ in range(300):
        log.write(plain())
    until(lambda: log.dropped == 300)
    assert log.errors >= 1
    log.write(plain())
    assert log.close() == 0
    assert log.dropped == 301


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a Linux device")
def test_full_disk_is_counted() -> None:
    """ENOSPC is no end of the sidecar."""
    fd = os.open("/dev/full", os.O_WRONLY)
    log = StepLog(fd, delay=0.01)
    for _ in range(10):
        log.write(plain())
    assert log.close() == 0
    assert (log.dropped, log.errors >= 1) == (10, True)
    os.close(fd)


def test_line_cut_by_a_full_disk_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """When half a line went out before the disk was full, the next line still begins on its own."""
    disk = bytearray()
    room = [25, 0, 0, 1000]  # what each write(2) has room for; none is ENOSPC

    def write(_: int, data: memoryview) -> int:
        free = room.pop(0) if room else 1000
        if not free:
            raise OSError(errno.ENOSPC, "full")
        disk.extend(data[:free])
        return min(free, len(data))

    monkeypatch.setattr(os, "write", write)
    lines = LineSink(-1, delay=0, bound=1000)
    lines._write(b'{"a":1}\n{"b":2}\n{"c":3}\n{"d":4}\n')
    assert lines.dropped == 1
    lines._write(b'{"e":5}\n')  # meets the full disk before its first byte
    assert lines.dropped == 2
    lines._write(b'{"f":6}\n{"g":7}\n')
    assert lines.dropped == 2
    assert bytes(disk).splitlines() == [b'{"a":1}', b'{"b":2}', b'{"c":3}', b"{", b'{"f":6}', b'{"g":7}']


def test_nonblocking_descriptor_is_waited_for(pipe: tuple[int, int]) -> None:
    """Whoever started the sidecar may have left its stdout non-blocking; lines are then late, not lost."""
    read, write = pipe
    os.set_blocking(write, False)
    log = StepLog(write, delay=0.01)
    for number in range(2000):
        log.write(plain(step=number))
    seen = b""
    while seen.count(b"\n") < 2000:
        time.sleep(0.001)
        seen += os.read(read, 1 << 16)
    assert log.close() == 0
    assert [line["step"] for line in objects(seen)] == list(range(2000))
    assert log.dropped == 0


def test_idle_log_has_no_thread(pipe: tuple[int, int]) -> None:
    """Nothing logged, nothing started, nothing to wait for."""
    log = StepLog(pipe[1])
    assert log._sink._writer is None
    assert log.close() == 0
