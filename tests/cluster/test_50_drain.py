"""A node is drained while writes are in doubt: what their callers were told is not lost with the pod.

The journal goes with its pod. The promise is this: between the moment an app has ended and the end of the pod's grace, the
sidecar listens on for the late answers of the writes that it had to cut, and what is known of each of them in the end
stands in its log, which outlives it: `write_settled` with what came of it, or `write_unresolved`.
"""

from __future__ import annotations

import json

from tests.cluster.harness import objects
from tests.cluster.harness.commands import Following, Object, apply, delete, kubectl
from tests.cluster.harness.settings import AGENTS
from tests.cluster.harness.waiting import gone, one_pod, rolled_out
from tests.cluster.harness.world import TOOL, World, sidecar_of

LATE_MS = 6_000
"""When the tool answers the first write: after its caller is gone, and well within the linger (10 s) and the grace (30 s)."""
NEVER_MS = 120_000


def test_a_drain_loses_no_uncertain_write_that_was_answered_for(world: World) -> None:
    """Of two writes that were answered with 424, one is settled by its late answer, the other is named at the end."""
    spec = objects.pod_spec(objects.container("agent.py", port=8080))
    apply(
        objects.workload(
            "Deployment", "writer", AGENTS, objects.template("writer", spec, inbound_port="8080")
        )
    )
    rolled_out("deployment", "writer", AGENTS)
    pod = one_pod(AGENTS, app="writer")
    name = pod["metadata"]["name"]
    with Following(name, "waterclock", AGENTS) as log:
        lost, late = (cut_write(world, pod, wait) for wait in (NEVER_MS, LATE_MS))
        drain(pod)
        events = [json.loads(line) for line in log.lines()]
    told = {event["record"]: event for event in events if event.get("event", "").startswith("write_")}
    assert (told[late]["event"], told[late]["state"], told[late]["status"]) == (
        "write_settled",
        "reported",
        201,
    )
    assert (told[lost]["event"], told[lost]["state"]) == ("write_unresolved", "uncertain")
    assert told[lost]["target"].startswith(f"{TOOL}/write")
    assert events[-1]["event"] == "stopped"


def cut_write(world: World, pod: Object, wait: int) -> str:
    """Have the agent write what the tool answers after so many milliseconds, with a second of time; return its record."""
    write = {"method": "POST", "url": f"{TOOL}/write?wait={wait}", "body": f"answered after {wait} ms"}
    _, (call,) = world.job(f"http://{pod['status']['podIP']}:10801", write, budget_remaining_ms="1000")
    assert call.status == 424
    assert "effect=uncertain" in call.outcome
    return call.headers["budget-record"]


def drain(pod: Object) -> None:
    """Drain the node of this pod, as `kubectl drain` does it, of the pods of its Deployment only."""
    node = pod["spec"]["nodeName"]
    chosen = ("--pod-selector=app=writer", f"--namespace={AGENTS}", "--delete-emptydir-data", "--timeout=90s")
    try:
        kubectl("drain", node, *chosen, seconds=120)
        gone("pod", pod["metadata"]["name"], AGENTS)
    finally:
        kubectl("uncordon", node)


def test_what_was_evicted_comes_back_injected() -> None:
    """The Deployment has a pod again, with a sidecar."""
    rolled_out("deployment", "writer", AGENTS)
    assert sidecar_of(one_pod(AGENTS, app="writer")) is not None
    delete("deployment", "writer", AGENTS)
