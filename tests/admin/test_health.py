"""The metrics port: probes and scrapes, asked over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from proxy.admin.health import health_app
from proxy.admin.server import Listening
from proxy.observe.metrics import Metrics
from tests.admin.asking import ask, served
from tests.observe.records import plain


class Sidecar:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def unready(self) -> Sequence[str]:
        return self.reasons


@pytest.fixture
def sidecar() -> Sidecar:
    return Sidecar()


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics()
    metrics.step(plain())
    return metrics


@pytest.fixture
async def at(sidecar: Sidecar, metrics: Metrics) -> AsyncIterator[Listening]:
    async with served(health_app(sidecar, metrics)) as listening:
        yield listening


async def test_alive_whatever_else(at: Listening, sidecar: Sidecar) -> None:
    """Draining is no reason to be killed."""
    sidecar.reasons = ["It is draining."]
    answer = await ask(at, "/healthz")
    assert (answer.status, answer.json) == (200, {"alive": True})


async def test_ready_follows_the_sidecar(at: Listening, sidecar: Sidecar) -> None:
    """At once, in both directions, with the reasons."""
    sidecar.reasons = ["The outbound port is not open yet."]
    answer = await ask(at, "/readyz")
    assert (answer.status, answer.json) == (503, {"ready": False, "reasons": sidecar.reasons})
    sidecar.reasons = []
    answer = await ask(at, "/readyz")
    assert (answer.status, answer.json) == (200, {"ready": True, "reasons": []})
    assert answer.headers["content-type"].startswith("application/json")


async def test_kubelet_asks_by_address_and_may_use_head(at: Listening) -> None:
    """A probe's Host is the pod's address, and nothing here is for the loopback only."""
    assert (await ask(at, "/readyz", host="10.1.2.3:10803")).status == 200
    answer = await ask(at, "/healthz", "HEAD")
    assert (answer.status, answer.body) == (200, b"")


async def test_scrape_is_of_the_moment(at: Listening, metrics: Metrics) -> None:
    """A step that has ended is in the next scrape."""
    line = 'waterclock_steps_total{effect="none",kind="read",outcome="completed",route="orders"} %d.0\n'
    answer = await ask(at, "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert line % 1 in answer.body.decode()
    metrics.step(plain())
    assert line % 2 in (await ask(at, "/metrics")).body.decode()


async def test_scrape_in_the_format_asked_for(at: Listening) -> None:
    """What Prometheus sends since version 2.5."""
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    answer = await ask(at, "/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith(
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    )
    families = {family.name for family in parse_openmetrics(answer.body.decode())}
    assert {"waterclock_steps", "waterclock_step_duration_seconds"} <= families


async def test_scrape_lets_calls_through(metrics: Metrics, sidecar: Sidecar) -> None:
    """With as many routes as there can be a scrape takes a while, and the loop turns all the while."""
    for number in range(200):
        metrics.step(plain(route=f"r{number}"))
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with served(health_app(sidecar, metrics)) as at, asyncio.TaskGroup() as group:
        turning = group.create_task(turn())
        before = turns
        answer = await ask(at, "/metrics")
        turning.cancel()
    assert answer.body.count(b"\n") > 8000
    assert turns - before > 15


async def test_nothing_else_is_there(at: Listening) -> None:
    """The control API is not on this port."""
    answer = await ask(at, "/uncertain")
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (404, "application/problem+json")
    assert "/metrics" in answer.json["remedy"]
    assert (await ask(at, "/readyz", "POST", body=b"x" * 100)).status == 405
