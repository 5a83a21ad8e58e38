"""Lines to a file descriptor, from an event loop that must never wait for who reads them.

`put` only appends to a list. A thread of its own wakes for the first line of a batch, lets a batch collect, and
writes it; only that thread waits when the reader is slow, the pipe full or the disk stuck. What is waiting is bounded:
past the bound new lines are dropped and counted, and the bound is all the memory it takes.

The two sides share no lock, which on the loop would cost as much as all the rest. The list is appended to by one side
and cut at its head by the other, each in one step of the interpreter, and every number has one writer.
"""

from __future__ import annotations

import os
import select
import threading
from typing import Final

_BATCH: Final = 1024  # lines joined at a time: what is written is held twice
_POLL_MS: Final = 100


class LineSink:
    """Whole lines of ASCII to `fd`, in order. `put` is called from one thread, `close` once.

    A line put from a second thread is written all the same; at worst it is missed in the sum that the bound is for.
    """

    def __init__(self, fd: int, *, delay: float, bound: int) -> None:
        """Write at most every `delay` seconds, and hold at most `bound` bytes that are not written yet."""
        self._fd = fd
        self._delay = delay
        self._bound = bound
        self._lines: list[str] = []
        self._under_way: list[str] = []
        self._taken = 0  # bytes, by the caller's side
        self._settled = 0  # bytes written or lost, by the thread
        self._refused = 0
        self._lost = 0
        self.errors = 0
        self._torn = False
        self._called = False
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._writer: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """How many lines were given up: past the bound, or because they could not be written."""
        return self._refused + self._lost

    @property
    def waiting(self) -> int:
        """How many bytes are neither written nor lost yet."""
        return self._taken - self._settled

    def put(self, line: str) -> None:
        """Take one line, its end included, or drop it."""
        size = len(line)
        if self._taken - self._settled + size > self._bound:
            self._refused += 1
            return
        self._taken += size
        self._lines.append(line)
        if not self._called:
            self._called = True
            self._call()

    def close(self, within: float) -> int:
        """Write what is left, for at most `within` seconds, and return how many lines are not known to be written."""
        self._bound = -1
        self._closing.set()
        self._wake.set()
        if self._writer is not None:
            self._writer.join(within)
        return len(self._under_way) + len(self._lines)

    def _call(self) -> None:
        if self._writer is None:
            # A daemon, since nobody can end a thread that a stuck reader holds in write(2).
            self._writer = threading.Thread(target=self._run, name="waterclock-log", daemon=True)
            self._writer.start()
        self._wake.set()

    def _run(self) -> None:
        while not self._closing.is_set() or self._lines:
            self._wake.wait()
            self._closing.wait(self._delay)
            self._wake.clear()
            self._called = False  # before the lines are taken: a later one calls again
            self._drain()

    def _drain(self) -> None:
        while self._lines:
            self._under_way = self._lines[:_BATCH]
            del self._lines[: len(self._under_way)]
            text = "".join(self._under_way)
            self._write(text.encode())
            self._under_way = []
            self._settled += len(text)

    def _write(self, data: bytes) -> None:
        """Write a batch, or count the lines of it that could not be written whole."""
        if self._torn and self._send(b"\n") == 1:
            self._torn = False
        sent = 0 if self._torn else self._send(data)
        if sent < len(data):
            self._lost += data.count(b"\n", sent)
            self._torn = self._torn or (sent > 0 and data[sent - 1] != ord("\n"))

    def _send(self, data: bytes) -> int:
        """Write until all is written or an error says that it cannot be; return how much was."""
        sent = 0
        while sent < len(data):
            try:
                sent += os.write(self._fd, memoryview(data)[sent:])
            except BlockingIOError:  # whoever shares the descriptor has made it so
                self._await_room()
            except (
                OSError
            ):  # the reader has gone, the disk is full: nothing that a log could say, so it is counted
                self.errors += 1
                break
        return sent

    def _await_room(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        poll.poll(_POLL_MS)
