"""What every peer offers, a plan of how to start it before a given upstream, and how they are put up side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.procs import Cores, Missing, Plan, Running, progress, running

SETTLE: Final = 1.0


@dataclass(frozen=True)
class Site:
    """Where a peer is set up: the server it forwards to, and an empty folder of its own."""

    upstream: int
    room: Path


class Peer(Protocol):
    @property
    def name(self) -> str: ...

    def plan(self, site: Site) -> Plan: ...


def room_for(parent: Path, name: str) -> Path:
    """A new, empty folder below `parent`, whose name needs no quoting anywhere."""
    number = sum(1 for _ in parent.iterdir())
    room = parent / f"{number:02}-{'-'.join(re.findall(r'[a-z0-9]+', name))}"
    room.mkdir()
    return room


@contextmanager
def standing(upstream: Plan, peers: Sequence[Peer], parent: Path, cores: Cores) -> Iterator[list[Running]]:
    """The upstream and the peers in front of it, all ready and settled. A peer that is not installed is left out."""
    with ExitStack() as stack:
        stack.enter_context(running(upstream, cores.load))
        up = []
        for peer in peers:
            try:
                plan = peer.plan(Site(upstream.port, room_for(parent, peer.name)))
            except Missing as gap:
                progress(f"left out: {gap}")
                continue
            up.append(stack.enter_context(running(plan, cores.proxy)))
        time.sleep(SETTLE)
        yield up
