"""How the control API answers: JSON in pieces, so that no call waits for a long one, and every error explained."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from proxy.admin.problems import PROBLEM_JSON, Problem, log, own_fault

_ENCODER: Final = json.JSONEncoder(indent=2)
_PIECES: Final = 1000  # of text, between two turns of the loop: well under a millisecond


async def json_answer(document: Any) -> web.Response:
    """Answer with a document, which nobody changes any more."""
    parts: list[str] = []
    for part in _ENCODER.iterencode(document):
        parts.append(part)
        if len(parts) % _PIECES == 0:
            await asyncio.sleep(0)
    parts.append("\n")
    return web.Response(body="".join(parts).encode(), content_type="application/json")


@web.middleware
async def explaining(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors."""
    try:
        return await handler(request)
    except Problem as problem:
        return _answer(problem)
    except web.HTTPException as error:
        return _of_aiohttp(error, request)
    except Exception:  # noqa: BLE001 - reported here, and answered like any other error
        log.exception("%s %s failed", request.method, request.path)
        return _answer(own_fault())


def _of_aiohttp(error: web.HTTPException, request: web.Request) -> web.StreamResponse:
    """Answer what aiohttp finds wrong with a request."""
    status = HTTPStatus(error.status)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        problem = Problem(status, f"{request.path} does not take {request.method}.", f"Use {allowed}.")
        return _answer(problem, {"Allow": allowed})
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return _answer(Problem(status, "The body is too large.", "Send only what the endpoint asks for."))
    what = f"There is nothing at {request.path}." if status is HTTPStatus.NOT_FOUND else status.description
    return _answer(Problem(status, what or status.phrase, "GET / lists what there is."))


def _answer(problem: Problem, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=problem.body(), status=problem.status, content_type=PROBLEM_JSON, headers=headers
    )
