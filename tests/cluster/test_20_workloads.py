"""Every kind of workload gets its sidecar, under the restricted Pod Security Standard and a quota, and goes on as before."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.harness import objects
from tests.cluster.harness.commands import Following, Object, admitted, apply, delete, get, kubectl, listed
from tests.cluster.harness.settings import AGENTS
from tests.cluster.harness.waiting import ended, eventually, ready, rolled_out
from tests.cluster.harness.world import TOOL, World, sidecar_of

GOODBYE_SECONDS = 10


@pytest.fixture(scope="module", autouse=True)
def workloads(world: World) -> Iterator[None]:
    """One of each kind, made at the same time."""
    idle = objects.pod_spec(objects.container("idle.py"))
    once = objects.pod_spec(objects.container("at_once.py", f"{TOOL}/read?wait=1000"), restartPolicy="Never")
    cron = objects.cron_job("every-minute", AGENTS, objects.template("every-minute", once))
    apply(
        objects.workload("Deployment", "deployed", AGENTS, objects.template("deployed", idle), replicas=2),
        objects.workload("DaemonSet", "everywhere", AGENTS, objects.template("everywhere", idle)),
        objects.workload("Job", "ends", AGENTS, objects.template("ends", once), backoffLimit=0),
        cron,
    )
    yield
    for kind, name in (("deployment", "deployed"), ("daemonset", "everywhere"), ("cronjob", "every-minute")):
        delete(kind, name, AGENTS)


def native_sidecar(pod: Object) -> Object:
    """Return the sidecar, which has to stand first among the init containers and go on running."""
    first: Object = pod["spec"]["initContainers"][0]
    assert (first["name"], first["restartPolicy"]) == ("waterclock", "Always")
    assert {"cpu", "memory"} <= set(first["resources"]["limits"])
    return first


@pytest.mark.parametrize(("kind", "name"), [("deployment", "deployed"), ("daemonset", "everywhere")])
def test_what_goes_on_running_is_injected(kind: str, name: str) -> None:
    """All pods of a Deployment and of a DaemonSet have a native sidecar, and are ready."""
    rolled_out(kind, name, AGENTS)
    pods = listed("pods", AGENTS, app=name)
    assert pods
    for pod in pods:
        native_sidecar(pod)
        assert json.loads(pod["metadata"]["annotations"]["waterclock.dev/status"])["version"]


def test_a_job_is_injected_and_ends() -> None:
    """The sidecar does not keep it from ending (istio#11045), and its call had a sidecar from the first instruction on."""
    kubectl(
        "wait", "--for=condition=Complete", "job/ends", "--namespace", AGENTS, "--timeout=90s", seconds=100
    )
    (pod,) = listed("pods", AGENTS, app="ends")
    native_sidecar(pod)
    assert pod["status"]["phase"] == "Succeeded"


def test_the_apps_first_instruction_finds_the_proxy_listening() -> None:
    """The app is not started before the sidecar listens (istio#11130)."""
    (pod,) = listed("pods", AGENTS, app="ends")
    said = json.loads(kubectl("logs", pod["metadata"]["name"], "--container=app", "--namespace", AGENTS))
    assert said["status"] == 200
    assert "Budget-Outcome" in said["headers"]


def test_init_containers_have_egress(world: World) -> None:
    """The app's own init containers come after the sidecar, and their calls pass through it (vault-k8s#41)."""
    spec = objects.pod_spec(
        objects.container("at_once.py"),
        initContainers=[objects.container("at_once.py", f"{TOOL}/read?name=init", name="fetch")],
    )
    apply(objects.once("prepared", AGENTS, spec))
    pod = ended("prepared", AGENTS)
    assert pod["status"]["phase"] == "Succeeded"
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["waterclock", "fetch"]
    said = json.loads(kubectl("logs", "prepared", "--container=fetch", "--namespace", AGENTS))
    assert "Budget-Outcome" in said["headers"]
    delete("pod", "prepared", AGENTS)


def test_the_proxy_outlives_the_app(world: World) -> None:
    """An app that goes on calling after SIGTERM is served until it ends (istio#19564)."""
    spec = objects.pod_spec(objects.container("long_goodbye.py", f"{TOOL}/read", str(GOODBYE_SECONDS)))
    apply(objects.pod("goodbye", AGENTS, spec))
    ready("goodbye", AGENTS)
    with Following("goodbye", "app", AGENTS) as log:
        delete("pod", "goodbye", AGENTS, wait=True)
        lines = log.lines()
    calls = [line for line in lines if line.startswith(("called", "failed"))]
    assert lines[-1] == "ended"
    assert len(calls) > GOODBYE_SECONDS / 2
    assert {line for line in calls if not line.startswith("called 200 ")} == set()


def test_probes_are_left_as_they_are() -> None:
    """The app's probes are the app's (istio#25177), and they work."""
    app = objects.container("agent.py", port=8080)
    apply(objects.pod("probed", AGENTS, objects.pod_spec(app), inbound_port="8080"))
    pod = ready("probed", AGENTS)
    (container,) = pod["spec"]["containers"]
    probe = container["readinessProbe"]
    assert probe["httpGet"] == {"path": "/healthz", "port": 8080, "scheme": "HTTP"}
    assert probe["periodSeconds"] == 1
    delete("pod", "probed", AGENTS)


def test_its_own_output_is_not_injected_again() -> None:
    """A pod that has been injected, made anew from what stands in the cluster, has one sidecar (kserve#4332)."""
    made = admitted(objects.pod("twice", AGENTS, objects.pod_spec(objects.container("idle.py"))))
    for field in ("uid", "creationTimestamp", "managedFields", "resourceVersion"):
        made["metadata"].pop(field, None)
    made.pop("status", None)
    again = admitted(made)
    assert again["spec"] == made["spec"]
    assert again["metadata"]["annotations"] == made["metadata"]["annotations"]


def test_a_pod_may_opt_out(world: World) -> None:
    """`waterclock.dev/inject: disabled` on the pod wins over its namespace's label, and an Event says so."""
    apply(objects.pod("alone", AGENTS, objects.pod_spec(objects.container("idle.py")), inject="disabled"))
    pod = get("pod", "alone", AGENTS)
    assert pod is not None
    assert sidecar_of(pod) is None
    (event,) = eventually("an Event says why", lambda: events("Skipped", "alone"))
    assert event["message"].startswith("OptedOut")
    delete("pod", "alone", AGENTS)


def test_events_say_what_was_injected() -> None:
    """On what the pods belong to, since a pod that is being made has no name yet."""
    eventually("an Event on the Job", lambda: events("Injected", "ends"))
    (replica_set,) = listed("replicasets", AGENTS, app="deployed")
    eventually("an Event on the ReplicaSet", lambda: events("Injected", replica_set["metadata"]["name"]))


def test_a_pod_of_a_cron_job_is_injected_and_ends() -> None:
    """Last, since it is due only once a minute."""

    def look() -> Object | None:
        done = [
            pod for pod in listed("pods", AGENTS, app="every-minute") if pod["status"]["phase"] == "Succeeded"
        ]
        return done[0] if done else None

    native_sidecar(eventually("a pod of the CronJob ends", look, within=120))


def events(reason: str, name: str) -> list[Object]:
    """Return the Events with this reason on the object of this name."""
    return [
        event
        for event in listed("events", AGENTS)
        if event["reason"] == reason and event["involvedObject"]["name"] == name
    ]
