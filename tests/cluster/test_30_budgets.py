"""Agents that know nothing of budgets are held to them: by proxy variables alone, and by redirection."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest

from tests.cluster.harness import objects
from tests.cluster.harness.commands import Object, apply, get, kubectl, listed, refused
from tests.cluster.harness.settings import AGENTS, REDIRECTED
from tests.cluster.harness.waiting import eventually, one_pod, rolled_out
from tests.cluster.harness.world import TOOL, World

ENV_AGENT = f"http://agent.{AGENTS}"
REDIRECTED_AGENT = f"http://agent.{REDIRECTED}"


@pytest.fixture(scope="module", autouse=True)
def agents(world: World) -> None:
    """One agent that has only the proxy variables, and one that has not even these."""
    by_variables = objects.pod_spec(objects.container("agent.py", port=8080))
    by_rules = objects.pod_spec(objects.container("agent.py", port=8080, TRUST_ENV="no"))
    apply(
        objects.workload(
            "Deployment", "agent", AGENTS, objects.template("agent", by_variables, inbound_port="8080")
        ),
        objects.service("agent", AGENTS, 10801),
        objects.workload(
            "Deployment",
            "agent",
            REDIRECTED,
            objects.template("agent", by_rules, inbound_port="8080", intercept="redirect"),
        ),
        objects.service("agent", REDIRECTED, 8080),
    )
    for namespace, address in ((AGENTS, ENV_AGENT), (REDIRECTED, REDIRECTED_AGENT)):
        rolled_out("deployment", "agent", namespace)
        wait_for(world, address)


def wait_for(world: World, address: str) -> None:
    """Wait until a Service leads to its agent."""
    eventually(f"{address} leads to the agent", lambda: world.call(f"{address}/healthz").status == 200)


def reads(*names: str, wait: int) -> list[Object]:
    """Calls that read, each answered after so many milliseconds."""
    return [{"url": f"{TOOL}/read?wait={wait}&name={name}"} for name in names]


@pytest.mark.parametrize("agent", [ENV_AGENT, REDIRECTED_AGENT], ids=["environment", "redirect"])
def test_an_agent_is_held_to_the_header_of_its_entry_request(world: World, agent: str) -> None:
    """Three reads of a second do not fit into 2.6 s: the third is cut, and the agent can still answer in time."""
    way = urlsplit(agent).netloc
    answer, calls = world.job(
        agent,
        *reads("a", "b", "c", wait=1000),
        budget_id=f"job-{way}",
        budget_remaining_ms="2900",
        budget_reserve_ms="300",
    )
    assert [call.status for call in calls] == [200, 200, 504]
    assert calls[-1].outcome.startswith("deadline_exceeded; effect=none")
    assert all(call.headers["budget-id"] == f"job-{way}" for call in calls)
    assert answer.status == 200
    assert answer.headers["budget-verdict"] == "incomplete; on_time"


@pytest.mark.parametrize("agent", [ENV_AGENT, REDIRECTED_AGENT], ids=["environment", "redirect"])
def test_an_uncertain_write_is_refused_its_blind_repeat(world: World, agent: str) -> None:
    """The tool has done it once; whoever sends it again under a new budget is told, and the tool never sees it."""
    body = f"order by {urlsplit(agent).netloc}"
    write = {"method": "POST", "url": f"{TOOL}/write?wait=60000", "body": body}
    _, (first,) = world.job(agent, write, budget_remaining_ms="1500")
    _, (second,) = world.job(agent, write, budget_remaining_ms="5000")
    assert first.status == 424
    assert "effect=uncertain" in first.outcome
    assert "retry=verify" in first.outcome
    assert second.status == 424
    assert "reason=unresolved_write" in second.outcome
    assert second.json["record"] == first.headers["budget-record"]
    assert world.tool_has_seen()["writes"].count(body) == 1


@pytest.mark.parametrize("agent", [ENV_AGENT, REDIRECTED_AGENT], ids=["environment", "redirect"])
def test_nothing_starts_on_an_empty_budget(world: World, agent: str) -> None:
    """A job that has no time left never reaches the agent, and a call that has none never reaches the tool."""
    answer, _ = world.job(agent, *reads("of-no-job", wait=0), budget_remaining_ms="0")
    assert answer.status == 403
    spent = reads("of-no-call", wait=0)[0] | {"headers": {"Budget-Remaining-Ms": "0"}}
    _, (call,) = world.job(agent, spent, budget_remaining_ms="5000")
    assert call.status == 403
    assert not {"of-no-job", "of-no-call"} & set(world.tool_has_seen()["reads"])


def test_a_redirected_app_has_no_proxy_variables() -> None:
    """It is held by rules alone; the sidecar's own traffic is not looped, or nothing above would have come back."""
    pod = one_pod(REDIRECTED, app="agent")
    (app,) = pod["spec"]["containers"]
    assert not [each["name"] for each in app["env"] if each["name"].lower().endswith("_proxy")]
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["waterclock", "waterclock-redirect"]


def test_redirection_is_refused_where_the_standard_forbids_it() -> None:
    """NET_ADMIN has no place in a restricted namespace; the refusal says what to do instead."""
    spec = objects.pod_spec(objects.container("idle.py"))
    said = refused(objects.pod("no", AGENTS, spec, intercept="redirect"))
    assert "restricted" in said
    assert "environment" in said


def test_a_user_id_that_is_the_sidecars_is_refused() -> None:
    """The app would share the sidecar's exemptions and files."""
    spec = objects.pod_spec(objects.container("idle.py"))
    spec["securityContext"]["runAsUser"] = 2180
    assert "2180" in refused(objects.pod("no", AGENTS, spec))


def test_metrics_are_scraped_from_the_pods(world: World) -> None:
    """As their annotations say: the counters of the agents above are there, and equal their logs."""
    for namespace in (AGENTS, REDIRECTED):
        pod = one_pod(namespace, app="agent")
        told = {
            name.removeprefix("prometheus.io/"): value
            for name, value in pod["metadata"]["annotations"].items()
            if name.startswith("prometheus.io/")
        }
        assert told["scrape"] == "true"
        page = world.metrics(pod, told["port"], told["path"])
        cut = [
            value
            for labels, value in page["waterclock_steps_total"]
            if labels["outcome"] == "deadline_exceeded" and labels["effect"] == "uncertain"
        ]
        assert sum(cut) == 1
        assert page["waterclock_uncertain_writes"] == [({}, 1.0)]
        steps = [line for line in world.log(pod["metadata"]["name"], namespace) if "step" in line]
        assert sum(value for _, value in page["waterclock_steps_total"]) == len(steps)


def test_the_record_of_a_write_can_be_asked_for_in_the_pod() -> None:
    """Whoever is on call finds it with the command that the documents name."""
    pod = one_pod(AGENTS, app="agent")["metadata"]["name"]
    said = kubectl(
        "exec", pod, "--container=waterclock", "--namespace", AGENTS, "--", "waterclock", "uncertain", "list"
    )
    assert "/write" in said


def test_the_policy_of_a_namespace_is_mended() -> None:
    """Who edits or deletes the injector's ConfigMap gets it back."""
    kubectl("delete", "configmap", "waterclock-policy", "--namespace", AGENTS)
    eventually("it is back", lambda: get("configmap", "waterclock-policy", AGENTS))
    kubectl(
        "patch",
        "configmap",
        "waterclock-policy",
        "--namespace",
        AGENTS,
        "--type=merge",
        "--patch",
        json.dumps({"data": {"waterclock.yaml": "mode: observe\n"}}),
    )

    def mended() -> bool:
        (found,) = [
            each for each in listed("configmaps", AGENTS) if each["metadata"]["name"] == "waterclock-policy"
        ]
        return "observe" not in found["data"]["waterclock.yaml"]

    eventually("the edit is undone", mended)
