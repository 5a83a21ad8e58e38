"""The body of an answer that the sidecar gives itself: `application/problem+json` (RFC 9457).

It is read by people, by programs and by models, so every refusal explains itself: what happened, what is known of
the effect, and what the caller may do next. `error` repeats it in the form that LLM clients show, and `message` in the
one that AWS SDKs do.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from proxy.core.calls import Retry
from proxy.core.reasons import Case, Row, row_of


class Problem(NamedTuple):
    """All that a problem body says. Spans are whole milliseconds; None where there is nothing to say."""

    case: Case
    status: int
    detail: str
    outcome: str
    effect: str
    phase: str
    reason: str
    budget_id: str | None = None
    step: int | None = None
    allowed_ms: int | None = None
    elapsed_ms: int | None = None
    remaining_ms: int | None = None
    idempotency_key: str | None = None
    record: str | None = None
    retry: Retry | None = None
    next: str | None = None
    retry_after_ms: int | None = None

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
        document = {
            "type": f"urn:waterclock:problem:{self.reason.replace('_', '-')}",
            "title": row.title,
            "status": self.status,
            "detail": detail,
            "budget_id": self.budget_id,
            "step": self.step,
            "outcome": self.outcome,
            "effect": self.effect,
            "phase": self.phase,
            "reason": self.reason,
            "allowed_ms": self.allowed_ms,
            "elapsed_ms": self.elapsed_ms,
            "remaining_ms": self.remaining_ms,
            "idempotency_key": self.idempotency_key,
            "record": self.record,
            "retry_after_ms": self.retry_after_ms,
            "next": row.next,
            "message": message,
            "error": {
                "message": message,
                "type": self.outcome,
                "code": self.reason,
            },
        }
        return json.dumps(document).encode() + b"\n"
