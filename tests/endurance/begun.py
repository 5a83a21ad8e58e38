"""Calls that are under way, and what a sidecar says of itself meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.support.callers import Answer, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Upstream
from tests.support.waiting import eventually


def begun(
    threads: ThreadPoolExecutor,
    sidecar: Sidecar,
    upstream: Upstream,
    method: str,
    path: str,
    behaviour: Behaviour,
) -> Future[Answer]:
    """A call that the server has, and works on."""
    upstream.on(path, behaviour)
    body = b"{}" if method == "POST" else b""
    future = threads.submit(call, sidecar, method, upstream.url(path), body=body)
    upstream.wait(lambda up: up.seen(path))
    return future


def once(gate: threading.Event, then: Behaviour) -> Behaviour:
    """Read the request whole, and go on when the test says so."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        while not gate.is_set():
            await exchange.sleep(0.005)
        await then(exchange)

    return behave


def told(sidecar: Sidecar, name: str, count: int = 1) -> dict[str, Any]:
    """The `count`-th event of this name, waited for."""

    def found() -> dict[str, Any] | None:
        events = [event for event in sidecar.events if event["event"] == name]
        return events[count - 1] if len(events) >= count else None

    names = [event["event"] for event in sidecar.events]
    event = eventually(found, what=f"{count} events {name} among {names}")
    assert event is not None
    return event


def warned(sidecar: Sidecar, words: str) -> dict[str, Any]:
    """The event `log` with these words, waited for. It was expected, and counts as no fault any more."""

    def found() -> dict[str, Any] | None:
        logged = [event for event in sidecar.events if event["event"] == "log" and words in event["message"]]
        return logged[0] if logged else None

    event = eventually(found, what=f"{words!r} in the log")
    assert event is not None
    sidecar.events.remove(event)
    return event
