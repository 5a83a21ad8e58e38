"""The JSON forms of what is shown to people and programs, for the control API and the command line alike.

Times are RFC 3339, spans of records milliseconds, spans of the policy as its file writes them. What could be a secret
is never shown: query values are hidden in the records already, credentials here.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from proxy.config.scalars import SPANS
from proxy.core.degrading import Change, FixedAnswer
from proxy.core.egress import Denied
from proxy.core.json_path import JsonPath
from proxy.core.policy import Address, Policy
from proxy.core.target import DEFAULT_PORTS
from proxy.core.upstream import Upstream
from proxy.core.writes import LateAnswer, WriteRecord, WriteState

# ------------------------------------------------------------------------------------------------- writes

_NEXT: Final[Mapping[WriteState, str]] = {
    WriteState.INTENT: "It is under way. Nothing is to be done.",
    WriteState.UNCERTAIN: "It may have happened. Check on the other side whether it did, then resolve this record as "
    "applied or not applied. Until then its repetition is refused; once writes.hold is over, it is a dead letter.",
    WriteState.REPORTED: "The other side answered. Its answer is the result; nothing is to be done.",
    WriteState.WITHDRAWN: "Nothing was sent. It may be sent again.",
    WriteState.APPLIED: "It happened. Do not send it again; nothing else is to be done.",
    WriteState.NOT_APPLIED: "It did not happen. It may be sent again.",
    WriteState.DEAD_LETTERED: "It was given up, and is not attempted again until someone decides. Release it to let it be "
    "attempted again, discard it to have it never sent again, or resolve it once it is known whether it happened.",
    WriteState.RELEASED: "Someone has decided that it may be attempted again. Nothing else is to be done.",
    WriteState.DISCARDED: "Someone has decided that it is never sent again. Nothing else is to be done.",
}


def write_view(record: WriteRecord, now_ms: int, *, body: bool = True) -> dict[str, Any]:
    """Return a write as JSON values. `now_ms` is Unix time; without `body` a late answer is shown without its own."""
    return {
        "id": record.id,
        "state": record.state.value,
        "opened_at": rfc3339(record.opened_at),
        "age_ms": max(0, now_ms - record.opened_at),
        "method": record.method,
        "target": record.target,
        "origin": record.origin,
        "route": record.route,
        "budget_id": record.budget_id,
        "step": record.step,
        "unit": record.unit,
        "idempotency_key": record.key,
        "fingerprint": record.fingerprint,
        "attempts": record.attempts,
        "phase": record.phase.value,
        "reason": record.reason,
        "resolved_by": record.resolved_by,
        "settled_at": rfc3339(record.settled_at) if record.settled_at else None,
        "answer": _answer(record.answer, body=body) if record.answer is not None else None,
        "next": _NEXT[record.state],
    }


def _answer(answer: LateAnswer, *, body: bool) -> dict[str, Any]:
    """`truncated`: less was kept than came."""
    shown: dict[str, Any] = {
        "status": answer.status,
        "headers": [list(field) for field in answer.fields],
        "bytes": answer.bytes,
        "truncated": len(answer.body) < answer.bytes,
        "elapsed_ms": answer.elapsed_ms,
    }
    if body:
        shown |= _text_or_base64(answer.body)
    return shown


def _text_or_base64(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode(), "body_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def rfc3339(unix_ms: int) -> str:
    """Return a time of day, in UTC, with its milliseconds."""
    time = datetime.datetime.fromtimestamp(unix_ms / 1000, tz=datetime.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ------------------------------------------------------------------------------------------------- policy

# The integers that are nanoseconds. All others are shown as they are.
NANOSECONDS: Final = frozenset(
    {
        "BudgetDefaults.default",
        "BudgetDefaults.max",
        "BudgetDefaults.reserve",
        "BudgetDefaults.transit_allowance",
        "BudgetDefaults.hop_allowance",
        "BudgetDefaults.client_timer_margin",
        "Share.span",
        "LedgerBounds.retention",
        "Retries.base",
        "Retries.cap",
        "Route.cap",
        "Route.min_start",
        "Tunnel.idle",
        "Tunnel.quiet",
        "Writes.hold_back_time",
        "Writes.linger",
        "Writes.hold",
        "Journal.retention",
        "Connections.idle",
        "Rung.needs",
        "RouteCache.ttl",
        "RouteCache.stale_if_error",
        "Truncate.margin",
        "CachePolicy.timeout",
        "Policy.subscription_idle",
        "Policy.grace",
    }
)
_SECRET: Final = re.compile(r"authorization|credential|passw|secret|token|user", re.IGNORECASE)
_USER_INFO: Final = re.compile(r"(?<=://)[^/?#@]*@")
_HIDDEN: Final = "(hidden)"


def policy_view(policy: Policy) -> dict[str, Any]:
    """Return a policy as JSON values, under the names that it has in `core.policy`."""
    return _members(policy)


def _members(value: Any) -> dict[str, Any]:
    kind = type(value).__name__
    shown = {}
    for field in dataclasses.fields(value):
        member = getattr(value, field.name)
        if not isinstance(member, bool | None) and _SECRET.search(field.name):
            shown[field.name] = _HIDDEN
        elif member is None and (kind, field.name) == ("Rung", "needs"):
            shown[field.name] = "auto"
        elif isinstance(member, int) and f"{kind}.{field.name}" in NANOSECONDS:
            shown[field.name] = SPANS.show(member)
        else:
            shown[field.name] = _plain(member)
    return shown


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return _USER_INFO.sub(f"{_HIDDEN}@", value)
        case bytes():
            return value.decode("latin-1")
        case re.Pattern():
            return value.pattern
        case Address() | Denied() | JsonPath():
            return str(value)
        case Upstream():
            return _url(value)
        case Change():
            return _change(value)
        case FixedAnswer():
            return _members(value) | {
                "body": value.body.decode(errors="replace"),
                "headers": dict(value.headers),
            }
        case frozenset():
            return sorted(map(_plain, value))
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return _members(value)


def _change(change: Change) -> dict[str, Any]:
    """Return what a rung changes. A key of another service is no secret in a body, but usually in a header or a query."""
    return {
        "json": {str(path): json.loads(text) for path, text in change.json},
        "headers": dict.fromkeys((name for name, _ in change.headers), _HIDDEN),
        "query": dict.fromkeys((name for name, _ in change.query), _HIDDEN),
    }


def _url(upstream: Upstream) -> str:
    address = Address(upstream.host, upstream.port)
    default = DEFAULT_PORTS.get(upstream.scheme) == upstream.port
    authority = str(address).removesuffix(f":{upstream.port}") if default else str(address)
    return f"{upstream.scheme}://{authority}{upstream.path}"
