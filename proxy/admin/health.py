"""The metrics port: numbers for Prometheus, and the probes of the kubelet. It is open to the cluster and only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from proxy.admin.aside import aside
from proxy.admin.plain import PlainSite, Reply
from proxy.admin.problems import as_json
from proxy.observe.metrics import Metrics
from proxy.wire.events import RequestHead

if TYPE_CHECKING:
    from proxy.observe.exposition import Exposition


class Health(Protocol):
    """Who knows whether calls can be sent through the sidecar."""

    def unready(self) -> Sequence[str]:
        """Return why not, in a sentence each (a listener is not up, the sidecar is draining); nothing when they can."""


def health_app(health: Health, metrics: Metrics) -> PlainSite:
    """Return what is served on the metrics port."""
    pages = _Pages(health, metrics)
    return PlainSite({"/metrics": pages.metrics, "/healthz": pages.alive, "/readyz": pages.ready})


class _Pages:
    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics
        self._exposition: Exposition | None = None

    async def alive(self, _: RequestHead) -> Reply:
        """Say that the loop turns."""
        return Reply(as_json({"alive": True}), "application/json")

    async def ready(self, _: RequestHead) -> Reply:
        """Say whether calls can be sent, and if not, why."""
        reasons = list(self._health.unready())
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return Reply(as_json({"ready": not reasons, "reasons": reasons}), "application/json", status)

    async def metrics(self, head: RequestHead) -> Reply:
        """Show the numbers, family by family: a scrape takes milliseconds, and calls must not wait for all of them."""
        if self._exposition is None:
            self._exposition = await aside(self._load)
        await self._metrics.refresh()
        accept = head.get(b"accept") or b""
        text, content_type = self._exposition.render(accept.decode("latin-1"))
        parts = []
        for part in text:
            parts.append(part)
            await asyncio.sleep(0)
        return Reply(b"".join(parts), content_type)

    def _load(self) -> Exposition:
        from proxy.observe.exposition import Exposition

        return Exposition(self._metrics)
