"""The CustomResourceDefinition of BudgetPolicies (Kubernetes API reference, apiextensions.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proxy.kube.cluster import BUDGET_POLICIES
from proxy.kube.names import POLICY_CONFIG_MAP, policy_key
from proxy.kube.policies.schema import NOTHING_SAID, Schema, policy_schema

LONGEST_NAME: Final = 253 - len(policy_key(""))
"""Characters of a BudgetPolicy's name: it is the first part of a ConfigMap's key, which has at most 253."""

_SINGULAR: Final = BUDGET_POLICIES.kind.lower()
_STATUS_OF: Final = '.status.conditions[?(@.type=="{}")].{}'


def custom_resource_definition(meanings: Mapping[str, str] = NOTHING_SAID) -> dict[str, Any]:
    """Return the definition. `meanings`: what each key of a policy means, by its path."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{BUDGET_POLICIES.plural}.{BUDGET_POLICIES.group}"},
        "spec": {
            "group": BUDGET_POLICIES.group,
            "scope": "Namespaced",
            "names": {
                "plural": BUDGET_POLICIES.plural,
                "singular": _SINGULAR,
                "kind": BUDGET_POLICIES.kind,
                "listKind": f"{BUDGET_POLICIES.kind}List",
                "shortNames": ["bp"],
                "categories": ["waterclock"],
            },
            "versions": [
                {
                    "name": BUDGET_POLICIES.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _COLUMNS,
                    "schema": {"openAPIV3Schema": _whole(policy_schema(meanings=meanings))},
                }
            ],
        },
    }


def _column(name: str, type: str, path: str, says: str, priority: int = 0) -> dict[str, Any]:
    return {"name": name, "type": type, "jsonPath": path, "description": says, "priority": priority}


_COLUMNS: Final = [
    _column("Accepted", "string", _STATUS_OF.format("Accepted", "status"), "Whether the policy can be used."),
    _column(
        "Ready", "string", _STATUS_OF.format("Ready", "status"), f"Whether it stands in {POLICY_CONFIG_MAP}."
    ),
    _column("Reason", "string", _STATUS_OF.format("Ready", "reason"), "Why it is ready, or is not."),
    _column("Age", "date", ".metadata.creationTimestamp", "How old it is: of two, the older one wins."),
    _column("Message", "string", _STATUS_OF.format("Accepted", "message"), "What is wrong with it.", 1),
]


def _whole(policy: Schema) -> Schema:
    return {
        "type": "object",
        "description": (
            "A policy for the pods of its namespace: for those that its selector selects, or, without a selector, for "
            "all that have no other."
        ),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["policy"],
                "properties": {"selector": _SELECTOR, "policy": policy},
            },
            "status": _STATUS,
        },
        "x-kubernetes-validations": [
            {
                "rule": f"size(self.metadata.name) <= {LONGEST_NAME}",
                "message": f"the name has more than {LONGEST_NAME} characters; write a shorter one",
            }
        ],
    }


# A LabelSelector, with the bounds of labels (Kubernetes API concepts, "Labels and Selectors").
_VALUE: Final[Schema] = {
    "type": "string",
    "maxLength": 63,
    "pattern": "^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?$",
}
_SELECTOR: Final[Schema] = {
    "type": "object",
    "description": (
        "The pods that this policy is for, by their labels: all of what is given must match, and an empty selector "
        "selects every pod. Without the key it is the default of the namespace. Of several that select a pod, the "
        "oldest wins."
    ),
    "properties": {
        "matchLabels": {
            "type": "object",
            "description": "Labels that a pod must have, with these values.",
            "additionalProperties": _VALUE,
            "maxProperties": 64,
        },
        "matchExpressions": {
            "type": "array",
            "description": "What else must hold of a pod's labels.",
            "maxItems": 64,
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": {"type": "string", "minLength": 1, "maxLength": 317, "description": "The label."},
                    "operator": {
                        "type": "string",
                        "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        "description": "What must hold of it.",
                    },
                    "values": {
                        "type": "array",
                        "description": "The values, for In and NotIn only.",
                        "items": _VALUE,
                        "maxItems": 64,
                    },
                },
                "x-kubernetes-validations": [
                    {
                        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                        "message": "In and NotIn need values, Exists and DoesNotExist take none",
                    }
                ],
            },
        },
    },
}

_STATUS: Final[Schema] = {
    "type": "object",
    "description": "What has become of this policy. Written by the injector.",
    "properties": {
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "The generation that the conditions are about.",
        },
        "conditions": {
            "type": "array",
            "description": (
                "Accepted: whether the policy can be used; Ready: whether it stands in the ConfigMap "
                f"{POLICY_CONFIG_MAP} of this namespace."
            ),
            "maxItems": 8,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status", "lastTransitionTime", "reason", "message"],
                "properties": {
                    "type": {"type": "string", "maxLength": 316},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                    "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                    "message": {"type": "string", "maxLength": 32768},
                },
            },
        },
    },
}
