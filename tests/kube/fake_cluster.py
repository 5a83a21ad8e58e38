"""A cluster in memory, as the API server behaves: versions, conflicts, selectors, watches, garbage collection."""

from __future__ import annotations

import asyncio
import copy
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jsonpatch

from proxy.kube.cluster import (
    BUDGET_POLICIES,
    NAMESPACES,
    WEBHOOKS,
    Change,
    ClusterError,
    Conflict,
    Gone,
    NotFound,
    Object,
    Resource,
)

Key = tuple[str, str]

_WITH_GENERATION: Final = frozenset({BUDGET_POLICIES, WEBHOOKS})
_WITH_STATUS: Final = frozenset({BUDGET_POLICIES})


@dataclass(frozen=True)
class Call:
    """One request that was made."""

    method: str
    resource: Resource
    namespace: str
    name: str


@dataclass
class _Past:
    """One change: what it made of an object, and what that was before."""

    version: int
    resource: Resource
    before: Object | None
    after: Object | None


@dataclass
class _Failure:
    method: str
    resource: Resource | None
    error: Exception
    times: int


@dataclass
class _State:
    """What the API server has. `pulse` is set, and another one made, when there is something new to see."""

    objects: dict[Resource, dict[Key, Object]] = field(default_factory=dict)
    history: list[_Past] = field(default_factory=list)
    version: int = 100
    oldest: int = 0
    clock: itertools.count[int] = field(default_factory=itertools.count)
    pulse: asyncio.Event = field(default_factory=asyncio.Event)
    ending: object = field(default_factory=object)
    ending_error: ClusterError | None = None


@dataclass
class FakeCluster:
    """Implements `proxy.kube.cluster.Cluster`. A namespace must exist before anything is created in it.

    `calls` has every request; `fail` makes the next ones fail; `forget` makes every version so far too old to watch
    from, and `end_watches` ends those that are open, as an API server does now and then. While `open` is cleared,
    requests hang.
    """

    server_version: tuple[int, int] = (1, 34)
    calls: list[Call] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    _failures: list[_Failure] = field(default_factory=list)
    _state: _State = field(default_factory=_State)

    def __post_init__(self) -> None:
        self.open.set()

    # -- for tests -------------------------------------------------------------------------------------------------

    def fail(
        self, method: str, resource: Resource | None = None, *, error: Exception, times: int = 1
    ) -> None:
        """Let the next `times` calls of a method (of a resource, or of any) raise; -1 for all from now on."""
        self._failures.append(_Failure(method, resource, error, times))

    def mend(self) -> None:
        """Let nothing fail any more."""
        self._failures.clear()

    def forget(self) -> None:
        """No watch can go on from a version up to now."""
        self._state.oldest = self._state.version + 1
        self._state.version += 1
        self.end_watches(Gone("too old resource version"))

    def end_watches(self, error: ClusterError | None = None) -> None:
        """End every watch that is open, cleanly or with an error."""
        self._state.ending, self._state.ending_error = object(), error
        self._beat()

    def of(self, resource: Resource) -> list[Object]:
        """Return all objects of a kind, without a call."""
        return [copy.deepcopy(item) for item in self._state.objects.get(resource, {}).values()]

    def peek(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """Return an object, None when there is none, without a call."""
        return copy.deepcopy(self._state.objects.get(resource, {}).get((namespace, name)))

    def put(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Object:
        """Create an object without a call."""
        return self._create(resource, body, namespace)

    def namespace(self, name: str, *, labels: Mapping[str, str] | None = None, **metadata: Any) -> Object:
        """Create a namespace without a call. It has the label with its name, as all have."""
        labels = {"kubernetes.io/metadata.name": name, **(labels or {})}
        return self._create(NAMESPACES, {"metadata": {"name": name, "labels": labels, **metadata}}, "")

    def count(self, method: str, resource: Resource | None = None) -> int:
        """Return how many calls there were of a method (of a resource, or of any)."""
        return sum(call.method == method and resource in (None, call.resource) for call in self.calls)

    def another_way(self) -> FakeCluster:
        """Return the same cluster as another client reaches it: with calls, failures and hanging of its own."""
        return FakeCluster(self.server_version, _state=self._state)

    # -- Cluster ---------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        await self._meet("get", resource, namespace, name)
        return copy.deepcopy(self._there(resource, name, namespace))

    async def list(
        self, resource: Resource, namespace: str = "", *, fields: str = "", labels: str = ""
    ) -> Object:
        await self._meet("list", resource, namespace, "")
        chosen = _selector(namespace, fields, labels)
        items = [
            copy.deepcopy(item) for item in self._state.objects.get(resource, {}).values() if chosen(item)
        ]
        return {
            "apiVersion": resource.api_version,
            "kind": f"{resource.kind}List",
            "metadata": {"resourceVersion": str(self._state.version)},
            "items": items,
        }

    async def watch(
        self, resource: Resource, version: str, namespace: str = "", *, fields: str = "", labels: str = ""
    ) -> AsyncIterator[Change]:
        await self._meet("watch", resource, namespace, "")
        if int(version) < self._state.oldest:
            raise Gone(f"{resource.plural}: too old resource version {version}")
        chosen = _selector(namespace, fields, labels)
        position, ending = 0, self._state.ending
        while True:
            while position < len(self._state.history):
                past = self._state.history[position]
                position += 1
                if past.resource == resource and past.version > int(version):
                    change = _as_change(past, chosen)
                    if change is not None:
                        yield change
            if ending is not self._state.ending:
                if self._state.ending_error is not None:
                    raise self._state.ending_error
                return
            await self._state.pulse.wait()

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Object:
        await self._meet("create", resource, namespace, body.get("metadata", {}).get("name", ""))
        return self._create(resource, body, namespace)

    async def replace(
        self, resource: Resource, body: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> Object:
        name = body["metadata"]["name"]
        await self._meet("replace", resource, namespace, name)
        before = self._there(resource, name, namespace)
        return self._change(resource, before, copy.deepcopy(dict(body)), subresource)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        namespace: str = "",
    ) -> Object:
        await self._meet("patch", resource, namespace, name)
        before = self._there(resource, name, namespace)
        if isinstance(body, Mapping):
            after = _merged(copy.deepcopy(before), body)
        else:
            try:
                after = jsonpatch.apply_patch(before, [dict(step) for step in body])
            except jsonpatch.JsonPatchException as error:
                raise ClusterError(f"{resource.kind} {name}: the patch cannot be applied: {error}") from None
        return self._change(resource, before, after, "")

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        await self._meet("delete", resource, namespace, name)
        self._delete(resource, self._there(resource, name, namespace))

    async def version(self) -> tuple[int, int]:
        await self._meet("version", Resource("", "", "version", "Version", False), "", "")
        return self.server_version

    # -- how it keeps them -----------------------------------------------------------------------------------------

    async def _meet(self, method: str, resource: Resource, namespace: str, name: str) -> None:
        """Take note of a call, and fail where the test wants that."""
        self.calls.append(Call(method, resource, namespace, name))
        await asyncio.sleep(0)
        await self.open.wait()
        for failure in self._failures:
            if failure.method == method and failure.resource in (None, resource) and failure.times:
                failure.times -= 1
                raise failure.error

    def _there(self, resource: Resource, name: str, namespace: str) -> Object:
        self._check_scope(resource, namespace)
        found = self._state.objects.get(resource, {}).get((namespace, name))
        if found is None:
            raise NotFound(f"{resource.kind} {name} was not found")
        return found

    @staticmethod
    def _check_scope(resource: Resource, namespace: str) -> None:
        assert bool(namespace) == resource.namespaced, (
            f"{resource.plural}: namespaced is {resource.namespaced}, and the namespace was {namespace!r}"
        )

    def _create(self, resource: Resource, body: Mapping[str, Any], namespace: str) -> Object:
        self._check_scope(resource, namespace)
        made = copy.deepcopy(dict(body))
        metadata = made.setdefault("metadata", {})
        assert metadata.get("namespace", namespace) == namespace, "the namespace of the object is another one"
        if resource.namespaced and ("", namespace) not in self._state.objects.get(NAMESPACES, {}):
            raise NotFound(f"namespaces {namespace!r} not found")
        name = metadata.get("name") or metadata["generateName"] + uuid.uuid4().hex[:5]
        if (namespace, name) in self._state.objects.get(resource, {}):
            raise Conflict(f"{resource.kind} {name} already exists")
        assert "resourceVersion" not in metadata, "resourceVersion should not be set on objects to be created"
        seconds = next(self._state.clock)
        metadata |= {
            "name": name,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": f"2030-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z",
        } | ({"namespace": namespace} if namespace else {})
        if resource in _WITH_GENERATION:
            metadata["generation"] = 1
        if resource in _WITH_STATUS:
            made.pop("status", None)
        made |= {"apiVersion": resource.api_version, "kind": resource.kind}
        stored = self._store(resource, None, made)
        if self._is_orphan(made):
            self._delete(resource, made)  # the garbage collector is never far
        return stored

    def _change(self, resource: Resource, before: Object, after: Object, subresource: str) -> Object:
        wanted = after["metadata"].get("resourceVersion")
        if wanted not in (None, "", before["metadata"]["resourceVersion"]):
            raise Conflict(f"{resource.kind} {before['metadata']['name']}: the object has been modified")
        if subresource == "status":
            after = copy.deepcopy(before) | {"status": after.get("status", {})}
        elif resource in _WITH_STATUS:
            after.pop("status", None)
            after |= {"status": copy.deepcopy(before["status"])} if "status" in before else {}
        for name in ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation"):
            if name in before["metadata"]:
                after["metadata"][name] = before["metadata"][name]
        after |= {"apiVersion": resource.api_version, "kind": resource.kind}
        if after == before:
            return copy.deepcopy(before)
        if resource in _WITH_GENERATION and _wish(after) != _wish(before):
            after["metadata"]["generation"] += 1
        return self._store(resource, before, after)

    def _store(self, resource: Resource, before: Object | None, after: Object) -> Object:
        self._state.version += 1
        after["metadata"]["resourceVersion"] = str(self._state.version)
        key = (after["metadata"].get("namespace", ""), after["metadata"]["name"])
        self._state.objects.setdefault(resource, {})[key] = after
        self._state.history.append(_Past(self._state.version, resource, before, after))
        self._beat()
        return copy.deepcopy(after)

    def _delete(self, resource: Resource, gone: Object) -> None:
        """Remove an object, what it owns alone, and what stands in it."""
        self._state.version += 1
        key = (gone["metadata"].get("namespace", ""), gone["metadata"]["name"])
        del self._state.objects[resource][key]
        self._state.history.append(_Past(self._state.version, resource, gone, None))
        self._beat()
        for other, items in list(self._state.objects.items()):
            for item in list(items.values()):
                metadata = item["metadata"]
                inside = resource == NAMESPACES and metadata.get("namespace") == gone["metadata"]["name"]
                still = (metadata.get("namespace", ""), metadata["name"]) in self._state.objects[other]
                if still and (inside or self._is_orphan(item)):
                    self._delete(other, item)

    def _is_orphan(self, item: Object) -> bool:
        """Say whether an object has owners, and none of them is there (any more)."""
        owners = item["metadata"].get("ownerReferences") or []
        everything = [each for items in self._state.objects.values() for each in items.values()]
        there = {each["metadata"]["uid"] for each in everything} if owners else set()
        return bool(owners) and not any(owner["uid"] in there for owner in owners)

    def _beat(self) -> None:
        pulse, self._state.pulse = self._state.pulse, asyncio.Event()
        pulse.set()


def _wish(item: Object) -> Object:
    """Return the part of an object that its generation counts the changes of."""
    return {key: value for key, value in item.items() if key not in ("metadata", "status")}


def _as_change(past: _Past, chosen: Callable[[Object], bool]) -> Change | None:
    """Return what a watch with a selector tells of a change: leaving the selection is a deletion."""
    was = past.before is not None and chosen(past.before)
    if past.after is not None and chosen(past.after):
        return Change("MODIFIED" if was else "ADDED", copy.deepcopy(past.after))
    if not was:
        return None
    left = copy.deepcopy(past.after if past.after is not None else past.before)
    assert left is not None
    left["metadata"]["resourceVersion"] = str(past.version)
    return Change("DELETED", left)


def _selector(namespace: str, fields: str, labels: str) -> Callable[[Object], bool]:
    """Return whether an object is meant: `fields` by metadata.name alone, `labels` by equality or presence."""
    name = None
    if fields:
        field_name, _, name = fields.partition("=")
        assert field_name == "metadata.name", f"{fields}: no such field selector here"
        name = name.removeprefix("=")
    terms = [term.strip() for term in labels.split(",") if term.strip()]

    def chosen(item: Object) -> bool:
        metadata = item["metadata"]
        return (
            namespace in ("", metadata.get("namespace", ""))
            and name in (None, metadata["name"])
            and all(_meets(term, metadata.get("labels") or {}) for term in terms)
        )

    return chosen


def _meets(term: str, labels: Mapping[str, str]) -> bool:
    if "!=" in term:
        key, _, value = term.partition("!=")
        return labels.get(key) != value
    if "=" in term:
        key, _, value = term.partition("=")
        return labels.get(key) == value.removeprefix("=")
    return term[1:] not in labels if term.startswith("!") else term in labels


def _merged(target: Any, patch: Any) -> Any:
    """Apply a merge patch, as RFC 7396 §2 has it."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
