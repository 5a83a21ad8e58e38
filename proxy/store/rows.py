"""Records as rows. The columns stand in one order, here and nowhere else."""

from __future__ import annotations

import json
from typing import Any, Final

from proxy.core.calls import Phase
from proxy.core.writes import LateAnswer, WriteRecord, WriteState

Row = tuple[
    str,
    str,
    int,
    str,
    str,
    str,
    str,
    str,
    int,
    str | None,
    str,
    str,
    str,
    str,
    str | None,
    int,
    int,
    bytes | None,
]

COLUMNS: Final = (
    "id",
    "state",
    "opened_at",
    "origin",
    "method",
    "target",
    "route",
    "budget_id",
    "step",
    "key",
    "fingerprint",
    "phase",
    "reason",
    "resolved_by",
    "answer",
    "attempts",
    "settled_at",
    "answer_body",
)


def row_of(record: WriteRecord) -> Row:
    """Return the row of a record. Enumerations go in by value: SQLite takes a subclass of str only by a slow detour."""
    answer = record.answer
    return (
        record.id,
        record.state._value_,
        record.opened_at,
        record.origin,
        record.method,
        record.target,
        record.route,
        record.budget_id,
        record.step,
        record.key,
        record.fingerprint,
        record.phase._value_,
        record.reason,
        record.resolved_by,
        None if answer is None else _head_of(answer),
        record.attempts,
        record.settled_at,
        None if answer is None else answer.body,
    )


def record_of(row: Row) -> WriteRecord:
    """Return the record of a row. Raises ValueError when the row says what no record can say."""
    id, state, opened_at, origin, method, target, route, budget_id, step, *_ = row
    *_, key, fingerprint, phase, reason, resolved_by, answer, attempts, settled_at, body = row
    try:
        return WriteRecord(
            id=id,
            state=WriteState(state),
            opened_at=opened_at,
            origin=origin,
            method=method,
            target=target,
            route=route,
            budget_id=budget_id,
            step=step,
            key=key,
            fingerprint=fingerprint,
            phase=Phase(phase),
            reason=reason,
            resolved_by=resolved_by,
            answer=None if answer is None else _answer_of(json.loads(answer), body or b""),
            attempts=attempts,
            settled_at=settled_at,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the record {id} cannot be read: {error}") from error


def _head_of(answer: LateAnswer) -> str:
    """Return an answer without its body as JSON: it is read whole or not at all, so it needs no columns."""
    return json.dumps(
        {
            "status": answer.status,
            "fields": answer.fields,
            "bytes": answer.bytes,
            "elapsed_ms": answer.elapsed_ms,
        },
        separators=(",", ":"),
    )


def _answer_of(head: dict[str, Any], body: bytes) -> LateAnswer:
    fields = tuple((str(name), str(value)) for name, value in head["fields"])
    return LateAnswer(int(head["status"]), fields, body, int(head["bytes"]), float(head["elapsed_ms"]))
