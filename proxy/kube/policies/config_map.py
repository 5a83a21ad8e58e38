"""The ConfigMap that a namespace should have beside the one that it has, and the one step from here to there."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxy.kube.cluster import CONFIG_MAPS, Object
from proxy.kube.names import KEPT_FOR, MANAGED_BY, MANAGER, POLICY_CONFIG_MAP

FOR_PODS: Final = "pods"
_LABELS: Final = {
    MANAGED_BY: MANAGER,
    "app.kubernetes.io/name": "waterclock",
    "app.kubernetes.io/part-of": "waterclock",
}


class Step(StrEnum):
    """What is to be done next.

    `FOREIGN`: nothing, it is somebody else's. `WAIT`: nothing yet, it is being deleted. `NO_OWNER`: nothing yet, since
    what is made while an installation is being removed would stay behind.
    """

    NOTHING = "nothing"
    CREATE = "create"
    REPLACE = "replace"
    REMOVE = "remove"
    FOREIGN = "foreign"
    WAIT = "wait"
    NO_OWNER = "no owner"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the ConfigMap should be. `owners`: its ownerReferences, empty where the owner is not known (yet).

    `for_pods`: it is kept for pods that have asked by themselves, in a namespace that is not opted in.
    """

    data: Mapping[str, str]
    owners: Sequence[Object] = ()
    for_pods: bool = False


def is_ours(config_map: Object) -> bool:
    """Say whether the injector has made a ConfigMap. Whoever takes the label off has taken it over."""
    return (config_map["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def is_for_pods(config_map: Object) -> bool:
    """Say whether a ConfigMap was made for pods that have asked by themselves."""
    return (config_map["metadata"].get("annotations") or {}).get(KEPT_FOR) == FOR_PODS


def next_step(wish: Wish | None, actual: Object | None) -> Step:
    """Return the step that leads to what is wished; None wishes that there is none."""
    if actual is None:
        if wish is None:
            return Step.NOTHING
        return Step.CREATE if wish.owners else Step.NO_OWNER
    if not is_ours(actual):
        return Step.NOTHING if wish is None else Step.FOREIGN
    if "deletionTimestamp" in actual["metadata"]:
        return Step.WAIT
    if wish is None:
        return Step.REMOVE
    if written(wish, actual) == actual:
        return Step.NOTHING
    # What is immutable can only be made anew.
    return Step.REMOVE if actual.get("immutable") else Step.REPLACE


def written(wish: Wish, actual: Object | None = None) -> Object:
    """Return the ConfigMap as it should be, made of the one that there is; what others put beside ours stays."""
    made: Object = (
        {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {"name": POLICY_CONFIG_MAP},
        }
        if actual is None
        else copy.copy(actual)
    )
    metadata = made["metadata"] = copy.copy(made["metadata"])
    metadata["labels"] = (metadata.get("labels") or {}) | _LABELS
    if wish.for_pods:
        metadata["annotations"] = (metadata.get("annotations") or {}) | {KEPT_FOR: FOR_PODS}
    if wish.owners:
        metadata["ownerReferences"] = list(wish.owners)
    made["data"] = dict(wish.data)
    made.pop("binaryData", None)
    return made
