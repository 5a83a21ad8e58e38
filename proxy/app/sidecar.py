"""The sidecar's life: everything is put together here, started, drained and stopped.

Order matters. The journal is opened before anything listens, so that no write can pass without it; the ports are open
before the sidecar calls itself ready; on the way down it calls itself unready first, gives the calls in flight what is
left of their budgets within a grace, and closes the journal last.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from proxy import __version__
from proxy.admin.control import control_app
from proxy.admin.health import health_app
from proxy.admin.server import ListenFailed, Listening, listen
from proxy.app.bypass_gauge import BypassGauge
from proxy.app.caching import Caching
from proxy.app.desk import Desk
from proxy.app.gauges import tell_of_refused, watch_all, watch_bypasses, watch_door
from proxy.app.policy_file import PolicyFile
from proxy.core.pod import PodTerms
from proxy.core.policy import Address, Mode, OnJournalFailure, Policy
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteBook, WriteRecord, WriteState
from proxy.dataplane.door import Door
from proxy.dataplane.entrance import Entrance, InboundEntrance
from proxy.dataplane.plane import Plane
from proxy.net.bypass import BypassWatch
from proxy.net.descriptors import raise_limit
from proxy.net.dial import Barrier, Dialer
from proxy.net.families import hosts
from proxy.net.own import OwnPorts
from proxy.net.resolver import Resolver
from proxy.net.timer import timer
from proxy.observe.handler import EventHandler
from proxy.observe.metrics import Metrics
from proxy.observe.observer import Observer
from proxy.observe.steplog import StepLog
from proxy.observe.walltime import unix_ms
from proxy.store.errors import JournalError, JournalInUse
from proxy.store.journal import Journal

IN_POD: Final = Path("/var/lib/waterclock")
HERE: Final = Path(".waterclock")
BACKLOG: Final = 4096
ATTEND_SECONDS: Final = 0.25
FLUSH_SECONDS: Final = 0.05


def journal_path(policy: Policy) -> Path:
    """Return where the journal is: as the policy says, else in the pod's volume where that is, else here."""
    if policy.journal.path is not None:
        return Path(policy.journal.path)
    return (IN_POD if IN_POD.is_dir() else HERE) / "journal.db"


class Sidecar:
    """One sidecar. `config`: the policy's file, None for the built-in policy. `run` is its whole life.

    `pod`: what the pod that it stands in says beside the policy.
    """

    def __init__(
        self, config: Path | None, *, pod: PodTerms | None = None, log: StepLog | None = None
    ) -> None:
        """Read the policy. Raises ConfigError with every fault of it."""
        self._log = log if log is not None else StepLog()
        self._pod = pod if pod is not None else PodTerms()
        self._file = PolicyFile(config, self._pod, self._log)
        self.started_with = self._file.started_with
        self._metrics = Metrics()
        self._observer = Observer(self._log, self._metrics)
        self._own = OwnPorts()
        self._resolver = Resolver()
        self._journal = Journal(
            journal_path(self.started_with),
            self.started_with.journal.sync,
            self.started_with.journal.retention,
        )
        self._book = WriteBook()
        self._plane: Plane | None = None
        self._admin: list[Listening] = []
        self._server: asyncio.Server | None = None
        self._inbound: asyncio.Server | None = None
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Start, serve until SIGTERM or SIGINT, drain, stop. Raises ListenFailed or JournalError when it cannot start."""
        try:
            await self._start()
            await self._stop.wait()
            await self._drain()
        finally:
            await self._close()

    # -- what others see of it -------------------------------------------------------------------------------------

    def policy(self) -> Policy:
        """Return the policy in force."""
        return self._plane.policy if self._plane is not None else self.started_with

    def _barrier(self) -> Barrier:
        policy = self.policy()
        return Barrier(policy.egress, policy.mode is Mode.ENFORCE)

    def unready(self) -> Sequence[str]:
        """Return why no calls can be sent through, in a sentence each."""
        if self._server is None:
            return ["The outbound port is not open yet."]
        return ["The sidecar is draining."] if self._stop.is_set() else []

    # -- start -----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        raise_limit()
        logging.getLogger().addHandler(EventHandler(self._log))
        policy = self.started_with
        for record in self._open_journal(policy):
            self._book.put(record)
        self._journal.start(loop, self._forget)
        dialer = Dialer(self._resolver, lambda: self.policy().connections, self._own, self._barrier)
        self._plane = Plane(
            loop=loop,
            clock=time.monotonic_ns,
            wall_ms=_steady(unix_ms()),
            policy=policy,
            dialer=dialer,
            journal=self._journal,
            book=self._book,
            observer=self._observer,
            name=secrets.token_hex(4),
            own=self._own,
            timer=timer(loop, time.monotonic_ns),
        )
        caching = Caching(self._plane, dialer, self._log)
        caching.adopt(policy)
        watch_all(self._metrics, self._plane, self._journal, self._log, self._file)
        watch_bypasses(self._metrics, self._bypass_gauge(policy.listen.outbound.port))
        desk = Desk(self._plane, self._journal, self._log)
        await self._let_calls_in(self._plane)
        control = await listen(control_app(desk, unix_ms), policy.listen.control, "listen.control")
        self._admin.append(control)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._file.reload)
        # Last of all: whoever asks there is told that the sidecar is ready, and may do anything with it.
        health = await listen(health_app(self, self._metrics), policy.listen.metrics, "listen.metrics")
        self._admin.append(health)
        self._own.add(control.address.port)
        self._own.add(health.address.port)
        self._file.watch(partial(_adopt, self._plane, caching))
        self._plane.verifier.resume()
        loop.call_later(ATTEND_SECONDS, self._attend)
        gc.collect()
        gc.freeze()  # what has been built by now stays: the collector need not look at it again
        self._log.event(
            "started",
            version=__version__,
            mode=policy.mode,
            policy=self._file.digest,
            outbound=str(policy.listen.outbound),
            control=str(control.address),
            metrics=str(health.address),
            inbound=str(policy.listen.inbound.address) if policy.listen.inbound is not None else None,
            journal=str(self._journal.path),
            uncertain_writes=self._book.pending(),
        )

    async def _let_calls_in(self, plane: Plane) -> None:
        """Open the ports that calls come through, with one door for all of them."""
        ports = self.started_with.listen
        door = Door(plane.connected, time.monotonic_ns, partial(tell_of_refused, self._log))
        watch_door(self._metrics, door)
        self._server = await self._listen(partial(Entrance, plane, door), ports.outbound, "listen.outbound")
        if ports.inbound is not None:
            self._inbound = await self._listen(
                partial(InboundEntrance, plane, door), ports.inbound.address, "listen.inbound"
            )

    def _open_journal(self, policy: Policy) -> list[WriteRecord]:
        """Return what is on record. Raises JournalError, unless the policy says to go on without a journal."""
        try:
            return self._journal.open(unix_ms())
        except JournalInUse:
            raise
        except JournalError as error:
            if policy.journal.on_failure is OnJournalFailure.REFUSE:
                raise
            self._log.event(
                "journal_unavailable", problem=str(error), consequence="writes are sent without a record"
            )
            return []

    def _bypass_gauge(self, outbound: int) -> BypassGauge:
        """Return the gauge of leaks. Outside of a pod other programs have connections too, and none of them is a leak."""
        watch = BypassWatch(outbound, self._pod.exclude_ports, self._pod.exclude_cidrs)
        return BypassGauge(watch, self._log if self._pod.standard else None, time.monotonic_ns)

    async def _listen(
        self, entrance: Callable[[], asyncio.Protocol], address: Address, key: str
    ) -> asyncio.Server:
        """Open a port for calls: the outbound one, or the inbound side in front of the agent's own."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(entrance, hosts(address.host), address.port, backlog=BACKLOG)
        except OSError as error:
            raise ListenFailed(key, address, error) from error
        for sock in server.sockets:
            self._own.add(sock.getsockname()[1])
        return server

    def _attend(self) -> None:
        """See to what time alone brings, every now and then."""
        assert self._plane is not None
        self._plane.attend()
        asyncio.get_running_loop().call_later(ATTEND_SECONDS, self._attend)

    def _forget(self, ids: list[str]) -> None:
        """Take note of the records that the journal's retention has deleted."""
        for id in ids:
            self._book.drop(id)

    # -- stop ------------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Let calls in flight end, each within its own budget, and all within the grace."""
        assert self._plane is not None
        plane = self._plane
        self._log.event("draining", in_flight=plane.in_flight, lingering=len(plane.lingering))
        plane.drain()
        try:
            async with asyncio.timeout(plane.policy.grace / SECOND):
                await plane.quiet.wait()
                while plane.in_flight or plane.lingering:  # who has come in since, before this was heard
                    plane.quiet.clear()
                    await plane.quiet.wait()
        except TimeoutError:
            self._log.event("grace_over", in_flight=plane.in_flight, lingering=len(plane.lingering))

    async def _close(self) -> None:
        for server in (self._server, self._inbound):
            if server is not None:
                server.close()
        if self._plane is not None:
            self._plane.close()
            await asyncio.sleep(FLUSH_SECONDS)  # the last answers are on their way
            self._tell_unresolved()
        for listening in self._admin:
            await listening.close()
        await self._resolver.close()
        self._journal.close()
        if self._plane is not None:
            self._plane.alarms.close()
            self._log.event("stopped")
        self._log.close()

    def _tell_unresolved(self) -> None:
        """Name each write that is uncertain: in a pod the journal goes with its volume, and only the log remains."""
        for record in self._book.listed():
            if record.state is WriteState.UNCERTAIN:
                self._observer.left(record)


def _adopt(plane: Plane, caching: Caching, policy: Policy) -> None:
    """Put a new policy in force, with the places outside that it names."""
    plane.adopt(policy)
    caching.adopt(policy)


def _steady(now_ms: int) -> Callable[[], int]:
    """Return Unix time in milliseconds that started at `now_ms` and only runs: a stepped clock frees no held write."""
    started = time.monotonic_ns()
    return lambda: now_ms + (time.monotonic_ns() - started) // MILLISECOND
