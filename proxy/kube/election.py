"""Which replica leads: the one that holds a Lease (`coordination.k8s.io/v1`).

The rules are those of the Kubernetes controllers. Nobody compares another machine's clock with his own: a candidate
notes by its own monotonic clock when it last saw the lease change, and may take it once it has seen no change for as
long as the lease says. The holder stops leading well before that, when it could not renew. The times written into the
lease are for people.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from proxy.core.units import SECOND
from proxy.kube.backoff import Pause
from proxy.kube.cluster import LEASES, Cluster, ClusterError, Conflict, NotFound, Object
from proxy.observe.walltime import unix_ns

_RELEASE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Terms:
    """In nanoseconds: how long a lease holds without a renewal, when its holder gives up, how often it is looked at."""

    duration: int = 15 * SECOND
    deadline: int = 10 * SECOND
    every: int = 2 * SECOND


class Election:
    """One candidate. `is_leader` is true while it leads; `on_change` is told when that changes, and who leads now."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        *,
        owners: Callable[[], list[Object]],
        on_change: Callable[[bool, str], None] | None = None,
        on_trouble: Callable[[ClusterError], None] | None = None,
        terms: Terms | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Take the Lease to hold and the name to hold it under, which no other process may use.

        `owners` are the lease's ownerReferences, asked at each renewal; without any, no lease is made, and nobody leads.
        `on_trouble` is told why the lease cannot be read or written.
        """
        self.is_leader = False
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._owners = owners
        self._on_change = on_change
        self._on_trouble = on_trouble
        self._terms = terms if terms is not None else Terms()
        self._clock = clock
        self._pause = pause
        self._lease: Object | None = None
        self._seen = 0  # when the lease was last seen to change
        self._renewed = 0  # when the renewal that succeeded last was begun

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Take part until cancelled, and do `lead` while leading: it is cancelled, and waited for, when that ends.

        On the way out the lease is released, so that the next one need not wait until it runs out.
        """
        try:
            while True:
                while not await self._try():
                    await self._pause(self._terms.every / SECOND)
                await self._reign(lead)
        finally:
            await self._release()

    async def _reign(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tell(leads=True)
        try:
            async with asyncio.TaskGroup() as group:
                work = group.create_task(lead())
                ends = [group.create_task(each) for each in (self._renew(), self._outlast())]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in (work, *ends):
                    task.cancel()
        finally:
            self._tell(leads=False)

    async def _renew(self) -> None:
        """Renew again and again; return when somebody else holds the lease."""
        while True:
            await self._pause(self._terms.every / SECOND)
            if not await self._try() and self._holder() != self._identity:
                return

    async def _outlast(self) -> None:
        """Return when the last renewal is too long ago to go on leading, whatever the API server is doing."""
        while (left := self._renewed + self._terms.deadline - self._clock()) > 0:
            await self._pause(left / SECOND)

    # -- the lease -------------------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        """Look at the lease, and take or renew it where that is allowed. Return whether it is now ours."""
        begun = self._clock()
        try:
            try:
                lease = await self._cluster.get(LEASES, self._name, self._namespace)
            except NotFound:
                if not self._owners():
                    return False
                self._see(await self._cluster.create(LEASES, self._written(None), self._namespace))
            else:
                self._see(lease)
                if self._holder() not in ("", self._identity) and not self._ran_out():
                    return False
                self._see(await self._cluster.replace(LEASES, self._written(lease), self._namespace))
        except Conflict:
            return False  # somebody else was faster; the next look says who
        except ClusterError as error:
            if self._on_trouble is not None:
                self._on_trouble(error)
            return False
        self._renewed = begun
        return True

    def _see(self, lease: Object) -> None:
        """Note a lease, and when it was seen to be another one than before."""
        if self._lease is None or lease.get("spec") != self._lease.get("spec"):
            self._seen = self._clock()
        self._lease = lease

    def _holder(self) -> str:
        spec = (self._lease or {}).get("spec") or {}
        return spec.get("holderIdentity") or ""

    def _ran_out(self) -> bool:
        spec = (self._lease or {}).get("spec") or {}
        seconds = spec.get("leaseDurationSeconds") or self._terms.duration // SECOND
        return self._clock() - self._seen >= seconds * SECOND

    def _written(self, lease: Object | None) -> Object:
        """Return the lease as it is written to hold it from now on."""
        written: Object = copy.deepcopy(lease) if lease is not None else {"metadata": {"name": self._name}}
        spec: Object = written.setdefault("spec", {})
        now = _micro_time(unix_ns())
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + (lease is not None)
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, self._terms.duration // SECOND),
            "renewTime": now,
        }
        owners = self._owners()
        if owners:
            written["metadata"]["ownerReferences"] = owners
        return written

    async def _release(self) -> None:
        """Give the lease back, if it is ours, without waiting long for it."""
        if self._lease is None or self._holder() != self._identity:
            return
        released = copy.deepcopy(self._lease)
        released["spec"] |= {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": _micro_time(unix_ns()),
        }
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                _ = await self._cluster.replace(LEASES, released, self._namespace)
        except (ClusterError, TimeoutError):
            return  # then it runs out

    def _tell(self, *, leads: bool) -> None:
        self.is_leader = leads
        if self._on_change is not None:
            self._on_change(leads, self._holder())


def _micro_time(ns: int) -> str:
    """Return Unix nanoseconds as a MicroTime (Kubernetes API reference): RFC 3339 with six decimals."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ns // SECOND))}.{ns % SECOND // 1000:06d}Z"
