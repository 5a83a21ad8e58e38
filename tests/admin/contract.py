"""Asks the control API, and holds every answer to the contract that it publishes: its status, its type, its members."""

from __future__ import annotations

import re
from typing import Any

from jsonschema import Draft202012Validator

from proxy.admin.openapi import document
from proxy.admin.server import Listening
from tests.admin import asking
from tests.admin.asking import Answer

CONTRACT = document()


def closed(schema: Any) -> Any:
    """The same schema, but for what it does not name: that is not allowed."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: closed(each) for name, each in schema.items()}
    if isinstance(strict.get("properties"), dict) and "type" in strict:
        strict.setdefault("additionalProperties", False)
    return strict


_STRICT = closed(CONTRACT["components"]["schemas"])
# Answers that show no more than the names at the top: what is in them is told elsewhere.
_STRICT["Config"]["additionalProperties"] = False


async def ask(at: Listening, target: str, method: str = "GET", **more: Any) -> Answer:
    """One request on a connection of its own. Its answer is as the contract says."""
    answer = await asking.ask(at, target, method, **more)
    hold(answer, method, target)
    return answer


def hold(answer: Answer, method: str, target: str) -> None:
    """Fail unless the contract allows for this answer."""
    content_type = answer.headers["content-type"].split(";")[0]
    operation = _operation(method, target.partition("?")[0])
    if operation is None:  # nothing is there, or nothing with that method
        assert answer.status in (403, 404, 405)
        validate(answer.json, {"$ref": "#/components/schemas/Problem"})
        return
    said = operation["responses"].get(str(answer.status))
    assert said is not None, f"{method} {target} answers {answer.status}, which the contract does not mention"
    if "$ref" in said:
        said = CONTRACT["components"]["responses"][said["$ref"].rpartition("/")[2]]
    assert list(said["content"]) == [content_type]
    validate(answer.json, said["content"][content_type]["schema"])


def validate(value: Any, schema: dict[str, Any]) -> None:
    """Fail unless a value is what a schema of the contract says, and no more."""
    Draft202012Validator(schema | {"components": {"schemas": _STRICT}}).validate(value)


def _operation(method: str, path: str) -> dict[str, Any] | None:
    for template, operations in CONTRACT["paths"].items():
        if re.fullmatch(template.replace("{id}", "[^/]+"), path):
            found: dict[str, Any] | None = operations.get(method.lower())
            return found
    return None
