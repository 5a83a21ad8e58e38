"""Answering with less: a BudgetPolicy brings the ladder into pods, calls get what fits, and the cache finds what means the same.

What a rung needs differs from what a job has left by seconds, so that a busy node takes the same rungs as an idle one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.harness import objects
from tests.cluster.harness.commands import Object, apply, delete, get, kubectl, refused
from tests.cluster.harness.release import samples
from tests.cluster.harness.settings import AGENTS, CACHE_IMAGE, SYSTEM, TOOLS
from tests.cluster.harness.waiting import eventually, one_pod, ready
from tests.cluster.harness.world import Answer, World

MODEL = f"http://model.{TOOLS}.svc.cluster.local"
CACHE = f"http://waterclock-cache.{SYSTEM}.svc:10805"
"""As the chart's notes say it."""
PODS = ("asks", "asks-too")

CHANGES: dict[str, Any] = {
    "$.model": "spare",
    "$.max_tokens": 300,
    "$.temperature": 0.25,
    "$.seed": 9007199254740991,
    "$.stream": False,
    "$.stop": None,
    "$.tools": [],
    "$.metadata": {"tier": None, "tags": ["a", None, {"b": [1.5, True]}], "on": {}},
}
"""What a rung makes of a body: every kind of JSON value, and each of them within others."""
LADDER: list[Object] = [
    {"name": "full", "needs": "20s"},
    {"name": "fast", "needs": "10s", "set": {"json": CHANGES, "headers": {"X-Tier": "spare"}}},
    {
        "name": "minimal",
        "needs": "4s",
        "upstream": f"http://model.{TOOLS}.svc/small",
        "set": {"json": {"$.model": "small"}, "query": {"trace": "off"}},
    },
    {
        "name": "cached",
        "needs": "100ms",
        "cache": {"exact": True, "semantic": 0.8, "text": "$.messages[-1].content"},
    },
    {"name": "sorry", "answer": {"status": 503, "json": {"error": {"type": "overloaded", "hint": None}}}},
]
CHAT: Object = {
    "name": "chat",
    "match": {"host": f"model.{TOOLS}.svc.cluster.local", "path": "/v1/**"},
    "effect": "read",
    "stage": "llm",
    "degraded_body": True,
    "ladder": LADDER,
    "cache": {"ttl": "1h", "ignore": ["$.user"], "headers": ["X-Tenant"]},
}
TALK: Object = {
    "name": "talk",
    "match": {"host": f"model.{TOOLS}.svc.cluster.local", "path": "/talk/**"},
    "effect": "read",
    "on_cut": "truncate",
    "truncate_margin": "300ms",
    "truncate_mark": "[no more]",
}
POLICY: Object = {
    "budget": {
        "default": "60s",
        "reserve": "100ms",
        "stages": {"retrieval": "10s", "llm": "40s", "slack": "2s"},
        "carry": True,
        "order": ["retrieval", "llm"],
    },
    "routes": [CHAT, TALK],
    "cache": {"bytes": "8MiB", "service": CACHE, "timeout": "2s"},
}

needs_cache = pytest.mark.skipif(not CACHE_IMAGE, reason="CACHE_IMAGE names no image of the semantic cache")


@pytest.fixture(scope="module", autouse=True)
def pods(world: World) -> Iterator[None]:
    """A model, and two agents that this BudgetPolicy is for."""
    chosen = {"matchExpressions": [{"key": "app", "operator": "In", "values": list(PODS)}]}
    apply(
        objects.budget_policy("less", AGENTS, POLICY, chosen),
        objects.pod("model", TOOLS, objects.pod_spec(objects.container("model.py", port=8080))),
        objects.service("model", TOOLS, 8080),
    )
    eventually("the policy is ready", is_ready)
    spec = objects.pod_spec(objects.container("agent.py", port=8080))
    apply(*(objects.pod(name, AGENTS, spec, inbound_port="8080") for name in PODS))
    for name, namespace in (("model", TOOLS), *((name, AGENTS) for name in PODS)):
        ready(name, namespace)
    eventually("the model's Service leads to it", lambda: world.call(f"{MODEL}/healthz").status == 200)
    yield
    for name in PODS:
        delete("pod", name, AGENTS)
    delete("budgetpolicy", "less", AGENTS)


def condition(name: str, type: str) -> Object:
    """Return a condition of a BudgetPolicy. Raises AssertionError where it has none."""
    conditions = (get("budgetpolicy", name, AGENTS) or {}).get("status", {}).get("conditions", [])
    found: list[Object] = [each for each in conditions if each["type"] == type]
    assert found, f"{name} has no condition {type}"
    return found[0]


def is_ready() -> bool:
    """Whether the policy can be had. Raises AssertionError with what stands against it."""
    accepted = condition("less", "Accepted")
    assert accepted["status"] == "True", accepted["message"]
    return bool(condition("less", "Ready")["status"] == "True")


# -- the policy --------------------------------------------------------------------------------------------------------


def in_pod(*command: str) -> str:
    """Run a command in the first agent's sidecar."""
    return kubectl("exec", PODS[0], "--container=waterclock", "--namespace", AGENTS, "--", *command)


def test_a_whole_ladder_is_stored_as_it_was_written() -> None:
    """No null of a body is dropped on the way, and no number rounded."""
    stored = get("budgetpolicy", "less", AGENTS)
    assert stored is not None
    assert stored["spec"]["policy"] == POLICY
    assert condition("less", "Accepted")["status"] == "True"


def test_it_is_in_force_in_the_sidecar() -> None:
    """The file is a good policy without a remark; `explain` takes it, and the control API has the stages in their order."""
    assert in_pod("waterclock", "check", "/etc/waterclock/waterclock.yaml").endswith(
        "good. 2 routes, mode enforce.\n"
    )
    explained = in_pod(
        "waterclock", "explain", "POST", f"{MODEL}/v1/chat", "-H", "Budget-Remaining-Ms: 14000"
    )
    assert "start on rung fast" in explained
    read = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10802/config').read().decode())"
    config = json.loads(in_pod("python", "-c", read))
    assert [rung["name"] for rung in config["routes"][0]["ladder"]] == [rung["name"] for rung in LADDER]
    assert config["routes"][1]["truncate"]["mark"] == "[no more]"
    assert [share["stage"] for share in config["budget"]["stages"]] == ["retrieval", "llm", "slack"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"budget": {"stages": {"a": "1s", "b": "1s"}, "carry": True}}, "add order"),
        ({"routes": [CHAT | {"effect": "write"}]}, "are for reads"),
        ({"routes": [CHAT | {"ladder": [{"name": "a", "need": "1s"}]}]}, "unknown field"),
        ({"routes": [CHAT | {"ladder": [*LADDER[:3], LADDER[3] | LADDER[4]]}]}, "make two of it"),
    ],
    ids=["carry-without-order", "ladder-on-writes", "unknown-key-of-a-rung", "two-rungs-in-one"],
)
def test_the_api_server_refuses_what_its_rules_see(policy: Object, said: str) -> None:
    """Before it is stored, with what to do."""
    assert said in refused(objects.budget_policy("wrong", AGENTS, policy))


def test_what_no_rule_sees_is_in_its_status() -> None:
    """Calls that may be writes by their methods, needs that rise, a number too long, an order that forgets a stage."""
    many: Object = {"name": "b", "set": {"json": {"$.seed": 2**53}}}
    wrong: Object = {
        "budget": {"stages": {"a": "1s", "b": "1s"}, "carry": True, "order": ["a"]},
        "routes": [
            {"name": "orders", "match": {"host": "a", "methods": ["POST"]}, "ladder": LADDER[:2]},
            {"name": "rises", "match": {"host": "b"}, "effect": "read", "ladder": [LADDER[1], LADDER[0]]},
            {"name": "digits", "match": {"host": "c"}, "effect": "read", "ladder": [LADDER[0], many]},
        ],
    }
    apply(objects.budget_policy("wrong", AGENTS, wrong, {"matchLabels": {"app": "nobody"}}))
    accepted = eventually("its condition", lambda: condition("wrong", "Accepted"))
    delete("budgetpolicy", "wrong", AGENTS)
    assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
    places = (
        "budget.order",
        "routes[0].ladder",
        "routes[1].ladder[1].needs",
        "routes[2].ladder[1].set.json.$.seed",
    )
    missing = [place for place in places if f"spec.policy.{place}" not in accepted["message"]]
    assert not missing, accepted["message"]


# -- the ladder --------------------------------------------------------------------------------------------------------


def question(text: str, *, path: str = "/v1/chat", key: str = "one", **more: Any) -> Object:
    """A call of the agent's that asks the model something."""
    body = {"model": "large", "metadata": {"old": 1}, "messages": [{"role": "user", "content": text}]}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    return {
        "method": "POST",
        "url": f"{MODEL}{path}",
        "headers": headers | more.pop("headers", {}),
        "body": json.dumps(body | more),
    }


def asks(world: World, name: str, call: Object, ms: int, **stated: str) -> tuple[Answer, Answer]:
    """Have an agent ask in a job of so many milliseconds; return what the job was answered, and what the agent was."""
    pod = get("pod", name, AGENTS)
    assert pod is not None
    answer, (got,) = world.job(
        f"http://{pod['status']['podIP']}:10801", call, budget_remaining_ms=str(ms), **stated
    )
    return answer, got


def logged(world: World, name: str, got: Answer) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the record of a step and its event `degraded`, from the log of its sidecar; the latter may be empty."""
    lines = [line for line in world.log(name, AGENTS) if line.get("record") == got.headers["budget-record"]]
    (record,) = [line for line in lines if "event" not in line]
    events = [line for line in lines if line.get("event") == "degraded"]
    return record, events[0] if events else {}


def test_a_job_with_time_gets_the_whole_answer(world: World) -> None:
    """The model sees what the agent has sent, and nothing says less."""
    call = question("What is all of it?")
    answer, got = asks(world, PODS[0], call, 60_000)
    assert got.status == 200
    assert "budget-degraded" not in got.headers
    assert got.json["body"] == json.loads(call["body"])
    assert got.json["path"] == "/v1/chat"
    assert answer.headers["budget-verdict"] == "complete; on_time"
    record, event = logged(world, PODS[0], got)
    assert (record["rung"], record["degraded"], event) == ("full", None, {})


def test_a_job_with_less_time_gets_a_cheaper_one(world: World) -> None:
    """The body is changed as the policy says; what the stage before has not used made it possible, and the record says so."""
    call = question("What is most of it?", headers={"X-Tier": "paid"})
    answer, got = asks(world, PODS[0], call, 14_000)
    assert got.headers["budget-degraded"] == "level=1; rung=fast; stage=llm; reason=time"
    changed = {place.removeprefix("$."): value for place, value in CHANGES.items()}
    assert got.json["body"] == json.loads(call["body"]) | changed
    assert got.json["headers"]["X-Tier"] == "spare"
    assert got.json["degradation_level"] == 1
    assert answer.headers["budget-verdict"] == "complete; on_time; degraded=1"
    assert "degraded=1" in answer.headers["budget-steps"]
    record, event = logged(world, PODS[0], got)
    assert record["allowed_ms"] > 10_000 > record["allowed_ms"] - record["carried_ms"]
    assert (event["rung"], event["level"], event["reason"]) == ("fast", 1, "time")


def test_a_job_with_little_time_gets_the_small_model(world: World) -> None:
    """Which stands elsewhere, and is shown nobody's key."""
    _, got = asks(world, PODS[0], question("What is some of it?"), 8_000)
    assert got.headers["budget-degraded"] == "level=2; rung=minimal; stage=llm; reason=time"
    assert got.json["path"] == "/small/v1/chat?trace=off"
    assert got.json["body"]["model"] == "small"
    assert "Authorization" not in got.json["headers"]


def test_a_call_without_time_gets_a_word_of_regret(world: World) -> None:
    """Nobody is asked; the unit is not done, and the job says so."""
    call = question("What is none of it?")
    answer, got = asks(world, PODS[0], call, 60_000, budget_reserve_ms="59999")
    assert got.status == 503
    assert got.headers["budget-degraded"] == "level=4; rung=sorry; stage=llm; reason=time"
    assert got.json["error"] == {"type": "overloaded", "hint": None}
    assert "phase=not_sent" in got.outcome
    assert answer.headers["budget-verdict"] == "incomplete; on_time; degraded=1"


def test_a_stream_is_closed_in_time_and_in_its_dialect(world: World) -> None:
    """It says where it ends, and why; the job is told in time."""
    answer, got = asks(world, PODS[0], question("Go on.", path="/talk/chat/completions", stream=True), 2_500)
    pieces = [line.removeprefix("data: ") for line in got.body.splitlines() if line]
    assert pieces[-1] == "[DONE]"
    choices = [json.loads(piece)["choices"][0] for piece in pieces[:-1]]
    assert "[no more]" in "".join(choice["delta"].get("content", "") for choice in choices)
    assert choices[-1]["finish_reason"] == "length"
    assert answer.headers["budget-verdict"] == "incomplete; on_time; degraded=1"


def test_the_metrics_of_the_pod_count_rungs(world: World) -> None:
    """One of each so far, by its reason."""
    pod = get("pod", PODS[0], AGENTS)
    assert pod is not None
    page = world.metrics(pod, 10803)
    rungs = {labels["rung"]: value for labels, value in page["waterclock_rungs_total"]}
    assert rungs == {"full": 1, "fast": 1, "minimal": 1, "sorry": 1}
    less = {labels["rung"] for labels, _ in page["waterclock_degraded_steps_total"]}
    assert {"fast", "minimal", "sorry"} <= less


# -- the semantic cache ------------------------------------------------------------------------------------------------


@needs_cache
def test_one_value_brings_the_cache(world: World) -> None:
    """It becomes ready under the restricted standard, its NetworkPolicy says who may ask, and it stays until all is uninstalled."""
    agents = {"namespaceSelector": {"matchLabels": {"waterclock.dev/inject": "enabled"}}}
    scraper = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": TOOLS}}}
    injectors = {pod["metadata"]["uid"] for pod in world.release.serving()}
    world.release.upgrade({"cache": {"enabled": True, "image": CACHE_IMAGE, "from": [agents, scraper]}})
    pod = one_pod(SYSTEM, **{"app.kubernetes.io/component": "cache"})
    assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0]
    network = get("networkpolicy", "waterclock-cache", SYSTEM)
    assert network is not None
    assert network["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert network["spec"]["ingress"] == [
        {"ports": [{"port": "http", "protocol": "TCP"}], "from": [agents, scraper]}
    ]
    assert {pod["metadata"]["uid"] for pod in world.release.pods()} == injectors


@needs_cache
def test_what_one_pod_was_answered_another_gets_for_other_words(world: World) -> None:
    """Of the whole answers, and only for what means the same, and only for the same caller."""
    numbers = []

    def kept() -> bool:
        first = asks(world, PODS[0], question("Book a table for two at Luigi's tonight"), 60_000)[1]
        numbers.append(first.json["number"])
        return told(world, "waterclock_semantic_entries") == 1

    # What the Service does not lead to as yet is not told, and left alone for some seconds.
    eventually("the cache has been told", kept)
    other = question("Reserve a table for two at Luigi's tonight")
    answer, got = asks(world, PODS[1], other, 2_500)
    assert got.headers["budget-degraded"] == "level=3; rung=cached; stage=llm; reason=time"
    assert got.json["number"] in numbers
    assert "hit" in got.headers["cache-status"]
    assert got.headers["age"].isdecimal()
    assert answer.headers["budget-verdict"] == "complete; on_time; degraded=1"
    assert logged(world, PODS[1], got)[0]["cache"] == "semantic"
    for asked in (
        question("Book a table for three at Luigi's tonight"),
        question("Reserve a table for two at Luigi's tonight", key="two"),
    ):
        _, got = asks(world, PODS[1], asked, 2_500)
        assert got.headers["budget-degraded"] == "level=4; rung=sorry; stage=llm; reason=time"


@needs_cache
def test_the_cache_counts_and_stays_small(world: World) -> None:
    """Its metrics are where its questions are; it takes less than it asks the node for, and has not failed anybody."""
    page = samples(world.call(f"{CACHE}/metrics").body)
    finds = {
        (labels["result"], labels["reason"]): value
        for labels, value in page["waterclock_semantic_finds_total"]
    }
    assert sum(value for (result, _), value in finds.items() if result == "found") == 1
    assert sum(value for (result, _), value in finds.items() if result == "missed") == 2
    assert sum(value for (result, _), value in finds.items() if result == "failed") == 0
    pod = one_pod(SYSTEM, **{"app.kubernetes.io/component": "cache"})["metadata"]["name"]
    status = kubectl("exec", pod, "--namespace", SYSTEM, "--", "cat", "/proc/1/status")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    assert int(peak.split()[1]) < 256 * 1024, peak


def told(world: World, name: str) -> float:
    """Return a number that the cache tells of itself."""
    return samples(world.call(f"{CACHE}/metrics").body)[name][0][1]
