"""The tables: every key that a policy may hold, what reads it, and the attribute of `core.policy` that it becomes.

`docs/policy.md` says what each of them means; a test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Final

from proxy.config import globs, network
from proxy.config.reading import INLINE, ListOf, Reader, Section
from proxy.config.scalars import boolean, duration, integer, member, one_of, path, size, status
from proxy.core.calls import Kind
from proxy.core.policy import (
    FALLBACK,
    BudgetDefaults,
    Connections,
    Correlation,
    Guard,
    Idempotency,
    Journal,
    JournalSync,
    Listen,
    Match,
    Mode,
    OnJournalFailure,
    OnMissing,
    Policy,
    Protocol,
    Route,
    Statuses,
    Tunnel,
    Writes,
)
from proxy.core.units import MILLISECOND

_ROUTE_KEYS_TO_COME: Final = (
    "stage",
    "retries",
    "concurrency",
    "queue",
    "max_attempts",
    "verify",
    "serialize",
    "on_cut: truncate",
    "ladder",
    "cache",
)

# Keys and values of the contract that this version does not have yet: refused, so that nobody relies on them.
# A row goes when its key is built.
NOT_BUILT: Final = frozenset(
    {
        "listen.inbound",
        "budget.correlate[]: sole",
        "budget.width",
        "budget.stages",
        "limit",
        *(f"routes[].{row}" for row in _ROUTE_KEYS_TO_COME),
        *(f"fallback.{row}" for row in _ROUTE_KEYS_TO_COME),
    }
)

some_time: Final = duration(MILLISECOND)
any_time: Final = duration()
any_size: Final = size()

LISTEN: Final = Section(
    Listen,
    {
        "outbound": (network.address, "outbound"),
        "control": (network.address, "control"),
        "metrics": (network.address, "metrics"),
    },
)

BUDGET: Final = Section(
    BudgetDefaults,
    {
        "default": (some_time, "default"),
        "on_missing": (member(OnMissing), "on_missing"),
        "max": (some_time, "max"),
        "reserve": (any_time, "reserve"),
        "transit_allowance": (any_time, "transit_allowance"),
        "hop_allowance": (any_time, "hop_allowance"),
        "client_timer_margin": (any_time, "client_timer_margin"),
        "correlate": (ListOf(member(Correlation)), "correlate"),
        "depth": (integer(0, 1000), "depth"),
    },
)

MATCH: Final = Section(
    Match,
    {
        "host": (globs.host, "host"),
        "path": (globs.path, "path"),
        "methods": (ListOf(network.method, frozenset, at_least=1), "methods"),
    },
)

IDEMPOTENCY: Final = Section(
    Idempotency,
    {
        "header": (network.header, "header"),
        "honoured": (boolean, "honoured"),
    },
)

PROTOCOL: Final = Section(
    Protocol,
    {
        "read_methods": (ListOf(globs.name), "read_methods"),
        "read_tools": (ListOf(globs.name), "read_tools"),
    },
)

# What can be said of calls without saying which: the keys of `fallback`, and of each route.
_EFFECTS: Final[Mapping[str, Kind | None]] = {
    "auto": None,
    "read": Kind.READ,
    "idempotent": Kind.IDEMPOTENT,
    "write": Kind.WRITE,
}
_TREATMENT: Final[Mapping[str, tuple[Reader, str]]] = {
    "ca": (network.certificates, "ca"),
    "cap": (some_time, "cap"),
    "min_start": (any_time, "min_start"),
    "effect": (one_of(_EFFECTS), "effect"),
    "protocol": (PROTOCOL, "protocol"),
    "guard": (member(Guard), "guard"),
    "idempotency": (IDEMPOTENCY, "idempotency"),
    "propagate": (boolean, "propagate"),
    "on_cut": (one_of({"error": {}}), INLINE),  # the only way there is: nothing to keep
}

FALLBACK_ROUTE: Final = Section(partial(Route, FALLBACK.name), _TREATMENT)

ROUTE: Final = Section(
    lambda name="", **rest: Route(name, **rest),
    {
        "name": (network.route_name, "name"),
        "match": (MATCH, "match"),
        "prefix": (network.prefix, "prefix"),
        "upstream": (network.upstream, "upstream"),
        "tls": (one_of({"originate": True}), "originate_tls"),
        **_TREATMENT,
    },
    required={"name": "give the route the name that records and metrics show"},
)

TUNNEL: Final = Section(
    Tunnel,
    {
        "idle": (some_time, "idle"),
        "quiet": (some_time, "quiet"),
        "ports": (ListOf(network.port, frozenset), "ports"),
        "allow": (ListOf(globs.host), "allow"),
        "deny": (ListOf(globs.host), "deny"),
    },
)

CONNECTIONS: Final = Section(
    Connections,
    {
        "max": (integer(1, 65535), "max"),
        "opening": (integer(1, 65535), "opening"),
        "idle": (some_time, "idle"),
        "proxy": (network.parent_proxy, "proxy"),
        "no_proxy": (ListOf(network.bypass), "no_proxy"),
    },
)

WRITES: Final = Section(
    Writes,
    {
        "hold_back": (
            Section(dict, {"bytes": (any_size, "hold_back_bytes"), "time": (any_time, "hold_back_time")}),
            INLINE,
        ),
        "fingerprint_bytes": (any_size, "fingerprint_bytes"),
        "linger": (any_time, "linger"),
        "hold": (any_time, "hold"),
    },
)

JOURNAL: Final = Section(
    Journal,
    {
        "path": (path, "path"),
        "retention": (some_time, "retention"),
        "sync": (member(JournalSync), "sync"),
        "on_failure": (member(OnJournalFailure), "on_failure"),
    },
)

POLICY: Final = Section(
    Policy,
    {
        "mode": (member(Mode), "mode"),
        "listen": (LISTEN, "listen"),
        "budget": (BUDGET, "budget"),
        "routes": (ListOf(ROUTE), "routes"),
        "fallback": (FALLBACK_ROUTE, "fallback"),
        "tunnel": (TUNNEL, "tunnel"),
        "subscription": (Section(dict, {"idle": (some_time, "subscription_idle")}), INLINE),
        "connections": (CONNECTIONS, "connections"),
        "writes": (WRITES, "writes"),
        "journal": (JOURNAL, "journal"),
        "answers": (
            Section(Statuses, {case.name: (status, case.name) for case in fields(Statuses)}),
            "statuses",
        ),
        "shutdown": (Section(dict, {"grace": (any_time, "grace")}), INLINE),
    },
)
