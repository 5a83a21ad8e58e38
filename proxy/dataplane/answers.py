"""What the sidecar adds to an answer, and the answers that are its own.

Every answer carries the annotation: which budget, what is left, what was allowed, how the step ended. Own headers are
removed from what others sent (`wire.render.lines`) before they are set.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from proxy.core.calls import Effect, Outcome, Phase, Retry
from proxy.core.degrading import Degraded
from proxy.core.policy import Statuses
from proxy.core.problem import Problem
from proxy.core.reasons import Case, Reason, proxy_error_of
from proxy.wire.events import WireFault
from proxy.wire.render import line, reason_phrase, response_head, safe

LAST_ATTEMPT: Final = (
    "This was the last attempt that it gets: it is not attempted again until someone decides. Finish without it, and say "
    "that it is open."
)


_items: Final[dict[tuple[str | bool | None, ...], bytes]] = {}  # their words repeat
_MOST_ITEMS: Final = 1024


def outcome_item(
    outcome: str,
    *,
    effect: str | None = None,
    retry: str | None = None,
    reason: str | None = None,
    phase: str | None = None,
    would: str | None = None,
    journaled: bool = True,
) -> bytes:
    """Return the value of `Budget-Outcome`: an RFC 9651 item, a token with parameters that are tokens.

    Not `journaled`: the write went on though its intent is not on disk, and says so.
    """
    words = (outcome, effect, retry, reason, phase, would, journaled)
    item = _items.get(words)
    if item is not None:
        return item
    parameters = (
        ("effect", effect),
        ("retry", retry),
        ("reason", reason),
        ("phase", phase),
        ("would", would),
        ("journal", None if journaled else "off"),
    )
    said = [f"; {name}={value}" for name, value in parameters if value is not None]
    if len(_items) >= _MOST_ITEMS:
        _items.clear()
    item = _items[words] = safe("".join([outcome, *said]))
    return item


def annotation(
    budget_id: str | None,
    remaining_ms: int | None,
    allowed_ms: int | None,
    elapsed_ms: int,
    outcome: bytes,
    record: str,
) -> list[bytes]:
    """Return the annotation's field lines, looked over, one or more in each. A figure that does not exist (no budget, no allowance) has no line."""
    known_as = safe(record)
    lines = [
        b"Budget-Elapsed-Ms: %d\r\nBudget-Outcome: %b\r\nBudget-Record: %b\r\n"
        % (elapsed_ms, outcome, known_as)
    ]
    if allowed_ms is not None:
        lines.append(b"Budget-Allowed-Ms: %d\r\n" % allowed_ms)
    if budget_id is not None:
        lines.append(b"Budget-Id: %b\r\n" % (known_as if budget_id is record else safe(budget_id)))
    if remaining_ms is not None:
        lines.append(b"Budget-Remaining-Ms: %d\r\n" % remaining_ms)
    return lines


def degraded_line(degraded: Degraded) -> bytes:
    """Return the field line that says by how much an answer is less than asked."""
    return line(b"Budget-Degraded", degraded.field().encode())


def own_answer(problem: Problem, annotated: list[bytes], *, close: bool, bodiless: bool) -> bytes:
    """Return a whole response of the sidecar's own: `application/problem+json`, annotated.

    SDKs that look for it are told whether a retry of their own may help and still fits (`x-should-retry`).
    A call that is shed is told when to come again, if that is in time. `bodiless`: the answer to a HEAD request, which describes the body and leaves it out.
    """
    body = problem.body()
    error = proxy_error_of(problem.case, problem.reason)
    flag = b"true" if problem.row.retriable else b"false"
    lines = [
        b"Content-Type: application/problem+json\r\n",
        b"Content-Length: %d\r\n" % len(body),
        b"Cache-Control: no-store\r\n",
        b"x-should-retry: %b\r\n" % flag,
        b"stripe-should-retry: %b\r\n" % flag,
        f"Proxy-Status: waterclock; error={error}\r\n".encode(),
    ]
    if problem.retry_after_ms is not None:
        # In whole seconds (RFC 9110 §10.2.3), and exactly for the SDKs that know this field.
        lines.append(b"Retry-After: %d\r\n" % max(1, -(-problem.retry_after_ms // 1000)))
        lines.append(b"Retry-After-Ms: %d\r\n" % max(1, problem.retry_after_ms))
    if close:
        lines.append(b"Connection: close\r\n")
    head = response_head(problem.status, reason_phrase(problem.status), lines, annotated)
    return head if bodiless else head + body


def error_payload(outcome: str, reason: str, detail: str, effect: str, phase: str, record: str) -> bytes:
    """Return the payload of the error event that ends a stream, in the form that LLM clients raise on."""
    error = {
        "type": outcome,
        "code": reason,
        "message": detail,
        "effect": effect,
        "phase": phase,
        "record": record,
    }
    return json.dumps({"error": error}).encode()


def malformed_answer(fault: WireFault, statuses: Statuses, record: str) -> bytes:
    """Return the answer to bytes that are no request, after which the connection closes."""
    problem = Problem(
        case=Case.MALFORMED,
        status=statuses.malformed if fault.status == HTTPStatus.BAD_REQUEST else fault.status,
        detail=fault.detail,
        outcome=Outcome.REFUSED,
        effect=Effect.NONE,
        phase=Phase.NOT_SENT,
        reason=Reason.MALFORMED,
        record=record,
    )
    item = outcome_item(
        Outcome.REFUSED, effect=Effect.NONE, retry=Retry.NEVER, reason=Reason.MALFORMED, phase=Phase.NOT_SENT
    )
    annotated = annotation(None, None, None, 0, item, record)
    return own_answer(problem, annotated, close=True, bodiless=False)
