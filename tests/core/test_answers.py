"""Promise 13: every refusal explains itself. From an ending to its case, its status and its problem body."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import Limit
from proxy.core.calls import Effect, Kind, Outcome, Phase, Retry, effect_of
from proxy.core.policy import Statuses
from proxy.core.problem import Problem
from proxy.core.reasons import TABLE, Case, Reason, case_of, proxy_error_of, row_of, status_of

REASONS = (*Reason, *Limit)
NOTHING_SENT = (Outcome.REFUSED, Outcome.SHED, Outcome.CONNECT_FAILED)
KEYS = {
    *(
        "type",
        "title",
        "status",
        "detail",
        "budget_id",
        "step",
        "outcome",
        "effect",
        "phase",
        "reason",
        "allowed_ms",
        "retry_after_ms",
    ),
    *("elapsed_ms", "remaining_ms", "idempotency_key", "record", "next", "message", "error"),
}
# RFC 9209 §2.3, the registry "HTTP Proxy Error Types".
PROXY_ERRORS = {
    *(
        "dns_timeout",
        "dns_error",
        "destination_not_found",
        "destination_unavailable",
        "destination_ip_prohibited",
    ),
    *("destination_ip_unroutable", "connection_refused", "connection_terminated", "connection_timeout"),
    *(
        "connection_read_timeout",
        "connection_write_timeout",
        "connection_limit_reached",
        "tls_protocol_error",
    ),
    *("tls_certificate_error", "tls_alert_received", "http_request_error", "http_request_denied"),
    *("http_response_incomplete", "http_response_header_section_size", "http_response_header_size"),
    *("http_response_body_size", "http_response_trailer_section_size", "http_response_trailer_size"),
    *("http_response_transfer_coding", "http_response_content_coding", "http_response_timeout"),
    *("http_upgrade_failed", "http_protocol_error", "proxy_internal_response", "proxy_internal_error"),
    *("proxy_configuration_error", "proxy_loop_detected"),
}


def document(
    case: Case, *, outcome: Outcome, effect: Effect, phase: Phase, reason: str, detail: str = ""
) -> Any:
    """The problem body of an ending, read again."""
    body = Problem(case, status_of(case, Statuses()), detail, outcome, effect, phase, reason).body()
    assert body.endswith(b"\n")
    assert body.count(b"\n") == 1
    return json.loads(body)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_ending_has_an_answer_that_explains_it(outcome: Outcome) -> None:
    """Whatever reason, kind, phase and effect come together: all keys, a configured status, no sentence left empty."""
    statuses = {field.default for field in fields(Statuses)}
    for reason, kind, phase, effect in itertools.product(REASONS, Kind, Phase, Effect):
        case = case_of(outcome, reason, kind, phase, effect)
        body = document(case, outcome=outcome, effect=effect, phase=phase, reason=reason)
        assert body.keys() == KEYS
        assert body["status"] in statuses
        assert body["title"]
        assert body["detail"].endswith(".")
        assert body["next"].endswith(".")
        assert body["error"].keys() == {"message", "type", "code"}
        assert all(text in body["error"]["message"] for text in (body["title"], body["detail"], body["next"]))
        assert proxy_error_of(case, reason) in PROXY_ERRORS


def endings() -> Iterator[tuple[Outcome, Reason | Limit, Kind, Phase]]:
    """The endings that can be: what was refused, shed or never connected has sent nothing."""
    for outcome, reason, kind, phase in itertools.product(Outcome, REASONS, Kind, Phase):
        if phase is Phase.NOT_SENT or outcome not in NOTHING_SENT:
            yield outcome, reason, kind, phase


def test_no_answer_says_what_is_not_known() -> None:
    """`Nothing was sent` is said when nothing was; `safe` where it is; and of a write that it may have happened."""
    for outcome, reason, kind, phase in endings():
        effect = effect_of(kind, phase)
        case = case_of(outcome, reason, kind, phase, effect)
        row = row_of(case, reason)
        blind = kind in (Kind.WRITE, Kind.OPAQUE) and phase is not Phase.NOT_SENT
        if "Nothing was sent" in row.next or "before anything was sent" in row.title:
            assert phase is Phase.NOT_SENT
        if blind:
            assert case is Case.IN_DOUBT
            assert "may have happened" in row.next
            assert not row.retriable
        elif case is Case.IN_DOUBT:
            pytest.fail(f"{outcome} {reason} {kind} {phase} is not in doubt")


# Section 6 of the contract: outcome, reason, kind, phase; status, and whether a client's own retry may be asked for.
CONTRACT = {
    "budget spent": (Outcome.REFUSED, Reason.BUDGET_EXHAUSTED, Kind.READ, Phase.NOT_SENT, 403, False),
    "below min_start": (Outcome.REFUSED, Reason.BELOW_MIN_START, Kind.READ, Phase.NOT_SENT, 403, False),
    "too deep": (Outcome.REFUSED, Reason.DEPTH_EXCEEDED, Kind.WRITE, Phase.NOT_SENT, 403, False),
    "no budget": (Outcome.REFUSED, Reason.NO_BUDGET, Kind.WRITE, Phase.NOT_SENT, 403, False),
    "no tunnel there": (Outcome.REFUSED, Reason.TUNNEL_DENIED, Kind.OPAQUE, Phase.NOT_SENT, 403, False),
    "unresolved write": (Outcome.REFUSED, Reason.UNRESOLVED_WRITE, Kind.WRITE, Phase.NOT_SENT, 424, False),
    "dead letter": (Outcome.REFUSED, Reason.DEAD_LETTERED, Kind.WRITE, Phase.NOT_SENT, 424, False),
    "no journal": (Outcome.REFUSED, Reason.JOURNAL_UNAVAILABLE, Kind.WRITE, Phase.NOT_SENT, 503, False),
    "loop": (Outcome.REFUSED, Reason.LOOP, Kind.READ, Phase.NOT_SENT, 508, False),
    "redirect loop": (Outcome.REFUSED, Reason.REDIRECT_LOOP, Kind.WRITE, Phase.NOT_SENT, 508, False),
    "malformed": (Outcome.REFUSED, Reason.MALFORMED, Kind.READ, Phase.NOT_SENT, 400, False),
    "write cut while sending": (
        Outcome.DEADLINE_EXCEEDED,
        Limit.BUDGET,
        Kind.WRITE,
        Phase.SENDING,
        424,
        False,
    ),
    "write cut after sending": (
        Outcome.DEADLINE_EXCEEDED,
        Limit.ROUTE_CAP,
        Kind.WRITE,
        Phase.SENT,
        424,
        False,
    ),
    "write broken": (
        Outcome.UPSTREAM_FAILED,
        Reason.CONNECTION_TERMINATED,
        Kind.WRITE,
        Phase.SENT,
        424,
        False,
    ),
    "write half answered": (
        Outcome.UPSTREAM_FAILED,
        Reason.RESPONSE_INCOMPLETE,
        Kind.WRITE,
        Phase.HEAD_RECEIVED,
        424,
        False,
    ),
    "tunnel cut in use": (Outcome.DEADLINE_EXCEEDED, Limit.ROUTE_CAP, Kind.OPAQUE, Phase.SENT, 424, False),
    "read cut": (Outcome.DEADLINE_EXCEEDED, Limit.ROUTE_CAP, Kind.READ, Phase.SENT, 504, True),
    "idempotent write cut": (
        Outcome.DEADLINE_EXCEEDED,
        Limit.BUDGET,
        Kind.IDEMPOTENT,
        Phase.SENDING,
        504,
        True,
    ),
    "write cut before sending": (
        Outcome.DEADLINE_EXCEEDED,
        Limit.BUDGET,
        Kind.WRITE,
        Phase.NOT_SENT,
        504,
        True,
    ),
    "connect failed": (
        Outcome.CONNECT_FAILED,
        Reason.CONNECTION_REFUSED,
        Kind.WRITE,
        Phase.NOT_SENT,
        502,
        True,
    ),
    "lookup failed": (Outcome.CONNECT_FAILED, Reason.DNS_ERROR, Kind.READ, Phase.NOT_SENT, 502, True),
    "connect timed out": (
        Outcome.DEADLINE_EXCEEDED,
        Limit.CLIENT_TIMER,
        Kind.READ,
        Phase.NOT_SENT,
        504,
        True,
    ),
    "read broken": (
        Outcome.UPSTREAM_FAILED,
        Reason.PROTOCOL_ERROR,
        Kind.READ,
        Phase.HEAD_RECEIVED,
        502,
        True,
    ),
    "queue full": (Outcome.SHED, Reason.QUEUE_FULL, Kind.WRITE, Phase.NOT_SENT, 503, True),
    "too wide": (Outcome.SHED, Reason.WIDTH, Kind.READ, Phase.NOT_SENT, 503, True),
    "stopping": (Outcome.REFUSED, Reason.SHUTTING_DOWN, Kind.READ, Phase.NOT_SENT, 503, True),
}


@pytest.mark.parametrize(
    ("outcome", "reason", "kind", "phase", "status", "retriable"), CONTRACT.values(), ids=CONTRACT
)
def test_the_table_of_answers(
    outcome: Outcome, reason: str, kind: Kind, phase: Phase, status: int, retriable: bool
) -> None:
    """The status, and whether `x-should-retry: true` can be said at all; that it still fits is for the caller to see."""
    case = case_of(outcome, reason, kind, phase, effect_of(kind, phase))
    assert status_of(case, Statuses()) == status
    assert TABLE[case].retriable is retriable


def test_statuses_are_configurable() -> None:
    """Each case has one field, and is answered with what stands there."""
    assert {field.name for field in fields(Statuses)} == set(Case)
    assert TABLE.keys() == set(Case)
    for case in Case:
        assert status_of(case, Statuses(**{case.value: 599})) == 599


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (Reason.NO_BUDGET, "Budget-Remaining-Ms"),
        (Reason.TUNNEL_DENIED, "policy"),
        (Reason.DEAD_LETTERED, "someone decides"),
        (Reason.SHUTTING_DOWN, "stopping"),
        (Reason.REDIRECT_LOOP, "exempt the sidecar's user"),
        (Reason.UNRESOLVED_WRITE, "Budget-Retry: confirmed"),
        (Reason.BUDGET_EXHAUSTED, "under this budget"),
    ],
)
def test_the_words_fit_the_reason(reason: Reason, says: str) -> None:
    """One status for many reasons, and yet each is told what is true of it."""
    row = row_of(case_of(Outcome.REFUSED, reason, Kind.WRITE, Phase.NOT_SENT, Effect.NONE), reason)
    assert says in f"{row.title} {row.next}"
    assert row._replace(title="", next="") in [other._replace(title="", next="") for other in TABLE.values()]


@pytest.mark.parametrize("case", Case)
def test_nobody_is_told_to_repeat_what_no_longer_fits(case: Case) -> None:
    """Once no attempt fits into what is left, no answer asks for one, in its flag or in its words."""
    row = row_of(case, Limit.BUDGET, Retry.NEVER)
    assert not row.retriable
    if TABLE[case].retriable:
        assert "No time is left" in row.next
    else:
        assert row == TABLE[case]


@pytest.mark.parametrize(
    ("case", "reason", "error"),
    [
        (Case.CONNECT_FAILED, Reason.DNS_ERROR, "dns_error"),
        (Case.CONNECT_FAILED, Reason.PARENT_PROXY_REFUSED, "destination_unavailable"),
        (Case.IN_DOUBT, Reason.CONNECTION_TERMINATED, "connection_terminated"),
        (Case.CUT, Limit.BUDGET, "http_response_timeout"),
        (Case.REFUSED, Reason.BUDGET_EXHAUSTED, "http_request_denied"),
        (Case.LOOP, Reason.LOOP, "proxy_loop_detected"),
    ],
)
def test_proxy_status(case: Case, reason: str, error: str) -> None:
    """The reason's own name where RFC 9209 has it, else the type that says the same of the case."""
    assert proxy_error_of(case, reason) == error


def test_reasons_and_limits_do_not_share_names() -> None:
    """`reason=` in an answer names one thing."""
    assert len({*map(str, REASONS)}) == len(REASONS)


def test_the_whole_of_a_problem() -> None:
    """What a person, a program and a model read of a write that was cut."""
    problem = Problem(
        case=Case.IN_DOUBT,
        status=424,
        detail="The call was cut after 4000 ms; its route allows no more.",
        outcome=Outcome.DEADLINE_EXCEEDED,
        effect=Effect.UNCERTAIN,
        phase=Phase.SENT,
        reason=Limit.ROUTE_CAP,
        budget_id="run-42",
        step=3,
        allowed_ms=4000,
        elapsed_ms=4000,
        remaining_ms=1000,
        idempotency_key="k-1",
        record="w-7",
    )
    advice = TABLE[Case.IN_DOUBT].next
    message = (
        "The write was sent, but its effect is unknown. "
        f"The call was cut after 4000 ms; its route allows no more. {advice} (record w-7)"
    )
    assert json.loads(problem.body()) == {
        "type": "urn:waterclock:problem:route-cap",
        "title": "The write was sent, but its effect is unknown",
        "status": 424,
        "detail": "The call was cut after 4000 ms; its route allows no more.",
        "budget_id": "run-42",
        "step": 3,
        "outcome": "deadline_exceeded",
        "effect": "uncertain",
        "phase": "sent",
        "reason": "route_cap",
        "allowed_ms": 4000,
        "elapsed_ms": 4000,
        "remaining_ms": 1000,
        "idempotency_key": "k-1",
        "record": "w-7",
        "retry_after_ms": None,
        "next": advice,
        "message": message,
        "error": {
            "message": message,
            "type": "deadline_exceeded",
            "code": "route_cap",
        },
    }


@given(st.text(), st.text())
def test_no_detail_breaks_the_document(detail: str, key: str) -> None:
    """Promise 14: what a caller sent may stand in a detail; the body is one line of JSON in ASCII all the same."""
    problem = Problem(
        Case.MALFORMED, 400, detail, "refused", "none", "not_sent", "malformed", idempotency_key=key
    )
    body = problem.body()
    assert body.isascii()
    assert body.count(b"\n") == 1
    assert json.loads(body)["idempotency_key"] == key
