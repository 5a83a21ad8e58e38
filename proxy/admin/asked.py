"""What a request asks for, read strictly: nothing is guessed, and what is not understood is not passed over."""

from __future__ import annotations

import asyncio
import json
import re
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from proxy.admin.endpoints import Endpoint, Query
from proxy.admin.problems import Problem
from proxy.core.exact_json import no_name_twice

Asked = dict[str, Any]
"""The parameters of a query, by name."""

BODY_WITHIN_S: Final = 5.0
_NUMBER: Final = re.compile(r"[0-9]{1,9}\Z")


def query_of(row: Endpoint, request: web.Request) -> Asked:
    """Return the parameters that a request gives, as the table describes them, with their defaults."""
    known = {each.name: each for each in row.query}
    asked: Asked = {each.name: each.schema.get("default") for each in row.query}
    for name, text in request.query.items():
        if name not in known:
            takes = f"It takes {', '.join(known)}." if known else "It takes none."
            raise _malformed(f"{row.path} has no parameter {name!r}.", takes)
        if len(request.query.getall(name)) > 1:
            raise _malformed(f"The parameter {name!r} is given more than once.", "Give it once.")
        asked[name] = _value(known[name], text)
    return asked


def _value(parameter: Query, text: str) -> str | int:
    schema = parameter.schema
    if "enum" in schema:
        if text not in schema["enum"]:
            remedy = f"Use one of: {', '.join(schema['enum'])}."
            raise _malformed(f"{text!r} is no {parameter.name} that is known here.", remedy)
        return text
    least, most = schema["minimum"], schema["maximum"]
    if not _NUMBER.match(text) or not least <= int(text) <= most:
        raise _malformed(f"{text!r} is no {parameter.name}.", f"Use a whole number from {least} to {most}.")
    return int(text)


async def verdict_of(request: web.Request) -> bool:
    """Read `{"applied": true | false}`, and nothing that only looks like it: a verdict cannot be taken back."""
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            body = json.loads(await request.read(), object_pairs_hook=no_name_twice)
    except TimeoutError:
        detail = "The body did not come in time."
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, detail, "Send it again, in one go.") from None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or body.keys() != {"applied"} or not isinstance(body["applied"], bool):
        detail = "The body does not say whether the write was applied."
        remedy = 'Send {"applied": true} if it happened, {"applied": false} if it did not.'
        raise _malformed(detail, remedy)
    return body["applied"]


def _malformed(detail: str, remedy: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, detail, remedy)
