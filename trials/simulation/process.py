"""One process of the sidecar, from its start on what the disk holds to its exit or its death, and what it has said."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from proxy.app.desk import Desk
from proxy.app.sidecar import Sidecar
from proxy.core.entry import EntryRecord
from proxy.core.policy import JournalSync, Mode, OnJournalFailure, Policy
from proxy.core.step import StepRecord
from proxy.core.writes import WriteRecord
from proxy.dataplane.plane import Plane
from proxy.dataplane.step import Step
from proxy.observe.metrics import Metrics
from proxy.store.errors import JournalError
from trials.simulation.disk import SimulatedJournal
from trials.simulation.draws import Draws
from trials.simulation.loop import Loop
from trials.simulation.network import Kernel, Resolver
from trials.simulation.seams import Log, Ordered, PolicyFile
from trials.simulation.timers import KernelTimer

if TYPE_CHECKING:
    from trials.simulation.world import World

MOST_BURIED: Final = 10
"""How often it is looked for what the burial of others has brought up."""
WALL: Final = 1_700_000_000_000_000_000
"""The time of day at which a run begins (Unix nanoseconds)."""


class Process:
    """One life of the sidecar."""

    journal: SimulatedJournal
    plane: Plane | None = None
    desk: Desk

    def __init__(self, world: World, number: int, policy: Policy) -> None:
        """Be born; `start` runs it."""
        self.world = world
        self.number = number
        self.policy = policy
        self.name = f"{number:08x}"
        self.draws = Draws(world.seed, f"process {number}")
        self.faults: list[str] = []
        self.loop = Loop(world.clock, world.network, self.draws, self.faults)
        self.resolver: Any = Resolver(world.network, self.loop)
        self.file: Any = PolicyFile(policy)
        self.metrics = Metrics()
        self.timer = KernelTimer(self.loop, world.clock, self.draws) if self.draws.happens(0.5) else None
        self.records: list[StepRecord] = []
        self.entries: list[EntryRecord] = []
        self.lines: list[str] = []
        self.begun: dict[str, int] = {}
        """Which call a record's id belongs to: of all that has begun."""
        self.stood_behind: dict[str, int] = {}
        """How long a call had to wait for the earlier ones of its own connection (nanoseconds)."""
        self.ended = ""
        """How it has ended: `killed`, `exited`, `cannot start`, or what it has failed with."""
        self.policies = [policy]
        self.terminated_at: int | None = None
        self.ended_at: dict[str, int] = {}
        """When each record was left."""
        self.declared: set[str] = set()
        self.outcome_of: dict[str, str] = {}
        self.main: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run, from the next turn of its loop on."""
        self.loop.call_soon(self._run)

    def kill(self) -> None:
        """Let it die at once (`kill -9`)."""
        self._over("killed")

    def terminate(self) -> None:
        """Send it SIGTERM."""
        handler = self.world.network.signals.get(signal.SIGTERM)
        if handler is not None and self.alive:
            self.terminated_at = self.terminated_at or self.world.clock.now
            handler()

    def reload(self, policy: Policy) -> None:
        """Change what its policy's file says."""
        self.policy = policy
        self.policies.append(policy)
        self.loop.call_soon(self.file.change, policy)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not self.ended

    @property
    def lax(self) -> bool:
        """Whether some policy of its life was only to observe, or to send writes without a journal, when that had trouble."""
        continues = self.policy.journal.on_failure is OnJournalFailure.CONTINUE and self.world.disk.troubled
        return continues or any(policy.mode is Mode.OBSERVE for policy in self.policies)

    @property
    def ready(self) -> bool:
        """Whether it has come so far as to serve."""
        return self.alive and self.plane is not None and hasattr(self, "desk")

    @property
    def finished(self) -> dict[str, str]:
        """The outcomes of the calls that have ended, by their records."""
        return self.outcome_of

    def delivered(self, record: str) -> bool:
        """Say whether the whole answer to a call was handed over."""
        return self.outcome_of.get(record) == "completed"

    # -- what its parts ask for --------------------------------------------------------------------------------------

    def wall_ns(self) -> int:
        """Return the time of day."""
        return WALL + self.world.clock.now

    def open_journal(self, sync: JournalSync, retention: int) -> SimulatedJournal:
        """Return its journal."""
        disk = self.world.disk
        self.journal = SimulatedJournal(
            disk, disk.path, sync, retention, clock=self.loop.clock, declared=self._declares
        )
        return self.journal

    def build_plane(self, **services: Any) -> Plane:
        """Return its data plane, in which nothing is left to chance."""
        plane = self.plane = Plane(**services)
        plane.peers = Kernel(self.world.network, silent=self.draws.happens(0.2))
        plane.jitter = self.draws.random
        plane.clients = Ordered()  # type: ignore[assignment]
        plane.relays = Ordered()  # type: ignore[assignment]
        plane.lingering = Ordered()  # type: ignore[assignment]
        self.world.recovered(self)
        return plane

    def open_desk(self, desk: Desk) -> None:
        """Take the operators' desk."""
        self.desk = desk

    # -- what it says ------------------------------------------------------------------------------------------------

    def started(self, step: Step, head: Any, arrival: int) -> None:
        """Take note of a call that begins: at once, or after those that its client had asked for before."""
        self.stood_behind[step.record_id] = self.loop.clock() - arrival
        number = int(head.get(b"x-request-id") or b"0")
        self.begun[step.record_id] = number
        self.world.began(self, step.record_id, number)

    def withdrawn(self, record: str) -> None:
        """Take note that a CONNECT was no call, but the way for those that come through it: if any still does."""
        self.begun.pop(record, None)

    def renamed(self, before: str, record: str) -> None:
        """Take note that a call has another record than it began with: the one that its tunnel's client was told of."""
        if before != record:
            number = self.begun[record] = self.begun.pop(before)
            self.stood_behind[record] = self.stood_behind[before]
            self.world.began(self, record, number)

    def stepped(self, record: StepRecord) -> None:
        """Take note of a step that has ended."""
        self.records.append(record)
        self.outcome_of[record.record] = record.outcome
        self.world.left_its_record(self, record.record)
        self.world.note(self.name, f"record {record}")

    def entered(self, record: EntryRecord) -> None:
        """Take note of an entry request that has ended."""
        self.entries.append(record)
        self.outcome_of[record.record] = record.outcome
        self.world.note(self.name, f"entry {record}")

    def _declares(self, record: WriteRecord) -> None:
        self.world.declared(self, record)

    def bury(self) -> None:
        """Let go of the coroutines that it has left, whose clean-up is no part of what happened."""
        for task in (task for _ in range(MOST_BURIED) for task in self.loop.left()):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                coroutine = cast(Coroutine[Any, Any, Any], task.get_coro())
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    coroutine.throw(asyncio.CancelledError())
                coroutine.close()

    def _run(self) -> None:
        sidecar = Sidecar(None, log=Log(self))
        self.main = self.loop.create_task(sidecar.run(), name="main")
        self.main.add_done_callback(self._exited)

    def _exited(self, main: asyncio.Task[None]) -> None:
        if not self.alive:
            return
        error = None if main.cancelled() else main.exception()
        if isinstance(error, JournalError) and self.plane is None:
            self._over("cannot start")  # as its policy says, while the disk is in trouble
        else:
            self._over("exited" if error is None else f"failed: {error!r}")

    def _over(self, how: str) -> None:
        if self.ended:
            return
        self.ended = how
        self.loop.kill()
        worker = self.journal.worker if hasattr(self, "journal") else None
        if worker is not None:
            worker.kill()
        self.world.network.exit(self.loop)
        self.world.gone(self)
