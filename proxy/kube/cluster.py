"""The API server, as the rest of `proxy.kube` sees it: objects as JSON has them, and three ways to be told no.

Everything here takes a `Cluster`. The real one is in `client`, the only file that knows the Kubernetes client; tests have
one in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from proxy.kube.names import GROUP, VERSION

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object: its API group (empty for the core one), version, plural, kind, and whether it has a namespace."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
EVENTS: Final = Resource("", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
)
BUDGET_POLICIES: Final = Resource(GROUP, VERSION, "budgetpolicies", "BudgetPolicy")


class ClusterError(Exception):
    """The API server could not be asked, or said no. The message names the object, and what to do where that is known."""


class NotFound(ClusterError):
    """There is no such object."""


class Conflict(ClusterError):
    """The object exists already, or has changed since it was read (its resourceVersion is another one)."""


class Gone(ClusterError):
    """A watch cannot go on from that resourceVersion: list again (HTTP 410)."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a watch tells: `ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK`, and the object."""

    type: str
    object: Object


class Cluster(Protocol):
    """What is asked of the API server. Every method raises ClusterError, or the one of its kinds that fits."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return one object. Raises NotFound."""

    async def list(
        self, resource: Resource, namespace: str = "", *, fields: str = "", labels: str = ""
    ) -> Object:
        """Return a list object (`items`, `metadata.resourceVersion`). Without a namespace, of all of them."""

    def watch(
        self, resource: Resource, version: str, namespace: str = "", *, fields: str = "", labels: str = ""
    ) -> AsyncIterator[Change]:
        """Yield what changes after a resourceVersion, until the server ends the watch. Raises Gone."""

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Object:
        """Create an object. Raises Conflict when it is there."""

    async def replace(
        self, resource: Resource, body: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Put an object in the place of the one it was read as. Raises Conflict, NotFound."""

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any] | Sequence[Any], namespace: str = ""
    ) -> Object:
        """Change an object: a sequence is a JSON patch (RFC 6902), a mapping a merge patch (RFC 7396). Raises NotFound."""

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object. Raises NotFound."""

    async def version(self) -> tuple[int, int]:
        """Return the server's major and minor version."""
