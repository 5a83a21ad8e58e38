"""The connections to upstreams: one site an origin, its idle connections, and who waits for one.

The pool changes its own state first and does the I/O that follows from it after: `_serve` looks at one site and hands
idle connections to those who wait, or opens new ones, within the bounds of the policy. A connection is opened for
one waiter; when that waiter leaves, the opening is cancelled, so a lookup that hangs costs nobody else a thing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from proxy.core.policy import Connections
from proxy.core.reasons import Reason
from proxy.core.target import Origin
from proxy.core.units import SECOND
from proxy.net.connection import UpstreamConnection
from proxy.net.dial import Dialer
from proxy.net.errors import DialError

_SWEEP_SECONDS = 5.0
STALE_FOR_WRITES = SECOND
"""A non-idempotent write never goes out on a connection that sat idle for longer (nanoseconds)."""


class Waiter(Protocol):
    """Who asked for a connection. Exactly one of the two is called, from the loop, unless the ticket is cancelled."""

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Take a connection; it is the waiter's until given back or aborted."""

    def on_dial_failed(self, error: DialError) -> None:
        """Take the reason why there is none."""


class Ticket:
    """One waiter's place: in the queue of its site, or with a connection that is being opened for it."""

    __slots__ = ("cancelled", "opening", "origin", "task", "waiter")

    def __init__(self, origin: Origin, waiter: Waiter) -> None:
        """Wait."""
        self.origin = origin
        self.waiter = waiter
        self.task: asyncio.Task[None] | None = None
        self.opening: Site | None = None  # where a connection is being opened for it
        self.cancelled = False

    def cancel(self) -> None:
        """Leave: the waiter hears nothing more, and what was being opened for it is dropped."""
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()


class Site:
    """What the pool knows of one origin."""

    __slots__ = ("idle", "opening", "total", "waiting")

    def __init__(self) -> None:
        """Start with nothing."""
        self.idle: list[UpstreamConnection] = []  # the last one put back is the first one taken
        self.waiting: deque[Ticket] = deque()
        self.opening = 0
        self.total = 0  # open ones, idle or not, without those being opened


class Pool:
    """All upstream connections of the sidecar."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
        dialer: Dialer,
        bounds: Callable[[], Connections],
        look: Callable[[], None] | None = None,
    ) -> None:
        """Start empty. `bounds` is asked each time, so that a reload takes hold.

        `look`: called for each connection that is opened or has closed. There can be many in one turn of the loop, and what is
        due does not wait for all of them.
        """
        self._loop = loop
        self._clock = clock
        self._dialer = dialer
        self._bounds = bounds
        self._look = look
        self._sites: dict[Origin, Site] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._era = 0  # under which rules a connection was opened: those of the policy that was in force then
        self._dials: set[asyncio.Task[None]] = set()  # the loop itself holds tasks by weak references only

    def take(self, origin: Origin, now: int, fresher_than: int | None = None) -> UpstreamConnection | None:
        """Return an idle connection at once, or None.

        `fresher_than`: a connection that has lain idle for longer (nanoseconds) will not do; the other side may have
        closed it already, and a request that must not be sent twice would be lost on it.
        """
        site = self._sites.get(origin)
        if site is None or not site.idle or site.waiting:
            return None
        while (connection := site.idle[-1]).closed or connection.unasked:
            site.idle.pop()
            connection.abort()  # it has ended, or has said what it should not
            if not site.idle:
                return None
        if fresher_than is not None and now - connection.idle_since > fresher_than:
            return None
        site.idle.pop()
        return connection

    def request(self, origin: Origin, waiter: Waiter) -> Ticket:
        """Ask for a fresh connection, opened now or when the bounds allow."""
        ticket = Ticket(origin, waiter)
        self._wait(ticket)
        return ticket

    def give_back(self, connection: UpstreamConnection) -> None:
        """Take back a connection after its exchange; one that is not fit for another is dropped."""
        connection.let_go()
        site = self._sites.get(connection.origin)
        if self._closed or site is None or connection.era != self._era or not connection.reusable:
            connection.abort()
            return
        connection.resume_reading()
        connection.idle_since = self._clock()
        if site.waiting and (ticket := self._next(site)) is not None:
            self._loop.call_soon(self._hand, ticket, connection)
            return
        site.idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def adopt(self, connection: UpstreamConnection, origin: Origin) -> None:
        """Keep a connection that was opened for another origin, and on which nobody has spoken, for the calls to this one.

        It has lain idle since it was opened, and takes its place among the idle ones by that. One that cannot be used, or
        for which there is no room, is dropped.
        """
        room = self._bounds().max
        site = self._sites.get(origin)
        unfit = self._closed or connection.closed or connection.early or connection.era != self._era
        if unfit or (site is not None and site.total + site.opening >= room):
            connection.abort()
            return
        self._lost(connection)
        connection.stop_listening()
        connection.origin = origin
        connection.uses += 1
        site = self._sites.setdefault(origin, Site())
        site.total += 1
        fresher = sum(other.idle_since > connection.idle_since for other in site.idle)
        site.idle.insert(len(site.idle) - fresher, connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def counts(self) -> dict[str, int]:
        """Return how many connections are idle, active and being opened."""
        idle = sum(len(site.idle) for site in self._sites.values())
        total = sum(site.total for site in self._sites.values())
        return {
            "idle": idle,
            "active": total - idle,
            "opening": sum(site.opening for site in self._sites.values()),
        }

    def close(self) -> None:
        """Drop the idle connections, and each other one as it comes back."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self.forget()

    def forget(self) -> None:
        """Drop the idle connections, and each other one as it comes back: they were opened under other rules."""
        self._era += 1
        for site in list(self._sites.values()):
            for connection in list(site.idle):
                connection.abort()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _wait(self, ticket: Ticket) -> None:
        """Put a ticket at the end of its site's queue."""
        site = self._sites.get(ticket.origin)
        if site is None:
            site = self._sites[ticket.origin] = Site()
        site.waiting.append(ticket)
        self._serve(ticket.origin, site)

    def _serve(self, origin: Origin, site: Site) -> None:
        """Open connections for those who wait, as far as the bounds allow."""
        bounds = self._bounds()
        while site.waiting and site.opening < bounds.opening:
            if site.total + site.opening >= bounds.max:
                if site.idle:
                    site.idle.pop(
                        0
                    ).abort()  # too stale for the one who waits, and in its way: once lost, it is room
                return
            ticket = self._next(site)
            if ticket is None:
                return
            site.opening += 1
            ticket.opening = site
            ticket.task = self._loop.create_task(self._open(ticket, site), name=f"dial {origin}")
            self._dials.add(ticket.task)
            ticket.task.add_done_callback(self._dials.discard)
            # A task that is cancelled before its first turn runs nothing at all, not even what stands in `except`.
            ticket.task.add_done_callback(lambda _, ticket=ticket: self._opened(ticket))  # type: ignore[misc]

    @staticmethod
    def _next(site: Site) -> Ticket | None:
        while site.waiting:
            ticket = site.waiting.popleft()
            if not ticket.cancelled:
                return ticket
        return None

    async def _open(self, ticket: Ticket, site: Site) -> None:
        """Open one connection for one waiter. Cancelled when the waiter leaves."""
        if self._look is not None:
            self._look()
            if ticket.cancelled:  # that was due
                return
        origin, era = ticket.origin, self._era
        try:
            dialled = await self._dialer.dial(
                origin,
                lambda: UpstreamConnection(origin, self._gone),
                tunnel=origin.tunnelled or origin.scheme == "tcp",
            )
        except asyncio.CancelledError:
            if not ticket.cancelled:
                raise
            return
        except DialError as error:
            self._opened(ticket)
            if not ticket.cancelled:
                ticket.waiter.on_dial_failed(error)
            return
        connection = dialled.protocol
        connection.inside = dialled.inside
        connection.via_parent = dialled.via_parent
        connection.denied = dialled.denied
        connection.era = era
        connection.idle_since = self._clock()
        site.total += 1
        self._opened(ticket)
        if connection.closed and not ticket.cancelled:
            detail = f"{origin} closed the connection as soon as it was open; is anything behind that port?"
            ticket.waiter.on_dial_failed(DialError(Reason.CONNECTION_TERMINATED, detail))
        else:
            self._hand(ticket, connection)

    def _hand(self, ticket: Ticket, connection: UpstreamConnection) -> None:
        """Give a connection to a waiter, or keep it when the waiter has left in the meantime."""
        if ticket.cancelled:
            self.give_back(connection)
        elif connection.closed or connection.era != self._era or (connection.uses and connection.unasked):
            connection.abort()
            self._wait(ticket)
        else:
            ticket.waiter.on_connection(connection)

    def _opened(self, ticket: Ticket) -> None:
        """Take note that nothing is being opened for a ticket any more, however that ended. Safe to call twice."""
        site, ticket.opening = ticket.opening, None
        if site is not None:
            site.opening -= 1
            self._settle(ticket.origin, site)

    def _gone(self, connection: UpstreamConnection) -> None:
        """Take leave of a connection that the loop has closed: of many in one turn, where many calls were cut."""
        self._lost(connection)
        if self._look is not None:
            self._look()

    def _lost(self, connection: UpstreamConnection) -> None:
        site = self._sites.get(connection.origin)
        if site is None:
            return
        site.total -= 1
        if connection in site.idle:
            site.idle.remove(connection)
        self._settle(connection.origin, site)

    def _settle(self, origin: Origin, site: Site) -> None:
        """Serve who still waits, and forget a site that has nothing left, so that origins do not pile up."""
        if site.waiting:
            self._serve(origin, site)
        if not (site.waiting or site.opening or site.total):
            self._sites.pop(origin, None)

    def _sweep(self) -> None:
        """Close what has lain idle for too long; sleep again while anything is idle."""
        self._sweeper = None
        oldest = self._clock() - self._bounds().idle
        for site in list(self._sites.values()):
            for connection in [each for each in site.idle if each.idle_since <= oldest]:
                connection.abort()
        if any(site.idle for site in self._sites.values()):
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
