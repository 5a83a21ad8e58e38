"""One process for each target, a few at a time. What kills its process, or stops it, is a failure with an input as any other."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import resource
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from trials.fuzz.corpus import kept
from trials.fuzz.engine import Failure, Report, run
from trials.fuzz.target import Target

MEMORY: Final = 1 << 30
"""How much more memory a target may take than there is when it begins (bytes): enough for all that is bounded."""

_GRACE: Final = 120.0
"""How long after its time a worker may still make its failures small (seconds of the wall)."""

_ROOM: Final = 1 << 20
_LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Plan:
    """How long each target is tried: `runs` inputs, or `seconds`, or the kept ones alone."""

    seed: int
    runs: int | None
    seconds: float | None


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    reading: Connection
    target: Target
    note: Path
    deadline: float


def run_all(targets: Sequence[Target], plan: Plan, jobs: int, told: Callable[[Report], None]) -> list[Report]:
    """Run all targets, `jobs` at a time, and return what they came to; `told` hears of each as it ends."""
    reports: dict[str, Report] = {}
    waiting = list(targets)
    working: list[_Worker] = []
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        try:
            while waiting or working:
                while waiting and len(working) < jobs:
                    working.append(_started(waiting.pop(0), plan, Path(folder)))
                for worker in list(_ended(working)):
                    working.remove(worker)
                    report = _report_of(worker)
                    reports[report.target] = report
                    told(report)
        finally:
            for worker in working:
                _kill(worker)
    return [reports[target.name] for target in targets]


def _started(target: Target, plan: Plan, folder: Path) -> _Worker:
    note = folder / target.name
    note.write_bytes(bytes(_LENGTH.size + _ROOM))
    reading, writing = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_work, args=(target, plan, note, writing), daemon=True)
    process.start()
    writing.close()
    limit = time.monotonic() + (plan.seconds if plan.seconds is not None else 3600.0) + _GRACE
    return _Worker(process, reading, target, note, limit)


def _work(target: Target, plan: Plan, note: Path, writing: Connection) -> None:
    """Run one target in this process, and send what it came to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with note.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:

        def keep_note(data: bytes) -> None:
            part = data[:_ROOM]
            shared[: _LENGTH.size + len(part)] = _LENGTH.pack(len(part)) + part

        known = [data for _, data in kept(target.name)]
        writing.send(run(target, known, seed=plan.seed, runs=plan.runs, seconds=plan.seconds, note=keep_note))


def _ended(working: Sequence[_Worker]) -> Iterator[_Worker]:
    """Wait for a moment, and give the workers that have ended or that are over their time."""
    ready = wait([worker.reading for worker in working], timeout=1.0)
    for worker in working:
        if worker.reading in ready or time.monotonic() > worker.deadline:
            yield worker


def _report_of(worker: _Worker) -> Report:
    """Take what a worker sends or, where it is dead or stuck, the input that it had."""
    report: Report | None = None
    try:
        if worker.reading.poll(0):
            report = worker.reading.recv()
    except EOFError:
        pass
    stuck = worker.process.is_alive() and report is None and time.monotonic() > worker.deadline
    if report is not None:
        worker.process.join(10)
    _kill(worker)
    if report is not None:
        return report
    raw = worker.note.read_bytes()
    data = raw[_LENGTH.size : _LENGTH.size + _LENGTH.unpack_from(raw)[0]]
    how = "stuck" if stuck else f"process-ended-with-{worker.process.exitcode}"
    return Report(worker.target.name, failures=[Failure(how, data, f"The process of this target: {how}.\n")])


def _kill(worker: _Worker) -> None:
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()
    worker.reading.close()
