"""The real client, over HTTP: JSON as it comes, every refusal told apart, and no wait without an end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from kubernetes.aio.config import incluster_config

from proxy.kube import client
from proxy.kube.client import KubernetesCluster, connect
from proxy.kube.cluster import (
    BUDGET_POLICIES,
    CONFIG_MAPS,
    NAMESPACES,
    WEBHOOKS,
    Change,
    ClusterError,
    Conflict,
    Gone,
    NotFound,
)
from tests.kube.api_server import ApiServer, serving
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.manual import until


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    cluster = FakeCluster()
    cluster.namespace("agents")
    async with serving(cluster) as made:
        yield made


@pytest.fixture
async def cluster(server: ApiServer, tmp_path: Path) -> AsyncIterator[KubernetesCluster]:
    made = await connect(server.kubeconfig(tmp_path))
    yield made
    await made.close()


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


async def drained(cluster: KubernetesCluster, version: str) -> None:
    """Watch namespaces until that ends."""
    async for _ in cluster.watch(NAMESPACES, version):
        continue


async def test_life_of_an_object(server: ApiServer, cluster: KubernetesCluster) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("one", a="b"), "agents")
    assert made["data"] == {"a": "b"}
    assert await cluster.get(CONFIG_MAPS, "one", "agents") == made
    made["data"]["a"] = "c"
    newer = await cluster.replace(CONFIG_MAPS, made, "agents")
    assert newer["data"] == {"a": "c"}
    merged = await cluster.patch(CONFIG_MAPS, "one", {"data": {"d": "e"}}, "agents")
    assert merged["data"] == {"a": "c", "d": "e"}
    steps = ({"op": "remove", "path": "/data/a"},)
    assert (await cluster.patch(CONFIG_MAPS, "one", steps, "agents"))["data"] == {"d": "e"}
    await cluster.delete(CONFIG_MAPS, "one", "agents")
    assert server.cluster.of(CONFIG_MAPS) == []
    for method, _, query, headers in server.seen:
        assert headers["Authorization"].lower() == "bearer a-token"
        assert headers["User-Agent"].startswith("waterclock-injector/")
        assert ("fieldManager" in query) == (method in ("POST", "PUT", "PATCH"))


async def test_status_is_written_as_a_subresource(server: ApiServer, cluster: KubernetesCluster) -> None:
    made = server.cluster.put(BUDGET_POLICIES, {"metadata": {"name": "p"}, "spec": {}}, "agents")
    made["status"] = {"conditions": []}
    await cluster.replace(BUDGET_POLICIES, made, "agents", subresource="status")
    assert server.seen[-1][1].endswith(
        "/apis/waterclock.dev/v1alpha1/namespaces/agents/budgetpolicies/p/status"
    )
    found = server.cluster.peek(BUDGET_POLICIES, "p", "agents")
    assert found is not None
    assert found["status"] == {"conditions": []}


async def test_lists_come_whole(server: ApiServer, cluster: KubernetesCluster) -> None:
    """Page by page, whatever their number."""
    server.page = 3
    for number in range(10):
        server.cluster.put(CONFIG_MAPS, config_map(f"m{number}"), "agents")
    listed = await cluster.list(CONFIG_MAPS)
    assert [item["metadata"]["name"] for item in listed["items"]] == [f"m{number}" for number in range(10)]
    assert int(listed["metadata"]["resourceVersion"]) > 0
    listed = await cluster.list(CONFIG_MAPS, "agents", fields="metadata.name=m7")
    assert len(listed["items"]) == 1


async def test_watch_tells_changes(server: ApiServer, cluster: KubernetesCluster) -> None:
    version = (await cluster.list(NAMESPACES))["metadata"]["resourceVersion"]
    seen: list[Change] = []

    async def follow() -> None:
        async for change in cluster.watch(NAMESPACES, version):
            seen.append(change)  # noqa: PERF401 - they are looked at while they come

    task = asyncio.get_running_loop().create_task(follow())
    server.cluster.namespace("x" * 63, annotations={"long": "y" * 1_000_000})
    await until(lambda: len(seen) == 1)
    await server.cluster.delete(NAMESPACES, "x" * 63)
    await until(lambda: len(seen) == 2)
    assert [each.type for each in seen] == ["ADDED", "DELETED"]
    server.cluster.end_watches()
    async with asyncio.timeout(10):
        await task
    query = server.seen[-1][2]
    assert query["allowWatchBookmarks"] == "true"
    assert 240 <= int(query["timeoutSeconds"]) <= 360


@pytest.mark.parametrize("when", ["at once", "later"])
async def test_watch_that_is_too_old(server: ApiServer, cluster: KubernetesCluster, when: str) -> None:
    if when == "at once":
        server.cluster.forget()
    else:
        asyncio.get_running_loop().call_later(0.1, server.cluster.forget)
    with pytest.raises(Gone, match="too old"):
        await drained(cluster, "100")


async def test_refusals_are_told_apart(server: ApiServer, cluster: KubernetesCluster) -> None:
    with pytest.raises(NotFound, match=r"get ConfigMap agents/none: .*404"):
        await cluster.get(CONFIG_MAPS, "none", "agents")
    await cluster.create(CONFIG_MAPS, config_map("one"), "agents")
    with pytest.raises(Conflict, match="already exists"):
        await cluster.create(CONFIG_MAPS, config_map("one"), "agents")
    stale = server.cluster.peek(CONFIG_MAPS, "one", "agents")
    assert stale is not None
    await cluster.patch(CONFIG_MAPS, "one", {"data": {"a": "b"}}, "agents")
    with pytest.raises(Conflict, match="modified"):
        await cluster.replace(CONFIG_MAPS, stale, "agents")


async def test_forbidden_names_what_is_missing(server: ApiServer, cluster: KubernetesCluster) -> None:
    server.forbid = {("list", "budgetpolicies"), ("patch", "mutatingwebhookconfigurations")}
    with pytest.raises(ClusterError) as fault:
        await cluster.list(BUDGET_POLICIES)
    assert "let the injector's role list budgetpolicies of waterclock.dev" in str(fault.value)
    with pytest.raises(ClusterError) as fault:
        await cluster.patch(WEBHOOKS, "waterclock-injector", [])
    assert "let the injector's role patch mutatingwebhookconfigurations" in str(fault.value)


async def test_an_answer_that_is_none(server: ApiServer, cluster: KubernetesCluster) -> None:
    server.garbage = True
    with pytest.raises(ClusterError, match="could not be read"):
        await cluster.list(NAMESPACES)
    with pytest.raises(ClusterError, match="could not be read"):
        await drained(cluster, "100")
    with pytest.raises(ClusterError, match="could not be read"):
        await cluster.version()


async def test_version(cluster: KubernetesCluster) -> None:
    assert await cluster.version() == (1, 34)


async def test_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = ApiServer(FakeCluster())
        server.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        cluster = await connect(server.kubeconfig(tmp_path))
        with pytest.raises(ClusterError, match="could not be reached"):
            await cluster.get(NAMESPACES, "agents")
        await cluster.close()


async def test_a_server_that_hangs(
    server: ApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_REQUEST", aiohttp.ClientTimeout(total=0.2))
    server.cluster.open.clear()
    with pytest.raises(ClusterError, match="did not answer in time"):
        await cluster.get(NAMESPACES, "agents")
    server.cluster.open.set()


async def test_a_watch_that_falls_silent(
    server: ApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that died without a word is given up, not waited for until the watch would have ended."""
    monkeypatch.setattr(client, "_SILENCE", 0.2)
    with pytest.raises(ClusterError, match="did not answer in time"):
        await drained(cluster, "1000")


async def test_a_proxy_of_the_environment_is_not_used(
    server: ApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert await cluster.version() == (1, 34)


@pytest.mark.parametrize("text", ["", "{}", "clusters: [", "current-context: none\nclusters: []\n"])
async def test_a_kubeconfig_that_leads_nowhere(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ClusterError, match="--kubeconfig"):
        await connect(path)


async def test_no_kubeconfig_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="--kubeconfig"):
        await connect(tmp_path / "none")


async def test_outside_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="give it --kubeconfig FILE"):
        await connect()


async def test_the_pods_token_is_read_again(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of service accounts live an hour; the kubelet puts a new one there in time."""
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    import trustme

    trustme.CA().cert_pem.write_to_path(str(authority))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    cluster = await connect()
    cluster._host = server.url
    await cluster.version()
    token.write_text("second")
    hook = cluster._client.configuration.refresh_api_key_hook
    loader = next(cell.cell_contents for cell in hook.__closure__)
    loader.token_expires_at -= loader._token_refresh_period
    await cluster.version()
    assert [headers["Authorization"] for *_, headers in server.seen] == ["bearer first", "bearer second"]
    await cluster.close()
