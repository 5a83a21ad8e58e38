"""What a proxy adds to the time of a call at a steady rate that all of them can take: its percentiles less those without it.

The proxies and `direct` take turns, block after block, so that what else the machine does falls on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench.comparison.paced import Block, Pace, steadily
from bench.comparison.relays import Far, verify
from bench.comparison.scenarios import SMALL_GET
from bench.comparison.throughput import DIRECT, YARDSTICK
from bench.peers.base import Peer, room_for, side_by_side
from bench.percentile import percentile
from bench.procs import HOST, Cores, Failed, progress
from bench.upstream import nginx

SHARES: Final = (0.5, 0.99, 0.999)


@dataclass
class Row:
    name: str
    blocks: list[Block] = field(default_factory=list)

    def at(self, share: float) -> list[float]:
        """This percentile of each block, ms."""
        return [percentile(block.ms, share) for block in self.blocks]

    @property
    def failed(self) -> int:
        return sum(block.failed for block in self.blocks)

    @property
    def unanswered(self) -> int:
        return sum(block.unanswered for block in self.blocks)


@dataclass(frozen=True)
class Added:
    """`rows` begin with `direct`. `gaps`: who is left out, and why, a sentence each."""

    pace: Pace
    rows: list[Row]
    gaps: list[str]

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def ms(self, row: Row, share: float) -> float:
        """How much this row's percentile is above that of `direct` in the same turn: the median of the turns."""
        pairs = zip(row.at(share), self.rows[0].at(share), strict=True)
        return median(mine - bare for mine, bare in pairs)

    def ratio(self, row: Row, share: float) -> float | None:
        """What this row adds, by what Envoy adds. None without Envoy, and where Envoy adds nothing that can be told."""
        yardstick = self.row(YARDSTICK)
        theirs = self.ms(yardstick, share) if yardstick else 0.0
        return self.ms(row, share) / theirs if theirs > 0 and row.name != DIRECT else None


def measure(pace: Pace, turns: int, peers: Sequence[Peer], parent: Path, cores: Cores) -> Added:
    """Runs on the core of the load, where the caller has placed it."""
    room = room_for(parent, "nginx")
    upstream = nginx(room)
    with side_by_side(upstream, peers, parent, cores) as standing:
        gaps = list(standing.gaps)
        lanes = [(Row(DIRECT), upstream.port)]
        for each in standing.up:
            try:
                verify(SMALL_GET, each.plan.name, each.plan.port, Far(upstream.port, room))
            except Failed as fault:
                gaps.append(f"{each.plan.name} is left out: {fault}.")
                continue
            lanes.append((Row(each.plan.name), each.plan.port))
        request = _request(upstream.port)
        for number in range(1, turns + 1):
            progress(f"  at {pace.rate:,} requests/s: turn {number} of {turns}")
            for row, port in lanes:
                row.blocks.append(steadily(port, request, pace))
            for each in standing.up:
                each.trim_log()
        fallen = {each.plan.name for each in standing.up if each.process.poll() is not None}
    gaps += [f"{name} is left out: it ended under load." for name in sorted(fallen)]
    return Added(pace, [row for row, _ in lanes if row.name not in fallen], gaps)


def _request(upstream: int) -> bytes:
    authority = f"{HOST}:{upstream}"
    return (
        f"GET http://{authority}{SMALL_GET.path} HTTP/1.1\r\nHost: {authority}\r\nBudget-Remaining-Ms: 30000\r\n\r\n"
    ).encode()
