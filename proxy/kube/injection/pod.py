"""A pod as far as injection reads it, from any JSON value at all.

The API server has decoded a pod before a webhook sees it, but `waterclock inject` and `POST /explain` are given what
people write. The shape is checked here, once; everything behind it can rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proxy.config.faults import quoted
from proxy.kube.injection.decision import Object

Check = Callable[[Any, str], str | None]
"""Says what is wrong with a value at a path, in words, or nothing."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, or a pod template. Every list and mapping is there, empty where the pod has none, or null.

    `metadata` and `spec` are as they came, so that a patch can tell what is missing from what is empty; `metadata` is
    None where the pod has none.
    """

    metadata: Object | None
    spec: Object
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    containers: Sequence[Object]
    init_containers: Sequence[Object]
    volumes: Sequence[Object]

    @property
    def all_containers(self) -> Iterator[Object]:
        """Init containers, then containers, in their order."""
        yield from self.init_containers
        yield from self.containers


class NotAPod(Exception):
    """A value that is no pod. The message says what is wrong, and where."""


def read_pod(value: Any) -> Pod:
    """Return a pod as it is read here; its `apiVersion` and `kind` are not looked at. Raises NotAPod."""
    fault = POD(value, "")
    if fault is not None:
        raise NotAPod(fault)
    metadata = value.get("metadata")
    spec = value["spec"]
    said = metadata or {}
    return Pod(
        metadata=metadata,
        spec=spec,
        annotations=said.get("annotations") or {},
        labels=said.get("labels") or {},
        containers=spec["containers"],
        init_containers=spec.get("initContainers") or (),
        volumes=spec.get("volumes") or (),
    )


def user_of(part: Object) -> Any:
    """Return the user id that a pod's spec or a container states; None when it states none."""
    return (part.get("securityContext") or {}).get("runAsUser")


# -- the shape -------------------------------------------------------------------------------------------------------


def _text(value: Any, path: str) -> str | None:
    return None if isinstance(value, str) else f"{path} is no text"


def _anything(_value: Any, _path: str) -> str | None:
    return None


def _texts(value: Any, path: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"{path} is no mapping"
    for name, one in value.items():
        if not isinstance(name, str) or not isinstance(one, str):
            return f"the value of {quoted(str(name))} in {path} is no text"
    return None


def _mapping(keys: Mapping[str, Check], required: Sequence[str] = ()) -> Check:
    """Return the check of a mapping: a key that is missing or null is fine unless it is required."""

    def check(value: Any, path: str) -> str | None:
        if not isinstance(value, Mapping):
            return f"{path or 'it'} is no mapping"
        for name, below in keys.items():
            at = f"{path}.{name}" if path else name
            one = value.get(name)
            if one is None:
                if name in required:
                    return f"{at} is missing"
                continue
            if fault := below(one, at):
                return fault
        return None

    return check


def _list(of: Check, at_least: int = 0) -> Check:
    def check(value: Any, path: str) -> str | None:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return f"{path} is no list"
        if len(value) < at_least:
            return f"{path} is empty"
        return next((fault for i, one in enumerate(value) if (fault := of(one, f"{path}[{i}]"))), None)

    return check


_PROBE: Final = _mapping({"tcpSocket": _mapping({"port": _anything}), "grpc": _mapping({"port": _anything})})

_CONTAINER: Final = _mapping(
    {
        "name": _text,
        "env": _list(_mapping({"name": _text, "value": _text}, required=("name",))),
        "ports": _list(_mapping({"name": _text, "containerPort": _anything})),
        "securityContext": _mapping({}),
        "startupProbe": _PROBE,
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
    },
    required=("name",),
)

POD: Final = _mapping(
    {
        "metadata": _mapping({"annotations": _texts, "labels": _texts}),
        "spec": _mapping(
            {
                "containers": _list(_CONTAINER, at_least=1),
                "initContainers": _list(_CONTAINER),
                "volumes": _list(_mapping({"name": _text}, required=("name",))),
                "securityContext": _mapping({}),
                "os": _mapping({"name": _text}),
                "restartPolicy": _text,
            },
            required=("containers",),
        ),
    },
    required=("spec",),
)
"""The shape that is relied upon: the parts that injection reads, no more. The rest is the API server's to judge."""
