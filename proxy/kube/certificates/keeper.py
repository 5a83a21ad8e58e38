"""What the leader does about the certificate: it makes and renews it, and says in the webhook's `caBundle` whom to trust.

Both are written only where they are the injector's: the Secret in mode `self`, and then only if it bears the
injector's name; the `caBundle` in the modes `self` and `secret`. With cert-manager, nothing is written at all.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cryptography import x509

from proxy.core.units import SECOND
from proxy.kube.backoff import Backoff
from proxy.kube.bell import Bell
from proxy.kube.certificates import pem
from proxy.kube.certificates.pem import Unusable
from proxy.kube.certificates.rotation import plan
from proxy.kube.cluster import SECRETS, WEBHOOKS, Cluster, ClusterError, Object
from proxy.kube.log import Log
from proxy.kube.mirror import Mirror
from proxy.kube.names import MANAGED_BY, MANAGER
from proxy.kube.ownership import owned_by
from proxy.kube.settings import CertificateMode, Settings
from proxy.observe.walltime import unix_ns

_IDLE_SECONDS: Final = 3600.0
_ECHO_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.2  # between two looks, should something undo at once whatever is written


def served_names(settings: Settings) -> tuple[str, str]:
    """Return the names that the API server calls the webhook by, the one that it checks first."""
    service = f"{settings.service_name}.{settings.namespace}.svc"
    return service, f"{service}.{settings.cluster_domain}"


def bundles_of(webhook: Object | None) -> list[bytes]:
    """Return the `caBundle` of each webhook of a MutatingWebhookConfiguration, empty where there is none."""
    found = []
    for each in (webhook or {}).get("webhooks") or ():
        try:
            found.append(base64.b64decode(each["clientConfig"].get("caBundle") or ""))
        except (binascii.Error, ValueError):
            found.append(b"")
    return found


def trusted_in(webhook: Object | None) -> list[x509.Certificate]:
    """Return whom the API server trusts for every webhook of a MutatingWebhookConfiguration."""
    trusted: list[x509.Certificate] | None = None
    for bundle in bundles_of(webhook):
        try:
            here = pem.certificates(bundle, "caBundle")
        except Unusable:
            return []
        trusted = here if trusted is None else [each for each in trusted if each in here]
    return trusted or []


class Keeper:
    """Keeps the Secret and the `caBundle` as they should be. Only the leader may run it.

    `secrets` and `webhooks` mirror the one Secret and the one MutatingWebhookConfiguration.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        secrets: Mirror,
        webhooks: Mirror,
        log: Log,
        *,
        clock: Callable[[], int] = unix_ns,
    ) -> None:
        """`clock`: Unix nanoseconds."""
        self._cluster = cluster
        self._settings = settings
        self._secrets = secrets
        self._webhooks = webhooks
        self._log = log
        self._clock = clock
        self._changed = Bell()
        self._told = ""
        secrets.listen(self._changed.ring)
        webhooks.listen(self._changed.ring)

    async def run(self) -> None:
        """Keep them until cancelled: when one of them changes, and when a renewal is due."""
        backoff = Backoff()
        await self._secrets.synced.wait()
        await self._webhooks.synced.wait()
        while True:
            try:
                seconds = await self.step()
                backoff.reset()
            except ClusterError as error:
                self._log.event("certificate_not_kept", problem=str(error))
                await backoff.wait()
                continue
            await self._changed.wait(seconds)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def step(self) -> float:
        """Do what is to be done now, and return after how many seconds to look again. Raises ClusterError."""
        mode = self._settings.certificates.mode
        if mode is CertificateMode.CERT_MANAGER:
            return _IDLE_SECONDS
        secret = self._secrets.find(self._settings.certificates.secret_name, self._settings.namespace)
        webhook = self._webhooks.find(self._settings.webhook_name)
        if webhook is None:
            self._complain(
                f"there is no MutatingWebhookConfiguration {self._settings.webhook_name}, so nothing is reviewed",
                "wait until the chart is installed, or install it again",
            )
            return _IDLE_SECONDS
        if mode is CertificateMode.SELF and (secret is None or _is_ours(secret)):
            return await self._renew(secret, webhook)
        if mode is CertificateMode.SELF:
            self._complain(
                "it was made by somebody else, and is served as it is",
                f"delete it, or set certificates.mode to secret; one with the label {MANAGED_BY}: {MANAGER} is renewed",
            )
        if secret is not None:
            try:
                await self._trust(webhook, pem.of_secret(secret, pem.TRUSTED))
            except Unusable as error:
                self._complain(
                    str(error),
                    f"put the certificate of the authority that issued {pem.CERTIFICATE} there, so that the API server "
                    "trusts it",
                )
        return _IDLE_SECONDS

    async def _renew(self, secret: Object | None, webhook: Object) -> float:
        now = self._clock()
        self._told = ""
        data = _data_of(secret)
        names = served_names(self._settings)
        planned = plan(data, trusted_in(webhook), names, self._settings.certificates, now)
        wanted = planned.data if planned.data is not None else data
        # First, so that nobody is shown a certificate before the API server trusts it.
        await self._trust(webhook, wanted[pem.TRUSTED])
        owners = owned_by(webhook)
        lost = secret is not None and owners != secret["metadata"].get("ownerReferences")
        if planned.data is not None or lost:
            await self._write(secret, wanted, owners)
        if planned.data is not None:
            leaf = pem.certificates(wanted[pem.CERTIFICATE], pem.CERTIFICATE)[0]
            self._log.event(
                "certificate_kept",
                made=planned.why,
                secret=self._place,
                expires=leaf.not_valid_after_utc.isoformat(),
            )
        return (planned.again - now) / SECOND

    async def _write(self, secret: Object | None, data: Mapping[str, bytes], owners: list[Object]) -> None:
        texts = {name: base64.b64encode(value).decode() for name, value in data.items()}
        namespace = self._settings.namespace
        metadata: Object = {} if secret is None else dict(secret["metadata"])
        metadata |= {
            "name": self._settings.certificates.secret_name,
            "labels": {
                **metadata.get("labels", {}),
                "app.kubernetes.io/name": "waterclock",
                MANAGED_BY: MANAGER,
            },
            "ownerReferences": owners,
        }
        written = {"type": "kubernetes.io/tls", **(secret or {}), "metadata": metadata, "data": texts}
        if secret is None:
            _ = await self._cluster.create(SECRETS, written, namespace)
        else:
            _ = await self._cluster.replace(SECRETS, written, namespace)
        await self._echo(self._secrets, metadata["name"], namespace, secret)

    async def _trust(self, webhook: Object, bundle: bytes) -> None:
        """Write a `caBundle` where it is another one."""
        pem.certificates(bundle, pem.TRUSTED)
        steps = _patch(webhook, bundle)
        if steps:
            _ = await self._cluster.patch(WEBHOOKS, self._settings.webhook_name, steps)
            self._log.event("trust_written", webhook=self._settings.webhook_name)
            await self._echo(self._webhooks, self._settings.webhook_name, "", webhook)

    async def _echo(self, mirror: Mirror, name: str, namespace: str, before: Object | None) -> None:
        """Wait until a mirror shows what was just written, so that the next step does not begin with what was before."""
        try:
            async with asyncio.timeout(_ECHO_SECONDS):
                while _version(mirror.find(name, namespace)) == _version(before):
                    await self._changed.wait()
        except TimeoutError:
            return
        finally:
            self._changed.ring()  # whatever else has changed meanwhile is looked at next

    @property
    def _place(self) -> str:
        return f"{self._settings.namespace}/{self._settings.certificates.secret_name}"

    def _complain(self, problem: str, remedy: str) -> None:
        """Log what is wrong with the Secret, once."""
        if problem != self._told:
            self._told = problem
            self._log.event("certificate_not_kept", secret=self._place, problem=problem, remedy=remedy)


def _patch(webhook: Object, bundle: bytes) -> Sequence[Object]:
    """Return the JSON patch that sets the bundle of every webhook which has another one."""
    text = base64.b64encode(bundle).decode()
    steps = []
    for index, (each, had) in enumerate(zip(webhook["webhooks"], bundles_of(webhook), strict=True)):
        if had != bundle:
            # The test makes the patch fail, rather than hit another webhook, when their order has changed.
            steps += [
                {"op": "test", "path": f"/webhooks/{index}/name", "value": each["name"]},
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": text},
            ]
    return steps


def _version(item: Object | None) -> str | None:
    return item["metadata"]["resourceVersion"] if item is not None else None


def _is_ours(secret: Object) -> bool:
    return bool((secret["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER)


def _data_of(secret: Object | None) -> dict[str, bytes]:
    """Return what is readable of a Secret."""
    data = {}
    for name in (pem.CERTIFICATE, pem.KEY, pem.TRUSTED, pem.AUTHORITY_KEY):
        try:
            data[name] = pem.of_secret(secret or {}, name)
        except Unusable:
            continue
    return data
