"""Another place than the one that a call names: where a route, a rung of a ladder or a service of our own leads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a base-URL route leads: scheme, host, port and a path that goes before the rest of the target.

    `userinfo`: `user:password` as it stands in a URL, percent-encoded; only a parent proxy and a store have one.
    """

    scheme: str
    host: str
    port: int
    path: str = ""
    userinfo: str = ""
