"""Where pods stand in other objects: in the templates that Deployments and their like make pods of, and in lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Path = tuple[str | int, ...]
"""The keys and indices that lead from a document to a part of it."""

TEMPLATES: Final[Mapping[str, Path]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "ReplicationController": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Each kind that holds a pod, and where."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object that holds a pod, and the pod: any JSON value, None where the object has none in that place.

    `path` leads from the document to the object, `pod_path` to the pod.
    """

    kind: str
    namespace: str
    name: str
    pod: Any
    path: Path = ()

    @property
    def pod_path(self) -> Path:
        """Where the pod stands in the document."""
        return (*self.path, *TEMPLATES[self.kind])


def pods_in(value: Any, path: Path = ()) -> Iterator[Found]:
    """Yield the pods of an object, or of the objects in a list of them, in their order. `path`: where it stands."""
    if not isinstance(value, Mapping):
        return
    kind = value.get("kind")
    if isinstance(kind, str) and kind in TEMPLATES:
        metadata = value.get("metadata")
        said = metadata if isinstance(metadata, Mapping) else {}
        name = said.get("name") or said.get("generateName") or ""
        yield Found(kind, str(said.get("namespace") or ""), str(name), _at(value, TEMPLATES[kind]), path)
    elif isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            # Items of a typed list need not say their kind.
            typed = kind.removesuffix("List")
            named = {"kind": typed, **item} if isinstance(item, Mapping) and typed in TEMPLATES else item
            yield from pods_in(named, (*path, "items", index))


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
