"""The tables: every key that a policy may hold, what reads it, and the attribute of `core.policy` that it becomes.

What is answered with less has its tables in `ladder`. `docs/policy.md` says what each key means; a test holds the two to each
other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Final

from proxy.config import attempts, egress, globs, json_values, ladder, network, stages
from proxy.config.reading import INLINE, ListOf, Reader, Section
from proxy.config.scalars import boolean, duration, integer, member, one_of, path, size, status
from proxy.core.calls import Kind
from proxy.core.policy import (
    FALLBACK,
    Address,
    BudgetDefaults,
    Connections,
    Correlation,
    Guard,
    Idempotency,
    Inbound,
    Journal,
    JournalSync,
    LedgerBounds,
    Listen,
    Match,
    Mode,
    OnJournalFailure,
    OnMissing,
    Policy,
    Protocol,
    Retries,
    Statuses,
    Tunnel,
    Verify,
    Writes,
)
from proxy.core.units import MILLISECOND

some_time: Final = duration(MILLISECOND)
any_time: Final = duration()
any_size: Final = size()

_NOWHERE: Final = Address("127.0.0.1", 0)  # stands for an address that is missing, until the fault is raised

INBOUND: Final = Section(
    lambda address=_NOWHERE, app=_NOWHERE, **rest: Inbound(address, app, **rest),
    {
        "address": (network.address, "address"),
        "app": (network.address, "app"),
        "measure_transit": (boolean, "measure_transit"),
    },
    required={
        "address": "add the IP address and port where entry requests arrive, like 0.0.0.0:10801",
        "app": "add the IP address and port that the app listens on, like 127.0.0.1:8080",
    },
)

LISTEN: Final = Section(
    Listen,
    {
        "outbound": (network.address, "outbound"),
        "inbound": (INBOUND, "inbound"),
        "control": (network.address, "control"),
        "metrics": (network.address, "metrics"),
    },
)


def _budget(**given: Any) -> BudgetDefaults:
    """Where no budget ever gets the default, and none is given, stages are shares of the longest one instead."""
    defaults = BudgetDefaults(**given)
    if defaults.order:
        defaults = replace(defaults, stages=stages.in_order(defaults.stages, defaults.order))
    if defaults.stages and "default" not in given and defaults.on_missing is not OnMissing.DEFAULT:
        return replace(defaults, default=defaults.max)
    return defaults


BUDGET: Final = Section(
    _budget,
    {
        "default": (some_time, "default"),
        "on_missing": (member(OnMissing), "on_missing"),
        "max": (some_time, "max"),
        "reserve": (any_time, "reserve"),
        "transit_allowance": (any_time, "transit_allowance"),
        "hop_allowance": (any_time, "hop_allowance"),
        "client_timer_margin": (any_time, "client_timer_margin"),
        "correlate": (ListOf(member(Correlation)), "correlate"),
        "width": (integer(1, 10_000), "width"),
        "depth": (integer(0, 1000), "depth"),
        "stages": (stages.shares, "stages"),
        "carry": (boolean, "carry"),
        "order": (ListOf(stages.stage), "order"),
    },
)

LEDGER: Final = Section(
    LedgerBounds,
    {
        "retention": (some_time, "retention"),
        "budgets": (integer(1, 1_000_000), "budgets"),
        "bytes": (any_size, "bytes"),
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

RETRIES: Final = Section(
    Retries,
    {
        "max": (integer(1, 100), "max"),
        "on": (attempts.endings, INLINE),
        "backoff": (Section(dict, {"base": (any_time, "base"), "cap": (any_time, "cap")}), INLINE),
        "budget": (
            Section(dict, {"ratio": (integer(0, 100), "ratio"), "floor": (integer(0, 10_000), "floor")}),
            INLINE,
        ),
    },
    # Readers of YAML 1.1, kubectl and Helm among them, take a plain `on` for the word `true`.
    aliases={"retry_on": "on", "true": "on"},
)

VERIFY: Final = Section(
    lambda path="/", **rest: Verify(path, **rest),
    {
        "method": (one_of({"GET": "GET", "HEAD": "HEAD"}), "method"),
        "path": (attempts.question, "path"),
        "applied": (
            Section(dict, {"status": (integer(200, 599), "status"), "json": (json_values.place, "json")}),
            INLINE,
        ),
    },
    required={"path": "add the path of the read, like /orders?key={idempotency_key}"},
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
    "stage": (stages.stage, "stage"),
    "concurrency": (integer(1, 100_000), "concurrency"),
    "serialize": (boolean, "serialize"),
    "queue": (Section(dict, {"size": (integer(0, 100_000), "queue")}), INLINE),
    "retries": (RETRIES, "retries"),
    "max_attempts": (integer(1, 1000), "max_attempts"),
    "verify": (VERIFY, "verify"),
    "on_cut": (ladder.on_cut, "truncate"),
    "truncate_margin": (ladder.margin, "truncate_margin"),
    "truncate_mark": (ladder.mark, "truncate_mark"),
    "ladder": (ladder.LADDER, "ladder"),
    "cache": (ladder.ROUTE_CACHE, "cache"),
    "degraded_body": (boolean, "degraded_body"),
}

FALLBACK_ROUTE: Final = Section(partial(ladder.route, FALLBACK.name), _TREATMENT)

ROUTE: Final = Section(
    ladder.route,
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
        "limit": (integer(1, 1_000_000), "limit"),
        "ledger": (LEDGER, "ledger"),
        "routes": (ListOf(ROUTE), "routes"),
        "fallback": (FALLBACK_ROUTE, "fallback"),
        "tunnel": (TUNNEL, "tunnel"),
        "egress": (egress.EGRESS, "egress"),
        "subscription": (Section(dict, {"idle": (some_time, "subscription_idle")}), INLINE),
        "connections": (CONNECTIONS, "connections"),
        "writes": (WRITES, "writes"),
        "journal": (JOURNAL, "journal"),
        "cache": (ladder.CACHE, "cache"),
        "answers": (
            Section(Statuses, {case.name: (status, case.name) for case in fields(Statuses)}),
            "statuses",
        ),
        "pods": (Section(dict, {"observe": (boolean, "pods_may_observe")}), INLINE),
        "shutdown": (Section(dict, {"grace": (any_time, "grace")}), INLINE),
    },
)
