"""The injector's life: everything is put together here, started, drained and stopped.

Every replica mirrors what it needs, loads the certificate and answers reviews; the one that leads keeps certificate,
trust and policies besides. A replica is ready when it can answer, and the API server trusts it. On the way down it
calls itself unready first and gives its lease back, goes on answering until nobody sends any more, and only then stops.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from proxy import __version__
from proxy.core.units import SECOND
from proxy.kube.backoff import Backoff
from proxy.kube.bell import Bell
from proxy.kube.certificates import pem
from proxy.kube.certificates.keeper import Keeper, trusted_in
from proxy.kube.certificates.loading import ServedCertificate
from proxy.kube.cluster import (
    BUDGET_POLICIES,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    WEBHOOKS,
    Cluster,
    ClusterError,
    Object,
    Resource,
)
from proxy.kube.election import Election, Terms
from proxy.kube.events import Events
from proxy.kube.health import health_app
from proxy.kube.metrics import Metrics
from proxy.kube.mirror import Mirror
from proxy.kube.ownership import owned_by
from proxy.kube.policies.controller import SELECTOR, PolicyController
from proxy.kube.policies.keeper import Mirrors
from proxy.kube.policies.source import PolicySource
from proxy.kube.settings import CertificateMode, Settings
from proxy.kube.surroundings import Neighbourhood
from proxy.kube.webhook import Means, webhook_app
from proxy.observe.handler import EventHandler
from proxy.observe.steplog import StepLog

LEASE: Final = "waterclock-injector"
_KEEP_ALIVE_SECONDS: Final = 600.0
"""Longer than the API server keeps an idle connection (90 s), so that it is never closed under a review."""
_VERSION_SECONDS: Final = 600.0


class CannotListen(Exception):
    """A port that cannot be listened on. The message says which, why not, and what helps."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where this replica listens and who it is. A port of 0 is chosen by the system. `identity` is the pod's name.

    `drain`: how long it goes on answering once it is told to stop, in seconds; endpoints take that long to be forgotten.
    """

    identity: str
    host: str | None = None
    port: int = 8443
    metrics_port: int = 8080
    drain: float = 5.0
    terms: Terms = field(default_factory=Terms)


class Injector:
    """One replica. `run` is its whole life; `port` and `metrics_port` are those really listened on."""

    def __init__(
        self, cluster: Cluster, settings: Settings, place: Place, policy: Path | None, log: StepLog
    ) -> None:
        """Put it together, and read the policy: a file, or None for the built-in one. Raises ConfigError."""
        self._cluster = cluster
        self._settings = settings
        self._place = place
        self._log = log
        self._metrics = Metrics()
        self._stop = asyncio.Event()
        self._version: tuple[int, int] | None = None
        self._troubles = _Troubles(log)
        self._mirrors: list[Mirror] = []
        self._namespaces = self._mirror(NAMESPACES)
        self._policies = self._mirror(BUDGET_POLICIES)
        self._config_maps = self._mirror(CONFIG_MAPS, fields=SELECTOR)
        self._webhooks = self._mirror(WEBHOOKS, fields=f"metadata.name={settings.webhook_name}")
        self._installed_or_not = Bell()
        self._webhooks.listen(self._installed_or_not.ring)
        self._secrets = self._mirror(
            SECRETS,
            namespace=settings.namespace,
            fields=f"metadata.name={settings.certificates.secret_name}",
        )
        self._served = ServedCertificate(settings, log, on_load=self._expires)
        self._secrets.listen(self._served.take)
        self._keeper = Keeper(cluster, settings, self._secrets, self._webhooks, log)
        self._events = Events(cluster, self._metrics.events, place.identity) if settings.events else None
        mirrors = Mirrors(self._namespaces, self._config_maps, self._policies, self._webhooks)
        source = PolicySource(policy, log, on_reload=self._metrics.policy_reload.set)
        self._controller = PolicyController(
            cluster, settings, source, mirrors, self._metrics, self._events, log
        )
        self._election = Election(
            cluster,
            settings.namespace,
            LEASE,
            place.identity,
            owners=lambda: owned_by(self._webhook()),
            on_change=self._leads,
            on_trouble=lambda error: self._troubles.say("election", error),
            terms=place.terms,
        )
        self._runners: list[web.AppRunner] = []
        self.port = self.metrics_port = 0

    def stop(self) -> None:
        """Begin to stop, as SIGTERM does."""
        self._stop.set()

    async def run(self) -> None:
        """Start, answer until SIGTERM or SIGINT, drain, stop. Raises CannotListen."""
        loop = asyncio.get_running_loop()
        handler = EventHandler(self._log)
        logging.getLogger().addHandler(handler)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            self.metrics_port = await self._serve(
                health_app(self.unready, self._metrics), self._place.metrics_port, "--metrics-port"
            )
            self.port = await self._serve(webhook_app(self._means()), self._place.port, "--port", tls=True)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each) for each in self._background()]
                leading = group.create_task(self._kept_up("election", self._stand))
                self._log.event(
                    "started",
                    version=__version__,
                    identity=self._place.identity,
                    port=self.port,
                    metrics=self.metrics_port,
                    certificates=str(self._settings.certificates.mode),
                )
                await self._stop.wait()
                self._log.event("draining", seconds=self._place.drain)
                leading.cancel()
                await asyncio.sleep(self._place.drain)
                await self._close_sites()
                for task in tasks:
                    task.cancel()
        finally:
            await self._close_sites()
            if self._events is not None:
                await self._last_words(self._events)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            logging.getLogger().removeHandler(handler)
            self._log.event("stopped")

    def unready(self) -> Sequence[str]:
        """Return why reviews cannot be answered, in a sentence each."""
        if self._stop.is_set():
            return ["The injector is draining."]
        reasons = [
            f"The {mirror.resource.plural} are not listed yet{_because(mirror.trouble)}."
            for mirror in self._mirrors
            if not mirror.synced.is_set()
        ]
        if self._version is None:
            reasons.append("The API server's version is not known yet.")
        if self._served.problem:
            reasons.append(self._served.problem)
        elif not reasons and self._settings.certificates.mode is not CertificateMode.CERT_MANAGER:
            reasons += self._distrust()
        return reasons

    def _distrust(self) -> list[str]:
        """Return why the API server does not trust this replica, as far as that is for the injector to see to."""
        webhook = self._webhook()
        if webhook is None:
            return [f"There is no MutatingWebhookConfiguration {self._settings.webhook_name} yet."]
        trusted = trusted_in(webhook)
        if not pem.trusted_by(self._served.chain, trusted):
            return [
                f"The caBundle of {self._settings.webhook_name} does not trust the certificate yet: the leader writes it."
            ]
        return []

    # -- parts -----------------------------------------------------------------------------------------------------

    def _mirror(self, resource: Resource, *, namespace: str = "", fields: str = "") -> Mirror:
        mirror = Mirror(
            self._cluster,
            resource,
            namespace=namespace,
            fields=fields,
            on_trouble=lambda error: self._troubles.say(resource.plural, error),
        )
        self._mirrors.append(mirror)
        return mirror

    def _webhook(self) -> Object | None:
        return self._webhooks.find(self._settings.webhook_name)

    def _means(self) -> Means:
        return Means(
            settings=self._settings,
            neighbourhood=Neighbourhood(self._cluster, self._namespaces, self._policies, self._known_version),
            metrics=self._metrics,
            log=self._log,
            events=self._events,
            fails_closed=self._fails_closed,
            injected=self._controller.injected,
            draining=self._stop.is_set,
            clock=time.monotonic_ns,
        )

    def _known_version(self) -> tuple[int, int]:
        return self._version if self._version is not None else (1, 29)

    def _fails_closed(self) -> bool:
        webhooks = (self._webhook() or {}).get("webhooks") or ()
        return any(each.get("failurePolicy") == "Fail" for each in webhooks)

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on beside answering, whether leading or not."""
        work = [self._kept_up(mirror.resource.plural, mirror.run) for mirror in self._mirrors]
        work.append(self._kept_up("policies", self._controller.run))
        work.append(self._kept_up("version", self._follow_version))
        if self._events is not None:
            work.append(self._kept_up("events", self._events.run))
        return work

    async def _follow_version(self) -> None:
        """Learn the API server's version, and learn anew now and then: clusters are upgraded."""
        backoff = Backoff()
        while True:
            try:
                self._version = await self._cluster.version()
            except ClusterError as error:
                self._troubles.say("version", error)
                await backoff.wait()
            else:
                await asyncio.sleep(_VERSION_SECONDS)

    async def _kept_up(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do a part of the work; should it fail by a fault of ours, say so and begin again: the rest goes on."""
        backoff = Backoff(first=5.0, most=300.0)
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - reviews are answered even so
                self._log.event("fault", part=name, exception="".join(traceback.format_exception(error)))
            await backoff.wait()

    # -- leading ---------------------------------------------------------------------------------------------------

    async def _stand(self) -> None:
        """Take part in the election, once it is known what would own the lease."""
        await self._webhooks.synced.wait()
        await self._election.run(self._lead)

    async def _lead(self) -> None:
        """Do the leader's work, but only while the chart is installed: what is removed with it must not come again."""
        while True:
            while self._webhook() is None:
                await self._installed_or_not.wait()
            async with asyncio.TaskGroup() as group:
                work = {"certificates": self._keeper.run, "policies": self._controller.lead}
                tasks = [group.create_task(self._kept_up(name, each)) for name, each in work.items()]
                while self._webhook() is not None:
                    await self._installed_or_not.wait()
                for task in tasks:
                    task.cancel()

    def _leads(self, leads: bool, holder: str) -> None:
        self._metrics.leads(leads)
        self._log.event("leading" if leads else "not_leading", holder=holder)

    def _expires(self, expires: int) -> None:
        self._metrics.certificate_expiry.set(expires // SECOND)

    # -- sites -----------------------------------------------------------------------------------------------------

    async def _serve(self, app: web.Application, port: int, option: str, *, tls: bool = False) -> int:
        runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=_KEEP_ALIVE_SECONDS, shutdown_timeout=5.0
        )
        await runner.setup()
        self._runners.append(runner)
        context = self._served.context if tls else None
        try:
            await web.TCPSite(runner, self._place.host, port, ssl_context=context, backlog=1024).start()
        except OSError as error:
            raise CannotListen(
                f"port {port} cannot be listened on: {error.strerror or error}; end what listens there, or choose "
                f"another with {option}"
            ) from error
        listening: int = runner.addresses[0][1]
        return listening

    async def _close_sites(self) -> None:
        while self._runners:
            await self._runners.pop().cleanup()

    async def _last_words(self, events: Events) -> None:
        try:
            async with asyncio.timeout(2.0):
                await events.flush()
        except TimeoutError:
            return


class _Troubles:
    """Logs what keeps failing once a minute, not each time."""

    def __init__(self, log: StepLog) -> None:
        self._log = log
        self._said: dict[str, tuple[str, int]] = {}

    def say(self, part: str, error: ClusterError) -> None:
        text, now = str(error), time.monotonic_ns()
        last, when = self._said.get(part, ("", 0))
        if text != last or now - when > 60 * SECOND:
            self._said[part] = (text, now)
            self._log.event("cluster_trouble", part=part, problem=text)


def _because(trouble: ClusterError | None) -> str:
    return f": {trouble}" if trouble is not None else ""
