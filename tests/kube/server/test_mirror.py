"""The mirror shows what the cluster holds: after a list, after changes, after every way a watch can end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.kube.backoff import Backoff
from proxy.kube.cluster import CONFIG_MAPS, NAMESPACES, ClusterError, Gone, NotFound, Object
from proxy.kube.mirror import Mirror
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.manual import settle


class Pauses:
    """Waits no time, and remembers how long it should have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


class Seen:
    """What a mirror told of changes."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []

    def __call__(self, type: str, item: Object) -> None:
        self.changes.append((type, item["metadata"]["name"]))


@asynccontextmanager
async def running(mirror: Mirror) -> AsyncIterator[None]:
    """Let a mirror run meanwhile."""
    task = asyncio.get_running_loop().create_task(mirror.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.namespace("agents")
    return made


async def test_lists_then_follows(cluster: FakeCluster) -> None:
    seen = Seen()
    mirror = Mirror(cluster, NAMESPACES, on_change=seen)
    assert not mirror.synced.is_set()
    async with running(mirror):
        await mirror.synced.wait()
        assert seen.changes == [("ADDED", "agents")]
        cluster.namespace("tools")
        await cluster.patch(NAMESPACES, "agents", {"metadata": {"labels": {"a": "b"}}})
        await cluster.delete(NAMESPACES, "tools")
        await settle()
    assert seen.changes[1:] == [("ADDED", "tools"), ("MODIFIED", "agents"), ("DELETED", "tools")]
    agents = mirror.find("agents")
    assert agents is not None
    assert agents["metadata"]["labels"]["a"] == "b"
    assert mirror.find("tools") is None


async def test_nothing_between_list_and_watch_is_missed(cluster: FakeCluster) -> None:
    mirror = Mirror(cluster, NAMESPACES)
    async with running(mirror):
        await mirror.synced.wait()
        cluster.namespace("at-once")
        await settle()
        assert mirror.find("at-once") is not None


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"fields": "metadata.name=waterclock-policy"}, {"waterclock-policy"}),
        ({"labels": "kept=yes"}, {"waterclock-policy", "kept"}),
        ({"namespace": "agents"}, {"waterclock-policy", "kept", "other"}),
    ],
)
async def test_selection(cluster: FakeCluster, selection: dict[str, Any], names: set[str]) -> None:
    cluster.namespace("tools")
    cluster.put(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}}, "tools")
    mirror = Mirror(cluster, CONFIG_MAPS, **selection)
    async with running(mirror):
        await mirror.synced.wait()
        kept = {"kept": "yes"}
        cluster.put(CONFIG_MAPS, {"metadata": {"name": "waterclock-policy", "labels": kept}}, "agents")
        cluster.put(CONFIG_MAPS, {"metadata": {"name": "kept", "labels": kept}}, "agents")
        cluster.put(CONFIG_MAPS, {"metadata": {"name": "other"}}, "agents")
        await settle()
    assert {name for _, name in mirror.objects} == names


async def test_what_leaves_the_selection_is_gone(cluster: FakeCluster) -> None:
    cluster.put(CONFIG_MAPS, {"metadata": {"name": "one", "labels": {"kept": "yes"}}}, "agents")
    mirror = Mirror(cluster, CONFIG_MAPS, labels="kept=yes")
    async with running(mirror):
        await mirror.synced.wait()
        await cluster.patch(CONFIG_MAPS, "one", {"metadata": {"labels": {"kept": "no"}}}, "agents")
        await settle()
    assert mirror.objects == {}


async def test_too_old_is_listed_again(cluster: FakeCluster) -> None:
    """What happened meanwhile is told as changes, a deletion too."""
    seen = Seen()
    mirror = Mirror(cluster, NAMESPACES, on_change=seen, backoff=Backoff(pause=Pauses()))
    cluster.namespace("left")
    async with running(mirror):
        await settle()
        cluster.fail("watch", error=ClusterError("connection lost"), times=3)
        cluster.end_watches()
        await settle()
        seen.changes.clear()
        cluster.mend()
        await cluster.delete(NAMESPACES, "left")
        await cluster.patch(NAMESPACES, "agents", {"metadata": {"labels": {"a": "b"}}})
        cluster.namespace("new")
        cluster.forget()
        await settle()
        cluster.namespace("later")
        await settle()
    assert sorted(seen.changes) == [
        ("ADDED", "later"), ("ADDED", "new"), ("DELETED", "left"), ("MODIFIED", "agents"),
    ]  # fmt: skip


async def test_goes_on_from_where_it_was(cluster: FakeCluster) -> None:
    """A watch that ended, or failed, is taken up again without a new list."""
    mirror = Mirror(cluster, NAMESPACES, backoff=Backoff(pause=Pauses()))
    async with running(mirror):
        await settle()
        cluster.end_watches()
        await settle()
        cluster.namespace("one")
        cluster.end_watches(ClusterError("reset by peer"))
        await settle()
        cluster.namespace("two")
        await settle()
    assert {name for _, name in mirror.objects} == {"agents", "one", "two"}
    assert cluster.count("list") == 1


async def test_waits_longer_while_it_fails(cluster: FakeCluster) -> None:
    """The waits double up to half a minute, and are reset by success. What is known stays known."""
    pauses, troubles = Pauses(), list[ClusterError]()
    cluster.fail("list", error=ClusterError("no route to the API server"), times=8)
    mirror = Mirror(cluster, NAMESPACES, backoff=Backoff(pause=pauses), on_trouble=troubles.append)
    async with running(mirror):
        async with asyncio.timeout(10):
            while not mirror.synced.is_set():
                await asyncio.sleep(0)
                assert mirror.trouble is not None or not troubles or mirror.synced.is_set()
        assert mirror.trouble is None
    assert len(troubles) == 8
    for wait, most in zip(pauses.seconds, [1, 2, 4, 8, 16, 30, 30, 30], strict=False):
        assert most / 2 <= wait <= most


@pytest.mark.parametrize("end", [None, ClusterError("no"), Gone("too old")])
async def test_never_spins(cluster: FakeCluster, end: ClusterError | None) -> None:
    """However the server ends watches, there is a pause before the next request."""
    pauses = Pauses()
    mirror = Mirror(cluster, NAMESPACES, backoff=Backoff(pause=pauses))
    async with running(mirror):
        for _ in range(5):
            await settle()
            cluster.end_watches(end)
        await settle()
    assert len(pauses.seconds) >= 5
    assert min(pauses.seconds) >= 0.5
    assert cluster.count("watch") <= len(pauses.seconds) + 1


async def test_who_wrote_what_is_not_kept(cluster: FakeCluster) -> None:
    """It is often the larger half of an object."""
    cluster.namespace("managed", managedFields=[{"manager": "kubectl"}])
    mirror = Mirror(cluster, NAMESPACES)
    async with running(mirror):
        await mirror.synced.wait()
    managed = mirror.find("managed")
    assert managed is not None
    assert "managedFields" not in managed["metadata"]


async def test_a_kind_that_the_cluster_does_not_know_has_no_objects(cluster: FakeCluster) -> None:
    """It is looked for again, and followed once it is there."""
    cluster.fail("list", error=NotFound("the server could not find the requested resource"), times=3)
    mirror = Mirror(cluster, NAMESPACES, backoff=Backoff(pause=Pauses()))
    task = asyncio.get_running_loop().create_task(mirror.run())
    await mirror.synced.wait()
    assert mirror.objects == {}
    assert mirror.trouble is not None
    await settle()
    assert mirror.find("agents") is not None
    task.cancel()
