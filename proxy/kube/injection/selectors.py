"""Label selectors, as the API server reads them (Kubernetes API reference, `meta/v1 LabelSelector`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from proxy.kube.injection.decision import Object

_OPERATORS: Final[Mapping[str, Callable[[str | None, Sequence[Any]], bool]]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Say whether a selector selects these labels. An empty one selects everything, a malformed one nothing."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    if not isinstance(wanted, Mapping) or not isinstance(expressions, list | tuple):
        return False
    exact = all(labels.get(name) == value for name, value in wanted.items())
    return exact and all(_holds(expression, labels) for expression in expressions)


def _holds(expression: Any, labels: Mapping[str, str]) -> bool:
    if not isinstance(expression, Mapping):
        return False
    key, operator, values = (expression.get(name) for name in ("key", "operator", "values"))
    if not isinstance(key, str) or not isinstance(operator, str) or operator not in _OPERATORS:
        return False
    if not isinstance(values or (), list | tuple):
        return False
    return _OPERATORS[operator](labels.get(key), values or ())
