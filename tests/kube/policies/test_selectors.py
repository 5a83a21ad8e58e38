"""A selector that selects nothing by mistake is told, with the place."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.kube.policies.selectors import selector_faults


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {}},
        {"matchLabels": None, "matchExpressions": None},
        {"matchLabels": {"app": "a", "app.kubernetes.io/name": "", "A_b.c-d": "x.y_z"}},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", ""]}]},
        {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist", "values": []}]},
    ],
)  # fmt: skip
def test_sound(selector: Any) -> None:
    """As the API server takes them for Deployments."""
    assert selector_faults(selector, "s") == []


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("app=a", "s: is no selector; write matchLabels, matchExpressions or both"),
        ({"matchLabels": ["a"]}, "s.matchLabels: is no mapping; write labels with their values"),
        ({"matchLabels": {"a b": "c"}}, 's.matchLabels: "a b" is not the key of a label; write one like app.kubernetes.io/name'),
        ({"matchLabels": {f"{'d' * 254}/a": "c"}}, "is not the key of a label"),
        ({"matchLabels": {"a": "b c"}}, 's.matchLabels.a: "b c" is not the value of a label; write at most 63 letters, digits, -, _ and ., the first and the last a letter or a digit'),
        ({"matchLabels": {"a": 8}}, 's.matchLabels.a: "8" is not the value of a label'),
        ({"matchLabels": {"a": "b" * 64}}, "is not the value of a label"),
        ({"matchExpressions": {}}, "s.matchExpressions: is no list; write one of {key, operator, values}"),
        ({"matchExpressions": ["a"]}, "s.matchExpressions[0]: is no mapping; write {key, operator, values}"),
        ({"matchExpressions": [{"operator": "Exists"}]}, 's.matchExpressions[0].key: "None" is not the key of a label'),
        ({"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}, 's.matchExpressions[0].operator: "Is" is not known; write In, NotIn, Exists or DoesNotExist'),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "s.matchExpressions[0].values: In needs some; list them"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]}, "s.matchExpressions[0].values: NotIn needs some; list them"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "s.matchExpressions[0].values: Exists takes none; take them out"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}, 's.matchExpressions[0].values: "-" is not the value of a label'),
    ],
)  # fmt: skip
def test_wrong(selector: Any, said: str) -> None:
    """One sentence, with the place and the remedy."""
    [fault] = selector_faults(selector, "s")
    assert said in fault
