"""BudgetPolicies as they were read, each once for every change: a large one takes a second, and reviews must not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

from proxy.kube.cluster import Object
from proxy.kube.mirror import Key, key_of
from proxy.kube.policies.budget_policy import BudgetPolicy, read_budget_policy

Read = Callable[[Object], Awaitable[BudgetPolicy]]


def reading_in(executor: Executor) -> Read:
    """Return how to read in another thread."""

    async def read(item: Object) -> BudgetPolicy:
        return await asyncio.get_running_loop().run_in_executor(executor, read_budget_policy, item)

    return read


class Readings:
    """Remembers what was read of each object, until it changes or goes."""

    def __init__(self, read: Read) -> None:
        """Nothing is read yet."""
        self._read = read
        self._found: dict[Key, BudgetPolicy] = {}

    async def of(self, item: Object) -> BudgetPolicy:
        """Return what an object says."""
        key, metadata = key_of(item), item["metadata"]
        known = self._found.get(key)
        if known is None or (known.uid, known.generation) != (metadata["uid"], metadata.get("generation", 0)):
            known = self._found[key] = await self._read(item)
        return known

    def changed(self, type: str, item: Object) -> None:
        """Forget what has gone."""
        if type == "DELETED":
            self._found.pop(key_of(item), None)
