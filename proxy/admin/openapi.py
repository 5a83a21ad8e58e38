"""The contract of the control API as an OpenAPI 3.1 document, made from the table of endpoints and the schemas."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from proxy import __version__
from proxy.admin.endpoints import TABLE, Endpoint
from proxy.admin.problems import PROBLEM_JSON
from proxy.admin.schemas import SCHEMAS, ref

_ABOUT: Final = (
    "What a running Waterclock sidecar knows of jobs, steps and writes, and what may be decided about them. It is served "
    "on the loopback only (`listen.control`), to whoever reaches that; web pages are kept out."
)
_SERVER: Final = {
    "url": "http://127.0.0.1:10802",
    "description": "In the pod, or through kubectl port-forward.",
}

_WHEN: Final = {
    HTTPStatus.BAD_REQUEST: "The query or the body is not what this endpoint takes.",
    HTTPStatus.FORBIDDEN: "The Host is no name of the loopback, or a web page is asking.",
    HTTPStatus.NOT_FOUND: "There is none with this id, or none any more.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not come in time.",
    HTTPStatus.CONFLICT: "It is settled already, in another way, or not there yet.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The sidecar failed to answer.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The journal could not keep it. It may be sent again.",
}
_OF_ANY: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.INTERNAL_SERVER_ERROR)


def document() -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for row in TABLE:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Waterclock control API",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [_SERVER],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": {_name(status): _problem(says) for status, says in _WHEN.items()},
            "parameters": {
                "id": {
                    "name": "id",
                    "in": "path",
                    "required": True,
                    "description": "The id, as lists show it.",
                    "schema": {"type": "string"},
                }
            },
        },
    }


def _operation(row: Endpoint) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    if "{id}" in row.path:
        parameters.append({"$ref": "#/components/parameters/id"})
    parameters += [
        {"name": each.name, "in": "query", "description": each.says, "schema": each.schema}
        for each in row.query
    ]
    operation: dict[str, Any] = {
        "operationId": row.name,
        "summary": row.says[0].upper() + row.says[1:],
        "parameters": parameters,
        "responses": {"200": _answer(row.answers)}
        | {
            str(int(status)): {"$ref": f"#/components/responses/{_name(status)}"}
            for status in sorted({*_OF_ANY, *row.errors})
        },
    }
    if row.takes is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": ref(row.takes)}},
        }
    return operation


def _answer(name: str) -> dict[str, Any]:
    return {
        "description": SCHEMAS[name]["description"],
        "content": {"application/json": {"schema": ref(name)}},
    }


def _problem(says: str) -> dict[str, Any]:
    return {"description": says, "content": {PROBLEM_JSON: {"schema": ref("Problem")}}}


def _name(status: HTTPStatus) -> str:
    return status.name.title().replace("_", "")
