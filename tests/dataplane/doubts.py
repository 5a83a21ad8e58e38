"""Writes that are in doubt, and the questions about them, in the world without sockets."""

from __future__ import annotations

from typing import Any

from proxy.core.json_path import parse
from proxy.core.policy import Policy, Route, Verify, Writes
from proxy.core.units import SECOND
from proxy.core.writes import WriteBook, WriteState
from tests.dataplane.world import FakeClient, FakeUpstream, World

VERIFY = Verify("/orders?key={idempotency_key}", json=parse("$.items[0]"))
YES = b'{"items": [{"id": 1}]}'
NO = b'{"items": []}'


def verifying(verify: Verify | None = VERIFY, *, book: WriteBook | None = None, **route: Any) -> World:
    """A sidecar that may ask."""
    defaults: dict[str, Any] = {"name": "orders", "verify": verify} | route
    return World(Policy(routes=(Route(**defaults),), writes=Writes(linger=4 * SECOND)), book)


def writes(world: World, key: str | None = "k", **fields: Any) -> FakeClient:
    """Send a write."""
    target = fields.pop("target", "http://tool/orders")
    return world.client().asks(
        "POST", target, f'{{"order": "{key}"}}'.encode(), Idempotency_Key=key, **fields
    )


def doubt(world: World, key: str | None = "k", **fields: Any) -> FakeClient:
    """Send a write whose connection breaks: nobody listens for its answer any more."""
    client = writes(world, key, **fields)
    world.upstream().breaks_off()
    return client


def state(world: World) -> WriteState:
    """What is known of the one write."""
    (record,) = world.book.listed()
    return record.state


def questions(world: World) -> list[bytes]:
    """The heads of all questions so far, in no order that matters."""
    return [head for up in world.upstreams for head in up.heads if head.startswith((b"GET", b"HEAD"))]


def last(world: World) -> FakeUpstream:
    """The connection of the latest question."""
    return next(up for up in reversed(world.upstreams) if up.heads[-1].startswith((b"GET", b"HEAD")))


def at_rest(world: World) -> bool:
    """Nothing is watched, asked, opened or held for a question."""
    return len(world.plane.verifier) == 0 and world.plane.pool.counts()["active"] == 0
