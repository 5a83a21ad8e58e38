"""What all calls of one sidecar share: the policy in force, the clock, the pool, the books.

A `Plane` holds no call and decides nothing. It is built once by `app`; a reload exchanges its policy, and calls that
have begun keep the one they began with.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Protocol

from proxy.core.budgets import Budgets
from proxy.core.policy import Policy
from proxy.core.routing import Router
from proxy.core.step import StepRecord
from proxy.core.writes import WriteBook, WriteRecord
from proxy.net.dial import Dialer
from proxy.net.own import OwnPorts
from proxy.net.peer import PeerSockets
from proxy.net.pool import Pool


class Journal(Protocol):
    """The journal as calls use it. `done` is called on the loop: None once durable, else what went wrong."""

    def put(self, record: WriteRecord, done: Callable[[Exception | None], None] | None = None) -> None:
        """Keep a record, or its new state."""

    def drop(self, id: str, done: Callable[[Exception | None], None] | None = None) -> None:
        """Forget a record."""


class Observer(Protocol):
    """Who is told of every step, and of what no step stands for."""

    def step(self, record: StepRecord) -> None:
        """Take the record of a step that has ended."""

    def malformed(self, reason: str) -> None:
        """Take note of bytes that were no request."""

    def opaque(self, way: str) -> None:
        """Take note of an opaque connection, by the way it came in."""

    def extension_ignored(self) -> None:
        """Take note of a stated budget that was larger than what is left."""


class Served(Protocol):
    """A connection that is being served."""

    @property
    def unsent(self) -> int:
        """How many bytes are still on their way to its client."""

    def wind_down(self) -> None:
        """End what would not end by itself while the sidecar drains: a standing ear, a tunnel that is not in use."""

    def stop(self) -> None:
        """End now, and say so where it can still be said."""


class Plane:
    """The services of the data plane. `clock` is monotonic, in nanoseconds; `wall_ms` is for people and files."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
        wall_ms: Callable[[], int],
        policy: Policy,
        dialer: Dialer,
        journal: Journal,
        book: WriteBook,
        observer: Observer,
        name: str,
        own: OwnPorts,
    ) -> None:
        """`name` tells this process from every other one: it is the prefix of ids and the pseudonym in `Via`."""
        self.loop = loop
        self.clock = clock
        self.wall_ms = wall_ms
        self.policy = policy
        self.router = Router(policy)
        self.dialer = dialer
        self.pool = Pool(loop, clock, dialer, lambda: self.policy.connections)
        self.journal = journal
        self.book = book
        self.observer = observer
        self.budgets = Budgets()
        self.own = own
        self.peers = PeerSockets()
        self.via = f"waterclock-{name}".encode()
        self.draining = False
        self.quiet = asyncio.Event()  # set once draining has nothing left to wait for
        self.in_flight = 0
        self.clients: set[Served] = set()
        self.relays: set[Served] = set()
        self.lingering: set[object] = set()
        self._prefix = name
        self._ids = itertools.count(1)

    def fresh_id(self) -> str:
        """Return an id that no other process, and no other call of this one, uses."""
        return f"{self._prefix}-{next(self._ids):x}"

    def ended(self) -> None:
        """Take note that a step, the listening for a late answer, or a client's connection has ended."""
        if not self.draining or self.in_flight or self.lingering:
            return
        if not any(client.unsent for client in self.clients):
            self.quiet.set()

    def drain(self) -> None:
        """Serve on, but close each client's connection after its exchange; `quiet` says when nothing is left."""
        self.draining = True
        for served in (*self.relays, *self.clients):
            served.wind_down()
        self.ended()

    def close(self) -> None:
        """Break off whatever is left."""
        for served in (*self.relays, *self.clients):
            served.stop()
        self.pool.close()
        self.peers.close()

    def adopt(self, policy: Policy) -> None:
        """Put a new policy in force for the calls that begin from now on."""
        if policy.connections != self.policy.connections:
            self.pool.forget()  # what lies idle may lead through a parent proxy that is one no more
        self.policy = policy
        self.router = Router(policy)
