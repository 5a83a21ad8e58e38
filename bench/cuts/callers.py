"""Callers whose stopwatch is the kernel's: when an answer came in is read from the packet, not from a clock afterwards.

A thousand callers in one process take their turns, and whoever looks at the clock when its turn has come measures the
others. So every socket asks for the time at which its bytes arrived (SO_TIMESTAMPNS, socket(7)). Over loopback a packet
arrives within the very system call that sends it: what is read is when the proxy handed its answer to the kernel.

The clock is CLOCK_REALTIME, which is the one that the kernel stamps with. No asyncio: sockets, one epoll and a loop.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from bench.cuts.plan import SPREAD, Block
from bench.procs import HOST, Failed

GIVE_UP: Final = 10.0
"""How much longer than its allowance a call may take (seconds)."""
_TAKEN: Final = 0.1
_TAKEN_EACH: Final = 0.0005
"""How long a proxy gets to take the connections, all together and each of them (seconds)."""
_SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h, SO_TIMESTAMPNS_OLD: a struct timespec of two longs
_TIMESPEC: Final = struct.Struct("ll")
_ROOM: Final = socket.CMSG_SPACE(_TIMESPEC.size)
_MOST_READ: Final = 65_536
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_CLOSES: Final = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


@dataclass(frozen=True)
class Call:
    """One call. `elapsed_ms`: from just before its request was written until its answer was handed to the kernel."""

    status: int
    elapsed_ms: float


class _Caller:
    """One connection, used for call after call for as long as the proxy keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._began = self._arrived = 0
        self._answer = b""
        self._connect()

    def fileno(self) -> int:
        return self._socket.fileno()

    def ask(self, request: bytes) -> None:
        """Write a request. The answer to the one before has been taken."""
        self._answer, self._arrived = b"", 0
        self._began = time.clock_gettime_ns(time.CLOCK_REALTIME)
        self._socket.send(request)

    def take(self) -> Call | None:
        """Read what has come; return the call once its answer is whole."""
        data, stamps, _, _ = self._socket.recvmsg(_MOST_READ, _ROOM)
        if not data:
            raise Failed("the proxy closed a connection without an answer")
        self._arrived = self._arrived or _stamp(stamps)
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length is not None and len(body) < int(length[1])):
            return None
        return Call(int(head[9:12]), (self._arrived - self._began) / 1e6)

    def reconnects(self) -> bool:
        """Open another connection if the last answer has ended this one; return whether it did."""
        if not _CLOSES.search(self._answer.partition(b"\r\n\r\n")[0]):
            return False
        self.close()
        self._connect()
        return True

    def close(self) -> None:
        self._socket.close()

    def _connect(self) -> None:
        self._socket = socket.create_connection((HOST, self._port), timeout=GIVE_UP)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def _stamp(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return when the bytes arrived (nanoseconds)."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, rest = _TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(rest)
    raise Failed("this kernel does not say when bytes have arrived (SO_TIMESTAMPNS)")


class Crowd:
    """So many callers of one proxy, and the loop that serves them."""

    def __init__(self, port: int, width: int) -> None:
        """Open the connections, and let the proxy take them: what is measured does not begin with that."""
        self._epoll = select.epoll()
        self._callers: dict[int, _Caller] = {}
        for _ in range(width):
            self._register(_Caller(port))
        time.sleep(_TAKEN + _TAKEN_EACH * width)

    def calls(self, block: Block, request: bytes) -> list[Call]:
        """Make all calls of a block, which is as wide as the crowd, and return them as their answers came."""
        longest = block.allowance_ms / 1_000 + GIVE_UP
        if block.pattern == SPREAD:
            return self._one_after_the_other(block, request, longest)
        return [call for _ in range(block.waves) for call in self._wave(request, longest)]

    def close(self) -> None:
        for caller in self._callers.values():
            caller.close()
        self._epoll.close()

    def _register(self, caller: _Caller) -> None:
        self._callers[caller.fileno()] = caller
        self._epoll.register(caller.fileno(), select.EPOLLIN)

    def _wave(self, request: bytes, longest: float) -> list[Call]:
        for caller in self._callers.values():
            caller.ask(request)
        found: list[Call] = []
        while len(found) < len(self._callers):
            found += [call for call, _ in self._answers(longest)]
        return found

    def _one_after_the_other(self, block: Block, request: bytes, longest: float) -> list[Call]:
        """Each caller's next call follows its last answer."""
        began, pause = time.monotonic(), block.allowance_ms / 1_000 / block.in_flight
        begins = deque((began + pause * number, each) for number, each in enumerate(self._callers.values()))
        left = dict.fromkeys(self._callers.values(), block.waves)
        found: list[Call] = []
        while len(found) < block.cuts:
            while begins and begins[0][0] <= time.monotonic():
                begins.popleft()[1].ask(request)
            wait = max(0.0, begins[0][0] - time.monotonic()) if begins else longest
            for call, caller in self._answers(wait, may_be_none=bool(begins)):
                found.append(call)
                left[caller] -= 1
                if left[caller]:
                    caller.ask(request)
        return found

    def _answers(self, wait: float, *, may_be_none: bool = False) -> Iterator[tuple[Call, _Caller]]:
        """Yield the answers that have come, and whose they are. Waits for the first for so many seconds."""
        ready = self._epoll.poll(wait)
        if not ready and not may_be_none:
            raise Failed(f"no answer from the proxy {GIVE_UP:.0f} s after the allowance")
        for number, _ in ready:
            caller = self._callers[number]
            call = caller.take()
            if call is None:
                continue
            if caller.reconnects():
                del self._callers[number]  # the kernel has forgotten it with its descriptor
                self._register(caller)
            yield call, caller


@contextmanager
def crowd(port: int, width: int) -> Iterator[Crowd]:
    """So many callers, connected; gone on the way out."""
    callers = Crowd(port, width)
    try:
        yield callers
    finally:
        callers.close()
