"""What is served: `POST /v1/find` and `POST /v1/keep` for sidecars, `GET /healthz`, `/readyz` and `/metrics` for the cluster.

    find  {"partition", "text", "threshold"}          -> {"found": true, "entry", "age_ms", "similarity", "text"}
                                                      -> {"found": false, "nearest", "why"}
    keep  {"partition", "text", "entry", "keep_ms"}   -> 204; 413 for an answer that is too large to be kept

Whatever arrives is answered. What is wrong with a request is said in a problem document (RFC 9457).
"""

from __future__ import annotations

import asyncio
import base64
import json
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

from aiohttp import web

from proxy.config.faults import visible
from proxy.core.units import SECOND, whole_ms
from proxy.semantic.embeddings import EmbeddingsFailed
from proxy.semantic.metrics import Metrics
from proxy.semantic.problems import Problem
from proxy.semantic.requests import MOST_BODY, MOST_FIND, read_find, read_keep
from proxy.semantic.service import Found, Service
from proxy.semantic.worker import Busy

MOST_AT_ONCE: Final = 4 * MOST_BODY
"""How many bytes of bodies may be in the making at one time."""
BODY_SECONDS: Final = 5.0
_DEFAULT_BODY: Final = 65_536
_TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Log(Protocol):
    """Takes an event's name, and what is known of it."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Write a line."""


@dataclass(frozen=True, slots=True)
class Means:
    """What is served with. `unready`: why questions cannot be answered, in a sentence each. `clock`: monotonic nanoseconds."""

    service: Service
    metrics: Metrics
    log: Log
    unready: Callable[[], Sequence[str]]
    clock: Callable[[], int]


def api_app(means: Means) -> web.Application:
    """Return what is served."""
    api = _Api(means)
    app = web.Application(client_max_size=MOST_BODY, middlewares=[_problems(means)])
    app.router.add_post("/v1/find", api.find)
    app.router.add_post("/v1/keep", api.keep)
    app.router.add_get("/healthz", api.alive)
    app.router.add_get("/readyz", api.ready)
    app.router.add_get("/metrics", api.numbers)
    return app


class _Api:
    def __init__(self, means: Means) -> None:
        self._service = means.service
        self._metrics = means.metrics
        self._unready = means.unready
        self._clock = means.clock
        self._bodies = _Bodies()

    async def find(self, request: web.Request) -> web.Response:
        """Look for an answer to what means the same."""
        asked = read_find(await self._bodies.read(request, MOST_FIND))
        begun = self._clock()
        try:
            found = await self._service.find(asked.partition, asked.text, asked.threshold)
        except (EmbeddingsFailed, Busy):
            self._metrics.finds.labels("failed", "").inc()
            raise
        self._metrics.find_seconds.observe((self._clock() - begun) / SECOND)
        if not isinstance(found, Found):
            self._metrics.finds.labels("missed", found.why).inc()
            return _json({"found": False, "nearest": found.nearest, "why": found.why})
        self._metrics.finds.labels("found", "").inc()
        return _json(
            {
                "found": True,
                "entry": base64.b64encode(found.entry).decode(),
                "age_ms": whole_ms(found.age),
                "similarity": found.similarity,
                "text": found.text,
            }
        )

    async def keep(self, request: web.Request) -> web.Response:
        """Keep an answer."""
        asked = read_keep(await self._bodies.read(request, MOST_BODY))
        try:
            kept = await self._service.keep(asked.partition, asked.text, asked.entry, asked.span)
        except (EmbeddingsFailed, Busy):
            self._metrics.keeps.labels("failed").inc()
            raise
        self._metrics.keeps.labels("kept" if kept else "refused").inc()
        if not kept:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "The answer is larger than one partition's share, or its text has no words.",
                "Nothing has to be done: it is not kept. Raise --bytes to keep larger ones.",
            )
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def alive(self, _: web.Request) -> web.Response:
        """Say that the loop turns."""
        return _json({"alive": True})

    async def ready(self, _: web.Request) -> web.Response:
        """Say whether questions can be answered, and if not, why."""
        reasons = list(self._unready())
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return _json({"ready": not reasons, "reasons": reasons}, status)

    async def numbers(self, _: web.Request) -> web.Response:
        """Show the metrics."""
        return web.Response(body=self._metrics.render(), headers={"Content-Type": _TEXT_FORMAT})


class _Bodies:
    """Reads bodies, within bounds: of each, of all that are being read, and of the time that one may take."""

    def __init__(self) -> None:
        self._bytes = 0

    async def read(self, request: web.Request, most: int) -> bytes:
        """Return the body, of so many bytes at most. Raises Problem."""
        if request.content_type != "application/json":
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"The content type is {visible(request.content_type)}.",
                "Send application/json.",
            )
        size = request.content_length
        if size is None:
            raise Problem(
                HTTPStatus.LENGTH_REQUIRED, "The length of the body is not stated.", "Send Content-Length."
            )
        if size > most:
            raise _too_large(most)
        if self._bytes + size > MOST_AT_ONCE:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "Too much is being read at once.", "Send it again.")
        self._bytes += size
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await request.read()
        except TimeoutError:
            detail = f"The body was not there within {BODY_SECONDS:g} s."
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, detail, "Send it at once.") from None
        finally:
            self._bytes -= size


def _too_large(most: int) -> Problem:
    return Problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The body is longer than {most} bytes.",
        "Lower cache.entry_bytes in the sidecar's policy."
        if most == MOST_BODY
        else "Send a shorter text: longer ones are not compared.",
    )


def _json(value: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(body=json.dumps(value).encode(), content_type="application/json", status=status)


_OTHERS: Final = {
    HTTPStatus.NOT_FOUND: (
        "There is nothing under this path.",
        "The paths are /v1/find, /v1/keep, /healthz, /readyz and /metrics.",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "This path is not asked so.",
        "Send POST to /v1/find and /v1/keep, GET to the others.",
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (
        "The body is too long.",
        "Lower cache.entry_bytes in the sidecar's policy.",
    ),
}


def _problems(means: Means) -> Any:
    """Return the middleware that answers every error as a problem, and lets go of clients while draining."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except (Problem, EmbeddingsFailed, Busy, web.HTTPException) as error:
            response = _answer(error)
        except Exception as error:  # noqa: BLE001 - a fault of ours is an answer too
            exception = "".join(traceback.format_exception(error))
            means.log.event("request_failed", path=visible(request.path), exception=exception)
            response = Problem(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "A fault of the service's own.",
                "Look for the event request_failed in its log, and report what it says.",
            ).response()
        if response.status >= HTTPStatus.BAD_REQUEST and request.path.startswith("/v1/"):
            means.metrics.problems.labels(str(response.status)).inc()
        if means.unready():
            response.force_close()
        return response

    return middleware


def _answer(error: Exception) -> web.Response:
    if isinstance(error, Problem):
        return error.response()
    if isinstance(error, EmbeddingsFailed):
        return Problem(
            HTTPStatus.BAD_GATEWAY, f"There are no embeddings: {error}.", "See to where they come from."
        ).response()
    if isinstance(error, Busy):
        return Problem(
            HTTPStatus.SERVICE_UNAVAILABLE, f"The service is busy: {error}.", "Ask again in a second."
        ).response()
    assert isinstance(error, web.HTTPException)
    status = HTTPStatus(error.status)
    detail, remedy = _OTHERS.get(status, (status.description or status.phrase, "Send another request."))
    response = Problem(status, detail, remedy).response()
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
