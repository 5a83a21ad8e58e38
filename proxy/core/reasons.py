"""Why a call ended as it did, and the one table that turns a reason into an answer.

Reasons for which RFC 9209 has a name carry that name. `CASES` sorts every ending that the sidecar has to answer for
into one of the cases of the wire contract; `answer_of` reads the rest (status, retry advice, sentences) off it.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from proxy.core.calls import Effect, Kind, Outcome, Phase, Retry
from proxy.core.policy import Statuses


class Reason(StrEnum):
    """The reasons that an answer or a record can name, besides the limit that a cut names (`budget.Limit`)."""

    # refused
    BUDGET_EXHAUSTED = "budget_exhausted"
    BELOW_MIN_START = "below_min_start"
    DEPTH_EXCEEDED = "depth_exceeded"
    UNRESOLVED_WRITE = "unresolved_write"
    DEAD_LETTERED = "dead_lettered"
    NO_BUDGET = "no_budget"
    TUNNEL_DENIED = "tunnel_denied"
    EGRESS_DENIED = "egress_denied"
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    LOOP = "loop"
    REDIRECT_LOOP = "redirect_loop"
    MALFORMED = "malformed"
    SHUTTING_DOWN = "shutting_down"
    # shed
    QUEUE_FULL = "queue_full"
    QUEUE_DEADLINE = "queue_deadline"
    WIDTH = "width"
    BUSY = "busy"
    # connect_failed
    DNS_ERROR = "dns_error"
    CONNECTION_REFUSED = "connection_refused"
    CONNECTION_TIMEOUT = "connection_timeout"
    DESTINATION_UNROUTABLE = "destination_ip_unroutable"
    TLS_PROTOCOL_ERROR = "tls_protocol_error"
    TLS_CERTIFICATE_ERROR = "tls_certificate_error"
    PARENT_PROXY_REFUSED = "parent_proxy_refused"
    # upstream_failed
    CONNECTION_TERMINATED = "connection_terminated"
    PROTOCOL_ERROR = "http_protocol_error"
    RESPONSE_INCOMPLETE = "http_response_incomplete"
    # ended for silence, which no allowance limits
    IDLE = "idle"
    # completed, with the answer of an equal call that was in flight
    JOINED = "joined"
    # client_gone
    CLIENT_LEFT = "client_left"


class Case(StrEnum):
    """A row of the answer table; each has one configurable status (`policy.Statuses` has a field of that name)."""

    REFUSED = "refused"
    REPEATED = "repeated"
    IN_DOUBT = "in_doubt"
    CUT = "cut"
    CONNECT_FAILED = "connect_failed"
    CONNECT_TIMEOUT = "connect_timeout"
    UPSTREAM_FAILED = "upstream_failed"
    SHED = "shed"
    SHED_LATE = "shed_late"
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    LOOP = "loop"
    MALFORMED = "malformed"


class Row(NamedTuple):
    """What a case's answer says. `retriable`: a client's own retry may help, if it still fits. Sentences end in a stop.

    `proxy_error` is the RFC 9209 §2.3 type used when the reason has none of its own.
    """

    title: str
    retriable: bool
    proxy_error: str
    next: str


TABLE: Final[dict[Case, Row]] = {
    Case.REFUSED: Row(
        "Refused: the time budget says no",
        retriable=False,
        proxy_error="http_request_denied",
        next="Do not repeat this call under this budget. Finish with what you have, and say what is missing.",
    ),
    Case.REPEATED: Row(
        "Refused: it would repeat an earlier write",
        retriable=False,
        proxy_error="http_request_denied",
        next="The first attempt may have happened. Check its result with a read; if it did not happen, send the call "
        "again with the header Budget-Retry: confirmed.",
    ),
    Case.IN_DOUBT: Row(
        "The write was sent, but its effect is unknown",
        retriable=False,
        proxy_error="http_response_timeout",
        next="Do not send it again blindly: it may have happened. Check with a read whether it did; if it did not, "
        "send it again with the header Budget-Retry: confirmed.",
    ),
    Case.CUT: Row(
        "The call ran out of its time",
        retriable=True,
        proxy_error="http_response_timeout",
        next="Repeating this call is safe. Repeat it if enough of the budget is left, or go on without it.",
    ),
    Case.CONNECT_FAILED: Row(
        "The tool could not be reached",
        retriable=True,
        proxy_error="destination_unavailable",
        next="Nothing was sent. Repeat the call if enough of the budget is left, or go on without it.",
    ),
    Case.CONNECT_TIMEOUT: Row(
        "Time ran out before anything was sent",
        retriable=True,
        proxy_error="connection_timeout",
        next="Nothing was sent. Repeat the call if enough of the budget is left, or go on without it.",
    ),
    Case.UPSTREAM_FAILED: Row(
        "The tool broke off before its answer was complete",
        retriable=True,
        proxy_error="connection_terminated",
        next="Repeating this call is safe. Repeat it if enough of the budget is left, or go on without it.",
    ),
    Case.SHED: Row(
        "Not now: too much is in flight",
        retriable=True,
        proxy_error="connection_limit_reached",
        next="Nothing was sent. Wait as Retry-After says, if it is there, and repeat the call.",
    ),
    Case.SHED_LATE: Row(
        "Not in time: too much is in flight",
        retriable=False,
        proxy_error="connection_limit_reached",
        next="Nothing was sent, and its turn would come too late for this budget. Go on without it, and say what is missing.",
    ),
    Case.JOURNAL_UNAVAILABLE: Row(
        "Refused: the journal of writes cannot be written",
        retriable=False,
        proxy_error="proxy_internal_error",
        next="Nothing was sent. Writes are refused until the sidecar's disk is writable again; reads still work.",
    ),
    Case.LOOP: Row(
        "The target leads back to the sidecar itself",
        retriable=False,
        proxy_error="proxy_loop_detected",
        next="Name the tool's own address, or add a route with a prefix for this path.",
    ),
    Case.MALFORMED: Row(
        "The request is malformed",
        retriable=False,
        proxy_error="http_request_error",
        next="Correct the request as the detail says.",
    ),
}

_NO_TIME: Final = (
    "No time is left for another attempt under this budget. Go on without this call, and say what is missing."
)

_SAME_KEY: Final = "It may have happened. The other side honours the idempotency key: send it again under the same key, and no other."

_OF_REASON: Final[dict[str, Case]] = {
    Reason.UNRESOLVED_WRITE: Case.REPEATED,
    Reason.DEAD_LETTERED: Case.REPEATED,
    Reason.JOURNAL_UNAVAILABLE: Case.JOURNAL_UNAVAILABLE,
    Reason.LOOP: Case.LOOP,
    Reason.REDIRECT_LOOP: Case.LOOP,
    Reason.MALFORMED: Case.MALFORMED,
    Reason.SHUTTING_DOWN: Case.SHED,
}

# Reasons that are RFC 9209 error types by their own name.
_PROXY_ERRORS: Final[frozenset[str]] = frozenset(
    {
        Reason.DNS_ERROR,
        Reason.CONNECTION_REFUSED,
        Reason.CONNECTION_TIMEOUT,
        Reason.DESTINATION_UNROUTABLE,
        Reason.TLS_PROTOCOL_ERROR,
        Reason.TLS_CERTIFICATE_ERROR,
        Reason.CONNECTION_TERMINATED,
        Reason.PROTOCOL_ERROR,
        Reason.RESPONSE_INCOMPLETE,
    }
)

# Title and next step of reasons for which the words of their case would be untrue.
_WORDS: Final[dict[tuple[Case, str], tuple[str, str]]] = {
    (Case.REFUSED, Reason.NO_BUDGET): (
        "Refused: the call states no time budget",
        "Send it again with Budget-Remaining-Ms: the milliseconds that are left of the whole job.",
    ),
    (Case.REFUSED, Reason.TUNNEL_DENIED): (
        "Refused: the policy does not allow a tunnel to this place",
        "Do not repeat this call: it will be refused again. Go on without it, or ask whoever runs the sidecar.",
    ),
    (Case.REFUSED, Reason.EGRESS_DENIED): (
        "Refused: the policy lets no call lead to this place",
        "Nothing was sent. Do not repeat this call: it will be refused again. Go on without it, or ask whoever runs the sidecar.",
    ),
    (Case.REPEATED, Reason.DEAD_LETTERED): (
        "Refused: this call was given up, and is attempted no more",
        "It is not attempted again until someone decides. Do not repeat it; finish without it, and say that it is open.",
    ),
    (Case.LOOP, Reason.REDIRECT_LOOP): (
        "The sidecar's own connections are redirected to itself",
        "Nothing was sent to the tool. Do not repeat this call: whoever runs the pod must first exempt the sidecar's user.",
    ),
    (Case.SHED, Reason.SHUTTING_DOWN): (
        "Not now: the sidecar is stopping",
        "Nothing was sent. Finish with what you have; this pod takes no new calls.",
    ),
}


def outcome_without_connection(reason: str) -> Outcome:
    """Return how a call ended for which no connection could be opened, for this reason."""
    if reason in (Reason.LOOP, Reason.EGRESS_DENIED):
        return Outcome.REFUSED
    return Outcome.SHED if reason == Reason.BUSY else Outcome.CONNECT_FAILED


def case_of(outcome: Outcome, reason: str, kind: Kind, phase: Phase, effect: Effect) -> Case:
    """Return the row of the answer table for an ending that the sidecar itself has to answer."""
    if outcome in (Outcome.REFUSED, Outcome.SHED):
        default = Case.SHED if outcome is Outcome.SHED else Case.REFUSED
        return _OF_REASON.get(reason, default)
    if effect is not Effect.NONE and kind in (Kind.WRITE, Kind.OPAQUE):
        return Case.IN_DOUBT
    if reason == Reason.MALFORMED:
        return Case.MALFORMED
    if outcome is Outcome.DEADLINE_EXCEEDED:
        return Case.CONNECT_TIMEOUT if phase is Phase.NOT_SENT else Case.CUT
    return Case.CONNECT_FAILED if outcome is Outcome.CONNECT_FAILED else Case.UPSTREAM_FAILED


@lru_cache(maxsize=1024)
def row_of(case: Case, reason: str, retry: Retry | None = None) -> Row:
    """Return what an answer says, in words that are true for this reason and for what the caller may do (`retry`)."""
    row, words = TABLE[case], _WORDS.get((case, reason))
    if words is not None:
        row = row._replace(title=words[0], next=words[1])
    if row.retriable and retry is Retry.NEVER:
        return row._replace(retriable=False, next=_NO_TIME)
    if case is Case.IN_DOUBT and retry is Retry.SAME_KEY:
        return row._replace(next=_SAME_KEY)
    return row


def status_of(case: Case, statuses: Statuses) -> int:
    """Return the configured status of a case."""
    status: int = getattr(statuses, case.value)
    return status


def proxy_error_of(case: Case, reason: str) -> str:
    """Return the RFC 9209 error type for an ending."""
    return reason if reason in _PROXY_ERRORS else TABLE[case].proxy_error
