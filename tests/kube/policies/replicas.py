"""Replicas of the injector, as far as policies go, on a cluster in memory and a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from proxy.kube.backoff import Backoff
from proxy.kube.cluster import BUDGET_POLICIES, CONFIG_MAPS, NAMESPACES, WEBHOOKS, Object, Resource
from proxy.kube.events import Events, Happening
from proxy.kube.metrics import Metrics
from proxy.kube.mirror import Mirror
from proxy.kube.policies.budget_policy import BudgetPolicy, read_budget_policy
from proxy.kube.policies.controller import SELECTOR, PolicyController
from proxy.kube.policies.keeper import Mirrors
from proxy.kube.policies.source import PolicySource
from proxy.kube.settings import Settings
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.logbook import Logbook
from tests.kube.server.manual import ManualTime

WEBHOOK = Settings().webhook_name


class Told(Events):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Happening] = []

    def tell(self, what: Happening) -> None:
        self.told.append(what)


async def _never(seconds: float) -> None:
    await asyncio.Event().wait()


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


async def _idle(most: int = 400) -> None:
    """Let everything happen that needs no time. What fails again and again without a pause has no end, and is cut off."""
    ready = getattr(asyncio.get_running_loop(), "_ready", None)  # what asyncio's own loop has still to do
    for _ in range(most if ready is not None else most // 2):
        await asyncio.sleep(0)
        if ready is not None and not ready:
            return


async def _read(item: Object) -> BudgetPolicy:
    await asyncio.sleep(0)
    return read_budget_policy(item)


class Replica:
    """One of them: it mirrors and answers; `lead` and `follow` say whether it leads."""

    def __init__(self, cluster: FakeCluster, time: ManualTime, settings: Settings) -> None:
        self.log = Logbook()
        self.metrics = Metrics()
        self.events = Told()
        self.source = PolicySource(None, self.log, pause=_never)
        self._mirrors = [
            Mirror(cluster, resource, fields=fields, backoff=Backoff(pause=_at_once))
            for resource, fields in (
                (NAMESPACES, ""),
                (CONFIG_MAPS, SELECTOR),
                (BUDGET_POLICIES, ""),
                (WEBHOOKS, f"metadata.name={WEBHOOK}"),
            )
        ]
        self.controller = PolicyController(
            cluster,
            settings,
            self.source,
            Mirrors(*self._mirrors),
            self.metrics,
            self.events,
            self.log,
            read=_read,
            clock=time.clock,
            pause=time.pause,
        )
        self._leading: asyncio.Task[None] | None = None
        self._tasks = [
            asyncio.get_running_loop().create_task(each)
            for each in (self.controller.run(), *(mirror.run() for mirror in self._mirrors))
        ]

    @property
    def leads(self) -> bool:
        """Whether it leads."""
        return self._leading is not None

    def lead(self) -> None:
        """Begin to lead."""
        work: Coroutine[Any, Any, None] = self.controller.lead()
        self._leading = asyncio.get_running_loop().create_task(work)

    async def follow(self) -> None:
        """Lead no more."""
        if self._leading is not None:
            self._leading.cancel()
            await asyncio.wait([self._leading])
            self._leading = None
            self.metrics.leads(False)

    def chart(self, text: str) -> None:
        """Let the chart's policy be another one."""
        self.source.text = text
        self.controller._all_changed()

    def look(self) -> None:
        """Wake those who wait for a time that has come on a clock moved by hand."""
        for queue in (self.controller._waited_for, self.controller._kept):
            if queue is not None:
                queue._bell.ring()

    async def stop(self) -> None:
        """End everything."""
        await self.follow()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            assert task.cancelled() or task.exception() is None


class World:
    """A cluster with two replicas."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.cluster = FakeCluster()
        self.time = ManualTime()
        self.install()
        self.replicas = [Replica(self.cluster, self.time, self.settings) for _ in range(2)]

    def install(self) -> None:
        """Make the MutatingWebhookConfiguration that owns everything."""
        self.cluster.put(WEBHOOKS, {"metadata": {"name": WEBHOOK}})

    async def pass_time(self, seconds: float, step: float = 10.0) -> None:
        """Let time pass, and everything happen that follows."""
        while seconds > 0:
            for replica in self.replicas:
                replica.look()
            await _idle()
            await self.time.advance(min(step, seconds))
            seconds -= step
        for replica in self.replicas:
            replica.look()
        await _idle()

    async def quiet(self) -> None:
        """Wait for what comes of a change."""
        await self.pass_time(1, step=0.25)

    def config_map(self, namespace: str) -> Object | None:
        """The ConfigMap of a namespace."""
        return self.cluster.peek(CONFIG_MAPS, "waterclock-policy", namespace)

    def policy(self, name: str, namespace: str) -> Object | None:
        """A BudgetPolicy."""
        return self.cluster.peek(BUDGET_POLICIES, name, namespace)

    def writes(self) -> int:
        """How many requests there were that write."""
        return sum(self.cluster.count(method) for method in ("create", "replace", "patch", "delete"))

    def change(self, resource: Resource, name: str, namespace: str = "", **changes: Any) -> None:
        """Let somebody else change an object: `changes` are put over what it has."""
        there = self.cluster.peek(resource, name, namespace)
        assert there is not None
        self.cluster._change(resource, self.cluster._there(resource, name, namespace), there | changes, "")

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Let somebody else delete an object."""
        self.cluster._delete(resource, self.cluster._there(resource, name, namespace))

    def relabel(self, namespace: str, inject: str | None) -> None:
        """Set or take away the label of a namespace."""
        there = self.cluster.peek(NAMESPACES, namespace)
        assert there is not None
        labels = {key: value for key, value in there["metadata"]["labels"].items() if "inject" not in key}
        labels |= {"waterclock.dev/inject": inject} if inject else {}
        self.change(NAMESPACES, namespace, metadata=there["metadata"] | {"labels": labels})

    async def stop(self) -> None:
        """End everything."""
        for replica in self.replicas:
            await replica.stop()
