"""Where the sidecar touches the world, and what it touches instead: sockets, clocks, the policy's file, the admin ports.

All of the data plane, the books, the journal, the dialer and the life of the process (`proxy.app.sidecar.Sidecar`) are the
real ones. What is exchanged are names in the modules that open something, for as long as a run lasts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import proxy.app.sidecar as sidecar_module
import proxy.net.connection as connection_module
import proxy.net.dial as dial_module
from proxy.core.entry import EntryRecord
from proxy.core.policy import Policy
from proxy.core.step import StepRecord
from proxy.core.units import MILLISECOND
from proxy.dataplane.plane import Plane
from proxy.dataplane.step import Step
from proxy.dataplane.tunnel import Connect
from proxy.dataplane.tunnelled import Passage
from proxy.observe.metrics import Metrics
from proxy.observe.observer import Observer
from proxy.observe.steplog import StepLog
from proxy.store.errors import JournalError
from trials.simulation.transport import Second

if TYPE_CHECKING:
    from trials.simulation.process import Process
    from trials.simulation.world import World

T = TypeVar("T")


class Ordered(dict[Any, None]):
    """A set that keeps the order in which its members came. That of a set of objects is that of their addresses."""

    def add(self, member: Any) -> None:
        """Take one."""
        self[member] = None

    def discard(self, member: Any) -> None:
        """Let go of one, if it is there."""
        self.pop(member, None)

    remove = discard


class PolicyFile:
    """The policy's file, in place of `proxy.app.policy_file.PolicyFile`: what it says is given to `change`."""

    digest = "simulated"

    def __init__(self, policy: Policy) -> None:
        """Say this."""
        self.started_with = policy
        self.reloads = {"success": 0, "failure": 0}
        self.last_failed = False
        self._adopt: Any = None

    def watch(self, adopt: Any) -> None:
        """Hand every further policy to `adopt`."""
        self._adopt = adopt

    def reload(self) -> None:
        """Nothing has changed."""

    def change(self, policy: Policy) -> None:
        """Say something else from now on."""
        if self._adopt is not None:
            self._adopt(policy)


class Watching(Observer):
    """The observer, which also keeps each record for the checks."""

    def __init__(self, log: StepLog, metrics: Metrics, process: Process) -> None:
        """Tell the process too."""
        super().__init__(log, metrics)
        self._process = process

    def step(self, record: StepRecord) -> None:
        """Take the record of a step."""
        super().step(record)
        self._process.stepped(record)

    def entry(self, record: EntryRecord) -> None:
        """Take the record of an entry request."""
        super().entry(record)
        self._process.entered(record)


class Log(StepLog):
    """The step log, whose lines go to the run. They are with the kernel at once, as for a pipe that somebody reads."""

    def __init__(self, process: Process) -> None:
        """Write to the process's list."""
        super().__init__(-1, clock=process.wall_ns)
        self._sink = _Lines(process.lines)  # type: ignore[assignment]


class _Lines:
    """What takes the lines, in place of the thread of `proxy.observe.sink`."""

    dropped = errors = 0

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def put(self, line: str) -> None:
        self._lines.append(line)

    def close(self, within: float) -> int:
        return 0


class _Listening:
    """An admin port that nobody knocks at."""

    def __init__(self, address: Any) -> None:
        self.address = address

    async def close(self) -> None:
        """Close."""


Exchange = tuple[Any, dict[str, Any]]
"""A module or class, and what its names stand for while a run lasts."""


@contextlib.contextmanager
def in_place(world: World) -> Iterator[None]:
    """Have the sidecar touch this world for as long as the block lasts."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for place, names in (*_overheard(world), _of_the_process(world), *_of_the_sockets(world)):
            for name, value in names.items():
                before.append((place, name, getattr(place, name)))
                setattr(place, name, value)
        yield
    finally:
        for place, name, value in reversed(before):
            setattr(place, name, value)


def _overheard(world: World) -> tuple[Exchange, ...]:
    """Return what is only listened to: which record a call has. And a text that would name a folder of the real disk."""
    begin, enter, tell = Step.__init__, Passage.enter, JournalError.__init__
    withdraw = Connect.withdraw

    def started(step: Step, plane: Plane, head: Any, arrival: int) -> None:
        begin(step, plane, head, arrival)
        world.process.started(step, head, arrival)

    def entered(passage: Passage, call: Step) -> None:
        before = call.record_id
        enter(passage, call)
        world.process.renamed(before, call.record_id)

    def withdrawn(connect: Connect) -> None:
        withdraw(connect)
        world.process.withdrawn(connect.record_id)

    def told(error: JournalError, path: Path, problem: str, remedy: str) -> None:
        tell(error, Path(path.name), problem, remedy)

    return (
        (Step, {"__init__": started}),
        (Passage, {"enter": entered}),
        (Connect, {"withdraw": withdrawn}),
        (JournalError, {"__init__": told}),
    )


def _of_the_process(world: World) -> Exchange:
    """Return what the process of the sidecar is made of: its services that touch something, its clock, its name."""

    async def listen(app: Any, address: Any, name: str) -> _Listening:
        return _Listening(address)

    def build_plane(**services: Any) -> Plane:
        return world.process.build_plane(**services)

    def monotonic_ns() -> int:
        return world.process.loop.clock()

    return sidecar_module, {
        "Journal": lambda path, sync, retention: world.process.open_journal(sync, retention),
        "Resolver": lambda: world.process.resolver,
        "PolicyFile": lambda path, pod, log: world.process.file,
        "Plane": build_plane,
        "Observer": lambda log, metrics: Watching(log, metrics, world.process),
        "Metrics": lambda: world.process.metrics,
        "listen": listen,
        "control_app": lambda desk, clock: world.process.open_desk(desk),
        "health_app": lambda *_: None,
        "raise_limit": lambda: None,
        "timer": lambda loop, clock: world.process.timer,
        "watch_bypasses": lambda *_: None,
        "unix_ms": lambda: world.process.wall_ns() // MILLISECOND,
        "time": SimpleNamespace(monotonic_ns=monotonic_ns),
        "secrets": SimpleNamespace(token_hex=lambda size: world.process.name),
        "gc": SimpleNamespace(collect=lambda: None, freeze=lambda: None),
        "logging": SimpleNamespace(getLogger=lambda: SimpleNamespace(addHandler=lambda handler: None)),
    }


def _of_the_sockets(world: World) -> tuple[Exchange, ...]:
    """Return what stands for sockets, and for what is asked of the kernel about them."""
    sockets = SimpleNamespace(socket=lambda fileno: _second(world, fileno), MSG_DONTWAIT=socket.MSG_DONTWAIT)
    kernel = {
        "os": SimpleNamespace(dup=lambda number: number),
        "socket": sockets,
        "select": SimpleNamespace(poll=lambda: _Poll(world), POLLIN=select.POLLIN),
        "fcntl": SimpleNamespace(ioctl=lambda number, request, size: _unsent(world, number)),
    }
    return (dial_module, {"_socket": world.network.socket}), (connection_module, kernel)


class _Poll:
    """Asks whether there is anything to read, as `select.poll` does."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._number = 0

    def register(self, number: int, mask: int) -> None:
        self._number = number

    def poll(self, timeout: int) -> list[tuple[int, int]]:
        sock = self._world.network.sockets.get(self._number)
        end = sock.end if sock is not None else None
        ready = end is not None and (end.inbox or end.ended or end.reset)
        return [(self._number, select.POLLIN)] if ready else []


def _second(world: World, number: int) -> Second:
    sock = world.network.sockets.get(number)
    if sock is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return sock.dup()


def _unsent(world: World, number: int) -> bytes:
    sock = world.network.sockets.get(number)
    if sock is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return sock.unsent().to_bytes(4, "little")
