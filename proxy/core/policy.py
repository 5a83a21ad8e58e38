"""The policy in force, as frozen values: what `config` reads from the file and every decision is made from.

Spans are nanoseconds, sizes bytes. The defaults here are the built-in ones: `Policy()` is a working sidecar that
breaks nobody on its first day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxy.core.calls import Kind, Outcome
from proxy.core.degrading import BUILT_IN_CACHE, CachePolicy, RouteCache, Rung
from proxy.core.egress import NOTHING_DENIED, Egress
from proxy.core.json_path import JsonPath
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from proxy.core.upstream import Upstream

MEBIBYTE: Final = 1024 * 1024


class Mode(StrEnum):
    """Whether decisions are applied, or only made and recorded."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class OnMissing(StrEnum):
    """What becomes of a call that states no budget."""

    DEFAULT = "default"
    REFUSE = "refuse"
    PASS = "pass"


class Correlation(StrEnum):
    """By what a call finds the budget it belongs to. `sole`: the one entry request that is open in this pod."""

    BUDGET_ID = "budget-id"
    PROXY_USER = "proxy-user"
    TRACEPARENT = "traceparent"
    SOLE = "sole"


class Guard(StrEnum):
    """How a repeat of an unresolved write is known."""

    FINGERPRINT = "fingerprint"
    KEY = "key"
    NONE = "none"


class JournalSync(StrEnum):
    """What an intent survives: `normal` the process, `full` the node (an fsync for each group of writes)."""

    NORMAL = "normal"
    FULL = "full"


class OnJournalFailure(StrEnum):
    """What becomes of writes while the journal cannot be written: refused, or sent on without a record on disk."""

    REFUSE = "refuse"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Address:
    """A host and port to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Inbound:
    """The inbound side: where entry requests arrive, and the app's own port, which it stands in front of.

    `measure_transit`: take half of the round trip that the kernel has measured off what an entry request states.
    """

    address: Address
    app: Address
    measure_transit: bool = False


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the sidecar listens. All of it is fixed at start; a reload cannot move a port."""

    outbound: Address = Address("127.0.0.1", 10800)
    control: Address = Address("127.0.0.1", 10802)
    metrics: Address = Address("0.0.0.0", 10803)  # noqa: S104 - scraped from outside the pod
    inbound: Inbound | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A named part of a budget: `span` of a budget of the default length, and in proportion of any other."""

    stage: str
    span: int


SLACK: Final = "slack"
"""The share that no call may claim: what is left for the unforeseen."""


@dataclass(frozen=True, slots=True)
class BudgetDefaults:
    """What holds for budgets that do not say otherwise. `carry`: what a stage leaves unused goes to those after it.

    `order`: the names of the stages in their order, where whoever passed the policy on may have lost it.
    """

    default: int = 5 * MINUTE
    on_missing: OnMissing = OnMissing.DEFAULT
    max: int = HOUR
    reserve: int = 0
    transit_allowance: int = 0
    hop_allowance: int = 0
    client_timer_margin: int = 50 * MILLISECOND
    correlate: tuple[Correlation, ...] = (Correlation.BUDGET_ID, Correlation.PROXY_USER, Correlation.SOLE)
    width: int | None = None
    depth: int | None = None
    stages: tuple[Share, ...] = ()
    carry: bool = False
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerBounds:
    """How long and how much the ledger keeps: a budget until `retention` after its end, in all `budgets` and `bytes`."""

    retention: int = 15 * MINUTE
    budgets: int = 20_000
    bytes: int = 16 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Match:
    """Which calls a route is for. Everything that is given must match; an empty match is every call.

    `host`: a glob over the name (`*.orders.internal`); `path`: a glob in which `*` stays within a segment and `**`
    does not; `methods`: upper-case names.
    """

    host: re.Pattern[str] | None = None
    path: re.Pattern[str] | None = None
    methods: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The header that carries a unit's key, and whether the other side is known to honour it."""

    header: bytes = b"idempotency-key"
    honoured: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """What the operator declares of a JSON-RPC or MCP service: names (globs) of methods and tools that only read."""

    read_methods: tuple[re.Pattern[str], ...] = ()
    read_tools: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Retries:
    """Which endings the sidecar tries again by itself, how often, and how long it waits before (full jitter).

    `statuses` are those of whole answers. `ratio` (a percentage of the route's recent calls) and `floor` (a second) are
    the retry budget: together the most that may be retried, so that a tool that fails is not buried in repetitions.
    """

    max: int = 2
    outcomes: frozenset[Outcome] = frozenset({Outcome.CONNECT_FAILED})
    statuses: frozenset[int] = frozenset()
    base: int = 50 * MILLISECOND
    cap: int = SECOND
    ratio: int = 20
    floor: int = 10


@dataclass(frozen=True, slots=True)
class Verify:
    """A read that tells whether a write happened. `path` has holes: `{idempotency_key}`, `{budget_id}`, `{record}`.

    The write was applied if the answer has `status` and, where `json` is given, a value there; it was not if the answer
    has `status` and no such value, or is a 404. Any other answer says nothing.
    """

    path: str
    method: str = "GET"
    status: int = 200
    json: JsonPath | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """A stream that runs out of time is closed in its own dialect, `margin` before its allowance ends, with `mark` in its text."""

    margin: int = 200 * MILLISECOND
    mark: str = "[response truncated]"


@dataclass(frozen=True, slots=True)
class Route:
    """What holds for the calls that match. `effect` None means: find the kind by the other rules.

    `ladder`: what to do with less time, the best first. `degraded_body`: what is less than asked says so in its JSON too.
    """

    name: str
    match: Match = Match()
    prefix: str | None = None
    upstream: Upstream | None = None
    originate_tls: bool = False
    ca: str | None = None
    cap: int | None = None
    min_start: int = 0
    effect: Kind | None = None
    protocol: Protocol = Protocol()
    guard: Guard = Guard.FINGERPRINT
    idempotency: Idempotency = Idempotency()
    propagate: bool = False
    stage: str | None = None
    concurrency: int | None = None
    serialize: bool = False
    queue: int = 64
    retries: Retries | None = None
    max_attempts: int | None = None
    verify: Verify | None = None
    ladder: tuple[Rung, ...] = ()
    cache: RouteCache | None = None
    truncate: Truncate | None = None
    degraded_body: bool = False

    @property
    def degrades(self) -> bool:
        """Whether there is a way to answer with less, or from the cache, so that its calls are held until they are known."""
        return bool(self.ladder) or self.cache is not None


FALLBACK: Final = Route("fallback")


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Opaque connections: which a CONNECT may open, and when a silent one closes.

    `quiet`: after the other side has answered, a silence of this length ends a burst.
    """

    idle: int = 5 * MINUTE
    quiet: int = 250 * MILLISECOND
    ports: frozenset[int] | None = None
    allow: tuple[re.Pattern[str], ...] = ()
    deny: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Writes:
    """How writes are held, guarded and listened for."""

    hold_back_bytes: int = MEBIBYTE
    hold_back_time: int = 250 * MILLISECOND
    fingerprint_bytes: int = MEBIBYTE
    linger: int = 10 * SECOND
    hold: int = 15 * MINUTE


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of writes. `path` None: `/var/lib/waterclock/journal.db` where that folder is, else a local one."""

    path: str | None = None
    retention: int = 24 * HOUR
    sync: JournalSync = JournalSync.NORMAL
    on_failure: OnJournalFailure = OnJournalFailure.REFUSE


@dataclass(frozen=True, slots=True)
class Connections:
    """Upstream connections of one origin: how many in all, how many being opened, how long one may lie idle.

    `proxy`: a parent proxy (`http://host:port`) for clusters that have one; `no_proxy`: the hosts, suffixes
    (`.svc`) and networks that are reached without it.
    """

    max: int = 1024
    opening: int = 64
    idle: int = 60 * SECOND
    proxy: Upstream | None = None
    no_proxy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statuses:
    """The status of each case of an answer that the sidecar gives itself."""

    refused: int = 403
    repeated: int = 424
    in_doubt: int = 424
    cut: int = 504
    connect_failed: int = 502
    connect_timeout: int = 504
    upstream_failed: int = 502
    shed: int = 503
    shed_late: int = 403
    journal_unavailable: int = 503
    loop: int = 508
    malformed: int = 400


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that the file can say."""

    mode: Mode = Mode.ENFORCE
    listen: Listen = Listen()
    budget: BudgetDefaults = BudgetDefaults()
    limit: int | None = None
    ledger: LedgerBounds = LedgerBounds()
    routes: tuple[Route, ...] = ()
    fallback: Route = FALLBACK
    tunnel: Tunnel = Tunnel()
    egress: Egress = NOTHING_DENIED
    subscription_idle: int = 5 * MINUTE
    writes: Writes = Writes()
    journal: Journal = Journal()
    connections: Connections = Connections()
    statuses: Statuses = Statuses()
    cache: CachePolicy = BUILT_IN_CACHE
    grace: int = 30 * SECOND
    pods_may_observe: bool = False
