"""The contract of the control API: it is sound, whole, and the same wherever it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import OpenAPIV31SpecValidator

from proxy.admin import api
from proxy.admin.control import control_app
from proxy.admin.endpoints import TABLE
from proxy.admin.openapi import document
from proxy.admin.schemas import SCHEMAS
from proxy.admin.views import policy_view
from proxy.core import step
from proxy.core.degrading import Why
from proxy.core.history import Counts, Happening
from proxy.core.policy import Policy
from proxy.core.step import StepRecord
from tests.admin.asking import served
from tests.admin.contract import CONTRACT, ask, validate
from tests.admin.writes import NOW_MS, Sidecar

PUBLISHED = Path(__file__).parents[2] / "docs/openapi.json"


def test_it_is_sound() -> None:
    """By the rules of OpenAPI 3.1, and of JSON Schema for its schemas."""
    OpenAPIV31SpecValidator(CONTRACT).validate()
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_every_endpoint_is_described() -> None:
    """Nothing is served that is not in it, and nothing is in it that is not served."""
    described = {
        (method.upper(), path): operation
        for path, operations in CONTRACT["paths"].items()
        for method, operation in operations.items()
    }
    assert set(described) == {(row.method, row.path) for row in TABLE}
    assert set(api._answering(Sidecar(), lambda: NOW_MS)) == {row.name for row in TABLE}
    names = [operation["operationId"] for operation in described.values()]
    assert len(set(names)) == len(names)
    for (_, path), operation in described.items():
        assert "200" in operation["responses"]
        assert {"403", "500"} <= set(operation["responses"])
        by_path = [each for each in operation["parameters"] if each.get("$ref", "").endswith("/id")]
        assert bool(by_path) == ("{id}" in path)


def _sentences(schema: Any, where: str) -> None:
    if "$ref" in schema:
        return
    assert schema.get("description", "").endswith("."), where
    for name, member in schema.get("properties", {}).items():
        _sentences(member, f"{where}.{name}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_member_says_what_it_is(name: str) -> None:
    """In a sentence."""
    _sentences(SCHEMAS[name], name)


def test_records_have_the_names_of_the_contract() -> None:
    """A field that is added to a record is added to its schema."""
    assert list(SCHEMAS["Step"]["properties"]) == list(StepRecord._fields)
    assert list(SCHEMAS["Counts"]["properties"]) == list(Counts._fields)
    assert set(SCHEMAS["Config"]["properties"]) == set(policy_view(Policy()))


def test_every_schema_is_used() -> None:
    """None is left over."""
    text = json.dumps(CONTRACT)
    assert [name for name in SCHEMAS if f'"#/components/schemas/{name}"' not in text] == []


def test_what_is_not_said_is_noticed() -> None:
    """The check that all tests of the API rely on: a member too many or too few fails."""
    problem = {"type": "a", "title": "b", "status": 400, "detail": "c", "remedy": "d"}
    reference = {"$ref": "#/components/schemas/Problem"}
    validate(problem, reference)
    for wrong in (problem | {"more": 1}, {**problem, "status": 200}, {"type": "a"}):
        with pytest.raises(ValidationError):
            validate(wrong, reference)


@pytest.mark.skipif(
    not step.__file__.endswith(".py"), reason="a compiled class forgets annotations like `int | None`"
)
def test_types_of_records_agree_with_their_schema() -> None:
    """What can be None can be null, and the types are those of the record."""
    hints = StepRecord.__init__.__annotations__
    kinds = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "None": "null"}
    kinds |= {"Degraded": "object"}
    for name, schema in SCHEMAS["Step"]["properties"].items():
        hint = hints[name]
        words = str(getattr(hint, "__forward_arg__", hint)).split(" | ")
        said = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert {kinds[word] for word in words} <= set(said), name


async def test_it_is_served() -> None:
    """As it is."""
    async with served(control_app(Sidecar(), lambda: NOW_MS)) as at:
        assert (await ask(at, "/openapi.json")).json == document()


def test_it_is_published() -> None:
    """docs/openapi.json is what a sidecar of this tree serves. To write it anew:

    curl -s http://127.0.0.1:10802/openapi.json > docs/openapi.json
    """
    assert json.loads(PUBLISHED.read_text()) == document()


def test_it_is_documented() -> None:
    """docs/control.md has every endpoint in its table, and in others every event of a timeline and every reason for less."""
    text = (PUBLISHED.parent / "control.md").read_text()
    assert [row.path for row in TABLE if f"| `{row.method} {row.path}` |" not in text] == []
    assert [event for event in Happening if f"| `{event}` |" not in text] == []
    assert [why for why in Why if f"| `{why}` |" not in text] == []
