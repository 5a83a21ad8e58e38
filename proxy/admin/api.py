"""The endpoints of the control API, over aiohttp. Each is a row of one table, which `GET /` shows."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from proxy.admin.control import Control
from proxy.admin.guard import guard
from proxy.admin.problems import PROBLEM_JSON, Problem, as_json, log, own_fault
from proxy.admin.views import policy_view, write_view
from proxy.core.writes import WriteRecord, WriteState, WrongTransition
from proxy.store.errors import JournalError

_MOST_LISTED: Final = 500
_LARGEST_BODY: Final = 4096
_BODY_WITHIN_S: Final = 5.0
_IDLE_S: Final = 30.0  # also how long a request's head may take to arrive
_LINGER_S: Final = 1.0  # for the rest of a body that nobody wants
_CLOSE_WITHIN_S: Final = 1.0
_RESOLVED: Final = {True: WriteState.APPLIED, False: WriteState.NOT_APPLIED}

# What aiohttp reports by itself is bytes that are no request. Faults of ours are reported by `_explaining`.
_http_log: Final = logging.getLogger("waterclock.admin.http")
_http_log.setLevel(logging.CRITICAL)


class Endpoint(NamedTuple):
    """A row of the table."""

    method: str
    path: str
    handler: Handler
    says: str


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
    endpoints: list[Endpoint] = []

    async def index(_: web.Request) -> web.Response:
        shown = [{"method": row.method, "path": row.path, "says": row.says} for row in endpoints]
        return _json({"endpoints": shown})

    async def config(_: web.Request) -> web.Response:
        return _json(policy_view(control.policy()))

    writes = _Writes(control, wall_ms)
    one = "/uncertain/{id}"
    endpoints += [
        Endpoint("GET", "/", index, "this list"),
        Endpoint("GET", "/config", config, "the policy in force, secrets hidden"),
        Endpoint(
            "GET",
            "/uncertain",
            writes.all,
            "writes of unknown effect, the oldest first; ?state= for one state",
        ),
        Endpoint("GET", one, writes.one, "one of them, with its late answer"),
        Endpoint("POST", f"{one}/resolve", writes.resolve, 'take what was found: {"applied": true | false}'),
    ]
    app = web.Application(middlewares=[_explaining, guard], client_max_size=_LARGEST_BODY)
    for row in endpoints:
        app.router.add_route(row.method, row.path, row.handler)
    return app


class _Writes:
    """The writes that somebody has to look after."""

    def __init__(self, control: Control, wall_ms: Callable[[], int]) -> None:
        self._control = control
        self._wall_ms = wall_ms
        self._resolving = asyncio.Lock()

    async def all(self, request: web.Request) -> web.Response:
        """List records, without the bodies of late answers, which can be large together."""
        records = self._control.writes.listed()
        pending = sum(record.state is WriteState.UNCERTAIN for record in records)
        state = request.query.get("state")
        if state is not None:
            wanted = _state(state)
            records = [record for record in records if record.state is wanted]
        now = self._wall_ms()
        shown = [write_view(record, now, body=False) for record in records[:_MOST_LISTED]]
        return _json({"uncertain": pending, "total": len(records), "writes": shown})

    async def one(self, request: web.Request) -> web.Response:
        """Show one record."""
        return _json(write_view(self._found(request), self._wall_ms()))

    async def resolve(self, request: web.Request) -> web.Response:
        """Take a verdict. The same verdict again changes nothing and is no error, so that it can be repeated."""
        applied = await _verdict(request)
        async with self._resolving:  # of two people who disagree, the second is told
            record = self._found(request)
            if record.state is not _RESOLVED[applied]:
                record = await self._resolve(record.id, applied)
        return _json(write_view(record, self._wall_ms()))

    async def _resolve(self, id: str, applied: bool) -> WriteRecord:
        try:
            return await self._control.resolve(id, applied)
        except KeyError:
            raise _unknown(id) from None
        except WrongTransition as wrong:
            raise _settled(id, wrong.state) from None
        except JournalError as error:
            detail = f"The verdict could not be kept: {error.problem}."
            remedy = f"{error.remedy}; then send it again."
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, remedy) from None

    def _found(self, request: web.Request) -> WriteRecord:
        id = request.match_info["id"]
        record = self._control.writes.get(id)
        if record is None:
            raise _unknown(id)
        return record


def _state(text: str) -> WriteState:
    try:
        return WriteState(text)
    except ValueError:
        remedy = f"Use one of: {', '.join(WriteState)}."
        raise Problem(HTTPStatus.BAD_REQUEST, f"{text!r} is no state of a write.", remedy) from None


async def _verdict(request: web.Request) -> bool:
    """Read `{"applied": true | false}`, and nothing that only looks like it: a verdict cannot be taken back."""
    try:
        async with asyncio.timeout(_BODY_WITHIN_S):
            body = json.loads(await request.read())
    except TimeoutError:
        detail = "The body did not come in time."
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, detail, "Send it again, in one go.") from None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or body.keys() != {"applied"} or not isinstance(body["applied"], bool):
        detail = "The body does not say whether the write was applied."
        remedy = 'Send {"applied": true} if it happened, {"applied": false} if it did not.'
        raise Problem(HTTPStatus.BAD_REQUEST, detail, remedy)
    return body["applied"]


def _unknown(id: str) -> Problem:
    detail = f"There is no record {id!r}. A write that was answered leaves none, and others go after journal.retention."
    return Problem(HTTPStatus.NOT_FOUND, detail, "GET /uncertain lists the records there are.")


def _settled(id: str, state: WriteState) -> Problem:
    if state is WriteState.INTENT:
        detail = f"The write {id} is still under way."
        return Problem(HTTPStatus.CONFLICT, detail, "Wait for its answer or its cut, then look at it again.")
    detail = f"The write {id} is settled already, as {state}."
    return Problem(HTTPStatus.CONFLICT, detail, f"GET /uncertain/{id} shows what is known of it.")


# ------------------------------------------------------------------------------------------------- answers


@web.middleware
async def _explaining(request: web.Request, handler: Handler) -> web.StreamResponse:
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


def _json(document: Any) -> web.Response:
    return web.Response(body=as_json(document), content_type="application/json")
