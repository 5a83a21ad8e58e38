"""AdmissionReviews as the API server sends them when controllers and people create pods."""

from __future__ import annotations

import copy
import uuid
from typing import Any

Object = dict[str, Any]

_TOKEN_VOLUME: Object = {
    "name": "kube-api-access-x7k2p",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
        ],
    },
}  # fmt: skip


_FIELDS_OF_A_CONTAINER: Object = {
    name: {}
    for name in (".", "f:image", "f:imagePullPolicy", "f:name", "f:resources", "f:terminationMessagePath", "f:terminationMessagePolicy")
}  # fmt: skip


def _managed_fields(containers: list[Object]) -> list[Object]:
    """What the API server notes of a controller's pod: who has set which field."""
    spec: Object = {
        name: {}
        for name in ("f:dnsPolicy", "f:enableServiceLinks", "f:restartPolicy", "f:schedulerName", "f:securityContext", "f:terminationGracePeriodSeconds")
    }  # fmt: skip
    spec["f:containers"] = {
        f'k:{{"name":"{each["name"]}"}}': dict(_FIELDS_OF_A_CONTAINER) for each in containers
    }
    metadata: Object = {
        "f:generateName": {},
        "f:labels": {".": {}, "f:app": {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"3f6b1d30-0a11-4c52-9a4e-9d1c7a0f2b11"}': {}},
    }
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2030-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": metadata, "f:spec": spec},
        }
    ]


def container(name: str, **more: Any) -> Object:
    """A container with the defaults that the API server has filled in by then."""
    return {
        "name": name,
        "image": f"registry.example/{name}:1.4",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
            }
        ],
        **more,
    }


def pod(
    *,
    owner: tuple[str, str, str] | None = None,
    name: str = "",
    annotations: dict[str, str] | None = None,
    containers: list[Object] | None = None,
    **spec: Any,
) -> Object:
    """A pod; `owner` is apiVersion, kind and name of its controller, whose pods have no name yet."""
    metadata: Object = {"creationTimestamp": None, "labels": {"app": "agent"}}
    if annotations:
        metadata["annotations"] = annotations
    if owner is None:
        metadata["name"] = name or "agent"
    else:
        api_version, kind, owner_name = owner
        metadata["generateName"] = f"{owner_name}-"
        metadata["ownerReferences"] = [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": owner_name,
                "uid": "3f6b1d30-0a11-4c52-9a4e-9d1c7a0f2b11",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    containers = containers if containers is not None else [container("app")]
    if owner is not None:
        metadata["managedFields"] = _managed_fields(containers)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {
            "volumes": [copy.deepcopy(_TOKEN_VOLUME)],
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            **spec,
        },
        "status": {},
    }  # fmt: skip


def review(of: Any, *, namespace: Any = "agents", operation: str = "CREATE", **more: Any) -> Object:
    """The review of an object; `more` goes into the request."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "namespace": namespace,
        "operation": operation,
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "e5f0d3b2-6a76-4c0e-8ed5-0cbf0a4f4d3f",
            "groups": [
                "system:serviceaccounts",
                "system:serviceaccounts:kube-system",
                "system:authenticated",
            ],
        },
        "object": of,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **more,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


DEPLOYMENT = ("apps/v1", "ReplicaSet", "web-5c7779958f")
JOB = ("batch/v1", "Job", "report")
CRON_JOB = ("batch/v1", "Job", "nightly-29123456")
DAEMON_SET = ("apps/v1", "DaemonSet", "collector")
STATEFUL_SET = ("apps/v1", "StatefulSet", "store")

KINDS: dict[str, Object] = {
    "deployment": pod(owner=DEPLOYMENT),
    "job": pod(owner=JOB, restartPolicy="Never"),
    "cron-job": pod(owner=CRON_JOB, restartPolicy="OnFailure"),
    "daemon-set": pod(owner=DAEMON_SET, nodeSelector={"kubernetes.io/os": "linux"}),
    "stateful-set": pod(owner=STATEFUL_SET),
    "own-init-containers": pod(initContainers=[container("wait-for-db"), container("migrate")]),
    "native-sidecar-of-its-own": pod(initContainers=[container("logs", restartPolicy="Always")]),
    "two-containers": pod(containers=[container("app"), container("helper", env=[{"name": "NO_PROXY", "value": "db"}])]),
    "bare": pod(name="by-hand"),
}  # fmt: skip
"""Pods that are injected in an opted-in namespace."""
