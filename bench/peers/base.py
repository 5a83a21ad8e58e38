"""What every peer offers, a plan of how to start it before a given upstream, and how they are put up side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from bench.procs import Cores, Failed, Missing, Plan, Running, progress, running

SETTLE: Final = 1.0
OWN_DESCRIPTORS: Final = 60  # of a proxy beside its connections: listeners, journal, log, the loop's own
_APART: Final = Path(__file__).parent.parent.parent / ".venv-peers" / "bin"  # the Makefile's


class Unable(Missing):
    """A peer is there, and cannot do what this scenario asks of it."""


@dataclass(frozen=True)
class Site:
    """Where a peer is set up: the server it forwards to, and an empty folder of its own.

    `ca`: the upstream speaks TLS, and this authority alone has to vouch for it; without it, it speaks plain HTTP.
    """

    upstream: int
    room: Path
    ca: Path | None = None


class Peer(Protocol):
    @property
    def name(self) -> str: ...

    def plan(self, site: Site) -> Plan: ...


@dataclass
class Standing:
    """What is up, and why the others are not."""

    up: list[Running] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


def chosen(names: str | None, peers: Sequence[Peer], short: Sequence[str] | None = None) -> list[str]:
    """Return the names of the peers that are asked for: these, else those of the short form, else all. Raises Failed."""
    known = [peer.name for peer in peers]
    wanted = [name.strip() for name in names.split(",")] if names else list(short or known)
    if unknown := set(wanted) - set(known):
        raise Failed(f"no such peer: {', '.join(sorted(unknown))}. There are: {', '.join(known)}")
    return wanted


def largest(count: int, descriptors: int) -> int:
    """Return how many of so many connections fit: each takes a proxy two descriptors, of all that a process may have."""
    return min(count, (descriptors - OWN_DESCRIPTORS) // 2)


def room_for(parent: Path, name: str) -> Path:
    """A new, empty folder below `parent`, whose name needs no quoting anywhere."""
    number = sum(1 for _ in parent.iterdir())
    room = parent / f"{number:02}-{'-'.join(re.findall(r'[a-z0-9]+', name))}"
    room.mkdir()
    return room


def apart(command: str, remedy: str) -> str:
    """The path of a program in `.venv-peers`, which holds what cannot share an environment with us. Raises Missing."""
    path = _APART / command
    if not path.is_file():
        raise Missing(f"{command} is not in .venv-peers: {remedy}")
    return str(path)


@contextmanager
def side_by_side(
    upstream: Plan, peers: Sequence[Peer], parent: Path, cores: Cores, secured: tuple[int, Path] | None = None
) -> Iterator[Standing]:
    """The upstream and the peers in front of it, all ready and settled. A peer that is not installed is left out.

    `secured`: the upstream's port that speaks TLS, and its authority; without it the peers forward to the plain one.
    """
    port, ca = secured or (upstream.port, None)
    with ExitStack() as stack:
        stack.enter_context(running(upstream, cores.load))
        standing = Standing()
        for peer in peers:
            try:
                plan = peer.plan(Site(port, room_for(parent, peer.name), ca))
            except Missing as gap:
                progress(f"left out: {peer.name}: {gap}")
                standing.gaps.append(f"{peer.name} is left out: {gap}.")
                continue
            standing.up.append(stack.enter_context(running(plan, cores.proxy)))
        time.sleep(SETTLE)
        yield standing


@contextmanager
def standing(upstream: Plan, peers: Sequence[Peer], parent: Path, cores: Cores) -> Iterator[list[Running]]:
    """As `side_by_side`, for who need not know why a peer is missing."""
    with side_by_side(upstream, peers, parent, cores) as found:
        yield found.up
