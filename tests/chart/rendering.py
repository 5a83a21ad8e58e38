"""What the chart renders, as objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import helm_python
import yaml

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts/waterclock"
NAMESPACE: Final = "waterclock-system"

Object = dict[str, Any]
Values = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, as the API server does."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    names = [name.value for name, _ in node.value]
    assert len(names) == len(set(names)), f"{node.start_mark}: a key stands twice in {names}"
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def objects_in(text: str) -> list[Object]:
    """Return the objects of a YAML stream."""
    return [one for one in yaml.load_all(text, Loader=_Loader) if one]


class Render:
    """The chart with some values: as text, and as objects."""

    def __init__(self, chart: helm_python.Chart) -> None:
        """Render this chart."""
        self._chart = chart

    def texts(self, values: Values | None = None, *, namespace: str = NAMESPACE) -> dict[str, str]:
        """Return what each template of objects became. Raises HelmError."""
        rendered = self._chart.render(values, name="waterclock", namespace=namespace)
        texts = {name.removeprefix("waterclock/templates/"): text for name, text in rendered.items()}
        del texts["NOTES.txt"]
        return texts

    def __call__(self, values: Values | None = None, *, namespace: str = NAMESPACE) -> list[Object]:
        """Return all objects, those of the test too. Raises HelmError."""
        return [one for text in self.texts(values, namespace=namespace).values() for one in objects_in(text)]

    def notes(self, values: Values | None = None) -> str:
        """Return what an installation says in the end. Raises HelmError."""
        rendered = self._chart.render(values, name="waterclock", namespace=NAMESPACE)
        return rendered["waterclock/templates/NOTES.txt"]

    def one(self, kind: str, name: str = "waterclock-injector", values: Values | None = None) -> Object:
        """Return the one object of a kind and a name."""
        [found] = [one for one in self(values) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
        return found


def called(one: Object) -> str:
    """Return an object's kind and name, for a message."""
    return f"{one['kind']} {one['metadata']['name']}"


def pods(objects: list[Object]) -> list[Object]:
    """Return the specs of pods among these objects, and in their templates."""
    specs = [one["spec"] for one in objects if one["kind"] == "Pod"]
    return specs + [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment"]
