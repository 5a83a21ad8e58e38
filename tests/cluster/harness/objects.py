"""The objects that the test makes: namespaces, programs, and pods that run them under the restricted standard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.harness.commands import Object
from tests.cluster.harness.settings import IMAGE, PULL_POLICY

PROGRAMS = Path(__file__).parent.parent / "programs"
MARK = "waterclock-cluster-test"
"""The label on every namespace of the test, by which what was left behind is known."""


def namespace(name: str, **labels: str) -> Object:
    """A namespace of the test; labels in Python's spelling: `inject="enabled"`, `enforce="restricted"`."""
    known = {"inject": "waterclock.dev/inject", "enforce": "pod-security.kubernetes.io/enforce"}
    told = {known[key]: value for key, value in labels.items()}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {MARK: "true"} | told},
    }


def programs(namespace: str) -> Object:
    """The programs that the pods of a namespace run."""
    data = {path.name: path.read_text() for path in sorted(PROGRAMS.glob("*.py"))}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "programs", "namespace": namespace},
        "data": data,
    }


def quota(namespace: str) -> Object:
    """A quota on limits: a pod with any container that states none is refused there."""
    hard = {"limits.cpu": "100", "limits.memory": "50Gi", "requests.cpu": "50", "requests.memory": "20Gi"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": namespace},
        "spec": {"hard": hard},
    }


def container(
    program: str, *arguments: str, name: str = "app", port: int | None = None, **env: str
) -> Object:
    """A container that runs a program, as the restricted standard wants it. `port`: of its server, which is probed."""
    made: Object = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": PULL_POLICY,
        "command": ["python", f"/programs/{program}", *arguments],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"cpu": "1", "memory": "128Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "programs", "mountPath": "/programs", "readOnly": True}],
    }
    if port is not None:
        made["ports"] = [{"name": "http", "containerPort": port}]
        made["readinessProbe"] = {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 1}
    return made


def pod_spec(*containers: Object, **more: Any) -> Object:
    """The spec of a pod of these containers, run as user 1000."""
    return {
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": list(containers),
        "volumes": [{"name": "programs", "configMap": {"name": "programs"}}],
    } | more


def pod(name: str, namespace: str, spec: Object, **annotations: str) -> Object:
    """A pod, labelled `app: NAME`. Annotations of ours in Python's spelling: `inbound_port="8080"`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": name},
            "annotations": _annotations(annotations),
        },
        "spec": spec,
    }


def once(name: str, namespace: str, spec: Object, **annotations: str) -> Object:
    """A pod that runs once."""
    return pod(name, namespace, spec | {"restartPolicy": "Never"}, **annotations)


def template(name: str, spec: Object, **annotations: str) -> Object:
    """A pod template, labelled `app: NAME`."""
    return {"metadata": {"labels": {"app": name}, "annotations": _annotations(annotations)}, "spec": spec}


def workload(kind: str, name: str, namespace: str, template: Object, **spec: Any) -> Object:
    """A Deployment, DaemonSet or Job of a pod template."""
    chosen = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": chosen | {"template": template} | spec,
    }


def cron_job(name: str, namespace: str, template: Object) -> Object:
    """A CronJob that is due every minute."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
    }


def service(name: str, namespace: str, target: int) -> Object:
    """A Service on port 80 for the pods labelled `app: NAME`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": target}]},
    }


def budget_policy(name: str, namespace: str, policy: Object, selector: Object | None = None) -> Object:
    """A BudgetPolicy."""
    spec = {"policy": policy} | ({"selector": selector} if selector is not None else {})
    return {
        "apiVersion": "waterclock.dev/v1alpha1",
        "kind": "BudgetPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _annotations(told: dict[str, str]) -> dict[str, str]:
    return {f"waterclock.dev/{key.replace('_', '-')}": value for key, value in told.items()}
