"""Brings one namespace at a time to where it should be: its ConfigMap first, then what is said of its BudgetPolicies.

It looks at what the mirrors show then, and writes nothing that is there already. A mirror may be behind: whatever is
written names the version that it was made from, so that the API server refuses what is out of date, and the namespace
comes again. Only the leader keeps and repairs. The others make a ConfigMap where a pod that they have injected waits for
one, and leave the rest to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from proxy.core.units import SECOND
from proxy.kube.cluster import (
    BUDGET_POLICIES,
    CONFIG_MAPS,
    Cluster,
    ClusterError,
    Conflict,
    NotFound,
    Object,
    Resource,
)
from proxy.kube.log import Log
from proxy.kube.mirror import Mirror
from proxy.kube.names import POLICY_CONFIG_MAP, POLICY_FILE
from proxy.kube.ownership import owned_by
from proxy.kube.policies.compiled import Compiled, compile_policies
from proxy.kube.policies.config_map import Step, Wish, is_ours, next_step, written
from proxy.kube.policies.opting import Standing, standing_of
from proxy.kube.policies.readings import Readings
from proxy.kube.policies.source import BUILT_IN
from proxy.kube.policies.status import Place, new_status, telling_reason
from proxy.observe.walltime import unix_ns


@dataclass(frozen=True, slots=True)
class Mirrors:
    """What the keeper looks at. `config_maps`: those named waterclock-policy; `webhooks`: the injector's configuration."""

    namespaces: Mirror
    config_maps: Mirror
    policies: Mirror
    webhooks: Mirror

    async def synced(self) -> None:
        """Wait until everything has been listed."""
        for mirror in (self.namespaces, self.config_maps, self.policies, self.webhooks):
            _ = await mirror.synced.wait()

    def webhook(self) -> Object | None:
        """Return the MutatingWebhookConfiguration that owns what is kept."""
        return next(iter(self.webhooks.objects.values()), None)

    def namespaced(self) -> set[str]:
        """Return every namespace that there is, or was a moment ago."""
        there = (*self.config_maps.objects, *self.policies.objects)
        return {namespace for namespace, _ in there} | {name for _, name in self.namespaces.objects}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a look at a namespace came to. `wrote`: something was written; `problem`: what could not be.

    `config_map`: in what state its ConfigMap is (`kept`, `pending`, `foreign`), empty where there is none and none is
    wanted. `policies`: of each BudgetPolicy, the reason that tells most of it.
    """

    wrote: bool = False
    problem: ClusterError | None = None
    config_map: str = ""
    policies: Mapping[str, str] = field(default_factory=dict)


LEFT_ALONE: Final = Outcome()


class Keeper:
    """Looks after namespaces. `asked` holds those where a pod waits for a ConfigMap that was not there."""

    def __init__(
        self,
        cluster: Cluster,
        mirrors: Mirrors,
        readings: Readings,
        chart: Callable[[], str | None],
        excluded: Collection[str],
        log: Log,
        *,
        clock: Callable[[], int] = unix_ns,
    ) -> None:
        """`chart`: the text of the chart's policy now, None while no good one has been seen. `clock`: Unix nanoseconds, for the times in a status."""
        self.asked: set[str] = set()
        self._cluster = cluster
        self._mirrors = mirrors
        self._readings = readings
        self._chart = chart
        self._excluded = excluded
        self._log = log
        self._clock = clock

    async def look_after(self, namespace: str, *, leads: bool) -> Outcome:
        """Do what is to be done in a namespace. What cannot be done is in the outcome.

        Without `leads`, only a ConfigMap that a pod waits for is made.
        """
        if self.is_served(namespace):
            self.asked.discard(namespace)
        actual = self._mirrors.config_maps.find(POLICY_CONFIG_MAP, namespace)
        standing = self._standing(namespace, asked=namespace in self.asked)
        if standing is Standing.LEFT_ALONE or (not leads and namespace not in self.asked):
            return LEFT_ALONE
        compiled = await self._compiled(namespace, actual)
        wish = self._wish(standing, compiled)
        step = next_step(wish, actual)
        if not leads and step is not Step.CREATE:
            return LEFT_ALONE
        problem: ClusterError | None = None
        try:
            after = await self._take(step, namespace, wish, actual)
        except ClusterError as error:
            problem, after = error, actual
        if not leads or isinstance(problem, Conflict):
            # What the mirrors show is out of date, and nothing can be said of it.
            return Outcome(problem is None, problem)
        place = _place(after, wish, step, problem)
        wrote, status_problem = await self._say(namespace, compiled, place)
        return Outcome(
            wrote or (problem is None and step in _WRITING),
            problem or status_problem,
            _state(place),
            {verdict.policy.name: telling_reason(verdict, place) for verdict in compiled.verdicts},
        )

    def is_served(self, namespace: str) -> bool:
        """Say whether a pod there finds its ConfigMap, and goes on finding it; or will never have one of ours."""
        there = self._mirrors.config_maps.find(POLICY_CONFIG_MAP, namespace)
        standing = self._standing(namespace, asked=False)
        if standing is Standing.LEFT_ALONE:
            return self._mirrors.namespaces.find(namespace) is not None
        return there is not None and (standing is not Standing.OUT or not is_ours(there))

    def _standing(self, namespace: str, *, asked: bool) -> Standing:
        known = self._mirrors.namespaces.find(namespace)
        there = self._mirrors.config_maps.find(POLICY_CONFIG_MAP, namespace)
        return standing_of(known, there, asked=asked, excluded=self._excluded)

    def _wish(self, standing: Standing, compiled: Compiled) -> Wish | None:
        if standing is Standing.OUT:
            return None
        owners = owned_by(self._mirrors.webhook())
        return Wish(compiled.data, owners, for_pods=standing is Standing.FOR_PODS)

    async def _compiled(self, namespace: str, actual: Object | None) -> Compiled:
        there = [item for (place, _), item in self._mirrors.policies.objects.items() if place == namespace]
        policies = [await self._readings.of(item) for item in there]
        before = actual.get("data") or {} if actual is not None and is_ours(actual) else {}
        chart = self._chart()
        if chart is None:
            chart = before.get(POLICY_FILE, BUILT_IN)
        return compile_policies(chart, policies, before)

    async def _take(
        self, step: Step, namespace: str, wish: Wish | None, actual: Object | None
    ) -> Object | None:
        """Take the step, and return the ConfigMap that is there then. Raises ClusterError."""
        if step is Step.REMOVE:
            await self._remove(namespace)
            after = None
        elif step is Step.CREATE:
            assert wish is not None
            after = await self._cluster.create(CONFIG_MAPS, written(wish), namespace)
            self.asked.discard(namespace)
        elif step is Step.REPLACE:
            assert wish is not None
            body = _whole(CONFIG_MAPS, written(wish, actual))
            after = await self._cluster.replace(CONFIG_MAPS, body, namespace)
        else:
            return actual
        self._log.event("policy_kept", namespace=namespace, step=str(step))
        return after

    async def _remove(self, namespace: str) -> None:
        """Delete the ConfigMap, unless it has come to be somebody else's meanwhile. Raises ClusterError."""
        try:
            if is_ours(await self._cluster.get(CONFIG_MAPS, POLICY_CONFIG_MAP, namespace)):
                await self._cluster.delete(CONFIG_MAPS, POLICY_CONFIG_MAP, namespace)
        except NotFound:
            return

    async def _say(
        self, namespace: str, compiled: Compiled, place: Place
    ) -> tuple[bool, ClusterError | None]:
        """Write every status that is not as it should be; return whether there was one, and what went wrong last."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock() // SECOND))
        wrote, problem = False, None
        for verdict in compiled.verdicts:
            item = self._mirrors.policies.find(verdict.policy.name, namespace)
            if item is None or item["metadata"]["uid"] != verdict.policy.uid:
                continue  # it went meanwhile
            status = new_status(item, verdict, place, now)
            if status is None:
                continue
            try:
                body = _whole(BUDGET_POLICIES, item) | {"status": status}
                _ = await self._cluster.replace(BUDGET_POLICIES, body, namespace, subresource="status")
                wrote = True
            except ClusterError as error:
                problem = error
        return wrote, problem


_NO_OWNER: Final = "there is no MutatingWebhookConfiguration, with which it would go again"
_WRITING: Final = (Step.CREATE, Step.REPLACE, Step.REMOVE)


def _whole(resource: Resource, item: Object) -> Object:
    """Return an object that says what it is: the items of a list do not."""
    return {**item, "apiVersion": resource.api_version, "kind": resource.kind}


def _place(config_map: Object | None, wish: Wish | None, step: Step, problem: ClusterError | None) -> Place:
    ours = config_map is not None and is_ours(config_map)
    why = str(problem) if problem is not None else _NO_OWNER if step is Step.NO_OWNER else ""
    return Place(
        data=(config_map or {}).get("data") or {} if ours else None,
        wanted=wish is not None,
        foreign=step is Step.FOREIGN,
        problem=why,
    )


def _state(place: Place) -> str:
    if place.foreign:
        return "foreign"
    if not place.wanted:
        return ""
    return "pending" if place.data is None or place.problem else "kept"
