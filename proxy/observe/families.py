"""Every family of metrics that a scrape can show, with its words. The names are part of the contract.

Labels are names of routes, rungs and stages and words of a fixed vocabulary, never hosts, paths or ids, so the number of
series is bounded by the policy. Spans are milliseconds here, as records have them, and seconds in a scrape.

docs/metrics.md shows the same list to those who read a scrape.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Type(StrEnum):
    """What kind of number a family is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class Family(NamedTuple):
    """One family. An info's labels come with its values.

    `bounds` are a histogram's, in the unit of the values that it is given; `scale` of those make one of the unit that a
    scrape shows.
    """

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    scale: int = 1000


def _by_name(*families: Family) -> dict[str, Family]:
    return {family.name: family for family in families}


def _floats(*bounds: float) -> tuple[float, ...]:
    """Return bounds that are compared with measurements without being made into floats each time."""
    return tuple(float(bound) for bound in bounds)


_SPANS: Final = _floats(
    1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000
)
_WAITS: Final = _floats(0.1, 0.5, 1, 5, 10, 50, 100, 500, 1000, 5000, 30_000)
_ALLOWANCES: Final = _floats(
    10, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 3_600_000
)
_OVERHEADS: Final = _floats(
    0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 25, 50, 100
)
_SHARES: Final = _floats(0, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1)
_USES: Final = _floats(
    0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.1, 1.25, 1.5, 2
)
_LATENESS: Final = _floats(0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)

C, G, H, I = Type.COUNTER, Type.GAUGE, Type.HISTOGRAM, Type.INFO  # noqa: E741 - a column of the table

# What `Metrics` counts itself, from the records.
STEPS: Final = Family(
    "waterclock_steps_total",
    C,
    "Steps that have ended, by what they were, how they ended and what is known of their effect.",
    ("route", "kind", "outcome", "effect"),
)
REFUSALS: Final = Family(
    "waterclock_step_refusals_total",
    C,
    "Steps that were never sent because the budget or the policy said no (outcome refused).",
    ("route", "reason"),
)
SHEDS: Final = Family(
    "waterclock_step_sheds_total",
    C,
    "Steps that were never sent because admission said not now (outcome shed).",
    ("route", "reason"),
)
CUTS: Final = Family(
    "waterclock_step_cuts_total",
    C,
    "Steps that were cut at their allowance, by the limit that had made the allowance what it was.",
    ("route", "limit"),
)
FAILURES: Final = Family(
    "waterclock_step_failures_total",
    C,
    "Steps that failed on the way to the tool or back (outcomes connect_failed and upstream_failed).",
    ("route", "reason"),
)
WOULD: Final = Family(
    "waterclock_step_would_total",
    C,
    "Steps that were let through by mode observe, by what mode enforce would have done to them.",
    ("route", "would"),
)
DURATION: Final = Family(
    "waterclock_step_duration_seconds",
    H,
    "Time from the arrival of a step's request head to its end.",
    ("route",),
    _SPANS,
)
WAIT: Final = Family(
    "waterclock_step_wait_seconds",
    H,
    "Time from the arrival of a step's request head until its first byte could be sent on.",
    ("route",),
    _WAITS,
)
QUEUE_WAIT: Final = Family(
    "waterclock_queue_wait_seconds",
    H,
    "Time that a step waited to be let in. Steps that were never started are left out.",
    ("route",),
    _WAITS,
)
RUN: Final = Family(
    "waterclock_step_run_seconds",
    H,
    "Time that a step took apart from its wait to be let in. Steps that were never started are left out.",
    ("route",),
    _SPANS,
)
OVERHEAD: Final = Family(
    "waterclock_proxy_overhead_seconds",
    H,
    "Time that the sidecar itself took before the first byte of a step left. Steps of which nothing was sent are left out.",
    (),
    _OVERHEADS,
)
ALLOWANCE: Final = Family(
    "waterclock_step_allowance_seconds",
    H,
    "Time that a step was allowed, as fixed on its arrival. Steps without any limit are left out.",
    ("route",),
    _ALLOWANCES,
)
LATENESS: Final = Family(
    "waterclock_cut_lateness_seconds",
    H,
    "How much later than its allowance a step was cut.",
    (),
    _LATENESS,
)
RESPONSE_BYTES: Final = Family(
    "waterclock_response_bytes_total", C, "Bytes of response bodies relayed to callers.", ("route",)
)
ATTEMPTS: Final = Family(
    "waterclock_attempts_total",
    C,
    "Attempts that the steps made, the first ones and those that the sidecar made again by itself.",
    ("route",),
)
UNITS: Final = Family(
    "waterclock_units_total",
    C,
    "Units of work that were attempted for the first time: calls apart from their repetitions.",
    ("route",),
)
AMPLIFICATION: Final = Family(
    "waterclock_retry_amplification_ratio",
    G,
    "Attempts for each unit of work since the start. 1: nothing has been tried twice.",
    ("route",),
)
RETRIES: Final = Family(
    "waterclock_retries_total", C, "Attempts that the sidecar made again by itself.", ("route",)
)
WITHHELD: Final = Family(
    "waterclock_retries_withheld_total",
    C,
    "Retries that the route asks for and that were not made, by what forbade them.",
    ("route", "reason"),
)
JOINED: Final = Family(
    "waterclock_joined_calls_total",
    C,
    "Calls that were not sent but waited for the answer of an equal one in flight.",
    ("route",),
)
RUNGS: Final = Family(
    "waterclock_rungs_total",
    C,
    "Steps on routes with a ladder, by the rung that answered them. The first rung is what was asked for.",
    ("route", "rung"),
)
DEGRADED: Final = Family(
    "waterclock_degraded_steps_total",
    C,
    "Steps that were answered with less than they had asked for, by the rung and by why the better ones were not taken.",
    ("route", "rung", "reason"),
)
RUNG_DURATION: Final = Family(
    "waterclock_rung_duration_seconds",
    H,
    "Time that one try of a rung took that asks an upstream: until its whole answer, or until it was given up as too slow. "
    "Tries that failed are left out.",
    ("route", "rung"),
    _SPANS,
)
CACHE_LOOKUPS: Final = Family(
    "waterclock_cache_lookups_total",
    C,
    "Steps that asked the cache, by what it had: the answer to the same request, an old one, one to another wording, none.",
    ("route", "result"),
)
CACHE_FAILURES: Final = Family(
    "waterclock_cache_failures_total",
    C,
    "Questions to what pods share of the cache that were not answered in time, or not as they should be.",
    ("part",),
)
STAGE_USED: Final = Family(
    "waterclock_stage_used_seconds",
    H,
    "Time that the steps of a stage have used together, when its budget is finished.",
    ("stage",),
    _SPANS,
)
STAGE_RATIO: Final = Family(
    "waterclock_stage_used_ratio",
    H,
    "The same as a share of what the stage was given: above 1 where it used what earlier stages had left.",
    ("stage",),
    _USES,
    scale=1,
)
STAGE_CUTS: Final = Family(
    "waterclock_stage_cuts_total",
    C,
    "Steps that were cut because nothing was left for their stage.",
    ("stage",),
)
VERIFICATIONS: Final = Family(
    "waterclock_verifications_total",
    C,
    "Questions asked to find out whether an uncertain write has happened, by what the answer said.",
    ("route", "result"),
)
MALFORMED: Final = Family(
    "waterclock_malformed_requests_total",
    C,
    "Bytes from callers that were no request, by what was wrong.",
    ("reason",),
)
OPAQUE: Final = Family(
    "waterclock_opaque_connections_total",
    C,
    "Connections whose calls cannot be seen here, by the way they came in.",
    ("way",),
)
BUDGETS_OPENED: Final = Family("waterclock_budgets_opened_total", C, "Budgets that have been opened.")
BUDGETS_CLOSED: Final = Family(
    "waterclock_budgets_closed_total",
    C,
    "Budgets that are finished, closed or run out of time, by the two verdicts on their jobs. "
    "on_time is unknown where nobody said that the job was done.",
    ("complete", "on_time"),
)
BUDGETS_DEGRADED: Final = Family(
    "waterclock_budgets_degraded_total",
    C,
    "Those of the finished budgets in which a step was answered with less than it had asked for.",
    ("complete", "on_time"),
)
COMPLETION: Final = Family(
    "waterclock_budget_completion_ratio",
    H,
    "Completed steps of all steps of a budget, when it is finished. Budgets without steps are left out.",
    (),
    _SHARES,
    scale=1,
)
EXTENSIONS: Final = Family(
    "waterclock_budget_extensions_ignored_total", C, "Attempts to lengthen an open budget, which never grows."
)
SOURCE_FAILURES: Final = Family(
    "waterclock_metrics_source_failures_total",
    C,
    "Families that a scrape went without because reading their source failed.",
)

# What others know, and `Metrics.watch` or `Metrics.inform` is told where to read.
WATCHED: Final = _by_name(
    Family(
        "waterclock_step_records_dropped_total",
        C,
        "Log lines given up because their reader was too slow or gone.",
    ),
    Family("waterclock_log_write_errors_total", C, "Failed attempts to write to the log."),
    Family("waterclock_log_waiting_bytes", G, "Size of the log lines that are not written yet."),
    Family("waterclock_tasks", G, "Tasks of the event loop that have not ended."),
    Family("waterclock_steps_in_flight", G, "Steps that have begun and not ended."),
    Family("waterclock_leases_in_flight", G, "Steps that hold a lease: admission has let them start."),
    Family("waterclock_queue_depth", G, "Steps that wait to be let in.", ("route",)),
    Family(
        "waterclock_worker_slots_taken",
        G,
        "Worker slots that are taken, where a route limits them.",
        ("route",),
    ),
    Family(
        "waterclock_worker_slots_limit",
        G,
        "Worker slots that there are, where a route limits them.",
        ("route",),
    ),
    Family("waterclock_budgets_open", G, "Budgets that are known and whose time is not over."),
    Family("waterclock_ledger_budgets", G, "Budgets that are known, those that are finished included."),
    Family("waterclock_ledger_bytes", G, "About how much memory the records of their steps take."),
    Family("waterclock_client_connections", G, "Connections from callers."),
    Family("waterclock_upstream_connections", G, "Connections to tools, by what they are doing.", ("state",)),
    Family("waterclock_opaque_connections_active", G, "Open connections whose calls cannot be seen here."),
    Family(
        "waterclock_bypass_connections",
        G,
        "Established connections that leave the pod without having passed through the sidecar, by whether the pod "
        "excludes them.",
        ("reason",),
    ),
    Family(
        "waterclock_clients_refused_total",
        C,
        "Connections from callers that were closed at once.",
        ("why",),
    ),
    Family("waterclock_cache_bytes", G, "Size of the answers that are kept in memory."),
    Family("waterclock_cache_entries", G, "Answers that are kept in memory."),
    Family("waterclock_uncertain_writes", G, "Writes of unknown effect that nobody has resolved."),
    Family("waterclock_dead_letters", G, "Units of work that are attempted no more until somebody decides."),
    Family("waterclock_journal_commits_total", C, "Groups of records made durable by the journal of writes."),
    Family(
        "waterclock_journal_failures_total", C, "Groups of records that the journal could not make durable."
    ),
    Family(
        "waterclock_journal_healthy",
        G,
        "Whether the last attempt to write the journal succeeded (1) or not (0).",
    ),
    Family("waterclock_journal_size_bytes", G, "Size of the journal on disk."),
    Family(
        "waterclock_policy_reloads_total", C, "Attempts to load another policy, by their result.", ("result",)
    ),
    Family(
        "waterclock_policy_last_reload_successful",
        G,
        "Whether the last policy offered is in force (1) or not (0).",
    ),
    Family("waterclock_policy_info", I, "The policy in force: the digest of its file, and its mode."),
    Family("waterclock_build_info", I, "The build that is running."),
)

COUNTED: Final = _by_name(
    STEPS,
    REFUSALS,
    SHEDS,
    CUTS,
    FAILURES,
    WOULD,
    DURATION,
    WAIT,
    QUEUE_WAIT,
    RUN,
    ALLOWANCE,
    RESPONSE_BYTES,
    ATTEMPTS,
    UNITS,
    AMPLIFICATION,
    LATENESS,
    OVERHEAD,
    RETRIES,
    WITHHELD,
    JOINED,
    RUNGS,
    DEGRADED,
    RUNG_DURATION,
    CACHE_LOOKUPS,
    CACHE_FAILURES,
    STAGE_USED,
    STAGE_RATIO,
    STAGE_CUTS,
    VERIFICATIONS,
    BUDGETS_OPENED,
    BUDGETS_CLOSED,
    BUDGETS_DEGRADED,
    COMPLETION,
    EXTENSIONS,
    MALFORMED,
    OPAQUE,
    SOURCE_FAILURES,
)
