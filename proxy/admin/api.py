"""The control API, served with aiohttp: the table of `endpoints`, and who answers for each of its rows."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from proxy.admin.answers import explaining, json_answer
from proxy.admin.asked import Asked, query_of
from proxy.admin.budgets_api import Budgets
from proxy.admin.control import Control
from proxy.admin.endpoints import TABLE, Endpoint
from proxy.admin.guard import guard
from proxy.admin.views import policy_view
from proxy.admin.writes_api import Writes

_LARGEST_BODY: Final = 4096
_IDLE_S: Final = 30.0  # also how long a request's head may take to arrive
_LINGER_S: Final = 1.0  # for the rest of a body that nobody wants
_CLOSE_WITHIN_S: Final = 1.0

# What aiohttp reports by itself is bytes that are no request. Faults of ours are reported by `answers.explaining`.
_http_log: Final = logging.getLogger("waterclock.admin.http")
_http_log.setLevel(logging.CRITICAL)

_Answering = Callable[[web.Request, Asked], Awaitable[web.Response]]


async def start(control: Control, wall_ms: Callable[[], int]) -> web.AppRunner:
    """Start serving; who accepts connections is another's matter."""
    runner = web.AppRunner(
        _application(control, wall_ms),
        access_log=None,
        logger=_http_log,
        keepalive_timeout=_IDLE_S,
        lingering_time=_LINGER_S,
        shutdown_timeout=_CLOSE_WITHIN_S,
    )
    await runner.setup()
    return runner


def _application(control: Control, wall_ms: Callable[[], int]) -> web.Application:
    answering = _answering(control, wall_ms)
    app = web.Application(middlewares=[explaining, guard], client_max_size=_LARGEST_BODY)
    for row in TABLE:
        app.router.add_route(row.method, row.path, _handler(row, answering[row.name]))
    return app


def _answering(control: Control, wall_ms: Callable[[], int]) -> Mapping[str, _Answering]:
    """Return who answers, by the names of the table."""
    budgets = Budgets(control, wall_ms)
    writes = Writes(control, wall_ms)

    async def index(_: web.Request, __: Asked) -> web.Response:
        shown = [{"method": row.method, "path": row.path, "says": row.says} for row in TABLE]
        return await json_answer({"endpoints": shown})

    async def config(_: web.Request, __: Asked) -> web.Response:
        return await json_answer(policy_view(control.policy()))

    async def openapi(_: web.Request, __: Asked) -> web.Response:
        from proxy.admin.openapi import document

        return await json_answer(document())

    return {
        "index": index,
        "listBudgets": budgets.all,
        "getBudget": budgets.one,
        "getTimeline": budgets.timeline,
        "closeBudget": budgets.close,
        "listUncertain": writes.all,
        "getUncertain": writes.one,
        "resolveUncertain": writes.resolve,
        "listDeadLetters": writes.dead_letters,
        "getDeadLetter": writes.dead_letter,
        "releaseDeadLetter": writes.release,
        "discardDeadLetter": writes.discard,
        "getConfig": config,
        "getOpenapi": openapi,
    }


def _handler(row: Endpoint, answer: _Answering) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await answer(request, query_of(row, request))

    return handle
