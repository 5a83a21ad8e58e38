"""What the control API is asked: parameters and bodies are what the table allows, or a refusal with a remedy.

The first line of an input is a path and a query, the rest is a body.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from aiohttp import web
from multidict import MultiDict
from yarl import URL

from proxy.admin.asked import query_of, verdict_of
from proxy.admin.endpoints import TABLE
from proxy.admin.problems import Problem
from trials.fuzz.target import Seen, Target, gist, hold
from trials.fuzz.targets._loop import finished


class _Request:
    """As much of a request as is looked at."""

    def __init__(self, query: MultiDict[str], body: bytes) -> None:
        self.query = query
        self._body = body

    async def read(self) -> bytes:
        return self._body


def check(data: bytes) -> Seen:
    """Ask each endpoint with this query, and for a verdict with this body."""
    first, _, body = data.partition(b"\n")
    query = MultiDict(
        URL("/?" + first.decode("utf-8", "surrogateescape").replace("#", "%23"), encoded=True).query
    )
    request = cast(web.Request, _Request(query, body))
    seen: set[str] = set()
    for row in TABLE:
        known = {each.name: each for each in row.query}
        try:
            asked: dict[str, Any] = query_of(row, request)
        except Problem as problem:
            seen.add(f"refused: {_told(problem)}")
            continue
        hold(
            asked.keys() == known.keys() and set(query) <= known.keys(),
            "what-is-asked-is-known",
            asked,
            query,
        )
        for name, value in asked.items():
            schema = known[name].schema
            if name in query and "enum" in schema:
                hold(value in schema["enum"], "one-of-the-words", name, value)
            elif name in query:
                hold(schema["minimum"] <= value <= schema["maximum"], "within-its-range", name, value)
        seen.add(f"asked {' '.join(sorted(set(query)))}")
    try:
        verdict = finished(verdict_of(request))
    except Problem as problem:
        return seen | {f"verdict refused: {_told(problem)}"}
    members = json.loads(body, object_pairs_hook=list)
    hold(members == [("applied", verdict)] and isinstance(verdict, bool), "a-verdict-is-said-once", body)
    return seen | {f"verdict {verdict}"}


def _told(problem: Problem) -> str:
    hold(400 <= problem.status < 500 and str(problem), "a-refusal-is-the-client-s", problem)
    return gist(str(problem))


TARGET: Final = Target(
    "control",
    "what the control API is asked: parameters within their table, a verdict that is one, or a refusal with a remedy",
    check,
    tokens=(
        b"state=all",
        b"state=open",
        b"limit=10",
        b"limit=-1",
        b"limit=0010",
        b"limit=%D9%A3",
        b"offset=1",
        b"after=",
        b"&",
        b"=",
        b"%00",
        b"%ff",
        b"+",
        b'\n{"applied":true}',
        b'\n{"applied": false}',
        b'"applied":1',
        b'"applied":null',
        b'"\\u0061pplied":true',
        b'"applied":true,"applied":false',
        b"\xef\xbb\xbf",
        b"[" * 64,
        b"\n",
    ),
)
