"""BudgetPolicies and ConfigMaps as the API server has them."""

from __future__ import annotations

from typing import Any

from proxy.kube.names import MANAGED_BY, MANAGER
from proxy.kube.policies.budget_policy import BudgetPolicy, read_budget_policy

Object = dict[str, Any]


def budget_policy(
    name: str,
    policy: Any,
    selector: Any = None,
    *,
    age: int = 0,
    generation: int = 1,
    namespace: str = "agents",
    status: Any = None,
) -> Object:
    """A BudgetPolicy. `age`: the smaller, the older."""
    return {
        "apiVersion": "waterclock.dev/v1alpha1",
        "kind": "BudgetPolicy",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "generation": generation,
            "creationTimestamp": f"2030-01-01T00:00:{age:02}Z",
        },
        "spec": {"policy": policy} | ({} if selector is None else {"selector": selector}),
    } | ({} if status is None else {"status": status})


def read(name: str, policy: Any, selector: Any = None, **rest: Any) -> BudgetPolicy:
    """The same, as it is read."""
    return read_budget_policy(budget_policy(name, policy, selector, **rest))


def config_map(data: dict[str, str], *, ours: bool = True, **metadata: Any) -> Object:
    """A ConfigMap of the name that the injector keeps."""
    labels = {MANAGED_BY: MANAGER} if ours else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "waterclock-policy", "namespace": "agents", "labels": labels, **metadata},
        "data": data,
    }
