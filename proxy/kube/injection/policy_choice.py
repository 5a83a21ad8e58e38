"""Which policy a pod has: what it names, else what its namespace names, else what selects it, else the default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.kube import names
from proxy.kube.injection.decision import BudgetPolicyRef, Surroundings
from proxy.kube.injection.pod import Pod
from proxy.kube.injection.selectors import selects
from proxy.kube.injection.wishes import Wishes


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Where a policy's text stands: a key of a ConfigMap in the pod's namespace."""

    config_map: str = names.POLICY_CONFIG_MAP
    key: str = names.POLICY_FILE

    def __str__(self) -> str:
        return f"{self.config_map}/{self.key}"


def choose_policy(pod: Pod, around: Surroundings, wishes: Wishes) -> PolicySource:
    """Return where this pod's policy stands.

    A name is a BudgetPolicy's where the namespace has one of that name, else a ConfigMap's. Of the BudgetPolicies that
    select a pod the oldest wins, then the first by name.
    """
    if wishes.policy is not None:
        named = next((each for each in around.policies if each.name == wishes.policy), None)
        return _compiled(named) if named is not None else PolicySource(config_map=wishes.policy)
    selecting = _selecting(pod, around.policies)
    oldest = min(selecting, key=lambda each: (each.created, each.name), default=None)
    return _compiled(oldest) if oldest is not None else PolicySource()


def _selecting(pod: Pod, policies: Sequence[BudgetPolicyRef]) -> list[BudgetPolicyRef]:
    return [each for each in policies if each.selector is not None and selects(each.selector, pod.labels)]


def _compiled(policy: BudgetPolicyRef) -> PolicySource:
    """Return where a BudgetPolicy stands: one without a selector is the namespace's default."""
    return PolicySource() if policy.selector is None else PolicySource(key=names.policy_key(policy.name))
