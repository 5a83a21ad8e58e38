"""Worlds whose only route tries again, for the tests of what is tried and of what is sent."""

from __future__ import annotations

from typing import Any

from proxy.core.calls import Outcome
from proxy.core.policy import Idempotency, Policy, Retries, Route
from tests.dataplane.world import World, response

EVERYTHING = Retries(
    max=2,
    outcomes=frozenset({Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED, Outcome.DEADLINE_EXCEEDED}),
    statuses=frozenset({429, 503}),
)
HELD_BYTES = 1_048_576
BUSY = response(503, b"busy")
PART = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"


def trying(
    retries: Retries = EVERYTHING,
    *,
    honoured: bool = False,
    policy: dict[str, Any] | None = None,
    **route: Any,
) -> World:
    """A world whose only route tries again."""
    idempotency = Idempotency(honoured=honoured)
    fallback = Route("fallback", retries=retries, idempotency=idempotency, **route)
    return World(Policy(fallback=fallback, **policy or {}))


def heads_of(world: World) -> list[bytes]:
    """The request heads that were sent, connection by connection."""
    return [head for upstream in world.upstreams for head in upstream.heads]
