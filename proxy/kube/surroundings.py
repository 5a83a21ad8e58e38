"""What stands around a pod: its namespace and the BudgetPolicies there, from the mirrors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from proxy.kube.cluster import NAMESPACES, Cluster, ClusterError, Object
from proxy.kube.injection.decision import Surroundings
from proxy.kube.mirror import Mirror
from proxy.kube.policies.controller import refs

LOOKUP_SECONDS: Final = 1.0
NATIVE_SINCE: Final = (1, 29)


class Unknown(Exception):
    """It cannot be told in time what stands around a pod. The message says why."""


class Neighbourhood:
    """Knows the surroundings of pods. `namespaces` and `policies` are mirrors, of every namespace."""

    def __init__(
        self,
        cluster: Cluster,
        namespaces: Mirror,
        policies: Mirror,
        version: Callable[[], tuple[int, int]],
    ) -> None:
        """`version`: the API server's, major and minor."""
        self._cluster = cluster
        self._namespaces = namespaces
        self._policies = policies
        self._version = version

    async def around(self, namespace: str, *, afresh: bool = False) -> Surroundings:
        """Return what stands around a pod of a namespace.

        A namespace that is not mirrored yet, or is wanted `afresh`, is asked for. Raises Unknown when there is no answer
        within a second.
        """
        if not self._policies.synced.is_set():
            raise Unknown("the BudgetPolicies are not listed yet")
        found = None if afresh else self._namespaces.find(namespace)
        if not namespace:
            found = {"metadata": {}}  # a review that names none has nothing around it
        if found is None:
            found = await self._asked(namespace)
        metadata = found["metadata"]
        return Surroundings(
            namespace,
            metadata.get("labels") or {},
            metadata.get("annotations") or {},
            refs(each for each in self._policies.objects.values() if _is_in(each, namespace)),
            self._version() >= NATIVE_SINCE,
        )

    async def _asked(self, namespace: str) -> Object:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await self._cluster.get(NAMESPACES, namespace)
        except TimeoutError:
            raise Unknown(f"nothing was heard of the namespace {namespace} within a second") from None
        except ClusterError as error:
            raise Unknown(str(error)) from error


def _is_in(item: Object, namespace: str) -> bool:
    return bool(item["metadata"].get("namespace") == namespace)
