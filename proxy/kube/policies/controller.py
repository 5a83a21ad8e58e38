"""Whose policy holds where, as a part of the injector: what changes is noted, and looked after by a few at a time."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from prometheus_client import Gauge

from proxy.kube.backoff import Pause
from proxy.kube.cluster import Cluster, Conflict, Object
from proxy.kube.events import Events, Happening
from proxy.kube.injection.decision import BudgetPolicyRef
from proxy.kube.log import Log
from proxy.kube.metrics import Metrics
from proxy.kube.names import POLICY_CONFIG_MAP
from proxy.kube.policies.keeper import LEFT_ALONE, Keeper, Mirrors, Outcome
from proxy.kube.policies.queue import Queue
from proxy.kube.policies.readings import Read, Readings, reading_in
from proxy.kube.policies.source import PolicySource
from proxy.kube.policies.status import is_usable
from proxy.kube.settings import Settings

SELECTOR: Final = f"metadata.name={POLICY_CONFIG_MAP}"
"""The field selector of the ConfigMaps that are mirrored."""
_WORKERS: Final = 4
_RESYNC_SECONDS: Final = 600.0


def refs(policies: Iterable[Object]) -> list[BudgetPolicyRef]:
    """Return the BudgetPolicies that a pod can have: those whose text stands in the namespace's ConfigMap."""
    return [
        BudgetPolicyRef(
            each["metadata"]["name"],
            (each.get("spec") or {}).get("selector"),
            each["metadata"].get("creationTimestamp", ""),
        )
        for each in policies
        if is_usable(each)
    ]


class PolicyController:
    """Keeps the policy's ConfigMaps, and says what has become of BudgetPolicies.

    `run` is for every replica: it follows the chart's policy, and makes the ConfigMap that a pod waits for. `lead` is
    for the one that leads, and does all the rest. `injected` is to be told of every pod that is injected.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        source: PolicySource,
        mirrors: Mirrors,
        metrics: Metrics,
        events: Events | None,
        log: Log,
        *,
        read: Read | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """The mirrors are run by somebody else. `read`: how BudgetPolicies are read, without it in a thread of their own.

        `clock`: monotonic nanoseconds.
        """
        self._source = source
        self._mirrors = mirrors
        self._metrics = metrics
        self._events = events
        self._log = log
        self._clock = clock
        self._pause = pause
        readings = Readings(read or reading_in(ThreadPoolExecutor(1, "policies")))
        excluded = {*settings.excluded_namespaces, settings.namespace}
        self._keeper = Keeper(cluster, mirrors, readings, lambda: source.text, excluded, log)
        self._waited_for = Queue(clock)
        self._kept: Queue | None = None
        self._outcomes: dict[str, Outcome] = {}
        self._troubled: set[str] = set()
        mirrors.policies.listen(readings.changed)
        mirrors.config_maps.listen(_share)
        for mirror in (mirrors.config_maps, mirrors.policies):
            mirror.listen(lambda _, item: self._changed(item["metadata"]["namespace"]))
        mirrors.namespaces.listen(self._namespace_changed)
        mirrors.webhooks.listen(lambda *_: self._all_changed())

    async def run(self) -> None:
        """Follow the chart's policy, and make what pods wait for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            _ = group.create_task(self._source.run(self._all_changed))
            await self._mirrors.synced()
            await self._waited_for.work(partial(self._look_after, leads=False))

    async def lead(self) -> None:
        """Look after every namespace, until cancelled."""
        await self._mirrors.synced()
        queue = self._kept = Queue(self._clock)
        self._outcomes.clear()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    _ = group.create_task(queue.work(partial(self._look_after, leads=True)))
                while True:
                    self._all_changed()
                    await self._pause(_RESYNC_SECONDS)
        finally:
            self._kept = None
            for namespace in self._keeper.asked:
                self._changed(namespace)

    def injected(self, namespace: str) -> None:
        """Take note of an injected pod: it waits until its ConfigMap is there."""
        if not self._keeper.is_served(namespace):
            self._keeper.asked.add(namespace)
            self._changed(namespace)

    def _changed(self, namespace: str) -> None:
        if self._kept is not None:
            self._kept.add(namespace)
        elif namespace in self._keeper.asked:
            self._waited_for.add(namespace)

    def _namespace_changed(self, type: str, item: Object) -> None:
        name = item["metadata"]["name"]
        if type == "DELETED":
            self._keeper.asked.discard(name)
        self._changed(name)

    def _all_changed(self) -> None:
        for namespace in self._mirrors.namespaced() | self._outcomes.keys():
            self._changed(namespace)

    async def _look_after(self, namespace: str, *, leads: bool) -> bool | None:
        """Look after a namespace: return whether something was written, None when something could not be."""
        try:
            outcome = await self._keeper.look_after(namespace, leads=leads)
        except Exception as error:  # noqa: BLE001 - a fault in one namespace must not stop the others
            fault = "".join(traceback.format_exception(error))
            self._log.event("fault", part="policies", namespace=namespace, exception=fault)
            return None
        if leads and not isinstance(outcome.problem, Conflict):
            self._show(namespace, outcome)
        if outcome.problem is None:
            self._troubled.discard(namespace)
            return outcome.wrote
        if namespace not in self._troubled and not isinstance(outcome.problem, Conflict):
            self._troubled.add(namespace)
            self._log.event("policy_not_kept", namespace=namespace, problem=str(outcome.problem))
        return None

    def _show(self, namespace: str, outcome: Outcome) -> None:
        """Bring the numbers up to date, and tell of a ConfigMap that is somebody else's."""
        before = self._outcomes.pop(namespace, LEFT_ALONE)
        if outcome.config_map or outcome.policies:
            self._outcomes[namespace] = outcome
        for gauge in self._counted_in(before):
            gauge.dec()
        for gauge in self._counted_in(outcome):
            gauge.inc()
        if outcome.config_map == "foreign" != before.config_map:
            self._tell_foreign(namespace)

    def _counted_in(self, outcome: Outcome) -> Iterator[Gauge]:
        if outcome.config_map:
            yield self._metrics.policy_config_maps.labels(outcome.config_map)
        for reason in outcome.policies.values():
            yield self._metrics.budget_policies.labels(reason)

    def _tell_foreign(self, namespace: str) -> None:
        there = self._mirrors.config_maps.find(POLICY_CONFIG_MAP, namespace)
        self._log.event("policy_foreign", namespace=namespace)
        if self._events is None or there is None:
            return
        message = (
            f"{POLICY_CONFIG_MAP} is the name of the ConfigMap that the injector keeps, and somebody else has made this "
            "one. It is left as it is; rename or delete it, and the injector makes its own."
        )
        uid = there["metadata"]["uid"]
        self._events.tell(
            Happening(
                namespace, "v1", "ConfigMap", POLICY_CONFIG_MAP, uid, "ForeignConfigMap", "Warning", message
            )
        )


def _share(_: str, config_map: Object) -> None:
    """Let equal texts be one text: the chart's policy stands in every namespace."""
    if data := config_map.get("data"):
        config_map["data"] = {key: sys.intern(text) for key, text in data.items()}
