"""What one call costs in Python alone: a real client and a real upstream connection, on transports that lead nowhere.

No socket, no kernel, no disk: what is left is this package's own code, the parser's, and the interpreter's. Run by
`hotpath` with the interpreter of the build that is to be measured; it prints one JSON object for each kind of call.
Both sides are driven by hand, so that a call is two function calls (four for a write), one after the other.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, Final, cast

import uvloop

from proxy.core.policy import Policy
from proxy.core.writes import WriteBook, WriteRecord
from proxy.dataplane.client import Client
from proxy.dataplane.plane import Plane
from proxy.net.connection import UpstreamConnection
from proxy.net.dial import Dialer, Dialled
from proxy.net.own import OwnPorts
from proxy.observe.metrics import Metrics
from proxy.observe.observer import Observer
from proxy.observe.steplog import StepLog

_WARM_UP: Final = 2_000
_COUNTED: Final = 500
_TRACED: Final = 15
_SETTLE: Final = 0.2  # the log's thread has written by then

_BODY: Final = b'{"order":1,"note":"%s"}' % (b"x" * 177)
_LINE: Final = (
    b"%s http://127.0.0.1:9000/%s HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nBudget-Remaining-Ms: 30000\r\n"
)
REQUESTS: Final = {
    "get": _LINE % (b"GET", b"small") + b"\r\n",
    "post": _LINE % (b"POST", b"orders")
    + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY),
}
ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 29 Nov 2026 21:28:03 GMT\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 100\r\nConnection: keep-alive\r\n\r\n" + b"x" * 100
)


class Nowhere(asyncio.Transport):
    """Takes every byte and forgets it."""

    def __init__(self) -> None:
        self.written = 0
        self._reading = True

    def write(self, data: Any) -> None:
        self.written += 1

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class Dial:
    """In place of the dialer: a connection that is open at once. `opened` is the latest."""

    opened: UpstreamConnection

    async def dial(
        self, origin: object, factory: Callable[[], UpstreamConnection], *, tunnel: bool
    ) -> object:
        self.opened = factory()
        transport = Nowhere()
        self.opened.connection_made(transport)
        return Dialled(transport, self.opened, "127.0.0.1", inside=True, via_parent=False)


class Shelf:
    """In place of the journal: everything is on disk as soon as `settle` is called, for no more than a list costs."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[Exception | None], None]] = []

    def put(self, record: WriteRecord, done: Callable[[Exception | None], None] | None = None) -> None:
        if done is not None:
            self._waiting.append(done)

    def drop(self, id: str, done: Callable[[Exception | None], None] | None = None) -> None:
        if done is not None:
            self._waiting.append(done)

    def settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)


class Calls:
    """One client and one upstream, and the calls between them."""

    def __init__(self, log: StepLog, request: bytes) -> None:
        self._dial = Dial()
        self._shelf = Shelf()
        self._request = request
        self.plane = Plane(
            loop=asyncio.get_running_loop(),
            clock=time.monotonic_ns,
            wall_ms=lambda: 0,
            policy=Policy(),
            dialer=cast(Dialer, self._dial),
            journal=self._shelf,
            book=WriteBook(),
            observer=Observer(log, Metrics()),
            name="bench",
            own=OwnPorts([10800]),
        )
        self._client = Client(self.plane)
        self._transport = Nowhere()
        self._client.connection_made(self._transport)

    async def begin(self) -> None:
        """Open the connection: the first call waits for it, as a first call does."""
        self._client.data_received(self._request)
        self._shelf.settle()
        await asyncio.sleep(_SETTLE)
        self.answer()
        if self._transport.written != 1 or self.plane.in_flight:
            sys.exit("the call was not relayed")

    def ask(self) -> None:
        self._client.data_received(self._request)
        self._shelf.settle()

    def answer(self) -> None:
        self._dial.opened.data_received(ANSWER)
        self._shelf.settle()

    def one(self) -> None:
        self.ask()
        self.answer()

    def many(self, count: int) -> None:
        for _ in range(count):
            self.one()


async def microseconds(calls: Calls, rounds: int, count: int) -> list[float]:
    """CPU time of this thread for a call, in each round: what other processes do falls out of it, save for their caches."""
    found = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        calls.many(count)
        found.append((time.thread_time_ns() - began) / count / 1000)
        await asyncio.sleep(_SETTLE)
    return found


def interpreted(calls: Calls) -> tuple[int, int]:
    """How many Python functions one call enters, and how many instructions of the interpreter it takes.

    Exact, and the same each time but for what is made anew once in a while (the text of the time of day), so this is
    the median. What is compiled does not show, and what this file does is left out.
    """
    entered = steps = 0

    def watch(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal entered, steps
        if frame.f_code.co_filename == __file__:
            return None
        if event == "call":
            entered += 1
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            steps += 1
        return watch

    found = []
    for _ in range(_TRACED):
        entered = steps = 0
        sys.settrace(watch)
        calls.one()
        sys.settrace(None)
        found.append((entered, steps))
    return int(median(entered for entered, _ in found)), int(median(steps for _, steps in found))


async def left_behind(calls: Calls) -> tuple[float, float]:
    """What stays of a call: objects that only the garbage collector frees, and blocks of memory that not even it does."""
    gc.disable()
    await asyncio.sleep(_SETTLE)
    gc.collect()
    before = sys.getallocatedblocks()
    calls.many(_COUNTED)
    await asyncio.sleep(_SETTLE)  # the loop lets go of timers that were cancelled
    garbage = gc.collect()
    leaked = sys.getallocatedblocks() - before
    gc.enable()
    return garbage / _COUNTED, leaked / _COUNTED


def peak_bytes(calls: Calls) -> int:
    """How much memory a call takes at its highest, beyond what was there before."""
    found = []
    tracemalloc.start()
    calls.many(10)
    for _ in range(_COUNTED):
        before, _peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        calls.one()
        found.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return int(median(found))


async def measure(kind: str, log: StepLog, rounds: int, count: int) -> dict[str, Any]:
    calls = Calls(log, REQUESTS[kind])
    await calls.begin()
    calls.many(_WARM_UP)
    entered, steps = interpreted(calls)
    garbage, leaked = await left_behind(calls)
    peak = peak_bytes(calls)
    gc.freeze()
    spent = await microseconds(calls, rounds, count)
    return {
        "kind": kind,
        "us": spent,
        "functions": entered,
        "instructions": steps,
        "garbage": garbage,
        "leaked": leaked,
        "peak_bytes": peak,
    }


def compiled_modules() -> int:
    files = [
        getattr(module, "__file__", None) or ""
        for name, module in sys.modules.items()
        if name.startswith("proxy.")
    ]
    return sum(not file.endswith(".py") for file in files)


async def main(log: StepLog) -> None:
    rounds, count = int(sys.argv[1]), int(sys.argv[2])
    for kind in REQUESTS:
        found = await measure(kind, log, rounds, count)
        print(json.dumps({**found, "compiled_modules": compiled_modules()}), flush=True)


if __name__ == "__main__":
    with Path(os.devnull).open("w") as nowhere:
        uvloop.run(main(StepLog(nowhere.fileno())))
