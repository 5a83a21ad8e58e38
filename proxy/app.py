"""The sidecar as a running process: everything is put together here, started, reloaded and stopped.

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
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from proxy import __version__
from proxy.admin.control import control_app
from proxy.admin.health import health_app
from proxy.admin.server import ListenFailed, Listening, listen
from proxy.config import ConfigError, Fault, digest, parse, read
from proxy.core.policy import Address, OnJournalFailure, Policy
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteBook, WriteEvent, WriteRecord
from proxy.dataplane.entrance import Entrance
from proxy.dataplane.plane import Plane
from proxy.net.dial import Dialer
from proxy.net.own import OwnPorts
from proxy.net.resolver import Resolver
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
WATCH_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 0.05
_WRITE_BRACES: Final = "write {} if the built-in policy is meant"


def journal_path(policy: Policy) -> Path:
    """Return where the journal is: as the policy says, else in the pod's volume where that is, else here."""
    if policy.journal.path is not None:
        return Path(policy.journal.path)
    return (IN_POD if IN_POD.is_dir() else HERE) / "journal.db"


class Sidecar:
    """One sidecar. `config`: the policy's file, None for the built-in policy. `run` is its whole life."""

    def __init__(self, config: Path | None, *, log: StepLog | None = None) -> None:
        """Read the policy. Raises ConfigError with every fault of it."""
        self._config = config
        self._text = read(config) if config is not None else ""
        self.started_with = parse(self._text, str(config)) if config is not None else Policy()
        self._log = log if log is not None else StepLog()
        self._metrics = Metrics()
        self._own = OwnPorts()
        self._resolver = Resolver()
        self._reloads = {"success": 0, "failure": 0}
        self._last_reload_failed = False
        self._journal = Journal(
            journal_path(self.started_with),
            self.started_with.journal.sync,
            self.started_with.journal.retention,
        )
        self._book = WriteBook()
        self._plane: Plane | None = None
        self._admin: list[Listening] = []
        self._server: asyncio.Server | None = None
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

    @property
    def writes(self) -> WriteBook:
        """The records of writes."""
        return self._book

    def policy(self) -> Policy:
        """Return the policy in force."""
        return self._plane.policy if self._plane is not None else self.started_with

    def unready(self) -> Sequence[str]:
        """Return why no calls can be sent through, in a sentence each."""
        if self._server is None:
            return ["The outbound port is not open yet."]
        return ["The sidecar is draining."] if self._stop.is_set() else []

    async def resolve(self, id: str, applied: bool) -> WriteRecord:
        """Keep what somebody found out about a write. Raises KeyError, WrongTransition, JournalError."""
        record = self._book.get(id)
        if record is None:
            raise KeyError(id)
        settled = replace(
            record.after(WriteEvent.FOUND_APPLIED if applied else WriteEvent.FOUND_ABSENT),
            resolved_by="operator",
        )
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if durable.cancelled():
                return
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)

        # Known at once, so that a late answer that arrives meanwhile is added to it rather than lost under it.
        self._book.put(settled)
        self._journal.put(settled, done)
        try:
            await durable
        except JournalError:
            if self._book.get(id) is settled:
                self._book.put(record)
            raise
        return settled

    # -- start -----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        logging.getLogger().addHandler(EventHandler(self._log))
        policy = self.started_with
        for record in self._open_journal(policy):
            self._book.put(record)
        self._journal.start(loop, self._forget)
        self._plane = Plane(
            loop=loop,
            clock=time.monotonic_ns,
            wall_ms=_steady(unix_ms()),
            policy=policy,
            dialer=Dialer(self._resolver, lambda: self.policy().connections, self._own),
            journal=self._journal,
            book=self._book,
            observer=Observer(self._log, self._metrics),
            name=secrets.token_hex(4),
            own=self._own,
        )
        self._watch_metrics(self._plane)
        self._server = await self._listen(self._plane, policy.listen.outbound)
        control = await listen(control_app(self, unix_ms), policy.listen.control, "listen.control")
        self._admin.append(control)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        # Last of all: whoever asks there is told that the sidecar is ready, and may do anything with it.
        health = await listen(health_app(self, self._metrics), policy.listen.metrics, "listen.metrics")
        self._admin.append(health)
        self._own.add(control.address.port)
        self._own.add(health.address.port)
        if self._config is not None:
            loop.call_later(WATCH_SECONDS, self._watch_file, _identity(self._config))
        gc.collect()
        gc.freeze()  # what has been built by now stays: the collector need not look at it again
        self._log.event(
            "started",
            version=__version__,
            mode=policy.mode,
            policy=digest(self._text),
            outbound=str(policy.listen.outbound),
            control=str(control.address),
            metrics=str(health.address),
            journal=str(self._journal.path),
            uncertain_writes=self._book.pending(),
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

    async def _listen(self, plane: Plane, address: Address) -> asyncio.Server:
        """Open the outbound port. Beside 127.0.0.1 also on ::1, where ip6tables redirects to."""
        loop = asyncio.get_running_loop()
        hosts = [address.host, "::1"] if address.host == "127.0.0.1" and _has_ipv6() else [address.host]
        try:
            server = await loop.create_server(lambda: Entrance(plane), hosts, address.port, backlog=BACKLOG)
        except OSError as error:
            raise ListenFailed("listen.outbound", address, error) from error
        for sock in server.sockets:
            self._own.add(sock.getsockname()[1])
        return server

    def _forget(self, ids: list[str]) -> None:
        """Take note of the records that the journal's retention has deleted."""
        for id in ids:
            self._book.drop(id)

    def _watch_metrics(self, plane: Plane) -> None:
        watch, journal = self._metrics.watch, self._journal
        watch("waterclock_step_records_dropped_total", lambda: self._log.dropped)
        watch("waterclock_log_write_errors_total", lambda: self._log.errors)
        watch("waterclock_steps_in_flight", lambda: plane.in_flight)
        watch("waterclock_budgets_open", lambda: plane.budgets.open_at(plane.clock()))
        watch("waterclock_client_connections", lambda: len(plane.clients))
        watch("waterclock_upstream_connections", plane.pool.counts)
        watch("waterclock_opaque_connections_active", lambda: len(plane.relays))
        watch("waterclock_uncertain_writes", self._book.pending)
        watch("waterclock_journal_commits_total", lambda: journal.commits)
        watch("waterclock_journal_failures_total", lambda: journal.failures)
        watch("waterclock_journal_healthy", lambda: int(journal.healthy))
        watch("waterclock_journal_size_bytes", lambda: journal.size)
        watch("waterclock_policy_reloads_total", lambda: self._reloads)
        watch("waterclock_policy_last_reload_successful", lambda: int(not self._last_reload_failed))
        inform = self._metrics.inform
        inform("waterclock_policy_info", lambda: {"digest": digest(self._text), "mode": plane.policy.mode})
        inform("waterclock_build_info", lambda: {"version": __version__})

    # -- reload ----------------------------------------------------------------------------------------------------

    def _watch_file(self, seen: tuple[int, ...] | None) -> None:
        """Reload when the file has become another one: edited, or exchanged by the kubelet."""
        assert self._config is not None
        now = _identity(self._config)
        if now != seen:
            self._reload()
        asyncio.get_running_loop().call_later(WATCH_SECONDS, self._watch_file, now)

    def _reload(self) -> None:
        """Put the file's policy in force, whole; a faulty one changes nothing."""
        if self._config is None or self._plane is None:
            self._log.event(
                "reload_ignored", problem="the sidecar was started without a file", remedy="run -c FILE"
            )
            return
        try:
            text = read(self._config)
            if not text.strip() and self._text.strip():
                raise ConfigError(
                    [Fault(str(self._config), None, "", "the file has become empty", _WRITE_BRACES)]
                )
            policy = parse(text, str(self._config))
        except ConfigError as error:
            self._reloads["failure"] += 1
            self._last_reload_failed = True
            self._log.event(
                "reload_failed", faults=[str(fault) for fault in error.faults], policy=digest(self._text)
            )
            return
        fixed = [
            name
            for name, before, after in (
                ("listen", self.started_with.listen, policy.listen),
                ("journal.path", self.started_with.journal.path, policy.journal.path),
                ("journal.sync", self.started_with.journal.sync, policy.journal.sync),
                ("journal.retention", self.started_with.journal.retention, policy.journal.retention),
            )
            if before != after
        ]
        self._plane.adopt(policy)
        self._text = text
        self._reloads["success"] += 1
        self._last_reload_failed = False
        self._log.event("reloaded", policy=digest(text), mode=policy.mode, needs_restart=fixed)

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
        except TimeoutError:
            self._log.event("grace_over", in_flight=plane.in_flight, lingering=len(plane.lingering))

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._plane is not None:
            self._plane.close()
            await asyncio.sleep(FLUSH_SECONDS)  # the last answers are on their way
        for listening in self._admin:
            await listening.close()
        await self._resolver.close()
        self._journal.close()
        if self._plane is not None:
            self._log.event("stopped")
        self._log.close()


def _steady(now_ms: int) -> Callable[[], int]:
    """Return Unix time in milliseconds that started at `now_ms` and only runs: a stepped clock frees no held write."""
    started = time.monotonic_ns()
    return lambda: now_ms + (time.monotonic_ns() - started) // MILLISECOND


def _has_ipv6() -> bool:
    """Say whether this machine (this pod) has an IPv6 loopback address."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is written or exchanged; None while there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


__all__ = ["JournalError", "ListenFailed", "Sidecar", "journal_path"]
