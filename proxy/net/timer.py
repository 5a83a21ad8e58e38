"""What wakes the loop at a given time: the kernel, to within some 0.1 ms, or else the loop's own timers, to within 1.3 ms.

uvloop's timers count whole milliseconds from a time that the loop has read some time ago, so they wake up to 1.3 ms too early or 1 ms too
late. A timer of the kernel (timerfd_create(2)) is a descriptor that becomes readable at a time in nanoseconds, on the
very clock that is compared with, and never before.
"""

from __future__ import annotations

import os
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Any, Final, Protocol

from proxy.core.units import MILLISECOND, SECOND

_ABSOLUTE: Final = 1  # TFD_TIMER_ABSTIME
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC


class Timer(Protocol):
    """One time to wake at. Times are nanoseconds on the clock of whoever sets it."""

    def start(self, wake: Callable[[], None]) -> None:
        """Take what is to be called, from the loop. Called once, before anything else."""

    def set(self, due: int) -> None:
        """Wake at `due`, or a little before or after, instead of whenever was set. A time that has passed: at once."""

    def clear(self) -> None:
        """Wake no more until it is set again."""

    def close(self) -> None:
        """Let go of whatever it holds. Not used any more."""


class LoopTimer:
    """A timer of the event loop: there everywhere."""

    def __init__(self, loop: AbstractEventLoop, clock: Callable[[], int]) -> None:
        """Make a timer that is not set."""
        self._loop = loop
        self._clock = clock
        self._wake: Callable[[], None] = _nothing
        self._handle: TimerHandle | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Take what is to be called."""
        self._wake = wake

    def set(self, due: int) -> None:
        """Wake at `due`, rounded up: a timer of no whole millisecond would spin."""
        self.clear()
        wait = due - self._clock()
        self._handle = self._loop.call_later(-(-wait // MILLISECOND) / 1000 if wait > 0 else 0, self._wake)

    def clear(self) -> None:
        """Wake no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close(self) -> None:
        """Cancel."""
        self.clear()


class KernelTimer:
    """A timer of the kernel, on CLOCK_MONOTONIC (`time.monotonic_ns`), that an event loop watches."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        """Open it. Raises OSError where there is none: another system than Linux, or no descriptor left."""
        self._loop = loop
        self._fd, self._settime, self._spec = _open()

    def start(self, wake: Callable[[], None]) -> None:
        """Take what is to be called; whatever it does, it sets or clears the timer, which is what the loop waits for."""
        self._loop.add_reader(self._fd, wake)

    def set(self, due: int) -> None:
        """Wake at `due`, and not before."""
        self._spec[2], self._spec[3] = divmod(max(due, 1), SECOND)  # zero would clear it
        self._settime(self._fd, _ABSOLUTE, self._spec, None)

    def clear(self) -> None:
        """Wake no more."""
        self._spec[2] = self._spec[3] = 0
        self._settime(self._fd, _ABSOLUTE, self._spec, None)

    def close(self) -> None:
        """Close the descriptor. Safe to call twice."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


def timer(loop: AbstractEventLoop, clock: Callable[[], int]) -> Timer:
    """Return the best timer there is for times on `time.monotonic_ns`, which `clock` must be."""
    try:
        return KernelTimer(loop)
    except OSError:
        return LoopTimer(loop, clock)


def _open() -> tuple[int, Callable[..., int], Any]:
    """Return a descriptor, timerfd_settime(2), and the struct itimerspec that it takes. Raises OSError.

    That is how often again, which is never, and then when, each in seconds and nanoseconds.
    """
    try:
        import ctypes  # the only one that needs it, and not every Python has it
    except ImportError as error:
        raise OSError(f"This Python cannot call the C library: {error}") from error
    libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock: nothing here ever waits
    if not hasattr(libc, "timerfd_create"):
        raise OSError("This system has no timerfd_create.")
    descriptor = libc.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor, libc.timerfd_settime, (ctypes.c_long * 4)()


def _nothing() -> None:
    """Nobody has said yet what is to be called."""
