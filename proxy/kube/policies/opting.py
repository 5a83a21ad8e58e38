"""Which namespaces have a policy's ConfigMap.

One that is labelled `waterclock.dev/inject: enabled` has it, from the label's coming to its going. Elsewhere it is made
when a pod is injected that has asked by itself (by annotation or label), since that pod waits for it, and is marked with
`waterclock.dev/kept-for: pods`. So marked, it is kept up to date for as long as it is there: the injector may not list
pods, and cannot know when the last one has gone. Whoever deletes it deletes it for good, until the next such pod; that
takes nothing from pods that run. The mark stays while a namespace is labelled, and keeps the ConfigMap when the label goes.

A namespace that is being deleted is left alone, and so is one that is excluded; whatever stands there is not touched.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from proxy.kube.cluster import Object
from proxy.kube.names import ENABLED, INJECT
from proxy.kube.policies.config_map import is_for_pods, is_ours


class Standing(StrEnum):
    """What a namespace is to the injector."""

    LEFT_ALONE = "left alone"
    OPTED_IN = "opted in"
    FOR_PODS = "for pods"
    OUT = "out"


def standing_of(
    namespace: Object | None, config_map: Object | None, *, asked: bool, excluded: Collection[str]
) -> Standing:
    """Return what a namespace is. `asked`: a pod was injected there for which there was no ConfigMap yet.

    One that is not known (yet, or any more) is left alone.
    """
    if namespace is None or is_ending(namespace) or namespace["metadata"]["name"] in excluded:
        return Standing.LEFT_ALONE
    if (namespace["metadata"].get("labels") or {}).get(INJECT) == ENABLED:
        return Standing.OPTED_IN
    if asked or (config_map is not None and is_ours(config_map) and is_for_pods(config_map)):
        return Standing.FOR_PODS
    return Standing.OUT


def is_ending(namespace: Object) -> bool:
    """Say whether a namespace is being deleted: nothing can be created in it any more."""
    phase = (namespace.get("status") or {}).get("phase")
    return "deletionTimestamp" in namespace["metadata"] or phase == "Terminating"
