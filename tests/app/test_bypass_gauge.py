"""The gauge between scrapes: how often it looks, what it says when it cannot, and when it speaks."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.app.bypass_gauge import BypassGauge
from proxy.app.gauges import watch_bypasses
from proxy.core.units import MINUTE, SECOND
from proxy.net.bypass import Bypasses
from proxy.net.tcp_table import Socket
from proxy.observe.metrics import Metrics


class Watch:
    """Sees what it is told to see."""

    def __init__(self) -> None:
        self.looks = 0
        self.sees: Bypasses | OSError | None = Bypasses(frozenset(), 0)

    def look(self) -> Bypasses | None:
        self.looks += 1
        if isinstance(self.sees, OSError):
            raise self.sees
        return self.sees


class Log:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def event(self, name: str, /, **fields: Any) -> None:
        self.events.append((name, fields))


class Scene:
    """A gauge whose clock stands still until somebody moves it."""

    def __init__(self, *, speaks: bool = True) -> None:
        self.now = 5 * SECOND
        self.watch = Watch()
        self.log = Log()
        self.metrics = Metrics()
        log: Any = self.log if speaks else None
        gauge = BypassGauge(self.watch, log, lambda: self.now)  # type: ignore[arg-type]
        watch_bypasses(self.metrics, gauge)

    async def scrape(self) -> dict[str, Any]:
        """What a scrape shows of the family, and how many sources have failed."""
        await self.metrics.refresh()
        found = {sampled.family.name: sampled.values for sampled in self.metrics.collect()}
        shown = {labels[0]: value for labels, value in found["waterclock_bypass_connections"].items()}
        return shown | {"failures": found["waterclock_metrics_source_failures_total"][()]}


def leaks(count: int) -> Bypasses:
    ends = (b"%08X" % number for number in range(count))
    return Bypasses(
        frozenset(Socket(b"0200080A", b"9C40", end, b"01BB", b"01", b"1000", b"7") for end in ends), 3
    )


async def test_a_look_is_good_for_a_second() -> None:
    """However many scrape: the kernel is asked once."""
    scene = Scene()
    for _ in range(3):
        assert await scene.scrape() == {"unexpected": 0, "excluded": 0, "failures": 0}
    assert scene.watch.looks == 1
    scene.watch.sees = leaks(2)
    scene.now += SECOND - 1
    assert (await scene.scrape())["unexpected"] == 0
    scene.now += 1
    assert await scene.scrape() == {"unexpected": 2, "excluded": 3, "failures": 0}
    assert scene.watch.looks == 2


async def test_where_it_cannot_be_known_there_is_no_series() -> None:
    """As on a machine that is no Linux."""
    scene = Scene()
    scene.watch.sees = None
    assert await scene.scrape() == {"failures": 0}


async def test_a_look_that_fails_hides_nothing_else() -> None:
    """It is counted, the old number is not shown any more, and the next one may succeed."""
    scene = Scene()
    await scene.scrape()
    scene.now += SECOND
    scene.watch.sees = PermissionError(13, "Permission denied")
    assert await scene.scrape() == {"failures": 1}
    scene.now += SECOND
    scene.watch.sees = leaks(0)
    assert await scene.scrape() == {"unexpected": 0, "excluded": 3, "failures": 1}


async def test_leaks_are_told_once_a_minute() -> None:
    """With some of the places that they lead to; nothing is said while there are none."""
    scene = Scene()
    await scene.scrape()
    assert not scene.log.events
    scene.watch.sees = leaks(8)
    for _ in range(3):
        scene.now += 29 * SECOND
        await scene.scrape()
    assert len(scene.log.events) == 1
    name, fields = scene.log.events[0]
    assert (name, fields["connections"], len(fields["remotes"])) == ("bypass_seen", 8, 5)
    scene.now += MINUTE
    await scene.scrape()
    assert len(scene.log.events) == 2


@pytest.mark.parametrize("speaks", [True, False])
async def test_outside_of_a_pod_it_keeps_silent(speaks: bool) -> None:
    """There, what other programs do is nobody's leak; the number is shown all the same."""
    scene = Scene(speaks=speaks)
    scene.watch.sees = leaks(1)
    assert (await scene.scrape())["unexpected"] == 1
    assert bool(scene.log.events) is speaks
