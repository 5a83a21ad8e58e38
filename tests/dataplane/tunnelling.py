"""What the tests of tunnels share: how a client comes through one, and what it may ask for in there."""

from __future__ import annotations

import base64
from typing import Any

from tests.dataplane.world import FakeClient, World, request


def connect(authority: str = "tool:80", **fields: Any) -> bytes:
    """A CONNECT."""
    return request("CONNECT", authority, **fields)


def through(world: World, authority: str = "tool:80", said: bytes = b"", **fields: Any) -> FakeClient:
    """A client whose tunnel stands. `said`: what it sends together with its CONNECT."""
    client = world.client().sends(connect(authority, **fields) + said)
    world.loop.settle()
    assert client.statuses[:1] == [200]
    return client


def asked(
    method: str = "GET", path: str = "/", body: bytes = b"", host: str | None = "tool", **fields: Any
) -> bytes:
    """A request in origin form, as a client sends it to whom it takes for the tool."""
    return request(method, path, body, Host=host, **fields)


def user(name: str, remaining_ms: int | None = None) -> dict[str, Any]:
    """What a client sends with its CONNECT whose proxy URL is `http://name:remaining@…`."""
    pair = f"{name}:{'' if remaining_ms is None else remaining_ms}"
    return {"Proxy_Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def seen(client: FakeClient) -> str | None:
    """The record that the answer to the CONNECT has named."""
    head = client.received.partition(b"\r\n\r\n")[0].decode()
    return dict(line.split(": ", 1) for line in head.split("\r\n")[1:]).get("Budget-Record")
