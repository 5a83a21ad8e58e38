"""A whole injector in the test's own loop: over real TLS, on a fake cluster."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import jsonpatch

from proxy.kube.cluster import SECRETS, WEBHOOKS
from proxy.kube.injector import Injector, Place
from proxy.kube.settings import Settings
from proxy.observe.steplog import StepLog
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.manual import until

SYSTEM = "waterclock-system"
AGENTS = "agents"
SECRET = "waterclock-injector-tls"
SERVICE = f"waterclock-injector.{SYSTEM}.svc"


def webhook_configuration(failure_policy: str = "Ignore") -> dict[str, Any]:
    """What the chart installs."""
    service = {"name": "waterclock-injector", "namespace": SYSTEM, "path": "/mutate", "port": 443}
    return {
        "metadata": {"name": "waterclock-injector"},
        "webhooks": [
            {"name": name, "clientConfig": {"service": dict(service)}, "failurePolicy": failure_policy}
            for name in ("namespace.waterclock.dev", "pod.waterclock.dev")
        ],
    }


def fresh_cluster(failure_policy: str = "Ignore") -> FakeCluster:
    """A cluster on which the chart has just been installed, with a namespace that is opted in and one that is not."""
    cluster = FakeCluster()
    cluster.namespace(SYSTEM)
    cluster.namespace(AGENTS, labels={"waterclock.dev/inject": "enabled"})
    cluster.namespace("plain")
    cluster.put(WEBHOOKS, webhook_configuration(failure_policy))
    return cluster


class Replica:
    """One injector that runs, and how to speak to it."""

    def __init__(self, cluster: FakeCluster, injector: Injector, output: Path) -> None:
        self.cluster = cluster
        self.injector = injector
        self._output = output

    def log(self, event: str = "") -> list[dict[str, Any]]:
        """Return what was logged, of one event or of all."""
        lines = [json.loads(line) for line in self._output.read_text().splitlines()]
        return [line for line in lines if event in ("", line["event"])]

    def trust(self) -> ssl.SSLContext:
        """Return a client's context that trusts what the `caBundle` says, as the API server does."""
        found = self.cluster.peek(WEBHOOKS, "waterclock-injector")
        assert found is not None
        bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]).decode()
        context = ssl.create_default_context(cadata=bundle)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Yield a client that keeps its connections."""
        connector = aiohttp.TCPConnector(ssl=self.trust(), keepalive_timeout=60)
        async with aiohttp.ClientSession(
            f"https://127.0.0.1:{self.injector.port}", connector=connector, trust_env=False
        ) as session:
            yield Client(session)

    async def plain(self, path: str) -> tuple[int, str]:
        """Ask the second site."""
        url = f"http://127.0.0.1:{self.injector.metrics_port}{path}"
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as response:
            return response.status, await response.text()

    async def metric(self, name: str, **labels: str) -> float:
        """Return one number of /metrics, 0 when it is not there."""
        _, text = await self.plain("/metrics")
        for line in text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()):
                return float(value)
        return 0.0


class Client:
    """Sends requests, as the API server does."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def post(
        self, path: str, body: Any, *, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Send a body (bytes as they are, anything else as JSON), and return status and answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        async with self.session.post(
            path, data=io.BytesIO(data), headers=headers, server_hostname=SERVICE
        ) as response:
            expected = "application/json" if response.status == 200 else "application/problem+json"
            assert response.content_type == expected
            return response.status, await response.json(content_type=None)

    async def mutate(self, review: Mapping[str, Any]) -> dict[str, Any]:
        """Send a review that must be answered, and return the response in the answer."""
        status, answer = await self.post("/mutate", review)
        assert status == 200, answer
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: dict[str, Any] = answer["response"]
        assert response["uid"] == review["request"]["uid"]
        return response


def patched(pod: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod that the API server would store."""
    assert response["patchType"] == "JSONPatch"
    made: dict[str, Any] = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))
    return made


@asynccontextmanager
async def running(
    folder: Path,
    cluster: FakeCluster | None = None,
    settings: Settings | None = None,
    *,
    name: str = "injector-1",
    ready: bool = True,
    policy: Path | None = None,
    **place: Any,
) -> AsyncIterator[Replica]:
    """Run an injector meanwhile; `ready` waits until it calls itself so."""
    cluster = cluster if cluster is not None else fresh_cluster()
    settings = settings if settings is not None else Settings()
    output = folder / f"{name}.log"
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = StepLog(descriptor, delay=0.0)
    at = replace(Place(name, "127.0.0.1", 0, 0, drain=0.05), **place)
    injector = Injector(cluster, replace(settings, namespace=SYSTEM), at, policy, log)
    task = asyncio.get_running_loop().create_task(injector.run())
    try:
        await until(lambda: (injector.metrics_port and injector.port) or task.done(), "it listens")
        if ready:
            await until(lambda: not injector.unready() or task.done(), "it is ready")
        yield Replica(cluster, injector, output)
    finally:
        injector.stop()
        async with asyncio.timeout(20):
            await task
        log.close()
        os.close(descriptor)


def secret_of(cluster: FakeCluster) -> dict[str, bytes]:
    """Return the data of the Secret."""
    found = cluster.peek(SECRETS, SECRET, SYSTEM)
    assert found is not None
    return {name: base64.b64decode(value) for name, value in found["data"].items()}
