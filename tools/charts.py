"""Write what is made of something else: the chart's schema of the policy and its CRD, docs/chart.md, and manifests/.

`make charts` writes what is out of date; `pending` says what that is, which a test holds to be nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import helm_python
import yaml

from tools import budget_policy

ROOT: Final = Path(__file__).parent.parent
CHART: Final = ROOT / "charts/waterclock"
PAGE: Final = ROOT / "docs/chart.md"
MANIFESTS: Final = ROOT / "manifests"
RELEASE: Final = "waterclock"
NAMESPACE: Final = "waterclock-system"

# -- the values, as a page -------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A value that has a comment: its path, its default as YAML in one line, and the comment in one line."""

    path: str
    default: str
    comment: str


def rows() -> list[Row]:
    """Return the values of values.yaml that have a comment directly above them, from top to bottom."""
    text = (CHART / "values.yaml").read_text()
    return list(_commented(yaml.compose(text), text.splitlines(), ""))


def _commented(node: yaml.Node | None, lines: list[str], above: str) -> Iterator[Row]:
    """Yield the rows of a mapping; a value without a comment is a group, whose values have theirs."""
    assert isinstance(node, yaml.MappingNode), f"{above} has no comment"
    for key, value in node.value:
        path = f"{above}.{key.value}".lstrip(".")
        comment = _comment(lines, key.start_mark.line)
        if comment:
            yield Row(path, _in_one_line(value), comment)
        else:
            yield from _commented(value, lines, path)


def _comment(lines: list[str], line: int) -> str:
    """Return the comment that ends above a line."""
    first = line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(text.strip().removeprefix("#").strip() for text in lines[first:line])


def _in_one_line(value: yaml.Node) -> str:
    """Return a default as it would be written in one line."""
    if isinstance(value, yaml.ScalarNode):
        return f'"{value.value}"' if value.style else value.value
    written = yaml.serialize(_flowing(value), width=float("inf"))
    return " ".join(written.split())


def _flowing(node: yaml.Node) -> yaml.Node:
    if isinstance(node, yaml.MappingNode):
        pairs = [(key, _flowing(value)) for key, value in node.value]
        return yaml.MappingNode(node.tag, pairs, flow_style=True)
    return node


_INTRODUCTION: Final = """\
# The chart's values

What `charts/waterclock` can be told; the page is made of its `values.yaml` by `make charts`. A value that does not stand here
is refused before anything is installed, and so is a policy with a key, word or unit that is none; `waterclock check` finds the rest. [kubernetes.md](kubernetes.md) tells what it is
all for.

```console
$ helm install waterclock charts/waterclock --namespace waterclock-system --create-namespace --values my-values.yaml
```

| value | default | meaning |
|---|---|---|
"""


def page() -> str:
    """Return docs/chart.md."""
    return _INTRODUCTION + "".join(
        f"| `{row.path}` | `{row.default}` | {row.comment.replace('|', '&#124;')} |\n" for row in rows()
    )


# -- the manifests ---------------------------------------------------------------------------------------------------

_WHERE: Final = "# Rendered from charts/waterclock, with its default values, by `make charts`.\n"
_PARTS: Final = (
    "budgetpolicies",
    "rbac",
    "settings",
    "policy",
    "network",
    "disruption",
    "service",
    "deployment",
    "webhook",
)


def _without_helm(text: str) -> str:
    """Return rendered objects as somebody else applies them: they are not Helm's."""
    text = re.sub(r"^ *helm\.sh/chart: .*\n", "", text, flags=re.MULTILINE)
    return text.replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl").strip()


def manifests() -> dict[Path, str]:
    """Return the files of manifests/: the chart's objects with its default values, for `kubectl apply -k manifests/`."""
    with helm_python.Chart.load(CHART) as chart:
        rendered = chart.render(name=RELEASE, namespace=NAMESPACE)
    objects = {part: _without_helm(rendered[f"waterclock/templates/{part}.yaml"]) for part in _PARTS}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": "waterclock",
                "app.kubernetes.io/part-of": "waterclock",
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    }
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["namespace.yaml", *(f"{part}.yaml" for part in objects)],
    }
    texts = {
        "kustomization": yaml.safe_dump(kustomization, sort_keys=False).strip(),
        "namespace": yaml.safe_dump(namespace, sort_keys=False).strip(),
    } | objects
    return {MANIFESTS / f"{name}.yaml": f"{_WHERE}{text}\n" for name, text in texts.items()}


# -- the schema of the values ----------------------------------------------------------------------------------------

SCHEMA: Final = CHART / "values.schema.json"


def values_schema() -> str:
    """Return values.schema.json with the policy's schema of today; the rest of it is written by hand, and stays.

    A text is left to the injector. It is no alternative in the schema (`anyOf`), so that a fault is said of the key it is in.
    """
    schema = json.loads(SCHEMA.read_text())
    schema["properties"]["policy"] = {
        "if": {"type": "string"},
        "else": budget_policy.values_schema(),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


# -- all of it -------------------------------------------------------------------------------------------------------


def pending() -> dict[Path, str]:
    """Return the files that are not what they should be, with what they should hold."""
    wanted = {
        SCHEMA: values_schema(),
        budget_policy.DEFINITION: budget_policy.definition(),
        PAGE: page(),
        **manifests(),
    }
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}


def main() -> None:
    """Write what is out of date, until nothing is: the manifests are rendered from what is written before them."""
    MANIFESTS.mkdir(exist_ok=True)
    while changed := pending():
        for path, text in changed.items():
            path.write_text(text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
