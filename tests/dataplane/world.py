r"""A data plane without sockets, without a disk and without waiting: every byte and every moment is the test's to give.

    world = World()
    client = world.client()
    client.sends(b"GET http://tool/ HTTP/1.1\r\nHost: tool\r\n\r\n")
    upstream = world.upstream()
    upstream.says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert client.received.endswith(b"ok")

Protocols, pool, calls and alarms are the real ones; transports, clock, loop, dialer, journal and the kernel's answers
are fakes that do at once, or only when told, what the real ones would. An exception in a callback is raised in the test.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import re
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

from proxy.core.budget import Budget
from proxy.core.entry import EntryRecord
from proxy.core.history import Counts
from proxy.core.policy import Mode, Policy
from proxy.core.reasons import Reason
from proxy.core.step import StepRecord
from proxy.core.target import Origin
from proxy.core.units import MILLISECOND
from proxy.core.verdict import Verdict
from proxy.core.writes import WriteBook, WriteRecord, WriteState
from proxy.dataplane.call import Call
from proxy.dataplane.client import Client
from proxy.dataplane.entry import Entry
from proxy.dataplane.plane import Plane
from proxy.net.connection import UpstreamConnection
from proxy.net.dial import Barrier, Dialer, Dialled
from proxy.net.errors import DialError
from proxy.net.own import OwnPorts
from proxy.net.peer import PeerSockets

HIGH_WATER = 65_536


class Loop:
    """As much of an event loop as the data plane uses, on a clock that only moves when it is told to.

    `early`: how much too early timers wake (nanoseconds), as uvloop's can.
    """

    def __init__(self) -> None:
        self.now = 1_000_000 * MILLISECOND
        self.early = 0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._order = itertools.count()

    def clock(self) -> int:
        return self.now

    def time(self) -> float:
        return self.now / 1e9

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, cast(asyncio.AbstractEventLoop, self), context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        span = round(delay * 1e9)
        wakes = self.now + max(span - self.early, min(span, MILLISECOND // 5))
        handle = asyncio.TimerHandle(
            self.time() + delay, callback, args, cast(asyncio.AbstractEventLoop, self)
        )
        heapq.heappush(self._timers, (wakes, next(self._order), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Part of what a TimerHandle expects of its loop."""

    def create_task(
        self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coroutine, loop=cast(asyncio.AbstractEventLoop, self), name=name)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast(asyncio.AbstractEventLoop, self))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks call this as they are collected, if they were not waited for: in a test that has failed by then."""

    def settle(self) -> None:
        """Let everything happen that can without time passing."""
        turns = 0
        while self._ready or self._due():
            handle = self._ready.popleft() if self._ready else heapq.heappop(self._timers)[2]
            if not handle.cancelled():
                _run(handle)
            turns += 1
            assert turns < 100_000, "it goes round"

    def advance(self, ms: float) -> None:
        """Let time pass."""
        self.settle()
        end = self.now + round(ms * MILLISECOND)
        while self._timers and self._timers[0][0] <= end:
            self.now = max(self.now, self._timers[0][0])
            self.settle()
        self.now = max(self.now, end)
        self.settle()

    @property
    def armed(self) -> int:
        """How many timers are still to fire."""
        return sum(not handle.cancelled() for _, _, handle in self._timers)

    def _due(self) -> bool:
        return bool(self._timers) and self._timers[0][0] <= self.now


def _run(handle: asyncio.Handle) -> None:
    """Run a callback so that what it raises comes out here."""
    callback, args, context = handle._callback, handle._args, handle._context  # type: ignore[attr-defined]
    context.run(callback, *args)


class Socket:
    """What the data plane asks of a socket besides bytes."""

    def __init__(self) -> None:
        self.resets_on_close = False
        self.dead = False
        self.round_trip = 0
        """As the kernel has measured it (microseconds)."""

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self.resets_on_close = True

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        info = bytearray(104)
        info[0] = 7 if self.dead else 1
        struct.pack_into("=I", info, 68, self.round_trip)
        return bytes(info[:size])


class Transport(asyncio.Transport):
    """One end of a connection. What was written is in `sent`; while `stuck`, it piles up as it would in a slow one."""

    def __init__(self, loop: Loop, socket: Socket | None) -> None:
        super().__init__()
        self._loop = loop
        self._socket = socket
        self._protocol: Any = None
        self.sent = bytearray()
        self.stuck = False
        self.pending = bytearray()
        self.closing = False
        self.lost = False
        self.eof_sent = False
        self.reading = True
        self.kept_back: list[bytes | None] = []
        self.ended = False
        self.writes_after_the_end = 0
        self._paused = False

    # -- as protocols see it -----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {"socket": self._socket, "sockname": ("127.0.0.1", 10800), "peername": ("127.0.0.1", 50000)}
        return known.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.closing
        if not self.reading:
            self.reading = True
            self._loop.call_soon(self._deliver)

    def write(self, data: Any) -> None:
        if self.closing or self.eof_sent:
            self.writes_after_the_end += len(data)
            return
        if self.stuck:
            self.pending += data
            if len(self.pending) > HIGH_WATER and not self._paused:
                self._paused = True
                self._protocol.pause_writing()
        else:
            self.sent += data

    def get_write_buffer_size(self) -> int:
        return len(self.pending)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof_sent = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            if not self.pending:
                self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self.closing = True
        self.pending.clear()
        self._loop.call_soon(self._lose, None)

    # -- as the world moves it ----------------------------------------------------------------------------------------

    def arrive(self, data: bytes | None) -> None:
        """Bytes from the other side; None is its end, after which nothing comes. They wait while nobody reads."""
        if self.ended:
            return
        self.ended = data is None
        self.kept_back.append(data)
        self._deliver()
        self._loop.settle()

    def unstick(self) -> None:
        """The other side reads again."""
        self.stuck = False
        self.sent += self.pending
        self.pending.clear()
        if self._paused:
            self._paused = False
            self._protocol.resume_writing()
        if self.closing:
            self._loop.call_soon(self._lose, None)
        self._loop.settle()

    def break_off(self) -> None:
        """The other side resets the connection."""
        self.closing = True
        self._loop.call_soon(self._lose, ConnectionResetError())
        self._loop.settle()

    def _deliver(self) -> None:
        while self.kept_back and self.reading and not self.closing:
            data = self.kept_back.pop(0)
            if data is not None:
                self._protocol.data_received(data)
            elif not self._protocol.eof_received():
                self.close()

    def _lose(self, exc: Exception | None) -> None:
        if not self.lost:
            self.lost = self.closing = True
            self._protocol.connection_lost(exc)


class FakeClient:
    """A client's end of a connection to the sidecar."""

    def __init__(
        self, world: World, original: tuple[str, int] | None = None, serves: type[Call] = Call
    ) -> None:
        self._world = world
        self.socket = Socket()
        self.transport = Transport(world.loop, self.socket)
        self.protocol = Client(world.plane, original, serves)
        self.transport.set_protocol(cast(asyncio.Protocol, self.protocol))
        self.protocol.connection_made(self.transport)

    def sends(self, data: bytes) -> FakeClient:
        self.transport.arrive(data)
        return self

    def asks(
        self, method: str = "GET", target: str = "http://tool/", body: bytes = b"", **fields: Any
    ) -> FakeClient:
        """Send a request; `Budget_Id="x"` is the field `Budget-Id: x`."""
        return self.sends(request(method, target, body, **fields))

    def ends(self) -> FakeClient:
        """End the client's side of the connection."""
        self.transport.arrive(None)
        return self

    def leaves(self) -> None:
        self.transport.break_off()

    @property
    def received(self) -> bytes:
        return bytes(self.transport.sent)

    @property
    def statuses(self) -> list[int]:
        """The statuses of all that came, interim ones too."""
        return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", self.received)]

    @property
    def body(self) -> bytes:
        """What came after the last head."""
        return self.received.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")[2]

    def field(self, name: str) -> str | None:
        """A field of the last head that came."""
        head = self.received.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")[0].decode("latin-1")
        for line in head.split("\r\n")[1:]:
            known, _, value = line.partition(": ")
            if known.lower() == name.lower():
                return value
        return None


class FakeUpstream:
    """A tool's end of a connection from the sidecar. `tunnel`: its bytes are not the sidecar's own."""

    def __init__(
        self, world: World, origin: Origin, protocol: UpstreamConnection, *, tunnel: bool = False
    ) -> None:
        self.origin = origin
        self.tunnel = tunnel
        self.transport = Transport(world.loop, None)
        self.transport.set_protocol(cast(asyncio.Protocol, protocol))
        self.connection = protocol

    def says(self, data: bytes) -> FakeUpstream:
        self.transport.arrive(data)
        return self

    def answers(self, body: bytes = b"ok", status: int = 200, **fields: Any) -> FakeUpstream:
        return self.says(response(status, body, **fields))

    def ends(self) -> FakeUpstream:
        self.transport.arrive(None)
        return self

    def breaks_off(self) -> None:
        self.transport.break_off()

    @property
    def received(self) -> bytes:
        return bytes(self.transport.sent)

    @property
    def heads(self) -> list[bytes]:
        """The request heads that came, one after the other."""
        return re.findall(rb"[A-Z]+ [^ ]+ HTTP/1\.1\r\n(?:[^\r\n]+\r\n)+", self.received)

    def field(self, name: str) -> str | None:
        """A field of the last request that came."""
        for line in self.heads[-1].decode("latin-1").split("\r\n"):
            known, _, value = line.partition(": ")
            if known.lower() == name.lower():
                return value
        return None

    @property
    def closed(self) -> bool:
        return self.transport.closing


class FakeDialer:
    """Opens connections at once; while `held`, only when told; and to nobody in `refused`. `early` is what each one says
    before it is asked. `addresses`: what names stand for; all others are at 127.0.0.1.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.held = False
        self.refused: set[str] = set()
        self.addresses: dict[str, list[str]] = {}
        self.fails_as: Reason = Reason.CONNECTION_REFUSED
        self.inside = True
        self.via_parent = False
        self.early = b""
        self.asked = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def dial(
        self, origin: Origin, factory: Callable[[], UpstreamConnection], *, tunnel: bool = False
    ) -> Dialled[UpstreamConnection]:
        self.asked += 1
        if self.held:
            place = self._world.loop.create_future()
            self.waiting.append(place)
            await place
        if origin.host in self.refused:
            raise DialError(self.fails_as, f"{origin} refuses connections.")
        denied = self._barrier.lets_pass(self._denied(origin))
        protocol = factory()
        upstream = FakeUpstream(self._world, origin, protocol, tunnel=tunnel)
        protocol.connection_made(upstream.transport)
        self._world.upstreams.append(upstream)
        if self.early:
            protocol.data_received(self.early)
        return Dialled(upstream.transport, protocol, "127.0.0.1", self.inside, self.via_parent, denied)

    @property
    def _barrier(self) -> Barrier:
        policy = self._world.plane.policy
        return Barrier(policy.egress, policy.mode is Mode.ENFORCE)

    def _denied(self, origin: Origin) -> str:
        """What there is to say against a place, as the real dialer finds it out."""
        egress = self._world.plane.policy.egress
        addresses = [] if origin.address or origin.inward else self.addresses.get(origin.host, ["127.0.0.1"])
        said = [egress.denies(origin), *map(egress.denies_address, addresses)]
        return next(filter(None, said), "")

    def release(self) -> None:
        """Let the longest waiting one through."""
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_result(None)
                break
        self._world.loop.settle()


class FakeJournal:
    """Keeps records in a dict; says that they are durable in the next turn, or while `held` only when told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.held = False
        self.error: Exception | None = None
        self.kept: dict[str, WriteRecord] = {}
        self.log: list[tuple[str, str, int]] = []
        """What was asked for, of which record, and how many bytes any upstream had received by then."""
        self.waiting: deque[tuple[Callable[[], None], Callable[[Exception | None], None] | None]] = deque()

    def put(self, record: WriteRecord, done: Callable[[Exception | None], None] | None = None) -> None:
        def apply() -> None:
            self.kept[record.id] = record

        self._take(record.state.value, record.id, apply, done)

    def drop(self, id: str, done: Callable[[Exception | None], None] | None = None) -> None:
        def apply() -> None:
            self.kept.pop(id, None)

        self._take("drop", id, apply, done)

    def release(self) -> None:
        """The disk has caught up."""
        while self.waiting:
            self._finish(*self.waiting.popleft())
        self._world.loop.settle()

    def _take(
        self, what: str, id: str, apply: Callable[[], None], done: Callable[[Exception | None], None] | None
    ) -> None:
        self.log.append((what, id, sum(len(upstream.received) for upstream in self._world.upstreams)))
        if self.held:
            self.waiting.append((apply, done))
        else:
            self._world.loop.call_soon(self._finish, apply, done)

    def _finish(self, apply: Callable[[], None], done: Callable[[Exception | None], None] | None) -> None:
        if self.error is None:
            apply()
        if done is not None:
            done(self.error)


class Kernel(PeerSockets):
    """What the kernel would say of a client's socket."""

    def __init__(self) -> None:
        super().__init__()
        self.left: bool | None = False
        self.own: bool | None = False

    def is_own(self, peer: Any, original: tuple[str, int]) -> bool | None:
        return self.own

    def has_left(self, local: Any, peer: Any, original: tuple[str, int] | None = None) -> bool | None:
        return self.left


class Observed:
    """All that the observer is told."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.faults: list[str] = []
        self.opened: list[str] = []
        self.entries: list[EntryRecord] = []
        self.extensions = 0
        self.budgets_opened = 0
        self.budgets_closed: list[tuple[Verdict, Counts]] = []
        self.retries: list[str] = []
        self.withheld: list[str] = []
        self.joins: list[str] = []
        self.verifications: list[str] = []
        self.settlements: list[tuple[str, WriteState]] = []
        self.stages_used: list[tuple[str, int, int]] = []
        self.less: list[tuple[StepRecord, Budget | None, int]] = []
        self.rungs_tried: list[tuple[str, str, int]] = []
        self.cache_failures: list[str] = []

    def step(self, record: StepRecord) -> None:
        self.records.append(record)

    def degraded(self, record: StepRecord, budget: Budget | None, now: int) -> None:
        self.less.append((record, budget, now))

    def rung_tried(self, route: str, rung: str, ns: int) -> None:
        self.rungs_tried.append((route, rung, ns))

    def cache_failed(self, part: str) -> None:
        self.cache_failures.append(part)

    def entry(self, record: EntryRecord) -> None:
        self.entries.append(record)

    def settled(self, record: WriteRecord) -> None:
        self.settlements.append((record.id, record.state))

    def malformed(self, reason: str) -> None:
        self.faults.append(reason)

    def opaque(self, way: str) -> None:
        self.opened.append(way)

    def extension_ignored(self) -> None:
        self.extensions += 1

    def budget_opened(self) -> None:
        self.budgets_opened += 1

    def budget_closed(self, verdict: Verdict, counts: Counts) -> None:
        self.budgets_closed.append((verdict, counts))

    def stage_used(self, stage: str, share: int, used: int) -> None:
        self.stages_used.append((stage, share, used))

    def retried(self, route: str) -> None:
        self.retries.append(route)

    def retry_withheld(self, route: str, why: str) -> None:
        self.withheld.append(why)

    def joined(self, route: str) -> None:
        self.joins.append(route)

    def verified(self, route: str, found: str) -> None:
        self.verifications.append(found)


class World:
    """One sidecar's data plane, and everything around it."""

    def __init__(self, policy: Policy | None = None, book: WriteBook | None = None) -> None:
        self.loop = Loop()
        self.upstreams: list[FakeUpstream] = []
        self.dialer = FakeDialer(self)
        self.journal = FakeJournal(self)
        self.book = book if book is not None else WriteBook()
        self.observed = Observed()
        self.kernel = Kernel()
        self.plane = Plane(
            loop=cast(asyncio.AbstractEventLoop, self.loop),
            clock=self.loop.clock,
            wall_ms=lambda: self.loop.now // MILLISECOND,
            policy=policy if policy is not None else Policy(),
            dialer=cast(Dialer, self.dialer),
            journal=self.journal,
            book=self.book,
            observer=self.observed,
            name="w",
            own=OwnPorts([10800, 10802, 10803]),
        )
        self.plane.peers = self.kernel
        self.plane.jitter = lambda: 0.0
        self.clients: list[FakeClient] = []

    def client(self, original: tuple[str, int] | None = None) -> FakeClient:
        """A client that has just connected."""
        client = FakeClient(self, original)
        self.clients.append(client)
        return client

    def entry_client(self) -> FakeClient:
        """A client that has just connected to the inbound side."""
        client = FakeClient(self, serves=Entry)
        self.clients.append(client)
        return client

    def upstream(self, number: int = -1) -> FakeUpstream:
        """The connection to a tool that was opened last, or the one with this number."""
        return self.upstreams[number]

    def advance(self, ms: float) -> None:
        """Let time pass."""
        self.loop.advance(ms)

    @property
    def records(self) -> list[StepRecord]:
        """The step records so far."""
        return self.observed.records

    @property
    def record(self) -> StepRecord:
        """The one step record that there is."""
        (record,) = self.observed.records
        return record

    @property
    def sent(self) -> bytes:
        """All that any upstream has received."""
        return b"".join(upstream.received for upstream in self.upstreams)

    def happened(self, budget: str) -> list[tuple[str, int]]:
        """The admission timeline of a budget: what happened, to which step."""
        history = self.plane.budgets.get(budget).history  # type: ignore[union-attr]
        return [(event.what.value, event.step) for event in history.events] if history is not None else []

    def at_rest(self) -> None:
        """Fail if anything is held by anybody: all that was taken has been given back."""
        plane = self.plane
        assert plane.in_flight == 0
        assert plane.scheduler.leases == 0
        assert not any(plane.scheduler.queued().values())
        assert len(plane.claims) == 0
        gates = [plane.scheduler._pod]
        for lane in plane.scheduler._lanes.values():
            gates += [lane.workers, lane.writes]
        for budget in plane.budgets.listed():
            assert budget.in_flight == 0, budget.id
            gates += [budget.gate] if budget.gate is not None else []
        for gate in gates:
            assert (gate.held, gate.waiting) == (0, []), gate.kind
        for unit, known in plane.attempts._units.items():
            assert known.running == 0, unit


def request(method: str = "GET", target: str = "http://tool/", body: bytes = b"", **fields: Any) -> bytes:
    """A request; `Budget_Id="x"` is the field `Budget-Id: x`, and a field that is None is left out."""
    host = target.split("/")[2] if "://" in target else target
    given: dict[str, Any] = {"Host": host} | {name.replace("_", "-"): value for name, value in fields.items()}
    if body and not given.keys() & {"Content-Length", "Transfer-Encoding"}:
        given["Content-Length"] = len(body)
    version = given.pop("version", "1.1")
    lines = [f"{method} {target} HTTP/{version}"]
    lines += [f"{name}: {value}" for name, value in given.items() if value is not None]
    return "\r\n".join([*lines, "", ""]).encode() + body


def response(status: int = 200, body: bytes = b"ok", **fields: Any) -> bytes:
    """A response with a length, unless its fields say otherwise."""
    given = {name.replace("_", "-"): value for name, value in fields.items()}
    if (
        not given.keys() & {"Content-Length", "Transfer-Encoding"}
        and status >= 200
        and status not in (204, 304)
    ):
        given["Content-Length"] = len(body)
    lines = [
        f"HTTP/1.1 {status} Because",
        *(f"{name}: {value}" for name, value in given.items() if value is not None),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
