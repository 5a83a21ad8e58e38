"""How a proxy grows with its clients: from 1 to 10,000 kept connections, all of them busy.

`python -m bench growth`. Every point has a proxy and an upstream of its own, so that what is resident at 16 connections is
not what 10,000 have left behind. `figures` has what is made of it, and docs/performance.md what it means.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import part, report
from bench.builds import BUILDS, COMPILED, PURE
from bench.comparison.load import burst
from bench.comparison.relays import Far, verify
from bench.comparison.scenarios import Rounds, Scenario
from bench.growth.figures import DIRECT, Point, promises, table
from bench.machine import versions
from bench.peers.bare_aiohttp import BareAiohttp
from bench.peers.base import OWN_DESCRIPTORS, Peer, chosen, largest, room_for, side_by_side
from bench.peers.envoy import Envoy
from bench.peers.haproxy import HAProxy
from bench.peers.mitmproxy import Mitmproxy
from bench.peers.proxy_py import ProxyPy
from bench.peers.smokescreen import Smokescreen
from bench.peers.waterclock import Waterclock
from bench.procs import Cores, Failed, Missing, Running, file_limit, pinned, progress
from bench.settings import add_options, number, settings_of
from bench.upstream import nginx

RESULTS: Final = report.RESULTS / "growth.json"
COUNTS: Final = (1, 4, 16, 64, 256, 1_000, 4_000, 10_000)
SHORT_COUNTS: Final = (1, 64, 1_000)
SHORT_PEERS: Final = (PURE, "envoy")
MOST: Final = 20_000  # connections to the upstream that a proxy may hold
PATIENCE: Final = 30
SAMPLE_SECONDS: Final = 0.25

PEERS: Final[tuple[Peer, ...]] = (
    Waterclock(most=MOST),
    Waterclock(COMPILED, most=MOST),
    Envoy(most=MOST),
    HAProxy(most=MOST // 2 - OWN_DESCRIPTORS),
    Smokescreen(),
    BareAiohttp(),
    ProxyPy(),
    Mitmproxy(),
)


@dataclass(frozen=True)
class Setting:
    seconds: int = number(4, "under load at each point, and one more for every 2,000 connections")
    most: int = number(10_000, "connections at the last point")


SHORT: Final = {"seconds": 2, "most": 1_000}


def counts(setting: Setting, *, short: bool, descriptors: int) -> list[int]:
    """Return the numbers of connections, the last of which is what there are descriptors for."""
    wanted = SHORT_COUNTS if short else COUNTS
    return sorted({largest(min(count, setting.most), descriptors) for count in wanted})


# -- one point -----------------------------------------------------------------------------------------------------


class Peak:
    """The most memory that a process had while it was looked at."""

    def __init__(self, proxy: Running) -> None:
        self.bytes = 0
        self._proxy = proxy
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory")

    def _look(self) -> None:
        while True:
            self.bytes = max(self.bytes, self._proxy.rss_bytes())
            if self._over.wait(SAMPLE_SECONDS):
                return

    @contextmanager
    def watched(self) -> Iterator[Peak]:
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()


def scenario_of(connections: int, setting: Setting) -> Scenario:
    """Return the load of one point: the more connections, the longer, since all have to be opened first."""
    seconds = setting.seconds + connections // 2_000
    return Scenario(
        f"growth-{connections}",
        "GET, 100-byte answer",
        Rounds(1, seconds),
        connections=connections,
        patience=PATIENCE,
    )


def measure(peer: Peer | None, connections: int, setting: Setting, parent: Path, cores: Cores) -> Point:
    """Load one proxy, or the upstream itself. What it fails at is the point's `fault`. Raises Missing."""
    scenario = scenario_of(connections, setting)
    name = peer.name if peer else DIRECT
    room = room_for(parent, "nginx")
    upstream = nginx(room)
    with side_by_side(upstream, [peer] if peer else [], parent, cores) as standing:
        if standing.gaps:
            raise Missing(standing.gaps[0])
        proxy = standing.up[0] if standing.up else None
        try:
            verify(scenario, name, proxy.plan.port if proxy else upstream.port, Far(upstream.port, room))
            return _loaded(name, scenario, proxy, upstream.port, cores)
        except Failed as fault:
            return Point(name, connections, fault=str(fault).splitlines()[0])


def _loaded(name: str, scenario: Scenario, proxy: Running | None, upstream: int, cores: Cores) -> Point:
    run, seconds = f"{name}-{scenario.key}", scenario.full.seconds
    if proxy is None:
        seen = burst(scenario, upstream, upstream, run, seconds, cores.load)
        cost: dict[str, float] = {}
    else:
        idle, cpu, at = proxy.rss_bytes(), proxy.cpu_seconds(), time.monotonic()
        with Peak(proxy).watched() as peak:
            seen = burst(scenario, proxy.plan.port, upstream, run, seconds, cores.load)
        proxy.must_run()
        cpu, took = proxy.cpu_seconds() - cpu, time.monotonic() - at
        if not seen.requests:
            raise Failed(f"it answered nothing within {seconds} s")
        cost = {
            "cpu_us": cpu * 1e6 / seen.requests,
            "busy": cpu / took,
            "idle_bytes": idle,
            "peak_bytes": peak.bytes,
        }
    return Point(
        name,
        scenario.connections,
        seconds=seen.seconds,
        requests=seen.requests,
        p50_ms=seen.p50_us / 1000,
        p99_ms=seen.p99_us / 1000,
        refused=seen.refused,
        broken=seen.broken,
        **cost,  # type: ignore[arg-type]
    )


# -- all points ----------------------------------------------------------------------------------------------------


def grow(
    steps: Sequence[int], names: Sequence[str], setting: Setting, cores: Cores
) -> tuple[list[Point], list[str]]:
    """Return all points, and who is left out. All proxies are loaded with so many connections before any has more."""
    peers: list[Peer | None] = [None, *(peer for peer in PEERS if peer.name in names)]
    points: list[Point] = []
    gaps: list[str] = []
    with tempfile.TemporaryDirectory(prefix="waterclock-growth-") as folder, pinned(cores.load):
        for connections in steps:
            for peer in list(peers):
                progress(f"  {connections:,} connections: {peer.name if peer else DIRECT}")
                try:
                    points.append(measure(peer, connections, setting, Path(folder), cores))
                except Missing as gap:
                    gaps.append(str(gap))
                    peers.remove(peer)
    return points, gaps


def _notes(steps: Sequence[int], setting: Setting, *, short: bool) -> Iterator[str]:
    wanted = min(max(SHORT_COUNTS if short else COUNTS), setting.most)
    if max(steps) < wanted:
        yield (
            f"{max(steps):,} connections and not {wanted:,}: a process may have {file_limit():,} descriptors here, "
            "and a proxy needs two for each."
        )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench growth", description="Each proxy with 1 to 10,000 busy connections."
    )
    parser.add_argument("--short", action="store_true", help="three points, the sidecar and Envoy only")
    add_options(parser, Setting, SHORT)
    known = ", ".join(peer.name for peer in PEERS)
    parser.add_argument("--peers", metavar="NAMES", help=f"only these, separated by commas: {known}")
    part.add_output(parser, RESULTS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    setting = settings_of(arguments, Setting, SHORT)
    steps = counts(setting, short=arguments.short, descriptors=file_limit())
    cores, about = part.surroundings()
    with part.measuring():
        names = chosen(arguments.peers, PEERS, SHORT_PEERS if arguments.short else None)
        points, gaps = grow(steps, names, setting, cores)
    found, reached = part.judged(points, names, promises)
    shown = [table(points, [*_notes(steps, setting, short=arguments.short), *gaps]), *reached]
    whole = {
        "machine": about,
        "day": datetime.now(tz=UTC).date().isoformat(),
        "versions": versions(),
        "setting": asdict(setting),
        "sidecars": BUILDS,
        "points": [asdict(point) for point in points],
        "targets": [asdict(each) for each in found],
    }
    kept = all(each.met for each in found)
    return part.concluded(arguments, shown, whole, "every point; python -m bench plots draws them", kept=kept)
