"""The injector may do what its code does, and nothing else.

What it asks of the API server is read from the source: calls of a cluster's methods, and mirrors, which list and watch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from proxy.kube import cluster
from tests.chart.rendering import ROOT, Render

VERBS: Final = {
    "get": "get",
    "list": "list",
    "watch": "watch",
    "create": "create",
    "replace": "update",
    "patch": "patch",
    "delete": "delete",
}
RESOURCES: Final = {name: one for name, one in vars(cluster).items() if isinstance(one, cluster.Resource)}

Right = tuple[str, str, str]
"""A verb, an API group and a resource, with its subresource where there is one."""


def asked_for() -> set[Right]:
    """Return what the source of `proxy.kube` asks for."""
    sources = [path for path in (ROOT / "proxy/kube").rglob("*.py") if path.name != "cluster.py"]
    return {right for path in sources for right in _asked(ast.parse(path.read_text()))}


def _asked(tree: ast.AST) -> Iterator[Right]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        verbs = (
            ["list", "watch"] if name.lower().endswith("mirror") else [VERBS[name]] if name in VERBS else []
        )
        subresource = next(
            (
                "/" + str(keyword.value.value)
                for keyword in node.keywords
                if keyword.arg == "subresource" and isinstance(keyword.value, ast.Constant)
            ),
            "",
        )
        for argument in node.args:
            if isinstance(argument, ast.Name) and argument.id in RESOURCES:
                resource = RESOURCES[argument.id]
                yield from ((verb, resource.group, resource.plural + subresource) for verb in verbs)


def granted(render: Render) -> set[Right]:
    """Return what the chart's roles allow where the injector does most: it makes its certificate."""
    return {
        (verb, group, resource)
        for one in render()
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_injector_may_do_what_it_does(render: Render) -> None:
    """A verb that is missing would be a refusal in the cluster."""
    assert asked_for() - granted(render) == set()


def test_the_injector_may_do_nothing_else(render: Render) -> None:
    """A verb that is not needed is a gift to whoever gets hold of the token."""
    assert granted(render) - asked_for() == set()
