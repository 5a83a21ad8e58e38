"""Starting, measuring and stopping one process.

What is counted is always the whole process tree: a server that hands its work to a child is charged for it.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
READY_WITHIN: Final = 20.0
STOP_WITHIN: Final = 10.0
FILES: Final = 65_536
_INTERRUPTIONS: Final = (signal.SIGINT, signal.SIGTERM)
_PAUSE: Final = 0.001
_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Missing(Exception):
    """A program that this benchmark needs is not installed."""


class Failed(Exception):
    """A program did not do what the benchmark needs of it."""


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def find(command: str, package: str) -> str:
    """The path of a program, looked for beside this interpreter first, then on PATH."""
    beside = Path(sys.executable).parent / command
    path = str(beside) if beside.is_file() else shutil.which(command)
    if path is None:
        raise Missing(f"{command} is not installed: {package}")
    return path


def file_limit() -> int:
    """How many files a process of ours may have open. Raised first, as far as it goes: many shells start at 1,024."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(most, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
        return wanted
    return FILES if soft == resource.RLIM_INFINITY else soft


def free_port() -> int:
    """A free port below the range from which the kernel takes the near ends of outgoing connections."""
    for _ in range(200):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise Failed("found no free port between 20000 and 32000")


def free_ports(count: int) -> list[int]:
    """So many of them, each another one."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


@dataclass(frozen=True)
class Cores:
    """Which core each side runs on. `None` leaves the placing to the kernel."""

    proxy: int | None
    load: int | None

    @classmethod
    def choose(cls) -> Cores:
        allowed = sorted(os.sched_getaffinity(0))
        return cls(allowed[0], allowed[1]) if len(allowed) > 1 else cls(None, None)


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Children started inside stay on `core`. Set here, not with taskset, so that no extra exec counts as start-up."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class Plan:
    """How to start one process: what to run, where it listens, where it says that it is ready, where it logs.

    `ready_any`: it has no address that says so, and is ready when anything is answered, whatever the status.
    """

    name: str
    argv: tuple[str, ...]
    port: int
    ready_port: int
    ready_path: str
    log: Path
    room: Path
    ready_any: bool = False

    @property
    def errors(self) -> Path:
        return self.room / f"{self.name}.err"


@dataclass(frozen=True)
class Running:
    plan: Plan
    process: subprocess.Popen[bytes]
    ready_ms: float

    def cpu_seconds(self) -> float:
        return sum(_cpu_ticks(pid) for pid in _tree(self.process.pid)) / _TICK

    def rss_bytes(self) -> int:
        return sum(_resident_pages(pid) for pid in _tree(self.process.pid)) * _PAGE

    def must_run(self) -> None:
        """A proxy that fell over under load would otherwise show as an idle one."""
        if self.process.poll() is not None:
            output = _tail(self.plan.errors, self.plan.log)
            raise Failed(f"{self.plan.name} ended with {self.process.returncode} under load\n{output}")

    def trim_log(self) -> int:
        """Empties the log between rounds, and says how much it held. It is open for appending, so writing goes on."""
        if not self.plan.log.exists():
            return 0
        size = self.plan.log.stat().st_size
        os.truncate(self.plan.log, 0)
        return size


@contextmanager
def _held_back() -> Iterator[None]:
    """An interruption waits for the end of the block: within Popen it would lose a process that has just begun."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no interruption is raised in another thread
        return
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in _INTERRUPTIONS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def running(plan: Plan, core: int | None) -> Iterator[Running]:
    """The process, started and ready; stopped with its whole group on the way out."""
    process = None
    try:
        with plan.log.open("ab") as out, plan.errors.open("ab") as err, pinned(core), _held_back():
            began = time.monotonic()
            process = subprocess.Popen(
                plan.argv, cwd=plan.room, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0
            )
        yield Running(plan, process, _await_ready(plan, process, began))
    finally:
        if process is not None:
            _stop(process)


def _await_ready(plan: Plan, process: subprocess.Popen[bytes], began: float) -> float:
    while time.monotonic() - began < READY_WITHIN:
        if _answers(plan):
            return (time.monotonic() - began) * 1000
        if process.poll() is not None:
            output = _tail(plan.errors, plan.log)
            raise Failed(f"{plan.name} ended with {process.returncode} before it was ready\n{output}")
        time.sleep(_PAUSE)
    raise Failed(f"{plan.name} was not ready within {READY_WITHIN:.0f} s\n{_tail(plan.errors, plan.log)}")


def _answers(plan: Plan) -> bool:
    place = (HOST, plan.ready_port)
    request = f"GET {plan.ready_path} HTTP/1.1\r\nHost: {HOST}:{plan.ready_port}\r\nConnection: close\r\n\r\n"
    wanted = (b"HTTP/1.",) if plan.ready_any else (b"HTTP/1.1 200", b"HTTP/1.0 200")
    try:
        with socket.create_connection(place, timeout=1.0) as link:
            link.sendall(request.encode())
            return link.recv(64).startswith(wanted)
    except OSError:
        return False


def _tail(*files: Path) -> str:
    texts = (file.read_text(errors="replace")[-1500:].strip() for file in files if file.exists())
    return "\n".join(text for text in texts if text)


def _stop(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired:
        progress(f"process {process.pid} did not end within {STOP_WITHIN:.0f} s of SIGTERM; killing it")
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(int(_stat_fields(int(entry.name))[1]), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def _stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat from the third field on; the second, the name, may itself hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu_ticks(pid: int) -> int:
    with suppress(OSError):
        fields = _stat_fields(pid)
        return int(fields[11]) + int(fields[12])
    return 0


def _resident_pages(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return 0


def core_busy_seconds(core: int | None) -> float:
    """How long a core has worked since boot, for whomever: shows what else ran beside the proxy."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, ticks)
            return (user + nice + system + irq + softirq) / _TICK
    return 0.0
