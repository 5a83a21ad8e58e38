"""Kubernetes Events that say what was decided for a pod, so that `kubectl describe` shows it.

They are written in the background, and no answer waits for them. What repeats is counted on the Event that is there;
when there is more to say than the API server should be asked to take, the rest is dropped and counted.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from proxy.config.faults import visible
from proxy.core.units import MINUTE, SECOND
from proxy.kube.backoff import Pause
from proxy.kube.bell import Bell
from proxy.kube.cluster import EVENTS, Cluster, ClusterError, NotFound, Object
from proxy.kube.injection.decision import Decision, Reason, Verdict
from proxy.kube.names import MANAGER
from proxy.observe.walltime import unix_ns

_PENDING: Final = 256
_REMEMBERED: Final = 1024
_SAME_FOR: Final = 10 * MINUTE
_ROUND_SECONDS: Final = 1.0
_SPACING_SECONDS: Final = 0.05  # at most twenty a second
_MESSAGE: Final = 1000  # Kubernetes API reference: an Event's note has at most 1 kB

_TITLES: Final = {
    Verdict.INJECTED: ("Injected", "Normal"),
    Verdict.SKIPPED: ("Skipped", "Normal"),
    Verdict.REFUSED: ("Refused", "Warning"),
}
_SILENT: Final = (Reason.NOT_REQUESTED, Reason.NOT_A_POD, Reason.NOT_A_CREATION)


class Counter(Protocol):
    """Counts what became of Events."""

    def labels(self, result: str) -> Any:
        """Return the count of one result."""


@dataclass(frozen=True, slots=True)
class Happening:
    """What an Event says, of which object. Equal ones are one Event with a count."""

    namespace: str
    api_version: str
    kind: str
    name: str
    uid: str
    reason: str
    type: str
    message: str


@dataclass(slots=True)
class _Written:
    """An Event that is there: its name, how often it has happened, and when it was written first (monotonic, ns)."""

    name: str
    count: int
    since: int


def happening(pod: Any, namespace: str, name: str, decision: Decision) -> Happening | None:
    """Return what is to be said of a decision, None when it is nothing: nobody has asked for these pods.

    It is said of the pod's controller, where people look, else of the pod by its name, or by what its name will begin with.
    """
    if decision.reason in _SILENT or not namespace or not isinstance(pod, Mapping):
        return None
    reason, type = _TITLES[decision.verdict]
    metadata = pod.get("metadata") or {}
    message = decision.message
    if decision.verdict is not Verdict.INJECTED:
        message = f"{decision.reason}: {message}"
    about = _controller(metadata)
    if about is None:
        about = ("v1", "Pod", name or str(metadata.get("name") or metadata.get("generateName") or ""), "")
    return Happening(namespace, *about, reason, type, visible(message, _MESSAGE)[:_MESSAGE])


def _controller(metadata: Mapping[str, Any]) -> tuple[str, str, str, str] | None:
    """Return apiVersion, kind, name and uid of a pod's controller, where it has one."""
    try:
        owner = next(each for each in metadata["ownerReferences"] if each.get("controller") is True)
        return str(owner["apiVersion"]), str(owner["kind"]), str(owner["name"]), str(owner["uid"])
    except (StopIteration, LookupError, TypeError, AttributeError):
        return None


class Events:
    """Writes Events. `tell` never waits; `run` writes, at most twenty a second."""

    def __init__(
        self,
        cluster: Cluster,
        counter: Counter,
        instance: str,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """`instance`: who writes, the pod's name. `clock`: monotonic nanoseconds."""
        self._cluster = cluster
        self._counter = counter
        self._instance = instance
        self._clock = clock
        self._pause = pause
        self._pending: dict[Happening, int] = {}
        self._written: dict[Happening, _Written] = {}
        self._bell = Bell()

    def tell(self, what: Happening) -> None:
        """Take something to say."""
        if what not in self._pending and len(self._pending) >= _PENDING:
            self._counter.labels("dropped").inc()
            return
        self._pending[what] = self._pending.get(what, 0) + 1
        self._bell.ring()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._bell.wait()
            await self.flush()
            await self._pause(_ROUND_SECONDS)

    async def flush(self) -> None:
        """Write what there is to say now."""
        while self._pending:
            what = next(iter(self._pending))
            times = self._pending.pop(what)
            try:
                await self._write(what, times)
            except ClusterError:
                self._counter.labels("failed").inc()
            await self._pause(_SPACING_SECONDS)

    async def _write(self, what: Happening, times: int) -> None:
        now = self._clock()
        there = self._written.get(what)
        if there is not None and now - there.since < _SAME_FOR:
            there.count += times
            change = {"count": there.count, "lastTimestamp": _time(unix_ns())}
            try:
                _ = await self._cluster.patch(EVENTS, there.name, change, what.namespace)
            except NotFound:
                del self._written[what]  # its time in the cluster was over
            else:
                self._counter.labels("updated").inc()
                return
        made = await self._cluster.create(EVENTS, self._body(what, times), what.namespace)
        self._counter.labels("created").inc()
        self._written.pop(what, None)
        if len(self._written) >= _REMEMBERED:
            del self._written[next(iter(self._written))]
        self._written[what] = _Written(made["metadata"]["name"], times, now)

    def _body(self, what: Happening, times: int) -> Object:
        """Return the Event (core/v1, Kubernetes API reference)."""
        now = _time(unix_ns())
        about = {
            "apiVersion": what.api_version,
            "kind": what.kind,
            "name": what.name,
            "namespace": what.namespace,
        }
        if what.uid:
            about["uid"] = what.uid
        stem = what.name.rstrip("-.")[:200] or "pod"
        return {
            "metadata": {"name": f"{stem}.{secrets.token_hex(8)}", "namespace": what.namespace},
            "involvedObject": about,
            "reason": what.reason,
            "message": what.message,
            "type": what.type,
            "count": times,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": MANAGER},
            "reportingComponent": MANAGER,
            "reportingInstance": self._instance,
        }


def _time(ns: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ns // SECOND))
