"""The words for one call: what kind it is, how far it got, how it ended, what is known of its effect.

The phase is the evidence. From kind and phase follow the effect and, with what is left of the budget, what the
caller may do next; both are functions here, and nothing else in the package decides them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 §9.2.1
IDEMPOTENT_METHODS: Final = frozenset({"PUT", "DELETE"})  # RFC 9110 §9.2.2, less the safe ones


class Kind(StrEnum):
    """What repeating a call would do to the other side."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    WRITE = "write"
    OPAQUE = "opaque"


class Phase(StrEnum):
    """How far a call got. Members stand in order; a call only moves down."""

    NOT_SENT = "not_sent"
    SENDING = "sending"
    SENT = "sent"
    HEAD_RECEIVED = "head_received"
    COMPLETE = "complete"


class Outcome(StrEnum):
    """How a step ended."""

    COMPLETED = "completed"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    REFUSED = "refused"
    SHED = "shed"
    CONNECT_FAILED = "connect_failed"
    UPSTREAM_FAILED = "upstream_failed"
    CLIENT_GONE = "client_gone"


class Effect(StrEnum):
    """What is known of a call's effect on the other side."""

    NONE = "none"
    REPORTED = "reported"
    UNCERTAIN = "uncertain"


class Retry(StrEnum):
    """What the caller may do about a call that did not succeed."""

    SAFE = "safe"
    SAME_KEY = "same-key"
    VERIFY = "verify"
    NEVER = "never"


class Would(StrEnum):
    """What would have happened to a call, had the policy been enforced (`mode: observe`)."""

    CUT = "cut"
    REFUSE = "refuse"
    SHED = "shed"
    DEGRADE = "degrade"


def kind_of_method(method: str) -> Kind:
    """Return the kind a method implies by itself. An unknown method is a write."""
    if method in SAFE_METHODS:
        return Kind.READ
    return Kind.IDEMPOTENT if method in IDEMPOTENT_METHODS else Kind.WRITE


def effect_of(kind: Kind, phase: Phase) -> Effect:
    """Return what is known of the effect: nothing sent is none, a read is none, a whole answer is a report."""
    if phase is Phase.NOT_SENT or kind is Kind.READ:
        return Effect.NONE
    return Effect.REPORTED if phase is Phase.COMPLETE else Effect.UNCERTAIN


def retry_of(kind: Kind, effect: Effect, *, key_honoured: bool, time_left: bool) -> Retry | None:
    """Return what the caller may do, or None where a reported write leaves nothing to repeat.

    `key_honoured`: the call carried an idempotency key and its route declares that the other side honours it.
    `time_left`: a further attempt could still start under the same budget.
    """
    if effect is Effect.REPORTED and kind in (Kind.WRITE, Kind.OPAQUE):
        return None
    if not time_left:
        return Retry.VERIFY if effect is Effect.UNCERTAIN and kind is not Kind.IDEMPOTENT else Retry.NEVER
    if effect is Effect.NONE or kind is Kind.IDEMPOTENT:
        return Retry.SAFE
    return Retry.SAME_KEY if key_honoured else Retry.VERIFY
