"""The ConfigMap is where it should be and says what it should, and BudgetPolicies are told what became of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from proxy.kube.cluster import BUDGET_POLICIES, CONFIG_MAPS, NAMESPACES, WEBHOOKS, ClusterError, Object
from proxy.kube.names import KEPT_FOR
from proxy.kube.policies.source import BUILT_IN
from tests.kube.policies.objects import config_map
from tests.kube.policies.replicas import WEBHOOK, World

GOOD = {"budget": {"default": "3s"}}
WRONG = {"budget": {"default": "soon"}}
SOME = {"matchLabels": {"app": "a"}}
NAME = "waterclock-policy"


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """The first of two replicas leads."""
    made = World()
    made.cluster.namespace("waterclock-system")
    made.replicas[0].lead()
    await made.pass_time(0)
    yield made
    await made.stop()


def body(name: str, policy: Any, selector: Any = None) -> Object:
    """A BudgetPolicy to be made."""
    return {
        "metadata": {"name": name},
        "spec": {"policy": policy} | ({} if selector is None else {"selector": selector}),
    }


def reasons(world: World, name: str, namespace: str = "agents") -> dict[str, str]:
    """The reason of each of a BudgetPolicy's conditions."""
    there = world.policy(name, namespace)
    assert there is not None
    return {each["type"]: each["reason"] for each in there.get("status", {}).get("conditions", [])}


def data(world: World, namespace: str = "agents") -> dict[str, str]:
    """What the ConfigMap holds."""
    there = world.config_map(namespace)
    assert there is not None
    found: dict[str, str] = there["data"]
    return found


def shown(world: World, family: str) -> dict[str, float]:
    """The leader's numbers of a family."""
    lines = world.replicas[0].metrics.render().decode().splitlines()
    prefix = f"waterclock_injector_{family}{{"
    pairs = (line.rsplit(" ", 1) for line in lines if line.startswith(prefix))
    return {text.split('"')[1]: float(value) for text, value in pairs if float(value)}


async def test_a_label_comes_and_goes(world: World) -> None:
    """With it the ConfigMap comes and goes."""
    world.cluster.namespace("agents")
    await world.quiet()
    assert world.config_map("agents") is None
    world.relabel("agents", "enabled")
    await world.quiet()
    made = world.config_map("agents")
    assert made is not None
    assert made["data"] == {"waterclock.yaml": BUILT_IN}
    webhook = world.cluster.peek(WEBHOOKS, WEBHOOK)
    assert webhook is not None
    assert made["metadata"]["ownerReferences"][0]["uid"] == webhook["metadata"]["uid"]
    assert shown(world, "policy_config_maps") == {"kept": 1}
    world.relabel("agents", "disabled")
    await world.quiet()
    assert world.config_map("agents") is None
    assert shown(world, "policy_config_maps") == {}


async def test_edited_and_deleted(world: World) -> None:
    """It is mended and made anew."""
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    await world.quiet()
    world.change(CONFIG_MAPS, NAME, "agents", data={"waterclock.yaml": "mode: observe\n", "more": ""})
    await world.quiet()
    assert data(world) == {"waterclock.yaml": BUILT_IN}
    await world.cluster.delete(CONFIG_MAPS, NAME, "agents")
    await world.quiet()
    assert data(world) == {"waterclock.yaml": BUILT_IN}


async def test_one_that_cannot_be_changed(world: World) -> None:
    """It is deleted and made anew: there is no other way."""
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    await world.quiet()
    world.change(CONFIG_MAPS, NAME, "agents", data={}, immutable=True)
    await world.pass_time(10)
    assert data(world) == {"waterclock.yaml": BUILT_IN}
    made = world.config_map("agents")
    assert made is not None
    assert "immutable" not in made


async def test_somebody_elses(world: World) -> None:
    """It is left as it is, and that is told once: in an Event, the log, the numbers and the BudgetPolicy."""
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    theirs = config_map({"waterclock.yaml": "mode: observe\n"}, ours=False)
    world.cluster.put(CONFIG_MAPS, theirs, "agents")
    world.cluster.put(BUDGET_POLICIES, body("a", GOOD, SOME), "agents")
    await world.pass_time(700)
    there = world.config_map("agents")
    assert there is not None
    assert there["data"] == theirs["data"]
    assert reasons(world, "a") == {"Accepted": "Valid", "Ready": "ForeignConfigMap"}
    [told] = world.replicas[0].events.told
    assert (told.namespace, told.kind, told.name, told.type) == ("agents", "ConfigMap", NAME, "Warning")
    assert len(world.replicas[0].log.of("policy_foreign")) == 1
    assert shown(world, "policy_config_maps") == {"foreign": 1}
    assert shown(world, "budget_policies") == {"ForeignConfigMap": 1}
    await world.cluster.delete(CONFIG_MAPS, NAME, "agents")
    await world.quiet()
    assert reasons(world, "a")["Ready"] == "Compiled"
    assert shown(world, "policy_config_maps") == {"kept": 1}


async def test_taken_over(world: World) -> None:
    """Whoever takes the label off has it for himself, and keeps it when the namespace opts out."""
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    await world.quiet()
    there = world.config_map("agents")
    assert there is not None
    world.change(CONFIG_MAPS, NAME, "agents", metadata=there["metadata"] | {"labels": {}}, data={"x": "y"})
    await world.pass_time(10)
    world.relabel("agents", None)
    await world.pass_time(10)
    assert data(world) == {"x": "y"}


async def test_a_pod_that_asked_by_itself(world: World) -> None:
    """The replica that has injected it makes the ConfigMap, whether it leads or not; the leader keeps it."""
    for leads, namespace in ((True, "one"), (False, "two")):
        world.cluster.namespace(namespace)
        await world.quiet()
        world.replicas[0 if leads else 1].controller.injected(namespace)
        await world.quiet()
        made = world.config_map(namespace)
        assert made is not None
        assert made["metadata"]["annotations"] == {KEPT_FOR: "pods"}
    world.replicas[0].chart("mode: observe\n")
    await world.quiet()
    assert data(world, "one") == data(world, "two") == {"waterclock.yaml": "mode: observe\n"}
    await world.cluster.delete(CONFIG_MAPS, NAME, "one")
    await world.pass_time(700)
    assert world.config_map("one") is None
    world.replicas[0].controller.injected("one")
    await world.quiet()
    assert world.config_map("one") is not None


async def test_the_mark_outlives_the_label(world: World) -> None:
    """Pods that asked by themselves were there before the label, and are there after it."""
    world.cluster.namespace("agents")
    await world.quiet()
    world.replicas[1].controller.injected("agents")
    await world.quiet()
    world.relabel("agents", "enabled")
    await world.quiet()
    world.relabel("agents", None)
    await world.quiet()
    assert data(world) == {"waterclock.yaml": BUILT_IN}


async def test_a_pod_of_a_namespace_that_is_not_known_yet(world: World) -> None:
    """It comes to be known a moment later."""
    world.replicas[1].controller.injected("new")
    await world.quiet()
    world.cluster.namespace("new")
    await world.quiet()
    assert world.config_map("new") is not None
    world.replicas[1].controller.injected("gone")
    await world.quiet()
    world.cluster.namespace("gone")
    await world.cluster.delete(NAMESPACES, "gone")
    await world.quiet()
    assert world.replicas[1].controller._keeper.asked == set()


async def test_many_pods_are_one_request(world: World) -> None:
    """And none at all where the ConfigMap is there."""
    world.cluster.namespace("agents")
    await world.quiet()
    for _ in range(50):
        world.replicas[1].controller.injected("agents")
    await world.quiet()
    for _ in range(50):
        world.replicas[1].controller.injected("agents")
    await world.quiet()
    assert world.cluster.count("create", CONFIG_MAPS) == 1


async def test_namespaces_that_are_left_alone(world: World) -> None:
    """The excluded ones, the injector's own, and those that are being deleted."""
    enabled = {"waterclock.dev/inject": "enabled"}
    world.cluster.namespace("kube-system", labels=enabled)
    world.cluster.namespace("ending", labels=enabled, deletionTimestamp="2030-01-01T00:00:00Z")
    world.relabel("waterclock-system", "enabled")
    for namespace in ("kube-system", "ending", "waterclock-system"):
        world.cluster.put(BUDGET_POLICIES, body("a", GOOD), namespace)
        world.replicas[0].controller.injected(namespace)
        world.replicas[1].controller.injected(namespace)
    await world.pass_time(700)
    assert world.writes() == 0


async def test_budget_policies(world: World) -> None:
    """They are compiled, and told so; mistakes are told too, and leave the last good text."""
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    for name, policy, selector in (
        ("default", GOOD, None),
        ("other", GOOD, None),
        ("some", GOOD, SOME),
        ("wrong", WRONG, SOME),
    ):
        world.cluster.put(BUDGET_POLICIES, body(name, policy, selector), "agents")
    await world.quiet()
    assert reasons(world, "default") == {"Accepted": "Valid", "Ready": "Compiled"}
    assert reasons(world, "other") == {"Accepted": "Conflict", "Ready": "NotAccepted"}
    assert reasons(world, "some") == {"Accepted": "Valid", "Ready": "Compiled"}
    assert reasons(world, "wrong") == {"Accepted": "Invalid", "Ready": "NotAccepted"}
    assert set(data(world)) == {"waterclock.yaml", "some.budgetpolicy.yaml"}
    assert "3s" in data(world)["waterclock.yaml"]
    assert shown(world, "budget_policies") == {"Compiled": 2, "Conflict": 1, "Invalid": 1}
    good = data(world)
    world.change(BUDGET_POLICIES, "some", "agents", spec={"policy": WRONG, "selector": SOME})
    await world.quiet()
    assert data(world) == good
    assert reasons(world, "some") == {"Accepted": "Invalid", "Ready": "LastGood"}
    await world.cluster.delete(BUDGET_POLICIES, "default", "agents")
    await world.quiet()
    assert reasons(world, "other") == {"Accepted": "Valid", "Ready": "Compiled"}


async def test_budget_policies_where_nobody_asks(world: World) -> None:
    """They are judged, and told why nothing comes of it; when somebody asks, it does."""
    world.cluster.namespace("agents")
    world.cluster.put(BUDGET_POLICIES, body("a", GOOD), "agents")
    await world.quiet()
    assert reasons(world, "a") == {"Accepted": "Valid", "Ready": "NotOptedIn"}
    assert world.config_map("agents") is None
    world.replicas[1].controller.injected("agents")
    await world.quiet()
    assert reasons(world, "a")["Ready"] == "Compiled"


async def test_a_changed_chart_reaches_every_namespace(world: World) -> None:
    """As fast as a few at a time can write."""
    for number in range(30):
        world.cluster.namespace(f"n{number}", labels={"waterclock.dev/inject": "enabled"})
    await world.quiet()
    world.replicas[0].chart("mode: observe\n")
    await world.quiet()
    assert {data(world, f"n{number}")["waterclock.yaml"] for number in range(30)} == {"mode: observe\n"}
    assert world.cluster.count("replace", CONFIG_MAPS) == 30


async def test_an_uninstallation_leaves_nothing(world: World) -> None:
    """The owner goes first, and all it owned after it; an injector that still runs then makes nothing without an owner."""
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    world.cluster.namespace("asked")
    world.cluster.put(BUDGET_POLICIES, body("a", GOOD), "agents")
    await world.quiet()
    await world.cluster.delete(WEBHOOKS, WEBHOOK)
    await world.quiet()
    for replica in world.replicas:
        replica.controller.injected("asked")
    await world.pass_time(700)
    assert world.cluster.of(CONFIG_MAPS) == []
    assert reasons(world, "a")["Ready"] == "Pending"
    assert shown(world, "policy_config_maps") == {"pending": 2}
    world.install()
    await world.quiet()
    webhook = world.cluster.peek(WEBHOOKS, WEBHOOK)
    assert webhook is not None
    for namespace in ("agents", "asked"):
        made = world.config_map(namespace)
        assert made is not None
        assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == [webhook["metadata"]["uid"]]


async def test_trouble_is_waited_out(world: World) -> None:
    """It is tried again, less and less often, told once, and said of the BudgetPolicies meanwhile."""
    world.cluster.fail("create", CONFIG_MAPS, error=ClusterError("quota exceeded"), times=-1)
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    world.cluster.put(BUDGET_POLICIES, body("a", GOOD), "agents")
    await world.pass_time(300, step=0.5)
    assert 8 <= world.cluster.count("create", CONFIG_MAPS) <= 14
    assert [said["problem"] for said in world.replicas[0].log.of("policy_not_kept")] == ["quota exceeded"]
    assert reasons(world, "a") == {"Accepted": "Valid", "Ready": "Pending"}
    policy = world.policy("a", "agents")
    assert policy is not None
    assert "quota exceeded" in policy["status"]["conditions"][1]["message"]
    assert shown(world, "policy_config_maps") == {"pending": 1}
    world.cluster.mend()
    await world.pass_time(70)
    assert reasons(world, "a")["Ready"] == "Compiled"


async def test_one_namespaces_trouble_is_not_anothers(world: World) -> None:
    """A fault of ours neither."""

    def broken(item: Object) -> Any:
        if item["metadata"]["namespace"] == "agents":
            raise ValueError("a fault")
        return whole(item)

    whole = world.replicas[0].controller._keeper._readings._read
    world.replicas[0].controller._keeper._readings._read = broken
    for namespace in ("agents", "other"):
        world.cluster.namespace(namespace, labels={"waterclock.dev/inject": "enabled"})
        world.cluster.put(BUDGET_POLICIES, body("a", GOOD), namespace)
    await world.quiet()
    assert reasons(world, "a", "other")["Ready"] == "Compiled"
    assert reasons(world, "a") == {}
    assert "a fault" in world.replicas[0].log.of("fault")[0]["exception"]


async def test_the_next_one_leads(world: World) -> None:
    """Nothing is written twice, and what changes is seen to by whoever leads."""
    world.cluster.namespace("agents", labels={"waterclock.dev/inject": "enabled"})
    world.cluster.put(BUDGET_POLICIES, body("a", GOOD), "agents")
    await world.quiet()
    before = world.writes()
    await world.replicas[0].follow()
    world.replicas[1].lead()
    await world.pass_time(700)
    assert world.writes() == before
    world.change(CONFIG_MAPS, NAME, "agents", data={})
    await world.quiet()
    assert "3s" in data(world)["waterclock.yaml"]
    assert shown(world, "policy_config_maps") == {}


async def test_without_a_leader_nothing_is_kept(world: World) -> None:
    """But a pod that waits gets what it waits for."""
    await world.replicas[0].follow()
    world.cluster.namespace("labelled", labels={"waterclock.dev/inject": "enabled"})
    world.cluster.namespace("asked")
    await world.pass_time(10)
    assert world.writes() == 0
    world.replicas[0].controller.injected("asked")
    world.replicas[1].controller.injected("labelled")
    await world.quiet()
    assert data(world, "asked") == data(world, "labelled") == {"waterclock.yaml": BUILT_IN}
    made = world.config_map("labelled")
    assert made is not None
    assert "annotations" not in made["metadata"]


async def test_what_was_asked_while_leading_is_not_lost(world: World) -> None:
    """The replica goes on trying when it leads no more."""
    world.cluster.namespace("asked")
    world.cluster.fail("create", CONFIG_MAPS, error=ClusterError("no"), times=3)
    world.replicas[0].controller.injected("asked")
    await world.quiet()
    await world.replicas[0].follow()
    await world.pass_time(30)
    assert data(world, "asked") == {"waterclock.yaml": BUILT_IN}


async def test_a_quiet_cluster_is_quiet(world: World) -> None:
    """Hours of looking again write nothing."""
    for number in range(5):
        world.cluster.namespace(f"n{number}", labels={"waterclock.dev/inject": "enabled"})
        world.cluster.put(BUDGET_POLICIES, body("a", WRONG), f"n{number}")
    await world.pass_time(10)
    before = len(world.cluster.calls)
    await world.pass_time(3 * 3600, step=600)
    assert len(world.cluster.calls) == before
