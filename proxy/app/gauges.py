"""What a scrape reads of a running sidecar, beside what the metrics count by themselves."""

from __future__ import annotations

import asyncio
from typing import Final

from proxy import __version__
from proxy.app.bypass_gauge import BypassGauge
from proxy.app.policy_file import PolicyFile
from proxy.dataplane.door import Door, Why
from proxy.dataplane.plane import Plane
from proxy.observe.metrics import Metrics
from proxy.observe.steplog import StepLog
from proxy.store.journal import Journal


def watch_all(metrics: Metrics, plane: Plane, journal: Journal, log: StepLog, file: PolicyFile) -> None:
    """Tell the metrics where to read."""
    watch, scheduler = metrics.watch, plane.scheduler
    watch("waterclock_step_records_dropped_total", lambda: log.dropped)
    watch("waterclock_log_write_errors_total", lambda: log.errors)
    watch("waterclock_log_waiting_bytes", lambda: log.waiting)
    watch("waterclock_tasks", lambda: len(asyncio.all_tasks()))
    watch("waterclock_steps_in_flight", lambda: plane.in_flight)
    watch("waterclock_leases_in_flight", lambda: scheduler.leases)
    watch("waterclock_queue_depth", scheduler.queued)
    watch(
        "waterclock_worker_slots_taken",
        lambda: {name: taken for name, (taken, _) in scheduler.slots().items()},
    )
    watch(
        "waterclock_worker_slots_limit",
        lambda: {name: limit for name, (_, limit) in scheduler.slots().items()},
    )
    watch("waterclock_budgets_open", lambda: plane.budgets.open)
    watch("waterclock_ledger_budgets", lambda: len(plane.budgets))
    watch("waterclock_ledger_bytes", lambda: plane.budgets.bytes)
    watch("waterclock_client_connections", lambda: len(plane.clients))
    watch("waterclock_upstream_connections", plane.pool.counts)
    watch("waterclock_opaque_connections_active", lambda: len(plane.relays))
    watch("waterclock_cache_bytes", lambda: plane.cache.bytes)
    watch("waterclock_cache_entries", lambda: plane.cache.entries)
    watch("waterclock_uncertain_writes", plane.book.pending)
    watch("waterclock_dead_letters", plane.book.dead)
    watch("waterclock_journal_commits_total", lambda: journal.commits)
    watch("waterclock_journal_failures_total", lambda: journal.failures)
    watch("waterclock_journal_healthy", lambda: int(journal.healthy))
    watch("waterclock_journal_size_bytes", lambda: journal.size)
    watch("waterclock_policy_reloads_total", lambda: file.reloads)
    watch("waterclock_policy_last_reload_successful", lambda: int(not file.last_failed))
    inform = metrics.inform
    inform("waterclock_policy_info", lambda: {"digest": file.digest, "mode": plane.policy.mode})
    inform("waterclock_build_info", lambda: {"version": __version__})


def watch_bypasses(metrics: Metrics, gauge: BypassGauge) -> None:
    """Tell the metrics where to read what goes past the sidecar."""
    metrics.before_scrape(gauge.refresh)
    metrics.watch("waterclock_bypass_connections", gauge.counts)


def watch_door(metrics: Metrics, door: Door) -> None:
    """Tell the metrics where to read who was turned away."""
    metrics.watch("waterclock_clients_refused_total", lambda: door.turned_away)


_REFUSED: Final = {
    Why.OUTSIDE: (
        "somebody outside the pod has connected to the outbound port",
        "listen on 127.0.0.1 (listen.outbound), and see who that is",
    ),
    Why.CROWDED: (
        "as many clients are connected as leave room for what they call",
        "see who connects that often, or raise the limit on open files (ulimit -n)",
    ),
}


def tell_of_refused(log: StepLog, why: Why, address: str, since: int) -> None:
    """Log that clients are turned away."""
    problem, remedy = _REFUSED[why]
    log.event("client_refused", why=why, peer=address, since_last=since, problem=problem, remedy=remedy)
