"""How many requests a second, how fast, at what cost: all proxies up side by side, loaded in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench.authority import issued
from bench.comparison.load import Burst, burst
from bench.comparison.relays import Far, refuse_strangers, verify
from bench.comparison.scenarios import Rounds, Scenario
from bench.peers.base import SETTLE, Peer, room_for, side_by_side
from bench.procs import Cores, Failed, Plan, Running, core_busy_seconds, free_port, progress
from bench.upstream import Secured, nginx, requests_seen

DIRECT: Final = "direct"
YARDSTICK: Final = "envoy"
_WARM_UP: Final = 1


@dataclass(frozen=True)
class Round:
    """One proxy under load once. `others` is what else kept its core busy, as a share of the time."""

    burst: Burst
    cpu_us: float
    busy: float
    others: float
    log_bytes: int


@dataclass
class Row:
    """One proxy in all rounds. `ratios` and `cpu_ratios`: each round to Envoy's same round."""

    name: str
    rounds: list[Round] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    cpu_ratios: list[float] = field(default_factory=list)
    ready_ms: float | None = None
    idle_bytes: int | None = None
    loaded_bytes: int | None = None
    fault: str | None = None

    @property
    def rate(self) -> float:
        return median(each.burst.rate for each in self.rounds)

    @property
    def ratio(self) -> float | None:
        """The median of the pairs: each round is compared with Envoy in the same round."""
        return median(self.ratios) if self.ratios else None

    @property
    def cpu_us(self) -> float:
        return median(each.cpu_us for each in self.rounds)

    @property
    def cpu_ratio(self) -> float | None:
        """CPU per request against Envoy's, the median of the pairs like `ratio`."""
        return median(self.cpu_ratios) if self.cpu_ratios else None

    @property
    def errors(self) -> int:
        return sum(each.burst.errors for each in self.rounds)


@dataclass(frozen=True)
class Comparison:
    """`gaps`: who is left out, and why, a sentence each."""

    scenario: Scenario
    spent: Rounds
    rows: list[Row]
    gaps: list[str]

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)


@dataclass(frozen=True)
class _Bout:
    """What stays the same through one scenario."""

    scenario: Scenario
    upstream: Plan
    far: Far
    parent: Path
    cores: Cores

    def load(self, port: int, run: str, seconds: int) -> Burst:
        return burst(self.scenario, port, self.far.port, run, seconds, self.cores.load)


@dataclass(frozen=True)
class _Lane:
    """One row and the process that it is about. `proxy` is None for `direct`."""

    row: Row
    peer: Peer | None = None
    proxy: Running | None = None

    @contextmanager
    def excused(self) -> Iterator[None]:
        """A proxy that fails is left out from then on. Without the upstream there is nothing to compare: Failed."""
        try:
            yield
        except Failed as fault:
            if self.proxy is None:
                raise
            self.row.fault = str(fault)
            progress(f"left out: {self.row.name}: {fault}")


def compare(
    scenario: Scenario, rounds: Rounds, peers: Sequence[Peer], parent: Path, cores: Cores
) -> Comparison:
    """Raises Failed when the upstream itself fails. A proxy that does is left out, and `gaps` says why."""
    room = room_for(parent, "nginx")
    secured = Secured(free_port(), issued(room)) if scenario.tls else None
    upstream = nginx(room, secured)
    far = Far(secured.port if secured else upstream.port, room)
    bout = _Bout(scenario, upstream, far, parent, cores)
    trusted = (secured.port, secured.certificate.ca) if secured else None
    with side_by_side(upstream, peers, parent, cores, trusted) as standing:
        lanes = [_Lane(Row(DIRECT)), *(_lane(each, peers) for each in standing.up)]
        for lane in lanes:
            with lane.excused():
                _warm_up(bout, lane)
        for number in range(1, rounds.count + 1):
            progress(f"  {scenario.key}: round {number} of {rounds.count}")
            for lane in lanes:
                if lane.row.fault is None:
                    with lane.excused():
                        lane.row.rounds.append(_round(bout, lane, number, rounds.seconds))
        time.sleep(SETTLE)
        for lane in lanes:
            if lane.proxy and lane.row.fault is None:
                lane.row.loaded_bytes = lane.proxy.rss_bytes()
    rows = [lane.row for lane in lanes]
    gaps = [f"{row.name} is left out: {row.fault.splitlines()[0]}." for row in rows if row.fault]
    whole = [row for row in rows if row.fault is None]
    pair_with_yardstick(whole)
    return Comparison(scenario, rounds, whole, standing.gaps + gaps)


def _lane(proxy: Running, peers: Sequence[Peer]) -> _Lane:
    row = Row(proxy.plan.name, ready_ms=proxy.ready_ms, idle_bytes=proxy.rss_bytes())
    return _Lane(row, next(peer for peer in peers if peer.name == row.name), proxy)


def _warm_up(bout: _Bout, lane: _Lane) -> None:
    port = lane.proxy.plan.port if lane.proxy else bout.upstream.port
    verify(bout.scenario, lane.row.name, port, bout.far)
    if bout.scenario.tls and lane.peer:
        refuse_strangers(bout.scenario, lane.peer, bout.far.port, bout.parent, bout.cores)
    bout.load(port, f"{lane.row.name}-warm", _WARM_UP)


@dataclass(frozen=True)
class _Counters:
    """What is counted before and after each round."""

    relayed: int
    cpu: float
    core: float

    @classmethod
    def read(cls, upstream: Plan, proxy: Running | None, cores: Cores) -> _Counters:
        cpu = proxy.cpu_seconds() if proxy else 0.0
        return cls(requests_seen(upstream.port), cpu, core_busy_seconds(cores.proxy))


def _round(bout: _Bout, lane: _Lane, number: int, seconds: int) -> Round:
    """The upstream must have seen every request that wrk counts: nothing is measured that was not relayed."""
    proxy = lane.proxy
    run = f"{lane.row.name}-{number}"
    before = _Counters.read(bout.upstream, proxy, bout.cores)
    result = bout.load(proxy.plan.port if proxy else bout.upstream.port, run, seconds)
    if proxy:
        proxy.must_run()
    if not result.requests:
        raise Failed(f"it answered nothing to {bout.scenario.connections:,} connections within {seconds} s")
    after = _Counters.read(bout.upstream, proxy, bout.cores)
    relayed = after.relayed - before.relayed
    if relayed < result.requests - result.errors:
        raise Failed(f"{run}: wrk counts {result.requests} answers, the upstream saw {relayed} requests")
    cpu = after.cpu - before.cpu
    return Round(
        burst=result,
        cpu_us=cpu * 1e6 / result.requests,
        busy=cpu / result.seconds,
        others=max(0.0, after.core - before.core - cpu) / result.seconds,
        log_bytes=proxy.trim_log() if proxy else 0,
    )


def pair_with_yardstick(rows: Sequence[Row]) -> None:
    """Gives each row its ratios to Envoy, round by round; without Envoy there are none."""
    yardstick = next((row for row in rows if row.name == YARDSTICK), None)
    if yardstick is None:
        return
    for row in rows:
        pairs = list(zip(row.rounds, yardstick.rounds, strict=True))
        row.ratios = [mine.burst.rate / theirs.burst.rate for mine, theirs in pairs]
        if row.name != DIRECT and all(theirs.cpu_us for _, theirs in pairs):
            row.cpu_ratios = [mine.cpu_us / theirs.cpu_us for mine, theirs in pairs]
