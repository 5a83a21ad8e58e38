"""What is looked at in a soak: each series, where it is read, and what it may do.

The bounds are what an hour may add without anybody having to ask why: a leak of 400 bytes in a hundred calls, at two thousand
calls a second, is 28 MiB an hour, and one descriptor or task in ten thousand calls is 700.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.report import MIB
from trials.soak.level import Bound


@dataclass(frozen=True)
class Series:
    """One series. `source`: a name that `samples` gives a value. `unit`: what one of it is, in tables and plots, after it was
    divided by `scale`. `panel`: the plot that it is drawn in. Without a bound it is shown and not judged.

    `flows`: it follows the load of the moment, so that a machine which stands still for a second shows in it; a short soak
    does not judge it over time. `rest`: how much more of it there may be when the load is over than before it began. Without
    one that is not looked at: it stays for as long as it is kept.
    """

    name: str
    source: str
    panel: str
    unit: str = ""
    scale: float = 1.0
    bound: Bound | None = None
    flows: bool = False
    rest: float | None = None


_MEMORY: Final = Bound(4 * MIB, 1.5 * MIB)
_FILES: Final = Bound(20, 6)
_FEW: Final = Bound(20, 8, 0.1)
_MANY: Final = Bound(400, 60, 0.1)
_BYTES: Final = Bound(2 * MIB, MIB / 2, 0.05)

SERIES: Final = (
    Series("resident memory", "rss", "memory", "MiB", MIB, _MEMORY),
    Series("its own part (USS)", "uss", "memory", "MiB", MIB, _MEMORY),
    Series("with its share of the rest (PSS)", "pss", "memory", "MiB", MIB, _MEMORY),
    Series("descriptors", "fds", "descriptors", bound=_FILES, flows=True, rest=8),
    Series("tasks", "waterclock_tasks", "tasks and threads", bound=_FILES, rest=1),
    Series("threads", "threads", "tasks and threads", bound=Bound(4, 2), rest=4),
    Series("budgets known", "waterclock_ledger_budgets", "ledger: budgets", bound=_MANY),
    Series("budgets open", "waterclock_budgets_open", "ledger: budgets", bound=_MANY),
    Series("records", "waterclock_ledger_bytes", "ledger: bytes", "MiB", MIB, _BYTES),
    Series("journal", "waterclock_journal_size_bytes", "journal, on disk", "MiB", MIB, _BYTES),
    Series("uncertain writes", "waterclock_uncertain_writes", "writes in doubt", bound=_MANY),
    Series("dead letters", "waterclock_dead_letters", "writes in doubt", bound=_MANY),
    Series("steps", "waterclock_steps_in_flight", "in flight", bound=_FEW, flows=True, rest=0),
    Series("leases", "waterclock_leases_in_flight", "in flight", bound=_FEW, flows=True, rest=0),
    Series(
        "opaque connections",
        "waterclock_opaque_connections_active",
        "in flight",
        bound=_FEW,
        flows=True,
        rest=0,
    ),
    Series("clients", "waterclock_client_connections", "connections", bound=_FEW, flows=True, rest=0),
    Series("upstream, idle", "upstream_idle", "connections", bound=_FEW, flows=True, rest=0),
    Series("upstream, active", "upstream_active", "connections", bound=_FEW, flows=True, rest=0),
    Series("answers kept", "waterclock_cache_bytes", "cache", "MiB", MIB, _BYTES),
    Series("log not written yet", "waterclock_log_waiting_bytes", "log", "KiB", 1024, _BYTES, rest=0),
    Series("calls a second", "calls", "load: calls a second"),
    Series("core", "busy", "load: share of the core", "%", 0.01),
    Series("GET p50", "p50", "load: ms for a GET", "ms", bound=Bound(2, 1, 0.5), flows=True),
    Series("GET p99", "p99", "load: ms for a GET", "ms"),
)
