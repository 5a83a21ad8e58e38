"""`waterclock injector`, as the chart starts it: a process of its own, against an API server that speaks HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from proxy.kube.cluster import EVENTS, LEASES, SECRETS, WEBHOOKS
from tests.kube.api_server import ApiServer, serving
from tests.kube.server.manual import until
from tests.kube.server.reviews import DEPLOYMENT, pod, review
from tests.kube.server.stage import AGENTS, SECRET, SYSTEM, Client, fresh_cluster
from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.ports import free_port
from tests.support.sidecar import PROGRAM, Sidecar
from tests.support.upstream import Upstream

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "POD_NAME": "waterclock-injector-7d9c-x2k4p",
    "POD_NAMESPACE": SYSTEM,
}


@asynccontextmanager
async def injector(*arguments: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command, and end it."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "injector",
        *arguments,
        env=ENVIRONMENT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def is_ready(port: int) -> bool:
    url = f"http://127.0.0.1:{port}/readyz"
    try:
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def until_ready(port: int) -> None:
    for _ in range(600):
        if await is_ready(port):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the injector did not become ready")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving(fresh_cluster()) as made:
        yield made


async def test_whole_life(server: ApiServer, tmp_path: Path) -> None:
    settings = tmp_path / "injector.yaml"
    settings.write_text(
        "certificates: {lifetime: 1h}\nnamespace: somewhere-else\nimage: registry.example/wc:7\n"
    )
    port, metrics = free_port(), free_port()
    arguments = ("--config", settings, "--kubeconfig", server.kubeconfig(tmp_path), "--port", str(port), "--metrics-port", str(metrics))  # fmt: skip
    async with injector(*arguments) as process:
        await until_ready(metrics)
        found = server.cluster.peek(WEBHOOKS, "waterclock-injector")
        assert found is not None
        bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]).decode()
        context = ssl.create_default_context(cadata=bundle)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(
            f"https://127.0.0.1:{port}", connector=connector, trust_env=False
        ) as session:
            response = await Client(session).mutate(review(pod(owner=DEPLOYMENT)))
        assert b"registry.example/wc:7" in base64.b64decode(response["patch"])
        await until(lambda: server.cluster.of(EVENTS))
        assert server.cluster.of(EVENTS)[0]["reportingInstance"] == ENVIRONMENT["POD_NAME"]
        assert server.cluster.peek(SECRETS, SECRET, SYSTEM) is not None
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            output, errors = await process.communicate()
    assert process.returncode == 0, errors
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["event"] for line in lines][-1] == "stopped"
    assert {"started", "leading", "certificate_loaded", "review", "draining"} <= {
        line["event"] for line in lines
    }
    assert not [line for line in lines if line["event"] in ("fault", "log")]
    lease = server.cluster.peek(LEASES, "waterclock-injector", SYSTEM)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""
    assert lease["metadata"]["ownerReferences"][0]["name"] == "waterclock-injector"
    assert errors == b""


async def ended(*arguments: str | Path) -> tuple[int | None, str]:
    """Run the command until it ends by itself; return its status and what it said on standard error."""
    async with injector(*arguments) as process, asyncio.timeout(30):
        _, errors = await process.communicate()
        return process.returncode, errors.decode()


async def test_settings_that_are_wrong(tmp_path: Path) -> None:
    settings = tmp_path / "injector.yaml"
    settings.write_text("certificates: {mode: selfish}\nreplicas: 2\n")
    status, errors = await ended("--config", settings)
    assert status == 2
    assert f"{settings}:1:" in errors
    assert "did you mean self?" in errors or "write self" in errors
    assert f"{settings}:2:" in errors
    assert "2 faults." in errors


async def test_outside_of_a_pod_and_without_a_kubeconfig() -> None:
    status, errors = await ended()
    assert status == 1
    assert "give it --kubeconfig FILE" in errors


async def test_a_port_that_is_taken(server: ApiServer, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, errors = await ended(
            "--kubeconfig", server.kubeconfig(tmp_path), "--port", "0", "--metrics-port", str(port)
        )
    assert status == 1
    assert f"port {port} cannot be listened on" in errors
    assert "choose another with --metrics-port" in errors


async def test_help_shows_how_to_look_at_it() -> None:
    async with injector("--help") as process:
        output, _ = await process.communicate()
    text = output.decode()
    for word in ("--kubeconfig", "--policy", "--metrics-port", "/mutate", "/explain", "Examples:"):
        assert word in text
    assert AGENTS not in text


def test_a_sidecar_that_runs_maps_nothing_of_the_injectors() -> None:
    """Not even once calls and probes have been answered."""
    with Sidecar() as sidecar, Upstream(answer()) as upstream:
        assert call(sidecar, "GET", upstream.url("/")).status == 200
        assert sidecar.samples()
        maps = Path(f"/proc/{sidecar.pid}/maps").read_text()
    assert "uvloop" in maps
    for library in ("cryptography", "aiohttp", "pydantic"):
        assert f"/{library}/" not in maps, library
