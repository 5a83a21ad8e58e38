"""The pods of tests/kube/golden, with what stands around them, and what a test does with a decision.

A file `NAME.in.yaml` has two documents: what stands around the pod (`namespace`, its `labels` and `annotations`, the
BudgetPolicies in it, whether sidecars are native, the injector's `settings`), and the pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

from proxy.kube.injection.decision import BudgetPolicyRef, Decision, Surroundings
from proxy.kube.injection.patch import as_json
from proxy.kube.injection.rule import decide
from proxy.kube.settings import Settings, parse_settings

FOLDER = Path(__file__).parents[1] / "golden"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """A pod and everything that its decision depends on."""

    name: str
    pod: Manifest
    around: Surroundings
    settings: Settings

    def decide(self) -> Decision:
        return decide(self.pod, self.around, self.settings)

    def injected(self) -> Manifest:
        """The pod with its patch applied, by somebody else's code."""
        return applied(self.pod, self.decide())


def applied(pod: Mapping[str, Any], decision: Decision) -> Manifest:
    """A pod with a decision's patch applied, as the API server does it: from the JSON that it is sent."""
    pod_too: Manifest = jsonpatch.apply_patch(pod, json.loads(json.dumps(as_json(decision.patch))))
    return pod_too


def load(name: str) -> Given:
    """The input of this name."""
    around, pod = yaml.safe_load_all((FOLDER / f"{name}.in.yaml").read_text(encoding="utf-8"))
    settings = parse_settings(yaml.safe_dump(around.pop("settings", {})))
    policies = [BudgetPolicyRef(**each) for each in around.pop("policies", [])]
    return Given(name, pod, Surroundings(**around, policies=policies), settings)


NAMES = sorted(path.name.removesuffix(".in.yaml") for path in FOLDER.glob("*.in.yaml"))
GIVEN = [load(name) for name in NAMES]
INJECTED = [each for each in GIVEN if each.decide().patch]


def containers_of(pod: Manifest) -> list[Manifest]:
    """Init containers, then containers."""
    spec = pod["spec"]
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def container(pod: Manifest, name: str) -> Manifest:
    """The one container of this name."""
    [found] = [each for each in containers_of(pod) if each["name"] == name]
    return found


def variables(of: Manifest) -> dict[str, str]:
    """The variables of a container that have a value."""
    return {each["name"]: each.get("value", "") for each in of.get("env") or () if "valueFrom" not in each}


def added(given: Given) -> list[Manifest]:
    """The containers that injection has added to a pod."""
    own = {each["name"] for each in containers_of(given.pod)}
    return [each for each in containers_of(given.injected()) if each["name"] not in own]
