"""The injector's second site, plain HTTP: probes of the kubelet, and numbers for Prometheus."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from proxy.kube.metrics import Metrics

_TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"


def health_app(unready: Callable[[], Sequence[str]], metrics: Metrics) -> web.Application:
    """Return what is served there. `unready` says why reviews cannot be answered, in a sentence each."""

    async def alive(_: web.Request) -> web.Response:
        """Say that the loop turns."""
        return _json({"alive": True}, HTTPStatus.OK)

    async def ready(_: web.Request) -> web.Response:
        """Say whether reviews can be answered, and if not, why."""
        reasons = list(unready())
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return _json({"ready": not reasons, "reasons": reasons}, status)

    async def numbers(_: web.Request) -> web.Response:
        """Show the metrics."""
        return web.Response(body=metrics.render(), headers={"Content-Type": _TEXT_FORMAT})

    app = web.Application(client_max_size=1024)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", numbers)
    return app


def _json(value: object, status: HTTPStatus) -> web.Response:
    return web.Response(body=json.dumps(value).encode(), content_type="application/json", status=status)
