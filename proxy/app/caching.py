"""The places outside of this process that its cache keeps answers in, as the policy in force names them.

A place that stays the same from one policy to the next keeps its connections. One that cannot be used is said so once, and
done without: the cache is no part of a call that it could fail.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from proxy.core.policy import Policy
from proxy.core.upstream import Upstream
from proxy.dataplane.plane import Plane
from proxy.degrade.cache.semantic import SemanticClient
from proxy.degrade.cache.store_address import store_address
from proxy.net.dial import Dialer
from proxy.observe.steplog import StepLog

if TYPE_CHECKING:
    from proxy.degrade.cache.remote import SharedStore


class Caching:
    """What stands outside, for one sidecar."""

    def __init__(self, plane: Plane, dialer: Dialer, log: StepLog) -> None:
        """Begin with nothing; `adopt` looks at a policy."""
        self._plane = plane
        self._dialer = dialer
        self._log = log
        self._named: tuple[str | None, Upstream | None] = (None, None)
        self._barrier = (plane.policy.egress, plane.policy.mode)

    def adopt(self, policy: Policy) -> None:
        """Put the places that a policy names in the place of those of the one before."""
        store, service = policy.cache.store, policy.cache.service
        cache, (old_store, old_service) = self._plane.cache, self._named
        # Connections that stand are those that were allowed then.
        barrier, old_barrier = (policy.egress, policy.mode), self._barrier
        cache.adopt(
            cache.store if store == old_store and barrier == old_barrier else self._store(store),
            cache.service if service == old_service else self._service(service),
        )
        self._named, self._barrier = (store, service), barrier

    def _store(self, url: str | None) -> SharedStore | None:
        if url is None:
            return None
        address = store_address(url)
        plane = self._plane
        try:
            from proxy.degrade.cache.redis_store import RedisStore

            return RedisStore(
                plane.loop,
                plane.clock,
                self._dialer,
                address,
                lambda: plane.policy.cache,
                partial(plane.observer.cache_failed, "store"),
            )
        except ImportError:
            self._log.event(
                "cache_store_unavailable",
                store=repr(address),
                problem="the library that speaks to it is not installed",
                remedy="pip install 'waterclock[redis]'",
                consequence="answers are kept in this process only",
            )
            return None

    def _service(self, service: Upstream | None) -> SemanticClient | None:
        if service is None:
            return None
        plane = self._plane
        return SemanticClient(
            plane.loop,
            plane.clock,
            plane.pool,
            service,
            lambda: plane.policy.cache,
            lambda: plane.policy.connections,
            partial(plane.observer.cache_failed, "service"),
        )
