"""Uninstalling leaves nothing behind, and nothing of the agents breaks."""

from __future__ import annotations

from tests.cluster.harness import objects
from tests.cluster.harness.commands import admitted, get, kubectl
from tests.cluster.harness.inventory import Inventory, inventory
from tests.cluster.harness.settings import AGENTS, SYSTEM
from tests.cluster.harness.waiting import eventually
from tests.cluster.harness.world import TOOL, World, sidecar_of


def test_uninstall_leaves_nothing_behind(world: World, before: Inventory) -> None:
    """Not in the opted-in namespaces, not in its own, not in the cluster: no ConfigMap, Secret, Lease, webhook or CRD."""
    kinds = {thing.kind for thing in inventory() - before}
    assert {
        "ConfigMap",
        "Secret",
        "Lease",
        "MutatingWebhookConfiguration",
        "CustomResourceDefinition",
    } <= kinds
    world.release.uninstall()

    def left() -> set[str]:
        things = inventory() - before
        own = {thing for thing in things if thing.kind == "Namespace" and thing.name == SYSTEM}
        of_any_namespace = {
            thing
            for thing in things
            if thing.namespace == SYSTEM and thing.name in ("default", "kube-root-ca.crt")
        }
        rest = things - own - of_any_namespace
        return {f"{thing.kind} {thing.namespace}/{thing.name}" for thing in rest if not thing.of_the_test}

    def nothing_left() -> bool:
        remaining = left()
        assert not remaining, remaining
        return True

    eventually("nothing is left", nothing_left)
    assert "waterclock.dev" not in kubectl("api-versions")


def test_agents_that_run_keep_their_sidecar(world: World) -> None:
    """Until they are made anew: the policy that they began with is still theirs."""
    _, (call,) = world.job(f"http://agent.{AGENTS}", {"url": f"{TOOL}/read"}, budget_remaining_ms="5000")
    assert call.status == 200
    assert call.outcome


def test_new_pods_are_created_as_if_it_had_never_been_there(world: World) -> None:
    """Its label is still on the namespace, and nobody asks for it any more."""
    pod = admitted(objects.pod("after", AGENTS, objects.pod_spec(objects.container("idle.py"))))
    assert sidecar_of(pod) is None
    assert get("namespace", AGENTS) is not None
