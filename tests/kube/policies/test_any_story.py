"""Whatever happens, and in whatever order: once it is quiet, everything is as the rules say, and strangers' things are whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.kube.cluster import (
    BUDGET_POLICIES,
    CONFIG_MAPS,
    NAMESPACES,
    WEBHOOKS,
    ClusterError,
    Conflict,
    NotFound,
    Object,
    Resource,
)
from proxy.kube.names import MANAGED_BY, MANAGER, POLICY_FILE
from proxy.kube.policies.budget_policy import read_budget_policy
from proxy.kube.policies.compiled import compile_policies
from proxy.kube.policies.config_map import is_for_pods, is_ours
from proxy.kube.policies.opting import is_ending
from proxy.kube.policies.status import Place, new_status
from proxy.kube.settings import Settings
from tests.kube.policies.objects import config_map
from tests.kube.policies.replicas import WEBHOOK, World

T = TypeVar("T")

EXCLUDED = "excluded"
NAMESPACES_OF_THE_STORY = ["a", "b", EXCLUDED]
namespaces = st.sampled_from(NAMESPACES_OF_THE_STORY)
names = st.sampled_from(["p", "q", "r"])
charts = st.sampled_from(["mode: observe\n", "mode: enforce\n", "limit: 7\n"])
specs = st.fixed_dictionaries(
    {"policy": st.sampled_from([{}, {"limit": 1}, {"limit": 2}, {"budget": {"default": "soon"}}])},
    optional={
        "selector": st.sampled_from([{}, {"matchLabels": {"a": "b"}}, {"matchExpressions": [{"key": "a"}]}])
    },
)
verbs = st.sampled_from(["create", "replace", "delete", "get", "list", "watch"])
errors = st.sampled_from([ClusterError("out of order"), Conflict("modified"), NotFound("no such thing")])


class Story(RuleBasedStateMachine):
    """Two replicas, three namespaces, and people who do as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = self.do(self._begin())
        self.cluster = self.world.cluster
        self.chart = "{}\n"
        self.changes = 0

    async def _begin(self) -> World:
        return World(replace(Settings(), excluded_namespaces=(EXCLUDED,)))

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(what)

    def there(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        self.changes += 1
        return self.cluster.peek(resource, name, namespace)

    def teardown(self) -> None:
        self.do(self.world.stop())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    # -- what people do --------------------------------------------------------------------------------------------

    @rule(name=namespaces, label=st.sampled_from(["enabled", "disabled", None]))
    def label(self, name: str, label: str | None) -> None:
        """A namespace comes to be, or gets another label."""
        if self.there(NAMESPACES, name) is None:
            self.cluster.namespace(name)
        self.world.relabel(name, label)

    @rule(name=namespaces)
    def end(self, name: str) -> None:
        """A namespace is being deleted: nothing more can be created in it."""
        if (there := self.there(NAMESPACES, name)) is not None:
            self.world.change(
                NAMESPACES, name, metadata=there["metadata"] | {"deletionTimestamp": "2031-01-01T00:00:00Z"}
            )

    @rule(name=namespaces)
    def gone(self, name: str) -> None:
        """A namespace has gone, with all that was in it."""
        if self.there(NAMESPACES, name) is not None:
            self.world.remove(NAMESPACES, name)

    @rule(namespace=namespaces, name=names, spec=specs)
    def state(self, namespace: str, name: str, spec: Object) -> None:
        """A BudgetPolicy is made or changed."""
        if self.there(NAMESPACES, namespace) is None:
            return
        if self.there(BUDGET_POLICIES, name, namespace) is None:
            self.cluster.put(BUDGET_POLICIES, {"metadata": {"name": name}, "spec": spec}, namespace)
        else:
            self.world.change(BUDGET_POLICIES, name, namespace, spec=spec)

    @rule(namespace=namespaces, name=names)
    def drop(self, namespace: str, name: str) -> None:
        """A BudgetPolicy is deleted."""
        if self.there(BUDGET_POLICIES, name, namespace) is not None:
            self.world.remove(BUDGET_POLICIES, name, namespace)

    @rule(namespace=namespaces, data=st.sampled_from([{}, {POLICY_FILE: "limit: 9\n"}, {"more": "x"}]))
    def edit(self, namespace: str, data: dict[str, str]) -> None:
        """Somebody edits the ConfigMap, or makes one of his own."""
        if self.there(CONFIG_MAPS, "waterclock-policy", namespace) is not None:
            self.world.change(CONFIG_MAPS, "waterclock-policy", namespace, data=data)
        elif self.there(NAMESPACES, namespace) is not None:
            made = config_map(data, ours=False)
            del made["metadata"]["namespace"]
            self.cluster.put(CONFIG_MAPS, made, namespace)

    @rule(namespace=namespaces, ours=st.booleans())
    def take(self, namespace: str, ours: bool) -> None:
        """Somebody takes the ConfigMap over, or hands his own over."""
        if (there := self.there(CONFIG_MAPS, "waterclock-policy", namespace)) is not None:
            labels = {MANAGED_BY: MANAGER} if ours else {}
            self.world.change(
                CONFIG_MAPS, "waterclock-policy", namespace, metadata=there["metadata"] | {"labels": labels}
            )

    @rule(namespace=namespaces)
    def delete(self, namespace: str) -> None:
        """Somebody deletes the ConfigMap."""
        if self.there(CONFIG_MAPS, "waterclock-policy", namespace) is not None:
            self.world.remove(CONFIG_MAPS, "waterclock-policy", namespace)

    @rule(text=charts)
    def upgrade(self, text: str) -> None:
        """The chart's policy is another one, and both replicas read it."""
        self.chart, self.changes = text, self.changes + 1
        for replica in self.world.replicas:
            replica.chart(text)

    @rule()
    def reinstall(self) -> None:
        """The owner of it all goes, or comes again."""
        if self.there(WEBHOOKS, WEBHOOK) is None:
            self.world.install()
        else:
            self.world.remove(WEBHOOKS, WEBHOOK)

    @rule(replica=st.integers(0, 1), namespace=namespaces)
    def inject(self, replica: int, namespace: str) -> None:
        """A pod is injected."""
        self.changes += 1
        self.world.replicas[replica].controller.injected(namespace)

    # -- what the cluster does -------------------------------------------------------------------------------------

    @rule(replica=st.integers(0, 1))
    def elect(self, replica: int) -> None:
        """Another one leads, or the same one again."""
        self.changes += 1
        self.do(self.world.replicas[1 - replica].follow())
        if not self.world.replicas[replica].leads:
            self.do(self._lead(replica))

    async def _lead(self, replica: int) -> None:
        self.world.replicas[replica].lead()

    @rule()
    def depose(self) -> None:
        """Nobody leads."""
        for replica in self.world.replicas:
            self.do(replica.follow())

    @rule(verb=verbs, error=errors, times=st.integers(1, 4))
    def fail(self, verb: str, error: Exception, times: int) -> None:
        """Some requests fail."""
        self.changes += 1
        self.cluster.fail(verb, error=error, times=times)

    @rule()
    def forget(self) -> None:
        """Watches have to begin anew."""
        self.cluster.forget()

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 30.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.do(self.world.pass_time(seconds, step=0.25 if seconds <= 1 else 10.0))

    # -- what holds ------------------------------------------------------------------------------------------------

    @rule(asked=namespaces)
    def settle(self, asked: str) -> None:
        """All is well again, a pod is injected, and it becomes quiet."""
        self.cluster.mend()
        if not any(replica.leads for replica in self.world.replicas):
            self.do(self._lead(0))
        foreign = {
            item["metadata"]["namespace"]: item for item in self.cluster.of(CONFIG_MAPS) if not is_ours(item)
        }
        before, changes = self.world.writes(), self.changes + 1
        # A label that goes at the very moment that a pod is injected may take its ConfigMap with it.
        self.do(self.world.pass_time(0))
        self.world.replicas[1].controller.injected(asked)
        self.do(self.world.pass_time(200))
        # Each change is followed by a few writes at most: there is no going round and round.
        assert self.world.writes() - before <= 12 * changes
        quiet = self.world.writes()
        self.do(self.world.pass_time(1300, step=100))
        assert self.world.writes() == quiet
        self.changes = 0
        for namespace, item in foreign.items():
            assert self.world.config_map(namespace) == item
        self._check_namespaces(asked)

    def _check_namespaces(self, asked: str) -> None:
        states: Counter[str] = Counter()
        for namespace in self.cluster.of(NAMESPACES):
            name = namespace["metadata"]["name"]
            if is_ending(namespace) or name == EXCLUDED:
                continue
            kept = self.world.config_map(name)
            labelled = namespace["metadata"]["labels"].get("waterclock.dev/inject") == "enabled"
            wanted = labelled or (kept is not None and is_ours(kept) and is_for_pods(kept)) or name == asked
            if kept is None:
                assert not wanted or self.cluster.peek(WEBHOOKS, WEBHOOK) is None
            elif is_ours(kept):
                assert wanted
                self._check_config_map(name, kept)
                states["kept"] += 1
            elif labelled:
                states["foreign"] += 1
            self._check_policies(name, kept, wanted)
        leader = next(replica for replica in self.world.replicas if replica.leads)
        for state in ("kept", "foreign"):
            assert leader.metrics.policy_config_maps.labels(state)._value.get() == states[state]

    def _check_config_map(self, namespace: str, kept: Object) -> None:
        policies = [read_budget_policy(item) for item in self._policies(namespace)]
        assert kept["data"] == compile_policies(self.chart, policies, kept["data"]).data
        webhook = self.cluster.peek(WEBHOOKS, WEBHOOK)
        owners = [owner["uid"] for owner in kept["metadata"].get("ownerReferences", [])]
        if webhook is not None:
            assert owners == [webhook["metadata"]["uid"]]

    def _check_policies(self, namespace: str, kept: Object | None, wanted: bool) -> None:
        ours = kept if kept is not None and is_ours(kept) else None
        data = ours["data"] if ours is not None else {}
        foreign = kept is not None and ours is None
        labelled = wanted and not foreign
        for item in self._policies(namespace):
            conditions = {each["type"]: each for each in item["status"]["conditions"]}
            assert set(conditions) == {"Accepted", "Ready"}
            policy = read_budget_policy(item)
            assert (conditions["Accepted"]["reason"] == "Invalid") == bool(policy.faults)
            assert (conditions["Ready"]["status"] == "True") == (
                data.get(policy.key) == policy.text and not policy.faults
            )
            if labelled and ours is not None:
                compiled = compile_policies(
                    self.chart, [read_budget_policy(each) for each in self._policies(namespace)], data
                )
                verdict = next(each for each in compiled.verdicts if each.policy.name == policy.name)
                assert new_status(item, verdict, Place(data), "never") is None

    def _policies(self, namespace: str) -> list[Object]:
        return [
            item for item in self.cluster.of(BUDGET_POLICIES) if item["metadata"]["namespace"] == namespace
        ]

    @invariant()
    def nobody_has_failed(self) -> None:
        """No fault of ours, at any time."""
        for replica in self.world.replicas:
            assert replica.log.of("fault") == []
            for task in replica._tasks:
                assert not task.done(), task.exception()


Story.TestCase.settings = settings(stateful_step_count=50, deadline=None)
test_any_story = Story.TestCase
