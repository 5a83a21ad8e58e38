"""Policy: changes reach running sidecars, and BudgetPolicies are checked by the API server and used."""

from __future__ import annotations

import json

import pytest

from tests.cluster.harness import objects
from tests.cluster.harness.commands import Object, apply, delete, get, refused
from tests.cluster.harness.settings import AGENTS
from tests.cluster.harness.waiting import eventually, one_pod, ready
from tests.cluster.harness.world import TOOL, World

AGENT = f"http://agent.{AGENTS}"
CHOSEN = {"matchLabels": {"app": "chosen"}}


def allowed(world: World, pod: Object) -> int:
    """What a call of an agent is allowed that belongs to no job: the default budget of its policy, less its reserve."""
    _, (call,) = world.job(f"http://{pod['status']['podIP']}:8080", {"url": f"{TOOL}/read"})
    return int(call.headers["budget-allowed-ms"])


def test_a_changed_policy_reaches_running_sidecars(world: World) -> None:
    """`helm upgrade` with another default; neither a pod nor a container, nor an injector, is started again."""
    before = one_pod(AGENTS, app="agent")
    injectors = {pod["metadata"]["uid"] for pod in world.release.serving()}
    assert allowed(world, before) > 8000
    world.release.upgrade({"policy": {"budget": {"default": "7s"}}})
    eventually("the sidecar has the new policy", lambda: allowed(world, before) <= 7000, within=150)
    after = one_pod(AGENTS, app="agent")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [each["restartCount"] for each in after["status"]["initContainerStatuses"]] == [0]
    assert {pod["metadata"]["uid"] for pod in world.release.pods()} == injectors


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"budget": {"default": "soon"}}, "default"),
        ({"budget": {"defualt": "5s"}}, "defualt"),
        ({"mode": "enforced"}, "mode"),
        ({"answers": {"cut": 99}}, "cut"),
    ],
    ids=["no-duration", "unknown-key", "unknown-word", "out-of-range"],
)
def test_the_api_server_refuses_a_budget_policy_with_a_mistake(policy: Object, named: str) -> None:
    """Before it is ever stored, with the place of the mistake."""
    assert named in refused(objects.budget_policy("wrong", AGENTS, policy))


def test_a_mistake_beyond_a_schema_is_in_its_status() -> None:
    """Stages that take more than there is: no schema can add, so that the controller says it."""
    policy = {"budget": {"default": "2s", "stages": {"llm": "1500ms", "search": "900ms"}}}
    apply(objects.budget_policy("too-much", AGENTS, policy, {"matchLabels": {"app": "nobody"}}))
    accepted = eventually("its condition", lambda: condition("too-much", "Accepted"))
    assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
    delete("budgetpolicy", "too-much", AGENTS)


def test_a_budget_policy_is_used_by_the_pods_it_selects(world: World) -> None:
    """It becomes ready, a new pod gets it, and the others keep the default."""
    apply(objects.budget_policy("short", AGENTS, {"budget": {"default": "3s", "reserve": "100ms"}}, CHOSEN))
    eventually("it is ready", lambda: (condition("short", "Ready") or {}).get("status") == "True")
    apply(objects.pod("chosen", AGENTS, objects.pod_spec(objects.container("agent.py", port=8080))))
    pod = ready("chosen", AGENTS)
    assert "short" in json.dumps(json.loads(pod["metadata"]["annotations"]["waterclock.dev/status"]))
    assert allowed(world, pod) <= 3000
    assert allowed(world, one_pod(AGENTS, app="agent")) > 5000


def test_a_changed_budget_policy_reaches_running_sidecars(world: World) -> None:
    """As the chart's policy does."""
    pod = one_pod(AGENTS, app="chosen")
    apply(objects.budget_policy("short", AGENTS, {"budget": {"default": "2s", "reserve": "100ms"}}, CHOSEN))
    eventually("the sidecar has it", lambda: allowed(world, pod) <= 2000, within=150)
    delete("pod", "chosen", AGENTS)
    delete("budgetpolicy", "short", AGENTS)


def condition(name: str, type: str) -> Object | None:
    """Return a condition of a BudgetPolicy."""
    found = get("budgetpolicy", name, AGENTS)
    conditions: list[Object] = (found or {}).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == type), None)
