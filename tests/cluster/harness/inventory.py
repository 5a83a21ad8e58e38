"""All objects of the cluster that have to do with Waterclock, to see that none is left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.cluster.harness.commands import kubectl
from tests.cluster.harness.settings import NAMESPACES

WORDS = ("waterclock", *NAMESPACES)
_PASSING = {"events", "events.events.k8s.io", "pods.metrics.k8s.io", "nodes.metrics.k8s.io"}
"""What goes by itself after a while."""
_MADE = {"Pod", "Deployment", "ReplicaSet", "DaemonSet", "ControllerRevision", "Job", "CronJob", "Service"}
_MADE |= {"Endpoints", "EndpointSlice", "Namespace", "ServiceAccount", "ResourceQuota"}
"""The kinds of what the test makes in its namespaces, and of what Kubernetes makes of that."""
_MADE_MAPS = {"programs", "kube-root-ca.crt"}


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """An object: its kind, its namespace (empty for the cluster's own), its name."""

    kind: str
    namespace: str
    name: str

    @property
    def of_the_test(self) -> bool:
        """Whether it is one of the test's namespaces, or something in one that is not of the injector's making."""
        if self.namespace not in NAMESPACES and self.name not in NAMESPACES:
            return False
        return self.kind in _MADE or (self.kind == "ConfigMap" and self.name in _MADE_MAPS)


Inventory = frozenset[Thing]


def inventory() -> Inventory:
    """List every object of every kind whose metadata name Waterclock or a namespace of the test; Events excepted."""
    resources = set(kubectl("api-resources", "--verbs=list", "--output=name").split()) - _PASSING
    everything = kubectl(
        "get", ",".join(sorted(resources)), "--all-namespaces", "--output=json", "--ignore-not-found"
    )
    found = set()
    for item in json.loads(everything or '{"items": []}')["items"]:
        metadata = item["metadata"]
        if any(word in json.dumps(metadata) for word in WORDS):
            found.add(Thing(item["kind"], metadata.get("namespace", ""), metadata["name"]))
    return frozenset(found)
