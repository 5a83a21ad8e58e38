"""How long from exec to readiness, and how much memory is resident then, with nothing to do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench.peers.base import SETTLE, Peer, Site, room_for
from bench.procs import Cores, Missing, free_port, progress, running

_DISCARDED: Final = 1


@dataclass
class Starts:
    name: str
    ready_ms: list[float] = field(default_factory=list)
    idle_bytes: list[int] = field(default_factory=list)

    @property
    def ready(self) -> float:
        return median(self.ready_ms)

    @property
    def idle(self) -> float:
        return median(self.idle_bytes)


def starts(peers: Sequence[Peer], count: int, parent: Path, cores: Cores) -> list[Starts]:
    """The first start of each is discarded: it fills the disk cache and writes bytecode, which an image has done."""
    results = []
    for peer in peers:
        progress(f"  {peer.name}: {count} starts")
        result = Starts(peer.name)
        try:
            for number in range(count + _DISCARDED):
                ready, idle = _once(peer, parent, cores)
                if number >= _DISCARDED:
                    result.ready_ms.append(ready)
                    result.idle_bytes.append(idle)
        except Missing as gap:
            progress(f"left out: {gap}")
            continue
        results.append(result)
    return results


def _once(peer: Peer, parent: Path, cores: Cores) -> tuple[float, int]:
    """Nothing listens behind it: a proxy has to start without its upstreams."""
    plan = peer.plan(Site(free_port(), room_for(parent, peer.name)))
    with running(plan, cores.proxy) as proxy:
        time.sleep(SETTLE)
        return proxy.ready_ms, proxy.rss_bytes()
