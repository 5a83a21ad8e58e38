"""The body of an answer that the sidecar gives itself: `application/problem+json` (RFC 9457).

It is read by people, by programs and by models, so every refusal explains itself: what happened, what is known of
the effect, and what the caller may do next. `error` repeats it in the form that LLM clients show, and `message` in the
one that AWS SDKs do.
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quote
from typing import ClassVar, Final

from proxy.core.calls import Retry
from proxy.core.reasons import Case, Row, row_of
from proxy.values import Value

_TEMPLATE: Final = (
    '{"type": %s, "title": %s, "status": %d, "detail": %s, "budget_id": %s, "step": %s, "outcome": %s, "effect": %s, '
    '"phase": %s, "reason": %s, "allowed_ms": %s, "elapsed_ms": %s, "remaining_ms": %s, "idempotency_key": %s, '
    '"record": %s, "retry_after_ms": %s, "next": %s, "message": %s, '
    '"error": {"message": %s, "type": %s, "code": %s}}\n'
)
"""Filled in, since the general encoder takes half of the time in which a call is cut, and many can fall due together."""


class Problem(Value):
    """All that a problem body says. Spans are whole milliseconds; None where there is nothing to say."""

    _fields: ClassVar[tuple[str, ...]] = (
        "case",
        "status",
        "detail",
        "outcome",
        "effect",
        "phase",
        "reason",
        "budget_id",
        "step",
        "allowed_ms",
        "elapsed_ms",
        "remaining_ms",
        "idempotency_key",
        "record",
        "retry",
        "next",
        "retry_after_ms",
    )
    __slots__ = _fields

    def __init__(
        self,
        case: Case,
        status: int,
        detail: str,
        outcome: str,
        effect: str,
        phase: str,
        reason: str,
        budget_id: str | None = None,
        step: int | None = None,
        allowed_ms: int | None = None,
        elapsed_ms: int | None = None,
        remaining_ms: int | None = None,
        idempotency_key: str | None = None,
        record: str | None = None,
        retry: Retry | None = None,
        next: str | None = None,  # noqa: A002 - it is named after the member of the document
        retry_after_ms: int | None = None,
    ) -> None:
        """Take what is known."""
        self.case: Final = case
        self.status: Final = status
        self.detail: Final = detail
        self.outcome: Final = outcome
        self.effect: Final = effect
        self.phase: Final = phase
        self.reason: Final = reason
        self.budget_id: Final = budget_id
        self.step: Final = step
        self.allowed_ms: Final = allowed_ms
        self.elapsed_ms: Final = elapsed_ms
        self.remaining_ms: Final = remaining_ms
        self.idempotency_key: Final = idempotency_key
        self.record: Final = record
        self.retry: Final = retry
        self.next: Final = next
        self.retry_after_ms: Final = retry_after_ms

    @property
    def row(self) -> Row:
        """What the answer table says for it, unless `next` knows better."""
        row = row_of(self.case, self.reason, self.retry)
        return row if self.next is None else row._replace(next=self.next)

    def body(self) -> bytes:
        """Return the JSON document, on one line with a line end, so that a terminal shows it well."""
        row = self.row
        detail = self.detail or f"{row.title}."
        message = f"{row.title}. {detail} {row.next}"
        if self.record is not None:
            message += f" (record {self.record})"
        message, outcome, reason = quote(message), quote(self.outcome), quote(self.reason)
        document = _TEMPLATE % (
            quote(f"urn:waterclock:problem:{self.reason.replace('_', '-')}"),
            quote(row.title),
            self.status,
            quote(detail),
            _text(self.budget_id),
            _number(self.step),
            outcome,
            quote(self.effect),
            quote(self.phase),
            reason,
            _number(self.allowed_ms),
            _number(self.elapsed_ms),
            _number(self.remaining_ms),
            _text(self.idempotency_key),
            _text(self.record),
            _number(self.retry_after_ms),
            quote(row.next),
            message,
            message,
            outcome,
            reason,
        )
        return document.encode("ascii")


def _text(text: str | None) -> str:
    return "null" if text is None else quote(text)


def _number(number: int | None) -> str:
    return "null" if number is None else str(number)
