"""The names that the injector, the chart and the pods agree on: labels, annotations, objects, ports.

They are a contract (`docs/kubernetes.md`): people write them into their manifests, and other tools read them.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "waterclock.dev"
VERSION: Final = "v1alpha1"

# -- labels and annotations ------------------------------------------------------------------------------------------

INJECT: Final = f"{GROUP}/inject"
"""On a namespace (label) or a pod (annotation or label; it wins): `enabled` or `disabled`."""
ENABLED: Final = "enabled"
DISABLED: Final = "disabled"
INTERCEPT: Final = f"{GROUP}/intercept"
"""On a pod: how its calls reach the sidecar, `environment` or `redirect`."""
INBOUND_PORT: Final = f"{GROUP}/inbound-port"
"""On a pod: the app's port that the inbound side is put in front of."""
POLICY: Final = f"{GROUP}/policy"
"""On a pod or a namespace (annotation): a BudgetPolicy there, or a ConfigMap that the namespace brings."""
OBSERVE: Final = f"{GROUP}/observe"
"""On a pod: `true` decides and records only, where the policy allows it (`pods.observe`)."""
BUDGET_MAX: Final = f"{GROUP}/budget-max"
"""On a pod: a duration (`30s`). No budget of the pod is longer; it can only shorten what the policy allows."""
EXCLUDE_PORTS: Final = f"{GROUP}/exclude-outbound-ports"
"""On a pod: ports and ranges that are not redirected, `25,9000-9100`."""
EXCLUDE_CIDRS: Final = f"{GROUP}/exclude-outbound-cidrs"
"""On a pod: networks that are not redirected, `10.0.0.0/8,fd00::/8`."""
STATUS: Final = f"{GROUP}/status"
"""On a pod, set by the injector: what was injected, as JSON, with the version."""

KEPT_FOR: Final = f"{GROUP}/kept-for"
"""On the ConfigMap that the injector keeps: `pods`, where it was made for pods that have asked by themselves."""

# -- in a pod --------------------------------------------------------------------------------------------------------

SIDECAR: Final = "waterclock"
REDIRECT: Final = "waterclock-redirect"
POLICY_VOLUME: Final = "waterclock-policy"
JOURNAL_VOLUME: Final = "waterclock-journal"
POLICY_DIRECTORY: Final = "/etc/waterclock"
POLICY_FILE: Final = "waterclock.yaml"
JOURNAL_DIRECTORY: Final = "/var/lib/waterclock"
USER_ID: Final = 2180
OUTBOUND_PORT: Final = 10800
INBOUND_PORT_NUMBER: Final = 10801
CONTROL_PORT: Final = 10802
METRICS_PORT: Final = 10803

# -- objects that the injector keeps ---------------------------------------------------------------------------------

POLICY_CONFIG_MAP: Final = "waterclock-policy"
"""In every opted-in namespace: the policy, under the key `waterclock.yaml`; each BudgetPolicy with a selector has a key too."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "waterclock-injector"
"""The value of `managed-by` on what the injector keeps, and the field manager of what it writes."""


def policy_key(budget_policy: str) -> str:
    """Return the key of a BudgetPolicy's text in the namespace's ConfigMap."""
    return f"{budget_policy}.budgetpolicy.yaml"
