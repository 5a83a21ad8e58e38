"""Records and policies for the tests of tuning."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from proxy.config import parse
from proxy.core.policy import Policy
from proxy.tuning.seen import Seen, seen

POLICY_TEXT = """\
# What every job gets.
budget:
  default: 10s        # promised
  reserve: 1s
  stages:
    retrieval: 1500ms # search and rerank
    llm: "5500ms"
    formatting: 500ms
    slack: 500ms
routes:
  - {name: search, match: {host: search.internal}, stage: retrieval}
  - name: chat
    match: {host: llm.internal}
    stage: llm
    effect: read
    ladder:
      - {name: full, needs: 5s}
      - name: fast      # the small one
        set: {json: {"$.model": small}}
      - {name: auto, needs: auto, set: {json: {"$.model": tiny}}}
      - {name: sorry, answer: {text: later, status: 503}}
  - {name: format, match: {host: format.internal}, stage: formatting}
"""


def policy(text: str = POLICY_TEXT) -> Policy:
    return parse(text, has_files=False)


def record(**changes: Any) -> dict[str, Any]:
    """The record of a step that went well, of a job of 10 s with a reserve of 1 s, unless something else is said."""
    plain: dict[str, Any] = {
        "record": "p1-1",
        "budget_id": "run-1",
        "step": 1,
        "stage": "retrieval",
        "route": "search",
        "method": "GET",
        "target": "http://search.internal/",
        "kind": "read",
        "started_ms": 0.0,
        "allowed_ms": 1500.0,
        "elapsed_ms": 400.0,
        "outcome": "completed",
        "effect": "none",
        "phase": "complete",
        "reason": None,
        "would": None,
        "status": 200,
        "degraded": None,
        "queued_ms": 0.0,
        "tries": 1,
        "rung": None,
    }
    made = plain | changes
    return {"remaining_ms": 9000.0 - made["started_ms"]} | made


CUT: dict[str, Any] = {"outcome": "deadline_exceeded", "reason": "stage_share", "status": 504}


def step(**changes: Any) -> Seen:
    """The same as tuning sees it."""
    found = seen(record(**changes))
    assert found is not None
    return found


OPENED = datetime(2026, 11, 30, 1, 49, tzinfo=UTC)


def line(at: Any = "", **changes: Any) -> bytes:
    """The same as the log has it, by default of a job that was opened at `OPENED`."""
    made = record(**changes)
    took = [made[name] for name in ("started_ms", "elapsed_ms") if isinstance(made[name], float)]
    at = (OPENED + timedelta(milliseconds=sum(took))).isoformat() if at == "" else at
    return json.dumps({"time": at, **record(**changes)}, separators=(",", ":")).encode() + b"\n"
