"""What all calls of one sidecar share: the policy in force, the clock, the pool, the books.

A `Plane` holds no call and decides nothing. It is built once by `app`; a reload exchanges its policy, and calls that
have begun keep the one they began with.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from proxy.core.admission import Scheduler
from proxy.core.attempts import Attempts
from proxy.core.budget import Budget
from proxy.core.entry import EntryRecord
from proxy.core.history import Counts
from proxy.core.ledger import Ledger
from proxy.core.policy import Policy
from proxy.core.retries import RetryBudget
from proxy.core.routing import Router
from proxy.core.step import StepRecord
from proxy.core.verdict import Verdict, counts_of, of_one_call, verdict_of
from proxy.core.writes import WriteBook, WriteRecord, WriteState
from proxy.dataplane.claims import Claims
from proxy.dataplane.dead_letters import give_up_overdue
from proxy.dataplane.turns import Turns
from proxy.dataplane.verify import Verifier
from proxy.degrade.cache.cache import Cache
from proxy.degrade.measured import Measured
from proxy.net.alarm import Alarms
from proxy.net.dial import Dialer
from proxy.net.own import OwnPorts
from proxy.net.peer import PeerSockets
from proxy.net.pool import Pool
from proxy.net.timer import Timer

MOST_LINGERING: Final = 1_000
"""How many late answers are listened for at a time. Each takes a connection, and up to `linger.MOST_BYTES`."""


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

    def degraded(self, record: StepRecord, budget: Budget | None, now: int) -> None:
        """Take note of a step that was answered with less than it had asked for, after its record. `budget`: its own."""

    def rung_tried(self, route: str, rung: str, ns: int) -> None:
        """Take note of one try of a rung that asks an upstream, answered whole or given up as too slow (nanoseconds)."""

    def cache_failed(self, part: str) -> None:
        """Take note of a question to a part of the cache, `store` or `service`, that was not answered as it should be."""

    def entry(self, record: EntryRecord) -> None:
        """Take the record of an entry request that has ended."""

    def malformed(self, reason: str) -> None:
        """Take note of bytes that were no request."""

    def opaque(self, way: str) -> None:
        """Take note of an opaque connection, by the way it came in."""

    def extension_ignored(self) -> None:
        """Take note of a stated budget that was larger than what is left."""

    def budget_opened(self) -> None:
        """Take note of a budget that has been opened."""

    def budget_closed(self, verdict: Verdict, counts: Counts) -> None:
        """Take note of a budget that is finished, closed or run out of time, and what is to be said of its job."""

    def stage_used(self, stage: str, share: int, used: int) -> None:
        """Take note of what a stage of a budget that is finished had as its share, and what of it was used (nanoseconds)."""

    def retried(self, route: str) -> None:
        """Take note of an attempt that the sidecar makes again by itself."""

    def retry_withheld(self, route: str, why: str) -> None:
        """Take note of a retry that the route asks for and that is not made."""

    def joined(self, route: str) -> None:
        """Take note of a call that waits for the answer of an equal one in flight."""

    def verified(self, route: str, found: str) -> None:
        """Take note of what a question after an uncertain write has found."""

    def settled(self, record: WriteRecord) -> None:
        """Take note of what has come of a write that its caller knows nothing of, or of what was decided about it."""


class Served(Protocol):
    """A connection that is being served."""

    @property
    def unsent(self) -> int:
        """How many bytes are still on their way to its client."""

    def wind_down(self) -> None:
        """End what would not end by itself while the sidecar drains: a standing ear, a tunnel that is not in use."""

    def stop(self) -> None:
        """End now, and say so where it can still be said."""


class Lingering(Protocol):
    """Somebody who listens for the late answer of a write."""

    @property
    def record_id(self) -> str:
        """The id of the write's record."""


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
        timer: Timer | None = None,
    ) -> None:
        """`name` tells this process from every other one: it is the prefix of ids and the pseudonym in `Via`.

        `timer`: what wakes the loop for what is due; without one, its own timers do.
        """
        self.loop = loop
        self.clock = clock
        self.alarms = Alarms(loop, clock, timer)
        self.wall_ms = wall_ms
        self.policy = policy
        self.router = Router(policy)
        self.dialer = dialer
        self.pool = Pool(loop, clock, dialer, lambda: self.policy.connections, self.alarms.look)
        self.journal = journal
        self.book = book
        self.observer = observer
        self.budgets = Ledger(policy.ledger)
        self.scheduler = Scheduler(policy)
        self.turns = Turns(self.scheduler, clock)
        self.attempts = Attempts()
        self.retry_budgets: dict[str, RetryBudget] = {}
        self.claims = Claims()
        self.measured = Measured()
        self.measured.prepare(policy)
        self.cache = Cache(loop, clock, lambda: self.policy.cache)
        self.jitter: Callable[[], float] = random.random
        self.own = own
        self.inbound = policy.listen.inbound
        self.peers = PeerSockets()
        self.via = f"waterclock-{name}".encode()
        self.draining = False
        self.quiet = asyncio.Event()  # set once draining has nothing left to wait for
        self.in_flight = 0
        self.clients: set[Served] = set()
        self.relays: set[Served] = set()
        self.lingering: set[Lingering] = set()
        self.most_lingering = MOST_LINGERING
        self.verifier = Verifier(self)
        self._prefix = name
        self._ids = 0

    def connected(self) -> int:
        """Return how many clients' connections there are."""
        return len(self.clients) + len(self.relays)

    def fresh_id(self) -> str:
        """Return an id that no other process, and no other call of this one, uses."""
        self._ids += 1
        return f"{self._prefix}-{self._ids}"

    def budget_finished(self, budget: Budget, now: int) -> None:
        """Take note that a budget is finished: closed, or run out of time."""
        if budget.stages is not None:
            for stage in budget.stages:
                if used := stage.used(now):
                    self.observer.stage_used(stage.name, stage.share, used)
        if budget.only is not None:
            self.observer.budget_closed(*of_one_call(budget.only, on_time=budget.on_time))
            return
        self.observer.budget_closed(verdict_of(budget, now), counts_of(budget))

    def attend(self) -> None:
        """See to what time alone brings: budgets that have run out, writes that have outlived their hold."""
        now = self.clock()
        give_up_overdue(self)
        self.cache.attend()
        self.budgets.sweep(now)
        for budget in self.budgets.run_out():
            self.budget_finished(budget, now)

    def keep(self, record: WriteRecord, *, partial: bool = False) -> None:
        """Take a record, or a new state of one, into the book and the journal. `partial`: not all of its work is done."""
        self.book.put(record)
        self.journal.put(record)
        self.account_for(record, partial=partial)

    def account_for(self, record: WriteRecord, *, partial: bool = False) -> None:
        """Let everybody know what has come of a write, or was decided about it: its budget, its attempts, the log."""
        if record.state is not WriteState.INTENT and record.state is not WriteState.UNCERTAIN:
            self.observer.settled(record)
        if record.known:
            self.budgets.settled(record.budget_id, record.id, happened=record.happened and not partial)
        if record.known or record.state is WriteState.RELEASED:
            for unit in (record.fingerprint, f"{record.origin} {record.unit}"):
                self.attempts.forget(unit)  # it may be attempted again, or has no need of it

    def lingering_for(self) -> Iterator[str]:
        """Return the records of the writes whose late answers are listened for."""
        return (each.record_id for each in self.lingering)

    def retry_budget(self, route: str) -> RetryBudget:
        """Return the retry budget of a route."""
        budget = self.retry_budgets.get(route)
        if budget is None:
            budget = self.retry_budgets[route] = RetryBudget()
        return budget

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
        """Break off whatever is left. Whose turn it would be then finds no connection any more."""
        self.pool.close()
        for served in (*self.relays, *self.clients):
            served.stop()
        self.verifier.close()
        self.cache.close()
        self.peers.close()

    def adopt(self, policy: Policy) -> None:
        """Put a new policy in force for the calls that begin from now on."""
        if _rules_of_dialling(policy) != _rules_of_dialling(self.policy):
            self.pool.forget()  # what is open may lead to where none may now, or through a parent proxy that is one no more
        self.policy = policy
        self.measured.prepare(policy)
        self.router = Router(policy)
        self.budgets.bounds = policy.ledger
        self.turns.hand(self.scheduler.adopt(policy, self.clock()))
        self.verifier.resume()


def _rules_of_dialling(policy: Policy) -> tuple[object, ...]:
    """Return what decides where a connection may be opened, and how."""
    return policy.connections, policy.egress, policy.mode
