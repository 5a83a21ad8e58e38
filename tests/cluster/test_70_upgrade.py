"""From one version of the chart to the next, while pods are created and agents run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from tests.cluster.harness.commands import get, helm
from tests.cluster.harness.settings import AGENTS, CHART, CONTROLLER, RELEASE, SYSTEM
from tests.cluster.harness.stream import pods_created_all_along
from tests.cluster.harness.waiting import one_pod
from tests.cluster.harness.world import TOOL, World


def next_version(folder: Path) -> tuple[Path, str]:
    """Package the chart under the next version, as a release would; return where it is, and the version."""
    copy = folder / "waterclock"
    shutil.copytree(CHART, copy)
    about = yaml.safe_load((copy / "Chart.yaml").read_text())
    major, minor, patch = (int(part) for part in str(about["version"]).split("."))
    version = f"{major}.{minor}.{patch + 1}"
    (copy / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": version}))
    helm("package", str(copy), "--destination", str(folder))
    return folder / f"waterclock-{version}.tgz", version


def test_an_upgrade_misses_no_pod_and_leaves_agents_alone(world: World, tmp_path: Path) -> None:
    """The new chart is in force, every pod made meanwhile has its sidecar, and the agents that ran go on."""
    agent = one_pod(AGENTS, app="agent")
    chart, version = next_version(tmp_path)
    with pods_created_all_along() as created:
        world.release.upgrade(chart=chart)
    assert created.missed == []
    assert created.injected > 0
    deployment = get("deployment", CONTROLLER, SYSTEM)
    assert deployment is not None
    assert deployment["metadata"]["labels"]["helm.sh/chart"] == f"waterclock-{version}"
    (release,) = json.loads(
        helm("list", "--namespace", SYSTEM, "--filter", f"^{RELEASE}$", "--output", "json")
    )
    assert release["status"] == "deployed"
    assert one_pod(AGENTS, app="agent")["metadata"]["uid"] == agent["metadata"]["uid"]
    _, (call,) = world.job(f"http://agent.{AGENTS}", {"url": f"{TOOL}/read"}, budget_remaining_ms="5000")
    assert call.status == 200
    assert call.outcome
