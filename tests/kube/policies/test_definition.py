"""The definition is one that Kubernetes knows, and the chart carries the one that the tables make."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from proxy.kube.cluster import BUDGET_POLICIES
from proxy.kube.names import policy_key
from proxy.kube.policies.crd import LONGEST_NAME, custom_resource_definition
from tools.budget_policy import DEFINITION, definition, meanings


@pytest.mark.parametrize("version", ["1.29", "1.34"])
def test_it_is_a_definition(version: str) -> None:
    """By the schemas of the oldest Kubernetes that is supported whole, and of a newer one."""
    kubernetes_validate.validate(custom_resource_definition(meanings()), version, strict=True)


def test_the_charts_file_is_up_to_date() -> None:
    """`make charts` writes it."""
    assert DEFINITION.read_text() == definition()
    assert yaml.safe_load(definition()) == custom_resource_definition(meanings())["spec"]


def test_it_is_the_resource_that_the_injector_asks_for() -> None:
    """Group, version and names are one contract."""
    spec = custom_resource_definition()["spec"]
    [version] = spec["versions"]
    assert (spec["group"], version["name"]) == (BUDGET_POLICIES.group, BUDGET_POLICIES.version)
    assert (spec["names"]["plural"], spec["names"]["kind"]) == (BUDGET_POLICIES.plural, BUDGET_POLICIES.kind)
    assert spec["scope"] == "Namespaced"
    assert version["subresources"] == {"status": {}}


def test_every_name_makes_a_key() -> None:
    """A ConfigMap's key has at most 253 characters (Kubernetes API reference, ConfigMap)."""
    assert len(policy_key("n" * LONGEST_NAME)) == 253


def test_it_can_be_applied_with_kubectl() -> None:
    """Client-side apply keeps the whole object in an annotation, which with all others has at most 256 KiB."""
    assert len(definition()) < 100 * 1024


def keys(value: Any) -> set[str]:
    """Every key of every mapping."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_no_key_is_read_as_something_else() -> None:
    """`on` and `true` are texts to every reader of YAML."""
    found = keys(yaml.safe_load(DEFINITION.read_text()))
    assert {"on", "true", "retry_on"} <= found
    assert all(isinstance(key, str) for key in found)
