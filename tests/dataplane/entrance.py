"""A sidecar in front of an app, for tests of entry requests in the world without sockets."""

from __future__ import annotations

from typing import Any

from proxy.core.policy import (
    Address,
    BudgetDefaults,
    Correlation,
    Inbound,
    LedgerBounds,
    Listen,
    Mode,
    Policy,
    Route,
)
from proxy.core.units import SECOND
from tests.dataplane.world import FakeClient, FakeUpstream, World, request

APP = Address("127.0.0.1", 8080)
ENTRANCE = Address("0.0.0.0", 10801)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER_TRACE = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EVERY_WAY = tuple(Correlation)


def inbound(
    *routes: Route,
    measure: bool = False,
    mode: Mode = Mode.ENFORCE,
    bounds: LedgerBounds | None = None,
    **budget: Any,
) -> World:
    """A sidecar in front of an app, with a budget of ten seconds, the last of which is reserved."""
    defaults = {"default": 10 * SECOND, "reserve": SECOND} | budget
    policy = Policy(
        mode=mode,
        routes=routes,
        listen=Listen(inbound=Inbound(ENTRANCE, APP, measure)),
        budget=BudgetDefaults(**defaults),
        ledger=bounds if bounds is not None else LedgerBounds(),
    )
    return World(policy)


def enters(client: FakeClient, method: str = "GET", target: str = "/run", **fields: Any) -> FakeClient:
    """Send an entry request."""
    body = fields.pop("body", b"{}" if method == "POST" else b"")
    return client.sends(request(method, target, body, Host="agent", **fields))


def app_of(world: World) -> FakeUpstream:
    """The connection to the app that was opened last."""
    return next(up for up in reversed(world.upstreams) if up.origin.port == APP.port)


def tool_of(world: World) -> FakeUpstream:
    """The connection to a tool that was opened last."""
    return next(up for up in reversed(world.upstreams) if up.origin.port != APP.port)
