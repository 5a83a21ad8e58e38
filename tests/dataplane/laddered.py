"""Worlds whose only route has a ladder, for the tests of what is sent and of what is given instead."""

from __future__ import annotations

import json
from typing import Any

from proxy.core.calls import Kind
from proxy.core.degrading import CacheUse, Change, FixedAnswer, RouteCache, Rung
from proxy.core.json_path import parse
from proxy.core.policy import BudgetDefaults, Policy, Route
from proxy.core.units import MILLISECOND
from proxy.core.upstream import Upstream
from tests.dataplane.world import FakeClient, World

SMALL = Upstream("http", "small", 80)
SORRY = FixedAnswer(503, body=b'{"error":{"type":"overloaded"}}')
FULL = Rung("full", 500 * MILLISECOND)
FAST = Rung(
    "fast",
    300 * MILLISECOND,
    change=Change(json=((parse("$.model"), '"mini"'), (parse("$.max_tokens"), "300"))),
)
MINIMAL = Rung(
    "minimal", 150 * MILLISECOND, change=Change(json=((parse("$.model"), '"small"'),)), upstream=SMALL
)
CACHED = Rung("cached", 5 * MILLISECOND, cache=CacheUse())
APOLOGY = Rung("sorry", answer=SORRY)
LADDER = (FULL, FAST, MINIMAL, CACHED, APOLOGY)
ASKED = {"model": "large", "messages": [{"role": "user", "content": "hello"}]}


def laddered(
    *ladder: Rung, budget: BudgetDefaults | None = None, policy: dict[str, Any] | None = None, **route: Any
) -> World:
    """A world whose only route has this ladder, and only reads."""
    fallback = Route("fallback", effect=Kind.READ, ladder=ladder or LADDER, **route)
    return World(Policy(fallback=fallback, budget=budget or BudgetDefaults(), **policy or {}))


def asks(client: FakeClient, left_ms: int, body: Any = None, **fields: Any) -> FakeClient:
    """Ask for a completion with so much left."""
    text = body if isinstance(body, bytes) else json.dumps(ASKED if body is None else body).encode()
    return client.asks("POST", "http://model/v1/chat", text, Budget_Remaining_Ms=left_ms, **fields)


def sent(world: World, number: int = -1) -> dict[str, Any]:
    """The JSON body that an upstream got last."""
    found: dict[str, Any] = json.loads(world.upstreams[number].received.rpartition(b"\r\n\r\n")[2])
    return found


def cached(**cache: Any) -> RouteCache:
    """The cache of a route."""
    return RouteCache(**cache)
