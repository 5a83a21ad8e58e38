"""Waterclock's whole life on a real cluster, by Helm, with nothing of it faked: `make cluster-test`.

    make cluster-test KUBECONFIG=... IMAGE=registry/waterclock:tag [CACHE_IMAGE=registry/waterclock:tag-cache]

It takes a cluster of Kubernetes 1.29 or newer that may be written to, an image that its nodes have or can pull, and kubectl
and helm (on PATH, or named by KUBECTL and HELM). WRAP is put before both: `nsenter --net=...`. It makes the namespaces
waterclock-system and wct-*, and removes them and the release at the end, also after a failure, unless KEEP=1. Without the
image of the semantic cache, the tests of that are skipped.

The tests tell one story and run in the order of their files: install, inject, hold, change, answer with less,
break, renew, leave.
A plain `pytest` does not collect them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.harness.commands import attempt, get, listed
from tests.cluster.harness.inventory import Inventory, inventory
from tests.cluster.harness.objects import MARK
from tests.cluster.harness.settings import KEEP, RELEASE, SYSTEM
from tests.cluster.harness.world import World

HERE = Path(__file__).parent
ASKED = os.environ.get("CLUSTER_TEST", "") not in ("", "0")
collect_ignore_glob = [] if ASKED else ["test_*.py"]

_world = World()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests here the time that a cluster takes."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(300))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what the cluster says beside a failure."""
    report = yield
    if report.failed:
        report.sections.append(("the cluster", _world.report()))
    return report


@pytest.fixture(scope="session")
def before() -> Inventory:
    """What was in the cluster before. The cluster is one that may be used, and what was left behind is removed first."""
    said = attempt("kubectl", "version", "--request-timeout=10s")
    assert said.ok, f"the cluster cannot be reached: {said.err}"
    releases = attempt("helm", "list", "--all-namespaces", "--short", "--filter", f"^{RELEASE}$")
    assert releases.ok, f"helm cannot be used: {releases.err}"
    system = get("namespace", SYSTEM)
    if system is None and not releases.out.strip():
        left = listed("namespaces", **{MARK: "true"})
    elif system is not None and MARK in system["metadata"]["labels"]:
        left = [system]
    else:
        pytest.exit(f"this cluster has a Waterclock of its own: release {RELEASE}, namespace {SYSTEM}", 2)
    if left:
        _world.clear()
    return inventory()


@pytest.fixture(scope="session")
def world(before: Inventory) -> Iterator[World]:
    """The cluster with the test's namespaces, the tool and the driver; the chart is installed by the first test."""
    try:
        _world.build()
        yield _world
    finally:
        if not KEEP:
            _world.clear()
