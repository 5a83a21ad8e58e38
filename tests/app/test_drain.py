"""The drain: it lasts until nothing is in flight, whoever has come in at the last moment."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from proxy.app.sidecar import Sidecar
from proxy.core.units import SECOND


class Log:
    """Nobody reads it."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Take a line."""


def _plane() -> Any:
    return SimpleNamespace(
        in_flight=1,
        lingering=set(),
        quiet=asyncio.Event(),
        policy=SimpleNamespace(grace=30 * SECOND),
        drain=lambda: None,
    )


async def test_a_call_that_begins_when_it_has_just_become_quiet_has_its_time_too() -> None:
    """Between the last end and the turn in which the drain hears of it, the ports are open still."""
    sidecar = Sidecar(None, log=cast(Any, Log()))
    plane = sidecar._plane = _plane()
    drain = asyncio.ensure_future(sidecar._drain())
    await asyncio.sleep(0)
    plane.in_flight = 0
    plane.quiet.set()
    plane.in_flight = 1  # another one, before the drain has heard
    for _ in range(5):
        await asyncio.sleep(0)
    assert not drain.done()
    plane.in_flight = 0
    plane.quiet.set()
    await drain
