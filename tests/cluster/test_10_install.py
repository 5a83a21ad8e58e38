"""Installing: the chart, the webhook, the first namespace that is opted in."""

from __future__ import annotations

from tests.cluster.harness import objects
from tests.cluster.harness.commands import admitted, get, helm, kubectl
from tests.cluster.harness.release import REPLICAS
from tests.cluster.harness.settings import AGENTS, NAMESPACES, REDIRECTED, RELEASE, SYSTEM, TOOLS
from tests.cluster.harness.waiting import eventually
from tests.cluster.harness.world import World, sidecar_of


def test_helm_installs_it_and_says_what_to_do_next(world: World) -> None:
    """The notes name the command that opts a namespace in."""
    notes = world.release.install()
    assert "waterclock.dev/inject=enabled" in notes


def test_as_soon_as_helm_is_done_pods_are_injected(world: World) -> None:
    """The next pod that asks for a sidecar gets one, also in a namespace that is not opted in.

    Helm waits until the injectors are ready. A moment later their Service leads to them, when every node knows.
    """
    asking = objects.pod("first", TOOLS, objects.pod_spec(objects.container("idle.py")), inject="enabled")
    eventually("a pod is injected", lambda: sidecar_of(admitted(asking)), within=10)
    assert len(world.release.pods()) == REPLICAS
    assert world.release.restarts() == 0


def test_the_ca_of_the_webhook_is_the_injectors_own(world: World) -> None:
    """The chart brings no certificate; the injector has made one, and told the API server whom to trust."""
    assert all(webhook["clientConfig"].get("caBundle") for webhook in world.release.webhooks())
    assert get("secret", "waterclock-injector-tls", SYSTEM) is not None


def test_helm_test_sends_a_budgeted_call(world: World) -> None:
    """What the notes tell people to do next works."""
    assert "Succeeded" in helm("test", RELEASE, "--namespace", SYSTEM, "--timeout=3m", seconds=240)


def test_nothing_is_injected_unasked(world: World) -> None:
    """A namespace without the label is left alone."""
    assert (
        sidecar_of(admitted(objects.pod("plain", AGENTS, objects.pod_spec(objects.container("idle.py")))))
        is None
    )


def has_policy(namespace: str) -> None:
    """Wait until the injector has brought the policy into a namespace."""
    eventually(f"the policy is in {namespace}", lambda: get("configmap", "waterclock-policy", namespace))


def test_a_namespace_is_opted_in_by_its_label(world: World) -> None:
    """It gets the policy at once, and its next pod a sidecar."""
    for namespace in (AGENTS, REDIRECTED):
        kubectl("label", "namespace", namespace, "waterclock.dev/inject=enabled")
        has_policy(namespace)
    pod = admitted(objects.pod("next", AGENTS, objects.pod_spec(objects.container("idle.py"))))
    assert sidecar_of(pod) is not None
    untouched = set(NAMESPACES) - {AGENTS, REDIRECTED}
    assert not any(get("configmap", "waterclock-policy", namespace) for namespace in untouched)
