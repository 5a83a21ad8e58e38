"""What is added to a pod: the sidecar, in redirect mode the container that sets the rules, and their volumes."""

from __future__ import annotations

from typing import Any, Final

from proxy.kube import names
from proxy.kube.injection.policy_choice import PolicySource
from proxy.kube.injection.wishes import Wishes
from proxy.kube.settings import Quantities, Settings

Made = dict[str, Any]

_USUAL_GRACE_S: Final = 30
"""`terminationGracePeriodSeconds` of a pod that states none (Kubernetes API reference)."""
_LAST_S: Final = 5
"""What of it is kept for the sidecar's own end, in seconds."""


def native_sidecar(settings: Settings, wishes: Wishes) -> Made:
    """Return the sidecar as an init container that goes on running: started before the app, stopped after it."""
    name, *rest = _sidecar(settings, wishes).items()
    return dict([name, ("restartPolicy", "Always"), *rest])


def ordinary_sidecar(settings: Settings, wishes: Wishes, grace: object) -> Made:
    """Return the sidecar for clusters without native ones: the kubelet starts the first container first.

    Its postStart holds the next containers back until the sidecar is ready, as its preStop holds its end back until the
    app has ended (`waterclock wait --for-app`), within `grace`, the pod's own in seconds. Both are what a native
    sidecar has for free.
    """
    seconds = grace if isinstance(grace, int) and grace >= 0 else _USUAL_GRACE_S
    for_app = ["waterclock", "wait", "--for-app", "--timeout", f"{max(1, seconds - _LAST_S)}s"]
    hooks = {"postStart": _run(["waterclock", "wait"]), "preStop": _run(for_app)}
    return _sidecar(settings, wishes) | {"lifecycle": hooks}


def redirect_container(settings: Settings, wishes: Wishes) -> Made:
    """Return the init container that leads the pod's connections to the sidecar. It alone may set the rules."""
    port = ["--inbound-port", str(wishes.inbound_port)] if wishes.inbound_port is not None else []
    return {
        "name": names.REDIRECT,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": ["redirect", *port, *_exclusions(wishes)],
        "resources": _copied(settings.redirect_resources),
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def volumes(settings: Settings, policy: PolicySource) -> list[Made]:
    """Return the policy's volume and the journal's."""
    items = [{"key": policy.key, "path": names.POLICY_FILE}]
    return [
        {"name": names.POLICY_VOLUME, "configMap": {"name": policy.config_map, "items": items}},
        {"name": names.JOURNAL_VOLUME, "emptyDir": {"sizeLimit": settings.journal_size}},
    ]


def _sidecar(settings: Settings, wishes: Wishes) -> Made:
    ports = [_port("wc-metrics", names.METRICS_PORT)]
    if wishes.inbound_port is not None:
        ports.insert(0, _port("wc-inbound", names.INBOUND_PORT_NUMBER))
    return {
        "name": names.SIDECAR,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": _arguments(wishes),
        "ports": ports,
        "startupProbe": {"httpGet": _ready(), "periodSeconds": 1, "failureThreshold": 60},
        "readinessProbe": {"httpGet": _ready(), "periodSeconds": 5},
        "resources": _copied(settings.resources),
        "securityContext": {
            "runAsUser": names.USER_ID,
            "runAsGroup": names.USER_ID,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Why it would not start is on its standard error: so `kubectl describe pod` shows it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # The whole directory: a file mounted by subPath would never see a changed policy.
        "volumeMounts": [
            {"name": names.POLICY_VOLUME, "mountPath": names.POLICY_DIRECTORY, "readOnly": True},
            {"name": names.JOURNAL_VOLUME, "mountPath": names.JOURNAL_DIRECTORY},
        ],
    }


def _arguments(wishes: Wishes) -> list[str]:
    """Return how the sidecar is started. The policy is the file's; what the pod says only tightens it."""
    said = ["run", "--config", f"{names.POLICY_DIRECTORY}/{names.POLICY_FILE}", "--pod"]
    if wishes.inbound_port is not None:
        said += ["--inbound-port", str(wishes.inbound_port)]
    if wishes.budget_max is not None:
        said += ["--budget-max", wishes.budget_max]
    if wishes.observe:
        said.append("--observe")
    return said + _exclusions(wishes)


def _exclusions(wishes: Wishes) -> list[str]:
    ports = ["--exclude-outbound-ports", wishes.exclude_ports] if wishes.exclude_ports else []
    cidrs = ["--exclude-outbound-cidrs", wishes.exclude_cidrs] if wishes.exclude_cidrs else []
    return ports + cidrs


def _port(name: str, number: int) -> Made:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _ready() -> Made:
    return {"path": "/readyz", "port": names.METRICS_PORT}


def _run(command: list[str]) -> Made:
    return {"exec": {"command": command}}


def _copied(resources: Quantities) -> Made:
    return {name: dict(amounts) for name, amounts in resources.items()}
