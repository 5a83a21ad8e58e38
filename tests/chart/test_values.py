"""Every value is described, and what is not a value is refused with a message that names it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml

from tests.chart.rendering import CHART, Render, Values
from tools import charts

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all values that are no group."""
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from leaves(one, f"{path}.{name}".lstrip("."))
    else:
        yield path


def schemas(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all schemas of objects within a schema, and where they are."""
    if isinstance(schema, dict):
        if "properties" in schema and not isinstance(schema["properties"].get("properties"), list):
            yield path, schema
        for name, one in schema.items():
            yield from schemas(one, f"{path}/{name}")
    elif isinstance(schema, list):
        for one in schema:
            yield from schemas(one, path)


def test_every_value_has_a_comment() -> None:
    """Its own, or that of the whole that it is a part of."""
    described = [row.path for row in charts.rows()]
    for leaf in leaves(DEFAULTS):
        assert any(leaf == path or leaf.startswith(f"{path}.") for path in described), leaf


def test_comments_are_sentences() -> None:
    """They are read in a table, one by one."""
    for row in charts.rows():
        assert re.match("[A-Z].*[.]$", row.comment), row


def test_every_object_of_the_schema_is_closed() -> None:
    """So that a misspelt value is refused instead of being without effect."""
    found = list(schemas(SCHEMA))
    assert len(found) > 30
    for path, schema in found:
        assert schema.get("additionalProperties") is False, path


def test_the_schema_knows_the_values_and_no_others() -> None:
    """But for `global`, which Helm itself hands to charts within charts."""

    def same(schema: dict[str, Any], values: Values, path: str) -> None:
        assert schema["properties"].keys() - {"global"} == values.keys(), path
        for name, value in values.items():
            within = schema["properties"][name]
            if isinstance(value, dict) and value and "properties" in within:
                same(within, value, f"{path}.{name}")

    same(SCHEMA, DEFAULTS, "")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"polcy": {}}, "polcy"),
        ({"injector": {"replica": 2}}, "/injector.*replica"),
        ({"injector": {"replicas": "two"}}, "/injector/replicas.*integer"),
        ({"injector": {"replicas": -1}}, "/injector/replicas"),
        ({"injector": {"failurePolicy": "ignore"}}, "/injector/failurePolicy.*Ignore"),
        ({"injector": {"tolerations": [{"operater": "Exists"}]}}, "/injector/tolerations/0.*operater"),
        ({"injector": {"resources": {"limits": None}}}, "/injector/resources.*limits"),
        (
            {"sidecar": {"resources": {"requests": {"cpu": "lots"}, "limits": {}}}},
            "/sidecar/resources/requests/cpu",
        ),
        ({"image": "waterclock:dev"}, "/image.*object"),
        ({"image": {"digest": "0123"}}, "/image/digest"),
        ({"certificates": {"mode": "Self"}}, "/certificates/mode.*certManager"),
        ({"certificates": {"lifetime": "90d"}}, "/certificates/lifetime"),
        ({"certificates": {"certManager": {"issuerRef": {"kind": "ClusterIssuer"}}}}, "/issuerRef.*name"),
        ({"noProxy": "a,b"}, "/noProxy.*array"),
        ({"cluster": {"ranges": ["10.96.0.0"]}}, "/cluster/ranges/0"),
        ({"monitoring": {"enabled": True}}, "/monitoring.*enabled"),
        ({"crds": {"install": "yes"}}, "/crds/install.*boolean"),
    ],
)
def test_what_is_no_value_is_refused(render: Render, values: Values, said: str) -> None:
    """With its place."""
    with pytest.raises(helm_python.HelmValuesError, match=said):
        render(values)


def test_the_chart_can_be_part_of_another(render: Render) -> None:
    """Helm hands `global` to it then."""
    assert render({"global": {"imageRegistry": "registry.example"}}) == render()


def test_values_that_others_build_on_are_there() -> None:
    """These names are a contract."""
    contract = {
        "image.repository",
        "image.tag",
        "image.pullPolicy",
        "policy",
        "injector.replicas",
        "injector.failurePolicy",
        "certificates.mode",
        "certificates.secretName",
    }
    assert contract <= set(leaves(DEFAULTS))
