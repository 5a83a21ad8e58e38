"""The injector's life: when it is ready, who leads, how a certificate is exchanged under load, and how it ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.core.units import MILLISECOND, SECOND
from proxy.kube.cluster import BUDGET_POLICIES, CONFIG_MAPS, LEASES, SECRETS, WEBHOOKS, ClusterError
from proxy.kube.election import Terms
from proxy.kube.injector import CannotListen, Injector, Place
from proxy.kube.settings import CertificateMode, Certificates, Settings
from proxy.observe.steplog import StepLog
from tests.kube.server.manual import until
from tests.kube.server.reviews import DEPLOYMENT, pod, review
from tests.kube.server.stage import (
    AGENTS,
    SECRET,
    SYSTEM,
    Replica,
    fresh_cluster,
    patched,
    running,
    secret_of,
    webhook_configuration,
)

QUICK = Terms(duration=2 * SECOND, deadline=SECOND, every=100 * MILLISECOND)


async def reasons(replica: Replica) -> str:
    status, text = await replica.plain("/readyz")
    said = json.loads(text)
    assert said["ready"] == (status == 200)
    return " ".join(said["reasons"])


async def test_ready_when_it_can_answer_and_is_trusted(tmp_path: Path) -> None:
    cluster = fresh_cluster()
    await cluster.delete(WEBHOOKS, "waterclock-injector")
    cluster.fail("list", BUDGET_POLICIES, error=ClusterError("list BudgetPolicy: no route"), times=1)
    async with running(tmp_path, cluster, ready=False) as replica:
        assert (await replica.plain("/healthz"))[0] == 200
        refusal = "The budgetpolicies are not listed yet: list BudgetPolicy: no route."
        await until(lambda: refusal in replica.injector.unready())
        await until(lambda: len(replica.injector.unready()) == 1)
        assert "The Secret waterclock-system/waterclock-injector-tls is not there yet" in await reasons(
            replica
        )
        assert replica.log("leading") == []
        assert cluster.of(SECRETS) == cluster.of(LEASES) == []
        cluster.put(WEBHOOKS, webhook_configuration())
        await until(lambda: not replica.injector.unready())
        assert await reasons(replica) == ""


async def test_not_ready_without_a_certificate(tmp_path: Path) -> None:
    settings = Settings(certificates=Certificates(mode=CertificateMode.SECRET))
    async with running(tmp_path, settings=settings, ready=False) as replica:
        await until(lambda: "The Secret" in " ".join(replica.injector.unready()))
        assert "put tls.crt, tls.key and ca.crt there" in await reasons(replica)


async def test_not_ready_while_the_server_distrusts_it(tmp_path: Path) -> None:
    async with running(tmp_path) as replica:
        replica.cluster.fail("patch", WEBHOOKS, error=ClusterError("patch MutatingWebhookConfiguration: 403"), times=-1)  # fmt: skip
        await replica.cluster.replace(WEBHOOKS, webhook_configuration())
        await until(replica.injector.unready)
        assert "does not trust the certificate yet" in await reasons(replica)
        replica.cluster.mend()
        await until(lambda: not replica.injector.unready())


async def test_unknown_pages(tmp_path: Path) -> None:
    async with running(tmp_path) as replica:
        assert (await replica.plain("/mutate"))[0] == 404
        status, text = await replica.plain("/metrics")
        assert status == 200
        assert "_created" not in text
        assert "waterclock_injector_policy_last_reload_successful 1.0" in text


async def test_the_one_that_leads_is_followed_at_once(tmp_path: Path) -> None:
    """The lease is given back at SIGTERM; the other one leads at its next look."""
    cluster = fresh_cluster()
    async with running(tmp_path, cluster, name="b", terms=QUICK, ready=False) as follower:
        await until(lambda: follower.log("leading"))
        async with running(tmp_path, cluster, name="c", terms=QUICK) as other:
            assert await follower.metric("waterclock_injector_leader") == 1
            assert await other.metric("waterclock_injector_leader") == 0
            assert other.log("leading") == []
            follower.injector.stop()
            await until(lambda: other.log("leading"))
            assert await other.metric("waterclock_injector_leader") == 1
            lease = cluster.peek(LEASES, "waterclock-injector", SYSTEM)
            assert lease is not None
            assert lease["spec"]["holderIdentity"] == "c"


async def test_rolled_over_without_a_pod_missed(tmp_path: Path) -> None:
    """The old one answers while it drains, and asks its clients to come back elsewhere."""
    async with running(tmp_path, drain=1.0) as old, old.client() as client:
        await client.mutate(review(pod()))
        old.injector.stop()
        await asyncio.sleep(0)
        assert "draining" in await reasons(old)
        async with client.session.post(
            "/mutate",
            json=review(pod()),
            server_hostname=f"waterclock-injector.{SYSTEM}.svc",
        ) as response:
            assert response.status == 200
            assert response.headers["Connection"] == "close"
        await client.mutate(review(pod()))
    assert [line["event"] for line in old.log()][-1] == "stopped"


async def test_certificate_is_exchanged_under_load(tmp_path: Path) -> None:
    """Clients with kept connections and clients with new ones go on while certificate and authority are exchanged."""
    cluster = fresh_cluster()
    settings = Settings(certificates=Certificates(lifetime=10 * SECOND, authority_lifetime=10 * SECOND))
    served: set[bytes] = set()
    answered = 0
    async with (
        running(tmp_path, cluster, settings, name="a", terms=QUICK) as one,
        running(tmp_path, cluster, settings, name="b", terms=QUICK) as two,
        one.client() as kept,
    ):
        while len(served) < 2:
            served.add(secret_of(cluster)["tls.crt"])
            assert "patch" in await kept.mutate(review(pod(owner=DEPLOYMENT)))
            for replica in (one, two):
                async with replica.client() as new:
                    assert "patch" in await new.mutate(review(pod(owner=DEPLOYMENT)))
                assert replica.injector.unready() == []
            answered += 3
            await asyncio.sleep(0.05)
        assert answered > 50
        expiry = await one.metric("waterclock_injector_certificate_expiry_timestamp_seconds")
        assert expiry == one.injector._served.expires // SECOND
        assert len(one.log("certificate_loaded")) >= 2
    assert one.log("certificate_refused") == two.log("certificate_refused") == []


async def test_a_deleted_secret_is_made_again_while_reviews_go_on(tmp_path: Path) -> None:
    async with running(tmp_path) as replica, replica.client() as client:
        before = secret_of(replica.cluster)
        await replica.cluster.delete(SECRETS, SECRET, SYSTEM)
        assert "patch" in await client.mutate(review(pod()))
        await until(lambda: replica.cluster.peek(SECRETS, SECRET, SYSTEM) is not None)
        await until(lambda: len(replica.log("certificate_loaded")) == 2)
        async with replica.client() as new:
            assert "patch" in await new.mutate(review(pod()))
        assert secret_of(replica.cluster)["tls.crt"] != before["tls.crt"]


async def test_the_servers_outage_is_survived(tmp_path: Path) -> None:
    """Nothing but the lease is lost; reviews are answered throughout, and all is well again afterwards."""
    async with running(tmp_path, terms=QUICK) as replica, replica.client() as client:
        for method in ("get", "list", "watch", "create", "replace", "patch", "version"):
            replica.cluster.fail(method, error=ClusterError("no route to the API server"), times=-1)
        replica.cluster.end_watches(ClusterError("connection lost"))
        await until(lambda: replica.log("not_leading"))
        for _ in range(20):
            assert "patch" in await client.mutate(review(pod()))
        assert replica.injector.unready() == []
        replica.cluster.mend()
        await until(lambda: len(replica.log("leading")) == 2)
        lines = replica.log("cluster_trouble")
        assert {line["problem"] for line in lines} == {"no route to the API server", "connection lost"}


async def test_a_fault_in_the_leaders_work_does_not_end_the_webhook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fault(*_: object) -> float:
        raise RuntimeError("a fault")

    async with running(tmp_path) as replica, replica.client() as client:
        monkeypatch.setattr(replica.injector._keeper, "step", fault)
        await replica.cluster.delete(SECRETS, SECRET, SYSTEM)
        await until(lambda: replica.log("fault"))
        assert replica.log("fault")[0]["part"] == "certificates"
        assert "patch" in await client.mutate(review(pod()))


async def test_uninstalled_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """The webhook's configuration goes first, and all that it owns: injectors that run on make none of it again."""
    cluster = fresh_cluster()

    def kept() -> int:
        return sum(len(cluster.of(each)) for each in (SECRETS, LEASES, CONFIG_MAPS))

    async with (
        running(tmp_path, cluster, name="a", terms=QUICK) as one,
        running(tmp_path, cluster, name="b", terms=QUICK),
    ):
        await until(lambda: kept() == 3)
        await cluster.delete(WEBHOOKS, "waterclock-injector")
        for _ in range(30):
            await asyncio.sleep(0.1)
            assert kept() == 0
        assert "There is no MutatingWebhookConfiguration" in await reasons(one)
        cluster.put(WEBHOOKS, webhook_configuration())
        await until(lambda: kept() == 3)
        await until(lambda: not one.injector.unready())


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async with running(tmp_path) as replica:
        log = StepLog(1)
        place = Place("other", "127.0.0.1", replica.injector.port, 0)
        with pytest.raises(CannotListen, match="choose another with --port"):
            await Injector(fresh_cluster(), Settings(), place, None, log).run()
        log.close()


# -- /explain --------------------------------------------------------------------------------------------------------


def deployment(name: str = "web", **metadata: Any) -> dict[str, Any]:
    template = pod()
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": name, **metadata},
        "spec": {"template": {"metadata": template["metadata"], "spec": template["spec"]}},
    }


async def test_explain(tmp_path: Path) -> None:
    async with running(tmp_path) as replica, replica.client() as client:
        status, said = await client.post(f"/explain?namespace={AGENTS}", pod(name="a"))
        assert status == 200
        assert (said["kind"], said["namespace"], said["name"]) == ("Pod", AGENTS, "a")
        assert (said["verdict"], said["reason"]) == ("injected", "Injected")
        assert said["patch"]
        status, said = await client.post("/explain", deployment(namespace=AGENTS))
        assert (said["kind"], said["verdict"]) == ("Deployment", "injected")
        status, said = await client.post("/explain?namespace=plain", pod())
        assert (said["verdict"], said["reason"], said["patch"]) == ("skipped", "NotRequested", [])
        cron = {"kind": "CronJob", "metadata": {}, "spec": {"jobTemplate": {"spec": deployment()["spec"]}}}
        status, said = await client.post(f"/explain?namespace={AGENTS}", cron)
        assert (said["kind"], said["verdict"]) == ("CronJob", "injected")
        status, said = await client.post("/explain", review(pod(name="r")))
        assert (said["kind"], said["namespace"], said["verdict"]) == ("Pod", AGENTS, "injected")
        several = {"kind": "List", "items": [pod(), {"kind": "Service"}, deployment("x"), None]}
        status, said = await client.post(f"/explain?namespace={AGENTS}", several)
        assert [each["kind"] for each in said["items"]] == ["Pod", "Deployment"]
        typed = {"kind": "PodList", "items": [{"metadata": {"name": "x"}, "spec": pod()["spec"]}]}
        status, said = await client.post(f"/explain?namespace={AGENTS}", typed)
        assert [each["verdict"] for each in said["items"]] == ["injected"]
        assert await replica.metric("waterclock_injector_reviews_total") == 0


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"hello", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[]", 400, "Send a Pod"),
        (b'{"kind":"Service"}', 400, "Send a Pod"),
        (b'{"kind":["Pod"]}', 400, "Send a Pod"),
        (b'{"kind":"List","items":{}}', 400, "Send a Pod"),
        (b'{"kind":"AdmissionReview"}', 400, "admissionReviewVersions"),
        (json.dumps({"kind": "List", "items": [{"kind": "Pod"}] * 501}).encode(), 413, "at most 500"),
        (b'{"kind":"Pod","metadata":{"namespace":"none"}}', 422, "Name a namespace that is there"),
    ],
)
async def test_explain_says_what_to_ask(tmp_path: Path, body: bytes, status: int, detail: str) -> None:
    async with running(tmp_path) as replica, replica.client() as client:
        got, said = await client.post("/explain", body)
        assert got == status
        assert detail in said["detail"]


@pytest.mark.parametrize("body", [{"kind": "Pod"}, {"kind": "Deployment", "spec": []}, {"kind": "Job", "spec": {"template": 7}}, {"kind": "Pod", "metadata": 7}])  # fmt: skip
async def test_explain_of_what_is_no_pod(tmp_path: Path, body: dict[str, Any]) -> None:
    async with running(tmp_path) as replica, replica.client() as client:
        status, said = await client.post(f"/explain?namespace={AGENTS}", body)
        assert status == 200
        assert (said["verdict"], said["reason"]) == ("skipped", "NotAPod")


# -- policies --------------------------------------------------------------------------------------------------------


def policy_in(replica: Replica, namespace: str) -> str:
    found = replica.cluster.peek(CONFIG_MAPS, "waterclock-policy", namespace)
    return found["data"]["waterclock.yaml"] if found is not None else ""


async def test_the_charts_policy_reaches_opted_in_namespaces_and_follows_its_file(tmp_path: Path) -> None:
    policy = tmp_path / "waterclock.yaml"
    policy.write_text("budget: {default: 20s}\n")
    async with running(tmp_path, policy=policy) as replica:
        await until(lambda: "20s" in policy_in(replica, AGENTS))
        assert policy_in(replica, "plain") == ""
        policy.write_text("budget: {default: 10s}\n")
        await until(lambda: "10s" in policy_in(replica, AGENTS))
        policy.write_text("budget: {default: soon}\n")
        await until(lambda: replica.log("policy_reload_failed"))
        assert await replica.metric("waterclock_injector_policy_last_reload_successful") == 0
        assert "10s" in policy_in(replica, AGENTS)
        assert await replica.metric("waterclock_injector_policy_config_maps", state="kept") == 1


async def test_a_pod_that_asks_by_itself_finds_its_policy(tmp_path: Path) -> None:
    """Whichever replica injects it makes the ConfigMap; the pod could not start without."""
    cluster = fresh_cluster()
    asks = pod(annotations={"waterclock.dev/inject": "enabled"})
    async with (
        running(tmp_path, cluster, name="leader"),
        running(tmp_path, cluster, name="follower") as follower,
        follower.client() as client,
    ):
        assert "patch" in await client.mutate(review(asks, namespace="plain", dryRun=True))
        await asyncio.sleep(0.2)
        assert policy_in(follower, "plain") == ""
        assert "patch" in await client.mutate(review(asks, namespace="plain"))
        await until(lambda: policy_in(follower, "plain"))
        assert follower.log("leading") == []


async def test_a_budget_policy_is_compiled_and_used(tmp_path: Path) -> None:
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "policy": {"budget": {"default": "3s"}}}
    async with running(tmp_path) as replica, replica.client() as client:
        replica.cluster.put(BUDGET_POLICIES, {"metadata": {"name": "tight"}, "spec": spec}, AGENTS)
        ready = replica.injector._policies.find

        def is_ready() -> bool:
            status = (ready("tight", AGENTS) or {}).get("status", {})
            return any(
                each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ())
            )

        await until(is_ready)
        made = patched(pod(), await client.mutate(review(pod())))
        status = json.loads(made["metadata"]["annotations"]["waterclock.dev/status"])
        assert status["policy"]["key"] == "tight.budgetpolicy.yaml"
        found = replica.cluster.peek(CONFIG_MAPS, "waterclock-policy", AGENTS)
        assert found is not None
        assert "3s" in found["data"]["tight.budgetpolicy.yaml"]


async def test_with_a_faulty_policy_at_the_start_pods_are_injected_all_the_same(tmp_path: Path) -> None:
    """Whoever starts after a slip of the pen: what the namespaces have stays, and a new one gets the built-in policy."""
    cluster = fresh_cluster()
    policy = tmp_path / "waterclock.yaml"
    policy.write_text("budget: {default: 20s}\n")
    async with running(tmp_path, cluster, policy=policy) as replica:
        await until(lambda: "20s" in policy_in(replica, AGENTS))
    policy.write_text("budgets: {}\n")
    async with running(tmp_path, cluster, policy=policy) as replica, replica.client() as client:
        assert "did you mean budget?" in str(replica.log("policy_reload_failed"))
        assert await replica.metric("waterclock_injector_policy_last_reload_successful") == 0
        asks = pod(annotations={"waterclock.dev/inject": "enabled"})
        assert "patch" in await client.mutate(review(asks, namespace="plain"))
        await until(lambda: policy_in(replica, "plain") == "{}\n")
        assert "20s" in policy_in(replica, AGENTS)
