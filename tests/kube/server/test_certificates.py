"""The certificate's whole life in a cluster: who writes the Secret and the `caBundle`, and what replicas serve with."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from cryptography import x509

from proxy.core.units import HOUR, SECOND
from proxy.kube.certificates import pem
from proxy.kube.certificates.authority import make_authority, make_leaf, new_key
from proxy.kube.certificates.keeper import Keeper, served_names, trusted_in
from proxy.kube.certificates.loading import ServedCertificate
from proxy.kube.cluster import SECRETS, WEBHOOKS, ClusterError, Object
from proxy.kube.mirror import Mirror
from proxy.kube.settings import CertificateMode, Certificates, Settings
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.logbook import Logbook
from tests.kube.server.manual import settle, until

SYSTEM = "waterclock-system"
SECRET = "waterclock-injector-tls"
WEBHOOK = "waterclock-injector"
START = 1_900_000_000 * SECOND
SHORT = Certificates(lifetime=60 * SECOND, authority_lifetime=60 * SECOND)


def webhook(names: tuple[str, ...] = ("namespace.waterclock.dev", "pod.waterclock.dev")) -> Object:
    """What the chart installs: no caBundle."""
    service = {"name": "waterclock-injector", "namespace": SYSTEM, "path": "/mutate"}
    return {
        "metadata": {"name": WEBHOOK},
        "webhooks": [{"name": name, "clientConfig": {"service": dict(service)}} for name in names],
    }


class Replica:
    """What one replica sees and does; `leads` says whether it is the leader."""

    def __init__(self, cluster: FakeCluster, settings: Settings, now: Callable[[], int]) -> None:
        self.log = Logbook()
        self.cluster = cluster.another_way()
        self.secrets = Mirror(self.cluster, SECRETS, namespace=SYSTEM, fields=f"metadata.name={SECRET}")
        self.webhooks = Mirror(self.cluster, WEBHOOKS, fields=f"metadata.name={WEBHOOK}")
        self.served = ServedCertificate(settings, self.log, clock=now)
        self.secrets.listen(self.served.take)
        self.keeper = Keeper(self.cluster, settings, self.secrets, self.webhooks, self.log, clock=now)
        loop = asyncio.get_running_loop()
        self.tasks = [loop.create_task(each.run()) for each in (self.secrets, self.webhooks)]

    def is_trusted(self) -> bool:
        """Say whether the API server would trust what it serves with."""
        trusted = trusted_in(self.webhooks.find(WEBHOOK))
        return bool(self.served.chain) and pem.trusted_by(self.served.chain, trusted)


class Stage:
    """A cluster with the injector's namespace, and replicas that share a clock."""

    def __init__(self) -> None:
        self.now = START
        self.cluster = FakeCluster()
        self.cluster.namespace(SYSTEM)
        self.replicas: list[Replica] = []

    def clock(self) -> int:
        return self.now

    async def replica(self, certificates: Certificates = SHORT) -> Replica:
        made = Replica(
            self.cluster,
            Settings(certificates=certificates, webhook_name=WEBHOOK, namespace=SYSTEM),
            self.clock,
        )
        self.replicas.append(made)
        await settle()
        return made

    def secret(self) -> Object:
        found = self.cluster.peek(SECRETS, SECRET, SYSTEM)
        assert found is not None
        return found

    def bundles(self) -> list[bytes]:
        found = self.cluster.peek(WEBHOOKS, WEBHOOK)
        assert found is not None
        return [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in found["webhooks"]]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    for replica in made.replicas:
        for task in replica.tasks:
            task.cancel()
    await settle()


def issued(names: tuple[str, ...], now: int = START, lifetime: int = HOUR) -> dict[str, bytes]:
    """A certificate as a platform's own authority issues it, as a Secret's data."""
    key = new_key()
    authority = make_authority(key, now, 24 * HOUR)
    leaf = make_leaf(
        x509.load_pem_x509_certificate(authority.certificate), key, new_key(), names, now, lifetime
    )
    return {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": authority.certificate}


def secret_of(data: dict[str, bytes], **metadata: Any) -> Object:
    return {
        "metadata": {"name": SECRET, **metadata},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


NAMES = served_names(Settings())


async def test_made_on_a_fresh_install(stage: Stage) -> None:
    stage.cluster.put(WEBHOOKS, webhook())
    leader = await stage.replica()
    follower = await stage.replica()
    assert "not there yet" in follower.served.problem
    seconds = await leader.keeper.step()
    assert 0 < seconds <= 60
    await settle()
    for replica in (leader, follower):
        assert replica.served.problem == ""
        assert replica.served.expires == START + 60 * SECOND
        assert replica.is_trusted()
    secret = stage.secret()
    assert secret["type"] == "kubernetes.io/tls"
    assert secret["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "waterclock-injector"
    owner = secret["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("MutatingWebhookConfiguration", WEBHOOK)
    first, second = stage.bundles()
    assert first == second == base64.b64decode(secret["data"]["ca.crt"])


async def test_each_thing_is_written_once(stage: Stage) -> None:
    """What has been written a moment ago is known, though the mirrors have yet to show it."""
    stage.cluster.put(WEBHOOKS, webhook())
    leader = await stage.replica(Certificates())
    task = asyncio.get_running_loop().create_task(leader.keeper.run())
    await until(leader.is_trusted)
    await settle()
    task.cancel()
    assert leader.cluster.count("create", SECRETS) == 1
    assert leader.cluster.count("replace", SECRETS) == 0
    assert leader.cluster.count("patch", WEBHOOKS) == 1
    assert leader.log.of("certificate_not_kept") == []


async def test_nothing_is_made_before_the_webhook_is_there(stage: Stage) -> None:
    """Helm installs the webhook's configuration last: whatever is kept has an owner from its first moment."""
    leader = await stage.replica()
    await leader.keeper.step()
    assert stage.cluster.peek(SECRETS, SECRET, SYSTEM) is None
    assert "wait until the chart is installed" in leader.log.of("certificate_not_kept")[0]["remedy"]
    stage.cluster.put(WEBHOOKS, webhook())
    await settle()
    await leader.keeper.step()
    await settle()
    assert leader.is_trusted()
    assert stage.secret()["metadata"]["ownerReferences"][0]["name"] == WEBHOOK


async def test_installed_anew_it_has_its_owner_again(stage: Stage) -> None:
    """The configuration was deleted and made again before the garbage collector came by."""
    stage.cluster.put(WEBHOOKS, webhook())
    leader = await stage.replica()
    await leader.keeper.step()
    await settle()
    kept = stage.secret()
    kept["metadata"]["ownerReferences"][0]["uid"] = "of-the-one-before"
    await stage.cluster.replace(SECRETS, kept, SYSTEM)
    await settle()
    await leader.keeper.step()
    owner = stage.secret()["metadata"]["ownerReferences"][0]
    found = stage.cluster.peek(WEBHOOKS, WEBHOOK)
    assert found is not None
    assert owner["uid"] == found["metadata"]["uid"]
    assert stage.secret()["data"] == kept["data"]


async def test_rotated_without_a_moment_of_distrust(stage: Stage) -> None:
    """Certificate and authority live 60 s; the leader changes in between; every replica is trusted throughout."""
    stage.cluster.put(WEBHOOKS, webhook())
    replicas = [await stage.replica(), await stage.replica()]
    again = [0.0, 0.0]
    certificates = set()
    for second in range(300):
        leads = second // 45 % 2
        if again[leads] <= second or second % 45 == 0:
            again[leads] = second + await replicas[leads].keeper.step()
            await settle()
        for replica in replicas:
            assert replica.is_trusted(), f"at {second} s"
            assert replica.served.expires > stage.now
        certificates.add(stage.secret()["data"]["tls.crt"])
        stage.now += SECOND
    assert len(certificates) >= 6
    for replica in replicas:
        assert replica.log.of("certificate_refused") == []


async def test_uninstalled_with_the_chart(stage: Stage) -> None:
    """And not made again by an injector that has yet to be stopped."""
    stage.cluster.put(WEBHOOKS, webhook())
    leader = await stage.replica()
    await leader.keeper.step()
    await settle()
    await stage.cluster.delete(WEBHOOKS, WEBHOOK)
    assert stage.cluster.peek(SECRETS, SECRET, SYSTEM) is None
    await settle()
    assert leader.log.of("certificate_deleted")
    assert leader.served.chain
    await leader.keeper.step()
    assert stage.cluster.peek(SECRETS, SECRET, SYSTEM) is None


async def test_an_emptied_bundle_is_written_again(stage: Stage) -> None:
    """By an upgrade that replaces the configuration, say; and into a webhook that is new in it."""
    stage.cluster.put(WEBHOOKS, webhook())
    leader = await stage.replica()
    await leader.keeper.step()
    before = stage.bundles()[0]
    await stage.cluster.replace(
        WEBHOOKS, webhook(("a.waterclock.dev", "b.waterclock.dev", "c.waterclock.dev"))
    )
    await settle()
    await leader.keeper.step()
    assert stage.bundles() == [before] * 3


async def test_nothing_is_written_when_all_is_well(stage: Stage) -> None:
    stage.cluster.put(WEBHOOKS, webhook())
    leader = await stage.replica(Certificates())
    await leader.keeper.step()
    await settle()
    leader.cluster.calls.clear()
    for _ in range(5):
        assert await leader.keeper.step() == pytest.approx(3600, abs=1)
    assert leader.cluster.calls == []


async def test_somebody_elses_secret_is_never_overwritten(stage: Stage) -> None:
    """In mode `self` too: it is served as it is, and trusted, and the log says how to have one renewed."""
    stage.cluster.put(WEBHOOKS, webhook())
    data = issued(NAMES)
    stage.cluster.put(SECRETS, secret_of(data), SYSTEM)
    leader = await stage.replica()
    await leader.keeper.step()
    await leader.keeper.step()
    await settle()
    assert stage.secret()["data"] == secret_of(data)["data"]
    assert leader.is_trusted()
    (line,) = leader.log.of("certificate_not_kept")
    assert "somebody else" in line["problem"]
    assert "certificates.mode" in line["remedy"]


async def test_mode_secret_trusts_what_the_secret_brings(stage: Stage) -> None:
    stage.cluster.put(WEBHOOKS, webhook())
    certificates = Certificates(mode=CertificateMode.SECRET)
    leader = await stage.replica(certificates)
    assert "put tls.crt, tls.key and ca.crt there" in leader.served.problem
    await leader.keeper.step()
    assert stage.cluster.peek(SECRETS, SECRET, SYSTEM) is None
    stage.cluster.put(SECRETS, secret_of(issued(NAMES)), SYSTEM)
    await settle()
    await leader.keeper.step()
    await settle()
    assert leader.is_trusted()
    assert leader.cluster.count("create", SECRETS) == leader.cluster.count("replace", SECRETS) == 0


async def test_mode_secret_without_an_authority_says_so(stage: Stage) -> None:
    stage.cluster.put(WEBHOOKS, webhook())
    data = issued(NAMES)
    del data["ca.crt"]
    stage.cluster.put(SECRETS, secret_of(data), SYSTEM)
    leader = await stage.replica(Certificates(mode=CertificateMode.SECRET))
    await leader.keeper.step()
    assert leader.served.problem == ""
    assert not leader.is_trusted()
    (line,) = leader.log.of("certificate_not_kept")
    assert line["problem"] == "ca.crt is missing"
    assert "put the certificate of the authority" in line["remedy"]


async def test_cert_manager_owns_secret_and_bundle(stage: Stage) -> None:
    stage.cluster.put(WEBHOOKS, webhook())
    stage.cluster.put(SECRETS, secret_of(issued(NAMES)), SYSTEM)
    leader = await stage.replica(Certificates(mode=CertificateMode.CERT_MANAGER))
    leader.cluster.calls.clear()
    await leader.keeper.step()
    assert leader.served.problem == ""
    assert leader.cluster.calls == []
    assert stage.bundles() == [b"", b""]


OTHER = issued(NAMES)
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no-certificate", {"tls.crt": None}, "tls.crt is missing"),
    ("no-key", {"tls.key": None}, "tls.key is missing"),
    ("empty-key", {"tls.key": b" "}, "tls.key is missing"),
    ("not-pem", {"tls.crt": b"MIIB"}, "tls.crt holds no certificate in PEM form"),
    ("not-a-key", {"tls.key": b"-----BEGIN PRIVATE KEY-----\n"}, "tls.key holds no private key"),
    ("other-key", {"tls.key": OTHER["tls.key"]}, "tls.key is the key of another certificate"),
    ("expired", issued(NAMES, START - 2 * HOUR), "the certificate expired on 2030-03-17T16:46:40Z"),
    ("wrong-name", issued(("tool.agents.svc",)), "is for tool.agents.svc, and the API server asks for waterclock-injector"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "problem"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
async def test_a_bad_secret_leaves_the_old_certificate_in_use(
    stage: Stage, bad: dict[str, Any], problem: str
) -> None:
    replica = await stage.replica(Certificates(mode=CertificateMode.SECRET))
    good = issued(NAMES)
    stage.cluster.put(SECRETS, secret_of({k: v for k, v in (good | bad).items() if v is not None}), SYSTEM)
    await settle()
    assert problem in replica.served.problem
    assert "put tls.crt, tls.key and ca.crt there" in replica.served.problem
    await stage.cluster.replace(SECRETS, secret_of(good), SYSTEM)
    await settle()
    assert replica.served.problem == ""
    chain = replica.served.chain
    await stage.cluster.replace(
        SECRETS, secret_of({k: v for k, v in (good | bad).items() if v is not None}), SYSTEM
    )
    await settle()
    assert replica.served.chain == chain
    assert replica.served.problem == ""
    line = replica.log.of("certificate_refused")[-1]
    assert problem in line["problem"]
    assert line["in_use_until"] == "2030-03-17T18:46:40Z"
    assert "mode" in line["remedy"]


@pytest.mark.parametrize("names", [("*.waterclock-system.svc",), (NAMES[0].upper(),)])
async def test_names_as_certificates_may_have_them(stage: Stage, names: tuple[str, ...]) -> None:
    replica = await stage.replica(Certificates(mode=CertificateMode.SECRET))
    stage.cluster.put(SECRETS, secret_of(issued(names)), SYSTEM)
    await settle()
    assert replica.served.problem == ""


async def test_goes_on_when_the_server_fails(stage: Stage) -> None:
    """The keeper's loop says what failed, and does it again."""
    stage.cluster.put(WEBHOOKS, webhook())
    leader = await stage.replica()
    leader.cluster.fail("patch", WEBHOOKS, error=ClusterError("patch MutatingWebhookConfiguration: no"))
    task = asyncio.get_running_loop().create_task(leader.keeper.run())
    await until(leader.is_trusted)
    assert leader.log.of("certificate_not_kept")[0]["problem"].endswith("no")
    task.cancel()
    await settle()


async def test_two_leaders_for_a_moment_do_no_harm(stage: Stage) -> None:
    """Should both write, one of them is told of a conflict, and finds the other's work."""
    stage.cluster.put(WEBHOOKS, webhook())
    one, other = await stage.replica(), await stage.replica()
    results = await asyncio.gather(one.keeper.step(), other.keeper.step(), return_exceptions=True)
    assert sum(isinstance(each, ClusterError) for each in results) == 1
    await settle()
    for replica in (one, other):
        await replica.keeper.step()
        await settle()
    assert one.is_trusted()
    assert other.is_trusted()


def test_bundle_is_only_what_all_webhooks_trust() -> None:
    data = issued(NAMES)
    made = webhook()
    text = base64.b64encode(data["ca.crt"]).decode()
    made["webhooks"][0]["clientConfig"]["caBundle"] = text
    assert trusted_in(made) == []
    made["webhooks"][1]["clientConfig"]["caBundle"] = text
    assert pem.text(trusted_in(made)) == data["ca.crt"]
    made["webhooks"][1]["clientConfig"]["caBundle"] = "!"
    assert trusted_in(made) == []
    assert trusted_in(None) == []
