"""What the cluster holds of one kind, kept here: listed once, then followed.

The mirror lags behind by as much as a watch does, and goes on showing what it last saw while the API server cannot be
reached: an answer from it is never late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from proxy.kube.backoff import Backoff
from proxy.kube.cluster import Cluster, ClusterError, Gone, NotFound, Object, Resource

Key = tuple[str, str]
"""Namespace (empty where there is none) and name."""

_NO_VERSION: Final = ""


def key_of(item: Object) -> Key:
    """Return where an object stands in a mirror."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Mirror:
    """The objects of one kind, by namespace and name. They are shared: read them, never change them.

    `on_change` is told `ADDED`, `MODIFIED` or `DELETED` and the object, after `objects` has changed; it must not raise,
    and does its work elsewhere. `synced` is set once everything has been listed. `trouble` is why nothing new is heard
    at the moment, None when all is well; `on_trouble` is told of each failure.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        *,
        namespace: str = "",
        fields: str = "",
        labels: str = "",
        on_change: Callable[[str, Object], None] | None = None,
        on_trouble: Callable[[ClusterError], None] | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        """Take what to follow: `fields` and `labels` are selectors as `kubectl get` takes them. `run` starts it."""
        self.resource: Final = resource
        self.objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()
        self.trouble: ClusterError | None = None
        self._cluster = cluster
        self._namespace = namespace
        self._fields = fields
        self._labels = labels
        self._listeners = [on_change] if on_change is not None else []
        self._on_trouble = on_trouble
        self._backoff = backoff if backoff is not None else Backoff()
        self._version = _NO_VERSION

    def find(self, name: str, namespace: str = "") -> Object | None:
        """Return one object, None when there is none (or none yet)."""
        return self.objects.get((namespace, name))

    def listen(self, on_change: Callable[[str, Object], None]) -> None:
        """Tell one more of what changes from now on."""
        self._listeners.append(on_change)

    async def run(self) -> None:
        """Follow the cluster until cancelled. Between two requests there is always a pause."""
        while True:
            try:
                if self._version == _NO_VERSION:
                    await self._list()
                await self._follow()
                self._backoff.reset()
            except Gone:
                self._version = _NO_VERSION
            except NotFound as error:
                # The cluster does not know this kind (any more): then there are no objects of it.
                self._version = _NO_VERSION
                self._hold([])
                self._fail(error)
            except ClusterError as error:
                self._fail(error)
            await self._backoff.wait()

    async def _list(self) -> None:
        listed = await self._cluster.list(
            self.resource, self._namespace, fields=self._fields, labels=self._labels
        )
        self._hold(listed["items"])
        self._version = listed["metadata"]["resourceVersion"]
        self.trouble = None

    def _hold(self, items: Sequence[Object]) -> None:
        """Hold these objects and no others."""
        now = {key_of(item): item for item in items}
        for item in [item for key, item in self.objects.items() if key not in now]:
            self._take("DELETED", item)
        for key, item in now.items():
            known = self.objects.get(key)
            if known is None:
                self._take("ADDED", item)
            elif known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._take("MODIFIED", item)
        self.synced.set()

    def _fail(self, error: ClusterError) -> None:
        self.trouble = error
        if self._on_trouble is not None:
            self._on_trouble(error)

    async def _follow(self) -> None:
        changes = self._cluster.watch(
            self.resource, self._version, self._namespace, fields=self._fields, labels=self._labels
        )
        async for change in changes:
            self._version = change.object["metadata"]["resourceVersion"]
            self.trouble = None
            self._backoff.reset()
            if change.type != "BOOKMARK":
                self._take(change.type, change.object)

    def _take(self, type: str, item: Object) -> None:
        # Who wrote which field is often the larger half of an object, and is of no use here.
        item["metadata"].pop("managedFields", None)
        if type == "DELETED":
            self.objects.pop(key_of(item), None)
        else:
            self.objects[key_of(item)] = item
        for listener in self._listeners:
            listener(type, item)
