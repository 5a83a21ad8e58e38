"""What a policy may say, and what will surprise whoever said it: no fault, and told where policies are checked."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from proxy.core.policy import Policy, Route


def remarks(policy: Policy) -> Iterator[str]:
    """Yield a sentence for each thing that is surprising."""
    yield from _doors(policy)
    for route in (*policy.routes, policy.fallback):
        for rung in route.ladder:
            if rung.cache is not None and rung.cache.semantic is not None and policy.cache.service is None:
                yield (
                    f"route {route.name}, rung {rung.name}: semantic finds nothing, since no cache.service is given"
                    f"{'; the same request is found' if rung.cache.exact else ''}."
                )
        changes = any(rung.change is not None and rung.change.json for rung in route.ladder)
        if changes and not policy.writes.fingerprint_bytes:
            yield f"route {route.name}: no rung changes a body, since none is held with writes.fingerprint_bytes 0B."
        if _caches(route) and not policy.cache.bytes and policy.cache.store is None:
            yield f"route {route.name}: nothing is kept, since cache.bytes is 0B and no cache.store is given."


def _caches(route: Route) -> bool:
    return route.cache is not None or any(rung.cache is not None for rung in route.ladder)


def _doors(policy: Policy) -> Iterator[str]:
    outbound, parent = policy.listen.outbound, policy.connections.proxy
    if not ipaddress.ip_address(outbound.host).is_loopback:
        yield (
            f"listen.outbound: {outbound} can be reached from outside the pod, and whoever calls from there is turned away; "
            f"127.0.0.1:{outbound.port} is enough, for redirected connections too."
        )
    if parent is not None and any(entry.networks for entry in policy.egress.deny):
        yield (
            "egress.deny: what connections.proxy is asked for is looked up there, so an address is seen here only where a "
            "call names it; deny the networks there too."
        )
    if parent is not None and policy.egress.denies_host(parent.host):
        yield f"egress.deny: connections.proxy ({parent.host}) is reached all the same, since the policy names it."
