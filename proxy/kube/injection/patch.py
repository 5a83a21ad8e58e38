"""The JSON patch (RFC 6902) that injects a pod, and its application to a manifest.

Nothing of the app is moved or rewritten: its containers get variables, and everything else is added beside them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from proxy import __version__
from proxy.kube import names
from proxy.kube.injection import containers, environment
from proxy.kube.injection.decision import Object, Operation
from proxy.kube.injection.pod import Pod
from proxy.kube.injection.policy_choice import PolicySource
from proxy.kube.injection.wishes import Wishes
from proxy.kube.settings import Intercept, Settings

_SCRAPE: Final = {
    "prometheus.io/scrape": "true",
    "prometheus.io/port": str(names.METRICS_PORT),
    "prometheus.io/path": "/metrics",
}
_EVICT_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


def make_patch(
    pod: Pod, wishes: Wishes, policy: PolicySource, settings: Settings, *, native: bool
) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    """Return what injects a pod, and warnings of what its containers have of their own.

    `native`: the sidecar is an init container that goes on running; otherwise it is the first container.
    """
    intercept = wishes.intercept or settings.intercept
    operations: list[Operation] = []
    warnings: list[str] = []
    # Variables first: they are put in by index, and the containers that are added move the others.
    if intercept is Intercept.ENVIRONMENT:
        no_proxy = environment.no_proxy_of(settings, wishes)
        for place in ("initContainers", "containers"):
            for index, container in enumerate(pod.spec.get(place) or ()):
                merged = environment.merge(container.get("env") or (), no_proxy)
                operations += _variables(f"/spec/{place}/{index}/env", container, merged)
                warnings += [f"container {container['name']}: {each}" for each in merged.warnings]
    operations += _appended("/spec/volumes", pod.spec.get("volumes"), containers.volumes(settings, policy))
    added = _containers(pod, wishes, settings, intercept, native, operations)
    operations += _annotations(pod, _status(intercept, policy, added), settings, native)
    return tuple(operations), tuple(warnings)


def _containers(
    pod: Pod,
    wishes: Wishes,
    settings: Settings,
    intercept: Intercept,
    native: bool,
    operations: list[Operation],
) -> list[str]:
    """Add the operations that add our containers, and return their names."""
    redirects = [containers.redirect_container(settings, wishes)] if intercept is Intercept.REDIRECT else []
    init = pod.spec.get("initContainers")
    if native:
        # In front of the app's own init containers, which make calls too; the sidecar listens before calls are redirected.
        ours = [containers.native_sidecar(settings, wishes), *redirects]
        operations += _prepended("/spec/initContainers", init, ours)
    else:
        # Nobody listens until the containers start: the redirection comes after the app's init containers.
        sidecar = containers.ordinary_sidecar(settings, wishes, pod.spec.get("terminationGracePeriodSeconds"))
        operations += _appended("/spec/initContainers", init, redirects)
        operations += _prepended("/spec/containers", pod.containers, [sidecar])
        ours = [sidecar, *redirects]
    return [container["name"] for container in ours]


def _variables(path: str, container: Object, merged: environment.Merged) -> Iterable[Operation]:
    for index, value in merged.replaced.items():
        yield Operation("add", f"{path}/{index}/value", value)
    entries = [{"name": name, "value": value} for name, value in merged.added.items()]
    yield from _appended(path, container.get("env"), entries)


def _appended(path: str, there: Sequence[Any] | None, values: Sequence[Any]) -> Iterable[Operation]:
    """Yield what puts values at the end of a list that may be missing, or null."""
    if there is None and values:
        yield Operation("add", path, list(values))
        return
    yield from (Operation("add", f"{path}/-", value) for value in values)


def _prepended(path: str, there: Sequence[Any] | None, values: Sequence[Any]) -> Iterable[Operation]:
    """Yield what puts values at the front of a list that may be missing, or null."""
    if there is None:
        yield Operation("add", path, list(values))
        return
    yield from (Operation("add", f"{path}/{index}", value) for index, value in enumerate(values))


# -- annotations -----------------------------------------------------------------------------------------------------


def _annotations(pod: Pod, status: str, settings: Settings, native: bool) -> Iterable[Operation]:
    has = pod.annotations
    wanted = {names.STATUS: status}
    if settings.prometheus_annotations and not any(name in has for name in _SCRAPE):
        wanted |= _SCRAPE
    # The autoscaler leaves a node alone whose pods have local volumes; the journal is no reason to.
    evictable = [name.strip() for name in has.get(_EVICT_VOLUMES, "").split(",") if name.strip()]
    if names.JOURNAL_VOLUME not in evictable:
        wanted[_EVICT_VOLUMES] = ",".join([*evictable, names.JOURNAL_VOLUME])
    if not native and _DEFAULT_CONTAINER not in has:
        wanted[_DEFAULT_CONTAINER] = pod.containers[0]["name"]
    if pod.metadata is None:
        yield Operation("add", "/metadata", {"annotations": wanted})
    elif pod.metadata.get("annotations") is None:
        yield Operation("add", "/metadata/annotations", wanted)
    else:
        for name, value in wanted.items():
            yield Operation("add", pointer(("metadata", "annotations", name)), value)


def _status(intercept: Intercept, policy: PolicySource, added: list[str]) -> str:
    status = {
        "version": __version__,
        "intercept": str(intercept),
        "policy": {"configMap": policy.config_map, "key": policy.key},
        "containers": added,
    }
    return json.dumps(status, separators=(",", ":"))


# -- patches as such -------------------------------------------------------------------------------------------------


def pointer(path: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901 §3) of keys and indices."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def as_json(patch: Iterable[Operation]) -> list[dict[str, Any]]:
    """Return a patch as the document that RFC 6902 describes."""
    return [{"op": each.op, "path": each.path, "value": each.value} for each in patch]


def apply(patch: Iterable[Operation], document: Object) -> Any:
    """Return the document with a patch of ours applied; the document itself is not changed.

    Patches made here only add, which puts a member in, or in the place of an older one, and inserts into lists.
    """
    whole: Any = copy.deepcopy(document)
    for each in patch:
        *above, last = (part.replace("~1", "/").replace("~0", "~") for part in each.path.split("/")[1:])
        parent = whole
        for step in above:
            parent = parent[step] if isinstance(parent, Mapping) else parent[int(step)]
        value = copy.deepcopy(each.value)
        if isinstance(parent, list):
            parent.insert(len(parent) if last == "-" else int(last), value)
        else:
            parent[last] = value
    return whole
