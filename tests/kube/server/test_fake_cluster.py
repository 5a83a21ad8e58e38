"""The cluster in memory behaves as an API server does, where tests rely on it."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.kube.cluster import (
    BUDGET_POLICIES,
    CONFIG_MAPS,
    NAMESPACES,
    WEBHOOKS,
    ClusterError,
    Conflict,
    Gone,
    NotFound,
)
from tests.kube.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.namespace("agents")
    return made


def config_map(name: str = "one", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"a": "b"}}


async def test_a_stale_version_is_a_conflict(cluster: FakeCluster) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(), "agents")
    await cluster.patch(CONFIG_MAPS, "one", {"data": {"a": "c"}}, "agents")
    with pytest.raises(Conflict):
        await cluster.replace(CONFIG_MAPS, made, "agents")
    with pytest.raises(Conflict):
        await cluster.patch(CONFIG_MAPS, "one", {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}, "agents")  # fmt: skip
    del made["metadata"]["resourceVersion"]
    await cluster.replace(CONFIG_MAPS, made, "agents")


async def test_what_changes_nothing_has_no_new_version(cluster: FakeCluster) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(), "agents")
    assert await cluster.replace(CONFIG_MAPS, made, "agents") == made
    assert await cluster.patch(CONFIG_MAPS, "one", {"data": {"a": "b"}}, "agents") == made


async def test_status_and_generation(cluster: FakeCluster) -> None:
    """A status is written as a subresource only; the generation counts what is wished."""
    body = {"metadata": {"name": "p"}, "spec": {"policy": {}}, "status": {"x": 1}}
    made = await cluster.create(BUDGET_POLICIES, body, "agents")
    assert "status" not in made
    made["status"] = {"x": 1}
    assert "status" not in await cluster.replace(BUDGET_POLICIES, made, "agents")
    made = await cluster.replace(BUDGET_POLICIES, made, "agents", subresource="status")
    assert (made["status"], made["metadata"]["generation"]) == ({"x": 1}, 1)
    made["spec"] = {"policy": {"mode": "observe"}}
    made = await cluster.replace(BUDGET_POLICIES, made, "agents")
    assert (made["status"], made["metadata"]["generation"]) == ({"x": 1}, 2)


async def test_owned_objects_go_with_their_owner(cluster: FakeCluster) -> None:
    owner = await cluster.create(WEBHOOKS, {"metadata": {"name": "w"}, "webhooks": []})
    other = await cluster.create(WEBHOOKS, {"metadata": {"name": "x"}, "webhooks": []})
    references = [
        {"name": each["metadata"]["name"], "uid": each["metadata"]["uid"]} for each in (owner, other)
    ]
    await cluster.create(CONFIG_MAPS, config_map("of-one", ownerReferences=references[:1]), "agents")
    await cluster.create(CONFIG_MAPS, config_map("of-two", ownerReferences=references), "agents")
    await cluster.delete(WEBHOOKS, "w")
    assert [each["metadata"]["name"] for each in cluster.of(CONFIG_MAPS)] == ["of-two"]
    await cluster.create(CONFIG_MAPS, config_map("late", ownerReferences=references[:1]), "agents")
    assert [each["metadata"]["name"] for each in cluster.of(CONFIG_MAPS)] == ["of-two"]


async def test_a_namespace_takes_all_with_it(cluster: FakeCluster) -> None:
    await cluster.create(CONFIG_MAPS, config_map(), "agents")
    await cluster.delete(NAMESPACES, "agents")
    assert cluster.of(CONFIG_MAPS) == []
    with pytest.raises(NotFound):
        await cluster.create(CONFIG_MAPS, config_map(), "agents")


async def test_json_patch_and_its_test(cluster: FakeCluster) -> None:
    await cluster.create(CONFIG_MAPS, config_map(), "agents")
    steps = [{"op": "test", "path": "/data/a", "value": "z"}, {"op": "remove", "path": "/data/a"}]
    with pytest.raises(ClusterError):
        await cluster.patch(CONFIG_MAPS, "one", steps, "agents")
    assert (await cluster.get(CONFIG_MAPS, "one", "agents"))["data"] == {"a": "b"}


async def test_what_is_given_out_is_a_copy(cluster: FakeCluster) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(), "agents")
    made["data"]["a"] = "changed"
    listed = await cluster.list(CONFIG_MAPS)
    assert listed["items"][0]["data"] == {"a": "b"}


async def test_a_forgotten_version_cannot_be_watched_from(cluster: FakeCluster) -> None:
    version = (await cluster.list(NAMESPACES))["metadata"]["resourceVersion"]
    cluster.forget()
    with pytest.raises(Gone):
        await anext(aiter(cluster.watch(NAMESPACES, version)))


async def test_other_ways_fail_by_themselves(cluster: FakeCluster) -> None:
    way = cluster.another_way()
    way.fail("get", error=ClusterError("no route"), times=1)
    with pytest.raises(ClusterError):
        await way.get(NAMESPACES, "agents")
    assert await way.get(NAMESPACES, "agents") == await cluster.get(NAMESPACES, "agents")
