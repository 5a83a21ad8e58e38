"""The injector is rolled over, renews its certificate, and goes away: pods go on being created, as the policy says."""

from __future__ import annotations

import time

import pytest

from tests.cluster.harness import objects
from tests.cluster.harness.commands import Object, admitted, apply, delete, kubectl, listed, refused
from tests.cluster.harness.release import REPLICAS
from tests.cluster.harness.settings import AGENTS, CONTROLLER, SYSTEM, TOOLS
from tests.cluster.harness.stream import pods_created_all_along
from tests.cluster.harness.waiting import eventually, ready, rolled_out
from tests.cluster.harness.world import World, sidecar_of

LIFETIME_SECONDS = 60
EXPIRY = "waterclock_injector_certificate_expiry_timestamp_seconds"


def idle(name: str, namespace: str, **annotations: str) -> Object:
    """A pod that does nothing."""
    return objects.pod(name, namespace, objects.pod_spec(objects.container("idle.py")), **annotations)


def test_pods_go_on_being_created_while_the_injector_is_down(world: World) -> None:
    """`Ignore`: without a sidecar, but at once."""
    world.release.scale(0)
    try:
        apply(idle("without", AGENTS))
        assert sidecar_of(ready("without", AGENTS)) is None
    finally:
        world.release.scale(REPLICAS)
    kubectl("delete", "pod", "without", "--namespace", AGENTS, "--wait=false")
    eventually("pods are injected again", lambda: sidecar_of(admitted(idle("again", AGENTS))))


def test_under_fail_no_pod_is_created_without_its_sidecar(world: World) -> None:
    """And what is not the injector's business is not held up: other namespaces, kube-system, and its own."""
    world.release.upgrade({"injector": {"failurePolicy": "Fail"}})
    world.release.scale(0)
    try:
        said = refused(idle("not-without", AGENTS))
        assert "failed calling webhook" in said
        assert "failed calling webhook" in refused(idle("asked", TOOLS, inject="enabled"))
        for namespace in (TOOLS, "kube-system", SYSTEM):
            assert sidecar_of(admitted(idle("other", namespace))) is None
        for namespace in ("kube-system", SYSTEM):
            assert sidecar_of(admitted(idle("asking", namespace, inject="enabled"))) is None
    finally:
        world.release.scale(REPLICAS)
    assert (
        sidecar_of(eventually("pods are injected again", lambda: admitted(idle("again", AGENTS)))) is not None
    )


@pytest.mark.parametrize("namespace", ["kube-system", SYSTEM])
def test_system_namespaces_are_never_injected(world: World, namespace: str) -> None:
    """Whatever a pod there says, also while the injector is up."""
    assert sidecar_of(admitted(idle("asking", namespace, inject="enabled"))) is None


def test_the_injector_is_rolled_over_and_no_pod_is_missed(world: World) -> None:
    """Under `Fail`, a review that nobody answers is a pod that is not created: there is none."""
    before = {uid(pod) for pod in world.release.serving()}
    made = objects.template("rolled", objects.pod_spec(objects.container("idle.py")))
    with pods_created_all_along() as created:
        kubectl("rollout", "restart", f"deployment/{CONTROLLER}", "--namespace", SYSTEM)
        apply(objects.workload("Deployment", "rolled", AGENTS, made, replicas=3))
        rolled_out("deployment", CONTROLLER, SYSTEM)
        eventually("the old are gone", lambda: not before & {uid(pod) for pod in world.release.pods()})
    assert created.missed == []
    assert created.injected > 5
    rolled_out("deployment", "rolled", AGENTS)
    assert all(sidecar_of(pod) for pod in listed("pods", AGENTS, app="rolled"))
    delete("deployment", "rolled", AGENTS)


def test_one_of_two_injectors_is_lost_and_no_pod_is_missed(world: World) -> None:
    """Also when it is the leader: the other one takes the lease over."""
    lease = kubectl(
        "get", "lease", CONTROLLER, "--namespace", SYSTEM, "--output=jsonpath={.spec.holderIdentity}"
    )
    leader = next(pod for pod in world.release.serving() if pod["metadata"]["name"] in lease)
    with pods_created_all_along() as created:
        kubectl("delete", "pod", leader["metadata"]["name"], "--namespace", SYSTEM, seconds=90)
        rolled_out("deployment", CONTROLLER, SYSTEM)

        def another() -> bool:
            now = kubectl(
                "get", "lease", CONTROLLER, "--namespace", SYSTEM, "--output=jsonpath={.spec.holderIdentity}"
            )
            return bool(now) and now != lease

        eventually("another injector leads", another)
    assert created.missed == []


@pytest.mark.timeout(400)
def test_the_certificate_is_rotated_and_no_pod_is_missed(world: World) -> None:
    """One that lives for a minute is renewed every 40 s: nobody restarts, and under `Fail` every pod is reviewed."""
    world.release.upgrade({"certificates": {"lifetime": f"{LIFETIME_SECONDS}s"}})

    def expiries() -> list[float]:
        """When the certificate that each injector serves with ends."""
        return [world.metrics(pod, 8080)[EXPIRY][0][1] for pod in world.release.pods()]

    def short_lived() -> list[float] | None:
        seen = expiries()
        return seen if max(seen) - time.time() <= LIFETIME_SECONDS else None

    first = eventually("the certificates are short-lived", short_lived)
    pods = {uid(pod) for pod in world.release.serving()}
    with pods_created_all_along() as created:
        second = eventually("they are renewed", lambda: later(expiries(), max(first)), within=120)
        eventually("and again", lambda: later(expiries(), max(second)), within=120)
    assert created.missed == []
    assert created.injected > 20
    assert {uid(pod) for pod in world.release.pods()} == pods
    assert world.release.restarts() == 0


def test_the_injectors_stay_small(world: World) -> None:
    """After all of this none of them has ever taken more than 120 MiB."""
    for pod in world.release.serving():
        name = pod["metadata"]["name"]
        status = kubectl("exec", name, "--namespace", SYSTEM, "--", "cat", "/proc/1/status")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        assert int(peak.split()[1]) < 120 * 1024, peak


def later(seen: list[float], than: float) -> list[float] | None:
    """Return what is seen, once all of it is later."""
    return seen if min(seen) > than else None


def uid(pod: Object) -> str:
    """Return what a pod is known by."""
    found: str = pod["metadata"]["uid"]
    return found
