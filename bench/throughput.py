"""How many requests a second, how fast, at what cost: all proxies up side by side, loaded in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from statistics import median
from typing import Final

from bench.load import Burst, Scenario, burst, verify
from bench.peers.base import SETTLE, Peer, room_for, standing
from bench.procs import Cores, Failed, Plan, Running, core_busy_seconds, progress
from bench.upstream import nginx, requests_seen

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
    name: str
    rounds: list[Round] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    ready_ms: float | None = None
    idle_bytes: int | None = None
    loaded_bytes: int | None = None

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
    def errors(self) -> int:
        return sum(each.burst.errors for each in self.rounds)


@dataclass(frozen=True)
class Comparison:
    scenario: Scenario
    seconds: int
    rows: list[Row]

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)


@dataclass(frozen=True)
class Effort:
    """How much to spend on one scenario."""

    scenario: Scenario
    rounds: int
    seconds: int


def compare(effort: Effort, peers: Sequence[Peer], parent: Path, cores: Cores) -> Comparison:
    upstream = nginx(room_for(parent, "nginx"))
    with standing(upstream, peers, parent, cores) as up:
        rows = [Row(DIRECT)] + [
            Row(each.plan.name, ready_ms=each.ready_ms, idle_bytes=each.rss_bytes()) for each in up
        ]
        _warm_up(effort.scenario, upstream, up, cores)
        for number in range(1, effort.rounds + 1):
            progress(f"  {effort.scenario.key}: round {number} of {effort.rounds}")
            for row, proxy in zip(rows, [None, *up], strict=True):
                row.rounds.append(_round(effort, proxy, upstream, f"{row.name}-{number}", cores))
        time.sleep(SETTLE)
        for row, each in zip(rows[1:], up, strict=True):
            each.must_run()
            row.loaded_bytes = each.rss_bytes()
    _pair_with_yardstick(rows)
    return Comparison(effort.scenario, effort.seconds, rows)


def _warm_up(scenario: Scenario, upstream: Plan, up: Sequence[Running], cores: Cores) -> None:
    for plan in (upstream, *(each.plan for each in up)):
        try:
            verify(scenario, plan.port, upstream.port)
        except (Failed, HTTPException, OSError) as fault:
            raise Failed(f"{plan.name} does not relay what it is sent: {fault}") from fault
        burst(scenario, plan.port, upstream.port, f"{plan.name}-warm", _WARM_UP, cores.load)


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


def _round(effort: Effort, proxy: Running | None, upstream: Plan, run: str, cores: Cores) -> Round:
    """The upstream must have seen every request that wrk counts: nothing is measured that was not relayed."""
    port = proxy.plan.port if proxy else upstream.port
    before = _Counters.read(upstream, proxy, cores)
    result = burst(effort.scenario, port, upstream.port, run, effort.seconds, cores.load)
    if proxy:
        proxy.must_run()
    after = _Counters.read(upstream, proxy, cores)
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


def _pair_with_yardstick(rows: Sequence[Row]) -> None:
    yardstick = next((row for row in rows if row.name == YARDSTICK), None)
    if yardstick is None:
        return
    for row in rows:
        pairs = zip(row.rounds, yardstick.rounds, strict=True)
        row.ratios = [mine.burst.rate / theirs.burst.rate for mine, theirs in pairs]
