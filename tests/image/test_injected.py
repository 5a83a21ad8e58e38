"""A pod as `waterclock inject` writes it: its containers are started as their specs say, and hold a job to its budget."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.image.containers import Container, started
from tests.image.images import Image
from tests.support.behaviours import answer, stall
from tests.support.callers import Answer, Caller
from tests.support.upstream import Upstream
from tests.support.waiting import eventually
from tests.ways.apart import namespace, run

pytestmark = pytest.mark.timeout(600)  # the first test builds the image

WATERCLOCK = Path(sys.executable).with_name("waterclock")
PROGRAMS = Path(__file__).parents[1] / "cluster" / "programs"
ELSEWHERE = "10.9.1.2"
"""An address that no NO_PROXY names."""
POLICY = "budget: {default: 20s, reserve: 0s}\n"


def injected(tmp_path: Path) -> dict[str, Any]:
    """A restricted agent's pod, injected offline, in environment mode with an inbound side."""
    app = {
        "name": "app",
        "image": "the image under test",
        "command": ["python", "/programs/agent.py"],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "programs", "mountPath": "/programs", "readOnly": True}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "agent",
            "namespace": "agents",
            "annotations": {"waterclock.dev/inject": "enabled", "waterclock.dev/inbound-port": "8080"},
        },
        "spec": {
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True},
            "containers": [app],
            "volumes": [{"name": "programs", "configMap": {"name": "programs"}}],
        },
    }
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(pod))
    done = subprocess.run(
        [WATERCLOCK, "inject", "-f", manifest], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    spec: dict[str, Any] = yaml.safe_load(done.stdout)["spec"]
    return spec


def volumes(spec: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Make what a kubelet would: the policy's ConfigMap with the items that the spec asks for, and an empty folder."""
    made = {"programs": PROGRAMS}
    for volume in spec["volumes"]:
        if volume["name"] == "programs":
            continue
        place = folder / volume["name"]
        place.mkdir()
        for item in volume.get("configMap", {}).get("items", []):
            assert item["key"] == "waterclock.yaml"
            (place / item["path"]).write_text(POLICY)
        place.chmod(0o777 if "emptyDir" in volume else 0o755)
        made[volume["name"]] = place
    return made


def is_ready(probe: dict[str, Any]) -> bool:
    """Ask as the kubelet does, by the probe of the spec."""
    get = probe["httpGet"]
    try:
        with Caller(("127.0.0.1", get["port"])) as caller:
            return caller.request("GET", get["path"]).answer().status == 200
    except OSError:
        return False


def ask(calls: list[dict[str, Any]], headers: Mapping[str, str]) -> Answer:
    """Send an entry request to the sidecar's inbound side, as the pod's Service would."""
    with Caller(("127.0.0.1", 10801)) as caller:
        return caller.request("POST", "/job", headers, json.dumps(calls).encode()).answer()


def test_the_rendered_sidecar_serves_a_budgeted_call(image: Image, tmp_path: Path) -> None:
    """Same command, environment, user, read-only root and mounts; the agent in the pod has only the proxy variables."""
    spec = injected(tmp_path)
    (sidecar,), (app,) = spec["initContainers"], spec["containers"]
    made = volumes(spec, tmp_path)
    with namespace() as network:
        run("ip", "link", "set", "lo", "up")
        run("ip", "address", "add", f"{ELSEWHERE}/24", "dev", "lo")
        with (
            Upstream(answer(b"found"), stall(), host=ELSEWHERE) as tool,
            started(image, tmp_path, sidecar, pod=spec, volumes=made, network=network) as proxy,
        ):
            eventually(lambda: is_ready(sidecar["startupProbe"]), within=30, what=proxy.said())
            with started(image, tmp_path, app, pod=spec, volumes=made, network=network) as agent:
                wait_for(agent)
                calls = [{"url": tool.url("/quick")}, {"url": tool.url("/slow")}]
                headers = {"Budget-Id": "run-1", "Budget-Remaining-Ms": "2000", "Budget-Reserve-Ms": "500"}
                got = ask(calls, headers)
                done = json.loads(got.body)
            assert [each["status"] for each in done] == [200, 504]
            assert done[0]["headers"]["Budget-Id"] == "run-1"
            assert done[1]["headers"]["Budget-Outcome"].startswith("deadline_exceeded; effect=none")
            assert got.get("Budget-Verdict") == "incomplete; on_time"
            assert [request.target for request in tool.requests] == ["/quick", "/slow"]
            assert proxy.stop() == 0
    assert (made["waterclock-journal"] / "journal.db").stat().st_uid == 2180
    assert [each["outcome"] for each in proxy.events() if "step" in each and "event" not in each] == [
        "completed",
        "deadline_exceeded",
    ]


def wait_for(agent: Container) -> None:
    """Wait until the app listens."""
    eventually(
        lambda: is_ready({"httpGet": {"path": "/healthz", "port": 8080}}), within=30, what=agent.said()
    )
