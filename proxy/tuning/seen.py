"""A step as its record tells of it, from a log line or the control API: what tuning needs to know, checked.

Records come from files that anybody may have written, so nothing is taken for granted: a member of the wrong type or beyond
all measure makes the record unreadable. Members that a version did not have yet count as null.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from proxy.core.units import MILLISECOND

_LONGEST_MS: Final = 1e13  # some three hundred years
_LONGEST_TEXT: Final = 4096


class Unreadable(ValueError):
    """What should be a step's record is none."""


class Seen(NamedTuple):
    """A step that has ended. Spans are nanoseconds; `started` counts from the opening of its budget.

    `process` tells the sidecars apart whose records come together. `rung` is the one that answered, `level` how far below the
    first it stands, and `why` why it was not the first.
    """

    process: str
    budget_id: str
    number: int
    stage: str | None
    route: str
    started: int
    elapsed: int
    queued: int
    remaining: int
    allowed: int | None
    outcome: str
    reason: str | None
    would: str | None
    status: int | None
    tries: int
    rung: str | None
    level: int
    why: str | None


def seen(record: dict[str, Any]) -> Seen | None:
    """Return the step that a record is of; None for one that no budget was held to. Raises Unreadable."""
    budget_id, remaining = _text(record, "budget_id"), _span(record, "remaining_ms", negative=True)
    if budget_id is None or remaining is None:
        return None
    degraded = record.get("degraded")
    if degraded is not None and not isinstance(degraded, dict):
        raise Unreadable("degraded")
    less: dict[str, Any] = degraded or {}
    return Seen(
        process=_given(record, "record").rpartition("-")[0],
        budget_id=budget_id,
        number=_count(record, "step") or 0,
        stage=_text(record, "stage"),
        route=_given(record, "route"),
        started=_span(record, "started_ms") or 0,
        elapsed=_span(record, "elapsed_ms") or 0,
        queued=_span(record, "queued_ms") or 0,
        remaining=remaining,
        allowed=_span(record, "allowed_ms", negative=True),
        outcome=_given(record, "outcome"),
        reason=_text(record, "reason"),
        would=_text(record, "would"),
        status=_count(record, "status"),
        tries=_count(record, "tries") or 0,
        rung=_text(record, "rung"),
        level=_count(less, "level") or 0,
        why=_text(less, "reason"),
    )


def _text(record: dict[str, Any], name: str) -> str | None:
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise Unreadable(name)
    return value


def _given(record: dict[str, Any], name: str) -> str:
    value = _text(record, name)
    if value is None:
        raise Unreadable(name)
    return value


def _count(record: dict[str, Any], name: str) -> int | None:
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1 << 53:
        raise Unreadable(name)
    return value


def _span(record: dict[str, Any], name: str, *, negative: bool = False) -> int | None:
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise Unreadable(name)
    if not (-_LONGEST_MS if negative else 0) <= value <= _LONGEST_MS:
        raise Unreadable(name)
    return round(value * MILLISECOND)
