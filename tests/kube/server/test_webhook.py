"""Reviews over real TLS: every kind of pod, and whatever else may arrive. Each is answered, and none is a crash."""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxy.kube import webhook as webhook_module
from proxy.kube.cluster import BUDGET_POLICIES, EVENTS, NAMESPACES, ClusterError
from proxy.kube.settings import Settings
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.manual import until
from tests.kube.server.reviews import DEPLOYMENT, KINDS, container, pod, review
from tests.kube.server.stage import AGENTS, SERVICE, Client, Replica, fresh_cluster, patched, running


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with running(tmp_path) as made:
        yield made


@pytest.fixture
async def client(replica: Replica) -> AsyncIterator[Client]:
    async with replica.client() as made:
        yield made


@pytest.mark.parametrize("name", KINDS)
async def test_pods_get_their_sidecar(client: Client, name: str) -> None:
    of = KINDS[name]
    response = await client.mutate(review(of))
    assert response["allowed"]
    made = patched(of, response)
    first = made["spec"]["initContainers"][0]
    assert (first["name"], first["restartPolicy"]) == ("waterclock", "Always")
    own = [each["name"] for each in of["spec"].get("initContainers", [])]
    assert [each["name"] for each in made["spec"]["initContainers"]][1:] == own
    for each in made["spec"]["containers"]:
        variables = [variable["name"] for variable in each["env"]]
        assert "HTTP_PROXY" in variables
        assert len(variables) == len(set(variables))


@pytest.mark.parametrize("name", KINDS)
async def test_its_own_output_is_left_as_it_is(client: Client, name: str) -> None:
    """The API server asks again when another webhook has changed the pod."""
    made = patched(KINDS[name], await client.mutate(review(KINDS[name])))
    response = await client.mutate(review(made))
    assert response["allowed"]
    assert "patch" not in response
    assert "auditAnnotations" not in response  # those of the first time may not be overwritten


async def test_a_pod_that_cannot_have_one_is_refused_with_the_remedy(client: Client) -> None:
    response = await client.mutate(review(pod(securityContext={"runAsUser": 2180})))
    assert not response["allowed"]
    assert response["status"]["code"] == 400
    assert "Set runAsUser to another id" in response["status"]["message"]


async def test_the_namespace_is_the_requests(client: Client) -> None:
    of = pod(owner=DEPLOYMENT)
    assert "namespace" not in of["metadata"]
    assert "patch" in await client.mutate(review(of, namespace=AGENTS))
    assert "patch" not in await client.mutate(review(of, namespace="plain"))


async def test_a_namespace_that_was_made_just_now_is_asked_for(replica: Replica, client: Client) -> None:
    """A pod in it is created at once, maybe before the watch has told of the namespace."""
    labels = {"waterclock.dev/inject": "enabled"}
    replica.cluster.calls.clear()
    replica.cluster.namespace("fresh", labels=labels)
    replica.injector._namespaces.objects.pop(("", "fresh"), None)
    assert "patch" in await client.mutate(review(pod(), namespace="fresh"))


async def test_a_label_that_was_set_just_now_counts(replica: Replica, client: Client) -> None:
    """The API server has seen it, or it would not have asked."""
    known = replica.injector._namespaces.objects[("", AGENTS)]
    stale = copy.deepcopy(known)
    del stale["metadata"]["labels"]["waterclock.dev/inject"]
    replica.injector._namespaces.objects[("", AGENTS)] = stale
    assert "patch" in await client.mutate(review(pod()))
    assert replica.cluster.count("get", NAMESPACES) == 1


async def test_budget_policies_that_are_compiled_count(replica: Replica, client: Client) -> None:
    """One that is not in the ConfigMap yet would keep the pod from starting."""
    for name, ready in (("strict", "True"), ("broken", "False")):
        spec = {"selector": {"matchLabels": {"app": name}}, "policy": {}}
        made = replica.cluster.put(BUDGET_POLICIES, {"metadata": {"name": name}, "spec": spec}, AGENTS)
        made["status"] = {"conditions": [{"type": "Ready", "status": ready}]}
        await replica.cluster.replace(BUDGET_POLICIES, made, AGENTS, subresource="status")
    mirror = replica.injector._policies
    await until(lambda: sum("status" in item for item in mirror.objects.values()) == 2)
    for name, key in (("strict", "strict.budgetpolicy.yaml"), ("broken", "waterclock.yaml")):
        of = pod()
        of["metadata"]["labels"] = {"app": name}
        made = patched(of, await client.mutate(review(of)))
        status = json.loads(made["metadata"]["annotations"]["waterclock.dev/status"])
        assert status["policy"] == {"configMap": "waterclock-policy", "key": key}


# -- what else may arrive --------------------------------------------------------------------------------------------

OF_NO_POD = {
    "a-deletion": review(None, operation="DELETE", oldObject=pod()),
    "an-update": review(pod(), operation="UPDATE", oldObject=pod()),
    "no-operation": review(pod(), operation=""),
    "a-deployment": review({"kind": "Deployment"}, kind={"group": "apps", "version": "v1", "kind": "Deployment"}),
    "an-eviction": review({"kind": "Eviction"}, subResource="eviction"),
    "no-object": review(None),
    "a-text": review("pod"),
    "a-list": review([]),
    "a-number": review(7),
    "empty": review({}),
    "no-spec": review({"metadata": {"name": "x"}}),
    "spec-is-a-list": review({"metadata": {}, "spec": []}),
    "no-containers": review({"metadata": {}, "spec": {"containers": []}}),
    "containers-are-texts": review({"spec": {"containers": ["app", None]}}),
    "env-is-a-mapping": review(pod(containers=[container("app", env={"A": "b"})])),
    "annotations-are-a-list": review({"metadata": {"annotations": ["a"]}, "spec": {"containers": [container("app")]}}),
    "metadata-is-a-text": review({"metadata": "agent", "spec": {"containers": [container("app")]}}),
    "kind-is-a-text": review(pod(), kind="Pod"),
    "namespace-is-a-number": review(pod(), namespace=7),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_NO_POD)
async def test_reviews_of_no_pod_pass(client: Client, name: str) -> None:
    response = await client.mutate(OF_NO_POD[name])
    assert response["allowed"]
    assert "patch" not in response


STRANGE_POD = pod(owner=DEPLOYMENT)
STRANGE_POD["metadata"]["ownerReferences"] = ["web", None, {"controller": True}]
STRANGE = {
    "owners-are-texts": STRANGE_POD,
    "name-of-four-hundred": pod(name="n" * 400),
    "name-with-control-characters": pod(name="a\x1b[31m\nb\x00"),
    "annotation-of-a-mebibyte": pod(annotations={"note": "x" * 1024 * 1024}),
    "not-ascii": pod(name="プローブ", annotations={"note": "\ud83d\ude00 é"}),
}


@pytest.mark.parametrize("name", STRANGE)
async def test_strange_pods_are_injected_all_the_same(replica: Replica, client: Client, name: str) -> None:
    """It is for the API server to say what a name may be."""
    response = await client.mutate(review(STRANGE[name]))
    assert response["allowed"]
    assert "patch" in response
    await until(lambda: replica.cluster.count("create", EVENTS) == 1)
    assert replica.log("fault") == []


def _deep(levels: int) -> bytes:
    return b'{"kind":"AdmissionReview","request":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


MALFORMED: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 400, "not JSON"),
    "not-json": (b"hello", 400, "not JSON"),
    "half-of-it": (json.dumps(review(pod())).encode()[:-20], 400, "not JSON"),
    "bad-utf-8": (b'{"kind":"\xff\xfe"}', 400, "not JSON"),
    "utf-16": (json.dumps(review(pod())).encode("utf-16"), 200, ""),
    "null": (b"null", 400, "no AdmissionReview"),
    "a-list": (b"[]", 400, "no AdmissionReview"),
    "a-number": (b"1e999", 400, "no AdmissionReview"),
    "a-number-of-5000-digits": (b"9" * 5000, 400, "not JSON"),
    "wrong-kind": (b'{"kind":"Pod","apiVersion":"v1"}', 400, "no AdmissionReview"),
    "old-version": (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}', 400, "admissionReviewVersions: [v1]"),
    "no-request": (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', 400, "no request"),
    "request-is-a-list": (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]}', 400, "no request"),
    "no-uid": (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":{}}}', 400, "no uid"),
    "uid-is-a-number": (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":7}}', 400, "no uid"),
    "deep": (_deep(100_000), 400, "not JSON"),
    "huge": (b'{"kind":"' + b"x" * 9 * 1024 * 1024 + b'"}', 413, "larger than 8 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_no_review_is_told_so(replica: Replica, client: Client, name: str) -> None:
    body, expected, detail = MALFORMED[name]
    status, answer = await client.post("/mutate", body)
    assert status == expected
    if expected != 200:
        assert detail in answer["detail"]
        assert answer["status"] == expected
        assert await replica.metric("waterclock_injector_reviews_total", result="malformed") == 1
    assert "patch" in await client.mutate(review(pod()))  # and the next one is answered


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/yaml", "nonsense"])  # fmt: skip
@pytest.mark.parametrize("path", ["/mutate", "/explain"])
async def test_other_content_types_are_refused(client: Client, path: str, content_type: str) -> None:
    status, answer = await client.post(path, review(pod()), content_type=content_type)
    assert status == 415
    assert "send application/json" in answer["detail"]


async def test_a_body_that_does_not_come_is_not_waited_for(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_module, "BODY_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", replica.injector.port, ssl=replica.trust(), server_hostname=SERVICE
    )
    head = f"POST /mutate HTTP/1.1\r\nHost: {SERVICE}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    writer.write(head.encode())
    async with asyncio.timeout(10):
        answer = await reader.read(1000)
    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()
    await writer.wait_closed()


async def test_bodies_do_not_fill_the_memory(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many large ones at once are refused as they come, and the rest is answered."""
    monkeypatch.setattr(webhook_module, "MOST_AT_ONCE", 10_000)
    head = f"POST /explain HTTP/1.1\r\nHost: {SERVICE}\r\nContent-Type: application/json\r\nContent-Length: 6000\r\n\r\n"
    links = [
        await asyncio.open_connection(
            "127.0.0.1", replica.injector.port, ssl=replica.trust(), server_hostname=SERVICE
        )
        for _ in range(2)
    ]
    (first, first_writer), (second, second_writer) = links
    first_writer.write(head.encode())
    await asyncio.sleep(0.1)
    second_writer.write(head.encode())
    async with asyncio.timeout(10):
        assert (await second.read(1000)).startswith(b"HTTP/1.1 503 ")
    async with replica.client() as client:
        assert "patch" in await client.mutate(review(pod()))
    first_writer.write(b"x" * 6000)
    async with asyncio.timeout(10):
        assert (await first.read(1000)).startswith(b"HTTP/1.1 400 ")
    for _, writer in links:
        writer.close()
        await writer.wait_closed()


async def test_other_ways_to_ask(client: Client) -> None:
    async with client.session.get("/mutate", server_hostname=SERVICE) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
        assert (await response.json(content_type=None))["detail"] == "Send a POST."
    status, answer = await client.post("/elsewhere", {})
    assert status == 404
    assert "/mutate and /explain" in answer["detail"]


async def test_tls_is_1_2_at_least(replica: Replica) -> None:
    context = replica.trust()
    with warnings.catch_warnings(action="ignore"):  # old versions are deprecated, which is the point
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(
            "127.0.0.1", replica.injector.port, ssl=context, server_hostname=SERVICE
        )


# -- what is said of it ----------------------------------------------------------------------------------------------


async def events(cluster: FakeCluster, count: int) -> list[dict[str, Any]]:
    await until(lambda: len(cluster.of(EVENTS)) >= count)
    return cluster.of(EVENTS)


async def test_events_say_what_was_decided(replica: Replica, client: Client) -> None:
    """On the controller where people look, which may be the pods' only trace when they are refused."""
    await client.mutate(review(pod(owner=DEPLOYMENT)))
    await client.mutate(review(pod(name="host", hostNetwork=True), name="host"))
    await client.mutate(review(pod(owner=DEPLOYMENT, securityContext={"runAsUser": 2180})))
    injected, skipped, refused = await events(replica.cluster, 3)
    assert (injected["reason"], injected["type"]) == ("Injected", "Normal")
    assert injected["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-5c7779958f",
        "namespace": AGENTS,
        "uid": "3f6b1d30-0a11-4c52-9a4e-9d1c7a0f2b11",
    }
    assert (skipped["reason"], skipped["type"]) == ("Skipped", "Normal")
    assert skipped["message"].startswith("HostNetwork: ")
    assert (skipped["involvedObject"]["kind"], skipped["involvedObject"]["name"]) == ("Pod", "host")
    assert (refused["reason"], refused["type"]) == ("Refused", "Warning")
    assert refused["message"].startswith("UserIdClash: ")
    assert refused["metadata"]["namespace"] == refused["involvedObject"]["namespace"] == AGENTS


async def test_what_repeats_is_counted_on_one_event(replica: Replica, client: Client) -> None:
    for _ in range(20):
        await client.mutate(review(pod(owner=DEPLOYMENT)))
    await until(lambda: sum(each["count"] for each in replica.cluster.of(EVENTS)) == 20)
    assert len(replica.cluster.of(EVENTS)) == 1


async def test_no_event_for_a_dry_run_nor_for_what_nobody_asked(replica: Replica, client: Client) -> None:
    response = await client.mutate(review(pod(), dryRun=True))
    assert "patch" in response
    await client.mutate(review(pod(), namespace="plain"))
    await client.mutate(review(pod(), operation="UPDATE"))
    await client.mutate(review(pod(name="last")))
    (only,) = await events(replica.cluster, 1)
    assert only["involvedObject"]["name"] == "last"


async def test_one_event_for_a_pod_that_the_api_server_asks_about_twice(
    replica: Replica, client: Client
) -> None:
    """What it has made itself, it need not skip in public; what comes injected, it does."""
    made = patched(KINDS["deployment"], await client.mutate(review(KINDS["deployment"])))
    _ = await client.mutate(review(made))
    (injected,) = await events(replica.cluster, 1)
    _ = await client.mutate(review(made))
    injected, skipped = await events(replica.cluster, 2)
    assert (injected["reason"], skipped["reason"]) == ("Injected", "Skipped")
    assert skipped["message"].startswith("AlreadyInjected")


async def test_no_events_when_none_are_wanted(tmp_path: Path) -> None:
    async with running(tmp_path, settings=Settings(events=False)) as replica, replica.client() as client:
        await client.mutate(review(pod()))
    assert replica.cluster.count("create", EVENTS) == 0


async def test_answers_do_not_wait_for_events(replica: Replica, client: Client) -> None:
    """Nor does the API server's trouble with them keep anything from being answered."""
    replica.cluster.fail("create", EVENTS, error=ClusterError("too many requests"), times=-1)
    for number in range(300):
        await client.mutate(review(pod(name=f"p{number}")))
    assert await replica.metric("waterclock_injector_events_total", result="dropped") > 0
    assert await replica.metric("waterclock_injector_reviews_total", result="injected") == 300


async def test_numbers_and_lines(replica: Replica, client: Client) -> None:
    await client.mutate(review(pod(owner=DEPLOYMENT)))
    await client.mutate(review(pod(hostNetwork=True)))
    labels = {"result": "skipped", "reason": "HostNetwork"}
    assert await replica.metric("waterclock_injector_reviews_total", **labels) == 1
    assert await replica.metric("waterclock_injector_review_duration_seconds_count") == 2
    assert await replica.metric("waterclock_injector_build_info") == 1
    assert await replica.metric("waterclock_injector_leader") == 1
    assert await replica.metric("waterclock_injector_certificate_expiry_timestamp_seconds") > 1.7e9
    await until(lambda: len(replica.log("review")) == 2)
    first = replica.log("review")[0]
    assert (first["namespace"], first["name"], first["result"]) == (AGENTS, "web-5c7779958f-", "injected")


# -- faults of ours --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["Ignore", "Fail"])
async def broken(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Replica, Client, str]]:
    async with running(tmp_path, fresh_cluster(request.param)) as replica, replica.client() as client:
        yield replica, client, request.param


async def check_unreviewed(broken: tuple[Replica, Client, str], reason: str, namespace: str = AGENTS) -> None:
    """The pod passes with a warning; where pods without a sidecar are not wanted, the API server is told to refuse it."""
    replica, client, policy = broken
    request = review(pod(), namespace=namespace)
    if policy == "Ignore":
        response = await client.mutate(request)
        assert response["allowed"]
        assert "patch" not in response
        assert "could not be reviewed" in response["warnings"][0]
    else:
        status, answer = await client.post("/mutate", request)
        assert status == 500
        assert "could not be reviewed" in answer["detail"]
    assert await replica.metric("waterclock_injector_reviews_total", result="error", reason=reason) == 1


async def test_a_fault_of_ours_blocks_no_pod(
    broken: tuple[Replica, Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(webhook_module, "judge", fault)
    await check_unreviewed(broken, "Fault")
    await until(lambda: broken[0].log("review_failed"))
    assert "a fault" in broken[0].log("review_failed")[0]["exception"]


async def test_a_namespace_that_cannot_be_told_blocks_no_pod(broken: tuple[Replica, Client, str]) -> None:
    broken[0].cluster.fail("get", NAMESPACES, error=ClusterError("no route"), times=-1)
    await check_unreviewed(broken, "Unknown", "unheard-of")


async def test_a_namespace_that_is_not_told_in_time_blocks_no_pod(
    broken: tuple[Replica, Client, str],
) -> None:
    broken[0].cluster.open.clear()
    await check_unreviewed(broken, "Unknown", "unheard-of")
    broken[0].cluster.open.set()


async def test_the_mirrored_cluster_is_enough(replica: Replica, client: Client) -> None:
    """While the API server's other requests hang, reviews are answered from what is known."""
    replica.cluster.open.clear()
    async with asyncio.timeout(10):
        for _ in range(10):
            assert "patch" in await client.mutate(review(pod()))
    replica.cluster.open.set()


async def test_many_at_once(client: Client) -> None:
    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(client.mutate(review(pod(name=f"p{n}")))) for n in range(200)]
    assert all("patch" in answer.result() for answer in answers)


async def test_a_client_that_does_not_trust_it_gets_nothing(replica: Replica) -> None:
    url = f"https://127.0.0.1:{replica.injector.port}/mutate"
    async with aiohttp.ClientSession(trust_env=False) as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.post(url, json=review(pod()), server_hostname=SERVICE)
