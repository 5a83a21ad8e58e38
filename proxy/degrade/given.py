"""Answers that no upstream gives: one that stands in the policy, one that the cache has kept. And the mark in a body."""

from __future__ import annotations

from typing import Any, Final

from proxy.core import exact_json
from proxy.core.degrading import Degraded, FixedAnswer
from proxy.wire.events import Field, Framing, ResponseHead
from proxy.wire.render import reason_phrase

_NO_SECOND_TRY: Final[tuple[Field, ...]] = (
    (b"x-should-retry", b"x-should-retry", b"false"),
    (b"stripe-should-retry", b"stripe-should-retry", b"false"),
)
"""For SDKs that would come again after such a status: there is less time then, and the same answer."""


def fixed(answer: FixedAnswer) -> ResponseHead:
    """Return the head of an answer that stands in the policy."""
    fields = [_field("Content-Type", answer.content_type)] if answer.body else []
    fields += [_field(name.title(), value) for name, value in answer.headers]
    if all(name != b"cache-control" for name, _, _ in fields):
        fields.append(_field("Cache-Control", "no-store"))
    if answer.status != 204:  # RFC 9110 §8.6
        fields.append(_field("Content-Length", str(len(answer.body))))
    if answer.status >= 400:
        fields += _NO_SECOND_TRY
    return ResponseHead(
        status=answer.status,
        reason=reason_phrase(answer.status),
        minor=1,
        fields=fields,
        index={name: value for name, _, value in fields},
        framing=Framing.LENGTH if answer.status != 204 else Framing.NO_BODY,
        length=len(answer.body) if answer.status != 204 else None,
        options=frozenset(),
        keep_alive=True,
    )


def marked(body: bytes, degraded: Degraded, latency_ms: int, most: int) -> bytes | None:
    """Return a JSON object that says itself that it is less than asked; None where the body is none that can be read.

    `most`: how long a body may be to be read while other calls wait (bytes).
    """
    if exact_json.takes_long(body):
        return None
    try:
        document: Any = exact_json.load(body, most=most)
        if not isinstance(document, dict):
            return None
        document |= {"degraded": True, "degradation_level": degraded.level, "latency_ms": latency_ms}
        return exact_json.rewrite(document)
    except ValueError:
        return None


def is_json(head: ResponseHead) -> bool:
    """Say whether a body is JSON that can be read here."""
    kind = (head.get(b"content-type") or b"").partition(b";")[0].strip().lower()
    packed = (head.get(b"content-encoding") or b"identity").lower() != b"identity"
    return (kind == b"application/json" or kind.endswith(b"+json")) and not packed


def _field(name: str, value: str) -> Field:
    return name.lower().encode("ascii"), name.encode("ascii"), value.encode("latin-1")
