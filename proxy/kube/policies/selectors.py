"""What is wrong with a label selector (Kubernetes API reference, `meta/v1 LabelSelector`).

The schema of BudgetPolicies says most of it; an object may be older than the schema, and keys are beyond it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from proxy.config.faults import listed, quoted

_KEY: Final = re.compile(
    r"(?:(?=[^/]{1,253}/)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z"
)
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?\Z")
_WITH_VALUES: Final = ("In", "NotIn")
_OPERATORS: Final = (*_WITH_VALUES, "Exists", "DoesNotExist")


def selector_faults(selector: Any, key: str) -> list[str]:
    """Return what is wrong with a selector, in a sentence each, with the place. `key` is the selector's own."""
    if not isinstance(selector, Mapping):
        return [f"{key}: is no selector; write matchLabels, matchExpressions or both"]
    return [*_labels(selector.get("matchLabels"), key), *_expressions(selector.get("matchExpressions"), key)]


def _labels(labels: Any, key: str) -> Iterator[str]:
    if labels is None:
        return
    if not isinstance(labels, Mapping):
        yield f"{key}.matchLabels: is no mapping; write labels with their values"
        return
    for name, value in labels.items():
        yield from _name(name, f"{key}.matchLabels")
        yield from _value(value, f"{key}.matchLabels.{name}")


def _expressions(expressions: Any, key: str) -> Iterator[str]:
    if expressions is None:
        return
    if not isinstance(expressions, list):
        yield f"{key}.matchExpressions: is no list; write one of {{key, operator, values}}"
        return
    for index, expression in enumerate(expressions):
        at = f"{key}.matchExpressions[{index}]"
        if not isinstance(expression, Mapping):
            yield f"{at}: is no mapping; write {{key, operator, values}}"
            continue
        yield from _name(expression.get("key"), f"{at}.key")
        yield from _operation(expression.get("operator"), expression.get("values"), at)


def _operation(operator: Any, values: Any, at: str) -> Iterator[str]:
    if operator not in _OPERATORS:
        yield f"{at}.operator: {quoted(str(operator))} is not known; write {listed(_OPERATORS)}"
    elif operator in _WITH_VALUES and not (isinstance(values, list) and values):
        yield f"{at}.values: {operator} needs some; list them"
    elif operator not in _WITH_VALUES and values:
        yield f"{at}.values: {operator} takes none; take them out"
    if isinstance(values, list):
        for value in values:
            yield from _value(value, f"{at}.values")


def _name(name: Any, at: str) -> Iterator[str]:
    if not isinstance(name, str) or not _KEY.match(name):
        yield f"{at}: {quoted(str(name))} is not the key of a label; write one like app.kubernetes.io/name"


def _value(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, str) or not _VALUE.match(value):
        remedy = "write at most 63 letters, digits, -, _ and ., the first and the last a letter or a digit"
        yield f"{at}: {quoted(str(value))} is not the value of a label; {remedy}"
