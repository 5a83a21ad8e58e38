"""Label selectors: as the API server reads them, for each operator, and for what is none."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.kube.injection.selectors import selects

LABELS = {"app": "research", "tier": "2"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A selector of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"app": "research"}}, True),
        ({"matchLabels": {"app": "research", "tier": "1"}}, False),
        ({"matchLabels": {"none": "research"}}, False),
        (expression("app", "In", "writing", "research"), True),
        (expression("app", "In", "writing"), False),
        (expression("none", "In", "research"), False),
        (expression("app", "NotIn", "writing"), True),
        (expression("app", "NotIn", "research"), False),
        (expression("none", "NotIn", "research"), True),
        (expression("app", "Exists"), True),
        (expression("none", "Exists"), False),
        (expression("app", "DoesNotExist"), False),
        (expression("none", "DoesNotExist"), True),
        ({"matchLabels": {"app": "research"}, **expression("tier", "In", "1")}, False),
        ({"matchLabels": ["app"]}, False),
        ({"matchExpressions": "app"}, False),
        ({"matchExpressions": ["app"]}, False),
        (expression("app", "Like", "research"), False),
        ({"matchExpressions": [{"key": 1, "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": ["In"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": "research"}]}, False),
    ],
)
def test_which_labels_a_selector_selects(selector: dict[str, Any], selected: bool) -> None:
    """All that it says has to hold; nothing said selects everything, and what cannot be read selects nothing."""
    assert selects(selector, LABELS) is selected
