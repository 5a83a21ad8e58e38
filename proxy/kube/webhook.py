"""The webhook: `POST /mutate` for the API server, `POST /explain` for people.

Whatever arrives is answered. A body that is no review gets an HTTP error as `application/problem+json` (RFC 9457).
A fault of the injector's own must not keep pods from being created where the platform wants them created
(`failurePolicy: Ignore`): then the pod is let through, with a warning. Where it wants none without a sidecar (`Fail`),
the answer is an error, and the API server does as it was told.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from proxy.config.faults import visible
from proxy.core.units import MILLISECOND, SECOND
from proxy.kube.events import Events, happening
from proxy.kube.injection.decision import Decision, Reason, Verdict
from proxy.kube.injection.explain import as_object
from proxy.kube.injection.review import BadReview, ReviewRequest, answer, judge, read
from proxy.kube.injection.rule import decide
from proxy.kube.log import Log
from proxy.kube.metrics import Metrics
from proxy.kube.recent import Recent
from proxy.kube.settings import Settings
from proxy.kube.surroundings import Neighbourhood, Unknown
from proxy.kube.templates import Found, pods_in

LARGEST_BODY: Final = 8 * 1024 * 1024
"""The API server takes objects of 3 MiB at most; a review holds one, or two on an update."""
MOST_AT_ONCE: Final = 4 * LARGEST_BODY
BODY_SECONDS: Final = 5.0
NOT_REVIEWED: Final = "NotReviewed"
"""The reason of a pod that is let through without a look, for a fault of the injector's own."""
_MOST_PODS: Final = 500  # of one question to /explain

_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode


class Problem(Exception):
    """A request that is answered with an HTTP error."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        """`detail`: a sentence, with what helps."""
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Means:
    """What the webhook works with.

    `events` is None when none are wanted. `fails_closed`: whether pods are to be refused when they cannot be reviewed.
    `injected` is told the namespace of each pod that is injected. `draining`: whether clients are to go elsewhere.
    `clock`: monotonic nanoseconds.
    """

    settings: Settings
    neighbourhood: Neighbourhood
    metrics: Metrics
    log: Log
    events: Events | None
    fails_closed: Callable[[], bool]
    injected: Callable[[str], None]
    draining: Callable[[], bool]
    clock: Callable[[], int]


def webhook_app(means: Means) -> web.Application:
    """Return what is served over TLS."""
    webhook = _Webhook(means)
    app = web.Application(client_max_size=LARGEST_BODY, middlewares=[_problems(means)])
    app.router.add_post("/mutate", webhook.mutate)
    app.router.add_post("/explain", webhook.explain)
    return app


class _Webhook:
    def __init__(self, means: Means) -> None:
        self._means = means
        self._settings = means.settings
        self._metrics = means.metrics
        self._bodies = _Bodies()
        self._recent = Recent()

    # -- /mutate ---------------------------------------------------------------------------------------------------

    async def mutate(self, request: web.Request) -> web.Response:
        """Answer an AdmissionReview."""
        try:
            body = await self._bodies.read(request)
            begun = self._means.clock()
            review = read(body)
            if isinstance(review, BadReview):
                raise Problem(HTTPStatus(review.status), review.message)
        except Problem:
            self._metrics.reviews.labels("malformed", "BadRequest").inc()
            raise
        decision = await self._decided(review)
        said = _dumps(answer(review.uid, decision)).encode()
        took = self._means.clock() - begun
        self._metrics.review_duration.observe(took / SECOND)
        self._tell(review, decision, took)
        return web.Response(body=said, content_type="application/json")

    async def _decided(self, review: ReviewRequest) -> Decision:
        """Return what becomes of the pod. Raises Problem for a fault of ours, where such pods are to be refused."""
        try:
            around = await self._means.neighbourhood.around(review.namespace)
            decision = judge(review, around, self._settings)
            if decision.reason == Reason.NOT_REQUESTED:
                # The API server sends only pods that are asked for, so the namespace was labelled just now.
                around = await self._means.neighbourhood.around(review.namespace, afresh=True)
                decision = judge(review, around, self._settings)
        except Unknown as error:
            return self._failed(review, "Unknown", str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours must not keep pods from being created
            self._means.log.event(
                "review_failed", uid=review.uid, exception="".join(traceback.format_exception(error))
            )
            return self._failed(review, "Fault", f"{type(error).__name__}; the injector's log has more")
        self._metrics.reviews.labels(str(decision.verdict), str(decision.reason)).inc()
        return decision

    def _failed(self, review: ReviewRequest, reason: str, why: str) -> Decision:
        self._metrics.reviews.labels("error", reason).inc()
        message = f"The pod could not be reviewed: {why}."
        if self._means.fails_closed():
            self._means.log.event("review_refused", uid=review.uid, problem=message)
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, message)
        return Decision(Verdict.SKIPPED, NOT_REVIEWED, message, warnings=(f"{message} It has no sidecar.",))

    def _tell(self, review: ReviewRequest, decision: Decision, took: int) -> None:
        """Say what was decided: in the log, in an Event, and to whoever keeps the policies. None of it takes time."""
        self._means.log.event(
            "review",
            uid=visible(review.uid),
            namespace=visible(review.namespace),
            name=visible(review.name or _generated(review.object), 253),
            result=str(decision.verdict),
            reason=str(decision.reason),
            dry_run=review.dry_run,
            ms=round(took / MILLISECOND, 3),
        )
        if review.dry_run:
            return
        if decision.verdict is Verdict.INJECTED:
            self._means.injected(review.namespace)
        what = happening(review.object, review.namespace, review.name, decision)
        if what is None or self._means.events is None:
            return
        about, now = (what.namespace, what.name, what.uid), self._means.clock()
        if decision.verdict is Verdict.INJECTED:
            self._recent.note(about, now)
        elif decision.reason == Reason.ALREADY_INJECTED and self._recent.take(about, now):
            return
        self._means.events.tell(what)

    # -- /explain --------------------------------------------------------------------------------------------------

    async def explain(self, request: web.Request) -> web.Response:
        """Answer a pod, an object with a template of pods, a list, or an AdmissionReview with what would become of it."""
        try:
            value = json.loads(await self._bodies.read(request))
        except (ValueError, RecursionError) as error:
            problem = (
                f"The body is not JSON: {visible(str(error), 200)}. Send a pod: kubectl get pod NAME -o json."
            )
            raise Problem(HTTPStatus.BAD_REQUEST, problem) from None
        if not isinstance(value, Mapping):
            raise Problem(HTTPStatus.BAD_REQUEST, _WHAT_TO_ASK)
        try:
            if value.get("kind") == "AdmissionReview":
                return _json(await self._explained_review(value))
            found = list(pods_in(value))
            if not found:
                raise Problem(HTTPStatus.BAD_REQUEST, _WHAT_TO_ASK)
            if len(found) > _MOST_PODS:
                raise Problem(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Ask for at most {_MOST_PODS} pods at a time."
                )
            namespace = request.query.get("namespace", "")
            results = [await self._explained(each, namespace) for each in found]
        except Unknown as error:
            problem = f"{error}. Name a namespace that is there, by ?namespace=NAME."
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, problem) from None
        is_list = str(value["kind"]).endswith("List")
        return _json({"items": results} if is_list else results[0])

    async def _explained(self, found: Found, namespace: str) -> dict[str, Any]:
        namespace = namespace or found.namespace or "default"
        around = await self._means.neighbourhood.around(namespace)
        said = as_object(decide(found.pod, around, self._settings))
        return {"kind": found.kind, "namespace": namespace, "name": found.name, **said}

    async def _explained_review(self, value: Mapping[str, Any]) -> dict[str, Any]:
        review = read(value)
        if isinstance(review, BadReview):
            raise Problem(HTTPStatus.BAD_REQUEST, review.message)
        around = await self._means.neighbourhood.around(review.namespace)
        said = as_object(judge(review, around, self._settings))
        return {"kind": review.kind, "namespace": review.namespace, "name": review.name, **said}


_WHAT_TO_ASK: Final = "Send a Pod, an object that makes pods (a Deployment, a Job, ...), a List of them, or an AdmissionReview, as JSON."


class _Bodies:
    """Reads bodies, within bounds: of each, of all that are being read, and of the time that one may take."""

    def __init__(self) -> None:
        self._bytes = 0

    async def read(self, request: web.Request) -> bytes:
        """Return the body. Raises Problem."""
        if request.content_type != "application/json":
            sent = visible(request.content_type)
            detail = f"The content type is {sent}; send application/json."
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
        size = request.content_length if request.content_length is not None else LARGEST_BODY
        if size > LARGEST_BODY:
            raise _too_large()
        if self._bytes + size > MOST_AT_ONCE:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "Too much is being read at once; send it again.")
        self._bytes += size
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise _too_large() from None
        except TimeoutError:
            detail = f"The body was not there within {BODY_SECONDS:g} s."
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, detail) from None
        finally:
            self._bytes -= size


def _too_large() -> Problem:
    most = LARGEST_BODY // 1024 // 1024
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is larger than {most} MiB.")


def _generated(pod: Any) -> str:
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    name = metadata.get("generateName") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def _json(value: object) -> web.Response:
    return web.Response(body=_dumps(value).encode(), content_type="application/json")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _problems(means: Means) -> Any:
    """Return the middleware that answers every error as a problem, and lets go of clients while draining."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except Problem as problem:
            response = _problem(problem.status, problem.detail)
        except web.HTTPException as error:
            status = HTTPStatus(error.status)
            response = _problem(status, _DETAILS.get(status, status.description))
            response.headers.update(
                {name: error.headers[name] for name in ("Allow",) if name in error.headers}
            )
        except Exception as error:  # noqa: BLE001 - a fault of ours is an answer too
            means.log.event(
                "request_failed",
                path=visible(request.path),
                exception="".join(traceback.format_exception(error)),
            )
            response = _problem(
                HTTPStatus.INTERNAL_SERVER_ERROR, "A fault of the injector's own; its log has more."
            )
        if means.draining():
            response.force_close()
        return response

    return middleware


_DETAILS: Final = {
    HTTPStatus.NOT_FOUND: "The paths here are /mutate and /explain.",
    HTTPStatus.METHOD_NOT_ALLOWED: "Send a POST.",
}


def _problem(status: HTTPStatus, detail: str) -> web.Response:
    body = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    return web.Response(status=status, body=_dumps(body).encode(), content_type="application/problem+json")
