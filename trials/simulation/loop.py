"""The event loop of one simulated process: as much of asyncio's as the sidecar uses, on simulated time.

What asyncio promises is kept: callbacks of `call_soon` run in their order, a timer never before the ones that are due
earlier, the events of one connection in their order, and nothing runs inside of anything else. Where it promises nothing
the order is drawn: between connections that are ready in one turn, between those and the timers. A turn takes time,
and what arrives meanwhile waits for the next one. Timers wake up to 1.3 ms too early, as uvloop's do.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from proxy.core.units import MICROSECOND, MILLISECOND, SECOND
from trials.simulation.clock import Clock, Event
from trials.simulation.draws import Draws

if TYPE_CHECKING:
    from trials.simulation.network import Network
    from trials.simulation.transport import Socket

EARLY: Final = 1_300 * MICROSECOND
"""How much too early a timer may wake (nanoseconds)."""
_READING: Final = 100
"""How long each look at the clock takes (nanoseconds): two in one turn do not show the same."""


class Pace(NamedTuple):
    """How long turns take: each up to `turn`; and one in `stalls_in` up to `stall` (nanoseconds)."""

    turn: int
    stall: int = 0
    stalls_in: int = 0


PACES: Final = (
    Pace(0),
    Pace(20 * MICROSECOND),
    Pace(200 * MICROSECOND),
    Pace(2 * MILLISECOND),
    Pace(100 * MICROSECOND, stall=20 * MILLISECOND, stalls_in=400),
)


class Loop:
    """The loop of one process. Once `alive` is false, nothing of it runs any more."""

    def __init__(self, clock: Clock, network: Network, draws: Draws, faults: list[str]) -> None:
        """Begin with nothing to do. `faults` takes what was raised in callbacks."""
        self.alive = True
        self.turns = 0
        self.network = network
        self.pace = draws.one_of(PACES)
        self.longest = 0
        self._clock = clock
        self._draws = draws
        self._faults = faults
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._events: list[Callable[[], None]] = []
        self._order = itertools.count()
        self._free_at = clock.now
        self._within = 0
        self._in_turn = False
        self._next: Event | None = None
        self._next_at = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}

    # -- as the sidecar sees it --------------------------------------------------------------------------------------

    def clock(self) -> int:
        """Return the monotonic time in nanoseconds; a turn takes time."""
        self._within += _READING
        return self._clock.now + self._within

    def time(self) -> float:
        """Return the monotonic time in seconds."""
        return self.clock() / SECOND

    def get_debug(self) -> bool:
        """Say that nothing is to be checked twice."""
        return False

    def is_closed(self) -> bool:
        """Say whether the process has gone."""
        return not self.alive

    def is_running(self) -> bool:
        """Say that it runs."""
        return self.alive

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Have a callback run in the next turn, after those that were given before."""
        handle = asyncio.Handle(callback, args, cast(asyncio.AbstractEventLoop, self), context)
        if self.alive:
            self._ready.append(handle)
            if not self._in_turn:
                self._wake(self._clock.now)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have a callback run after a while (seconds)."""
        span = round(delay * SECOND)
        early = int(EARLY * self._draws.random())
        wakes = self._clock.now + max(span - early, min(span, MILLISECOND // 5))
        handle = asyncio.TimerHandle(
            self._clock.now / SECOND + delay, callback, args, cast(asyncio.AbstractEventLoop, self), context
        )
        if self.alive:
            heapq.heappush(self._timers, (wakes, next(self._order), handle))
            if not self._in_turn:
                self._wake(wakes)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have a callback run at a time (seconds)."""
        return self.call_later(max(0.0, when - self._clock.now / SECOND), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=cast(asyncio.AbstractEventLoop, self))

    def create_task(
        self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None
    ) -> asyncio.Task[Any]:
        """Run a coroutine."""
        task = asyncio.Task(coroutine, loop=cast(asyncio.AbstractEventLoop, self), name=name or "task")
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Take note of what nobody has caught. What is thrown away with a dead process says nothing."""
        if self.alive:
            exception = context.get("exception")
            self._faults.append(f"{context.get('message')}: {exception!r}{_where(exception)}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """As above."""
        self.call_exception_handler(context)

    def add_signal_handler(self, number: int, callback: Callable[..., Any], *args: Any) -> None:
        """Take what is to happen at a signal."""
        self.network.signals[number] = lambda: self.call_soon(callback, *args)

    async def create_server(self, factory: Callable[[], Any], host: Any, port: int, **_: Any) -> Any:
        """Open a port."""
        return self.network.listen(self, factory, port)

    async def sock_connect(self, sock: Socket, address: tuple[str, int]) -> None:
        """Connect a socket."""
        await self.network.connect(self, sock, address)

    async def create_connection(self, factory: Callable[[], Any], *, sock: Socket, **_: Any) -> Any:
        """Put a protocol on a connected socket."""
        return await self.network.attach(self, sock, factory)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Part of what a TimerHandle expects of its loop."""

    # -- as the simulation moves it ------------------------------------------------------------------------------------

    def event(self, callback: Callable[[], None]) -> None:
        """Have a connection see to what has come for it."""
        self._events.append(callback)
        if not self._in_turn:
            self._wake(self._clock.now)

    def block(self, span: int) -> None:
        """Let the present turn take longer (nanoseconds)."""
        self._within += span

    def kill(self) -> None:
        """End the process, whatever it is at."""
        self.alive = False
        self._ready.clear()
        self._timers.clear()
        self._events.clear()

    @property
    def armed(self) -> list[str]:
        """What timers are still to fire, by the names of their callbacks."""
        return [_name(handle) for _, _, handle in self._timers if not handle.cancelled()]

    @property
    def pending(self) -> list[str]:
        """The names of the tasks that have not ended."""
        return [task.get_name() for task in self._tasks]

    def left(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have not ended."""
        return list(self._tasks)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def _wake(self, when: int) -> None:
        when = max(when, self._free_at)
        if self._next is not None:
            if self._next_at <= when:
                return
            self._next.call_off()
        self._next_at = when
        self._next = self._clock.at(when, self._turn)

    def _turn(self) -> None:
        """Run one turn: what has come, timers that are due, and the callbacks that were waiting when it began."""
        self._next = None
        if not self.alive:
            return
        self.turns += 1
        self._in_turn, self._within = True, 0
        asyncio._set_running_loop(cast(asyncio.AbstractEventLoop, self))
        try:
            if self._events:
                self._take_events()
            now, timers = self._clock.now, self._timers
            while timers and timers[0][0] <= now:
                self._ready.append(heapq.heappop(timers)[2])
            ready = self._ready
            for _ in range(len(ready)):
                if not ready:
                    break
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
        finally:
            asyncio._set_running_loop(None)
            self._in_turn = False
        self._end_turn()

    def _take_events(self) -> None:
        events, self._events = self._events, []
        if len(events) > 1:
            self._draws.shuffle(events)
        if self._timers and self._draws.random() < 0.5:  # due timers may come before what has arrived
            while self._timers and self._timers[0][0] <= self._clock.now:
                self._ready.append(heapq.heappop(self._timers)[2])
        for callback in events:
            try:
                callback()
            except Exception as exc:  # noqa: BLE001 - whatever a protocol raises is a finding
                self._faults.append(f"a protocol failed: {exc!r}{_where(exc)}")

    def _end_turn(self) -> None:
        pace, draws = self.pace, self._draws
        cost = self._within + int(pace.turn * draws.random())
        if pace.stalls_in and draws.random() * pace.stalls_in < 1:
            cost += int(pace.stall * draws.random())
        self.longest = max(self.longest, cost)
        self._within = 0
        self._free_at = self._clock.now + cost
        if not self.alive:
            return
        if self._ready or self._events:
            self._wake(self._free_at)
        elif self._timers:
            self._wake(self._timers[0][0])


def _name(handle: asyncio.Handle) -> str:
    callback = handle._callback  # type: ignore[attr-defined]
    return getattr(callback, "__qualname__", repr(callback))


def _where(exc: BaseException | None) -> str:
    """Return where an exception was raised."""
    if exc is None or exc.__traceback__ is None:
        return ""
    trace = exc.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
