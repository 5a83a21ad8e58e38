"""The restricted Pod Security Standard, as far as a container and a volume can break it, written from its text alone.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ (baseline and restricted). What the API server makes of
the same pods, `tests/cluster` shows.
"""

from __future__ import annotations

from typing import Any

_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def broken_by(container: dict[str, Any]) -> list[str]:
    """What a container of a pod that says nothing of its own breaks."""
    context = container.get("securityContext") or {}
    capabilities = context.get("capabilities") or {}
    rules = {
        "privileged": not context.get("privileged", False),
        "capabilities.drop": "ALL" in (capabilities.get("drop") or ()),
        "capabilities.add": set(capabilities.get("add") or ()) <= {"NET_BIND_SERVICE"},
        "allowPrivilegeEscalation": context.get("allowPrivilegeEscalation") is False,
        "runAsNonRoot": context.get("runAsNonRoot") is True,
        "runAsUser": context.get("runAsUser") != 0,
        "seccompProfile": (context.get("seccompProfile") or {}).get("type")
        in ("RuntimeDefault", "Localhost"),
        "procMount": context.get("procMount", "Default") == "Default",
        "hostPort": all(not port.get("hostPort") for port in container.get("ports") or ()),
        "hostProcess": not (context.get("windowsOptions") or {}).get("hostProcess"),
        "hostProbe": not any(
            (container.get(probe) or {}).get("httpGet", {}).get("host")
            for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        ),
    }
    return [rule for rule, kept in rules.items() if not kept]


def volume_is_allowed(volume: dict[str, Any]) -> bool:
    """Whether a volume's kind is one of those that the standard names."""
    return set(volume) - {"name"} <= _VOLUMES
