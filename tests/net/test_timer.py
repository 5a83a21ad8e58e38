"""What wakes the loop: the kernel's timer where there is one, and never before it is time."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import time

import pytest
import uvloop

from proxy.core.units import MILLISECOND
from proxy.net import timer as timers
from proxy.net.alarm import Alarm, Alarms
from proxy.net.timer import KernelTimer, LoopTimer, Timer, timer


def kernel_timer(loop: asyncio.AbstractEventLoop) -> KernelTimer:
    """Skips where there is none."""
    try:
        return KernelTimer(loop)
    except OSError as error:
        pytest.skip(f"no timerfd: {error}")


async def rings(timer: Timer, *spans: int) -> None:
    """Set alarms and wait for all of them. Fails if one rings early."""
    loop, clock = asyncio.get_running_loop(), time.monotonic_ns
    alarms = Alarms(loop, clock, timer)
    waiting = []
    for span in spans:
        done = loop.create_future()
        due = clock() + span
        Alarm(alarms, lambda now, done=done, due=due: done.set_result(now - due)).set(due)  # type: ignore[misc]
        waiting.append(done)
    assert min([await done for done in waiting]) >= 0
    assert alarms.first > clock()
    alarms.close()


SPANS = (0, -5, 1, 999_999, 3 * MILLISECOND + 1, 3 * MILLISECOND, 12 * MILLISECOND)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_kernel_s_timer_wakes_for_each_and_never_early(run: object) -> None:
    """Whether the time has passed already, is close, or comes later; on either loop."""

    async def main() -> None:
        await rings(kernel_timer(asyncio.get_running_loop()), *SPANS)

    run(main())  # type: ignore[operator]


def test_the_loop_s_own_does_as_well() -> None:
    """Where there is nothing better."""

    async def main() -> None:
        await rings(LoopTimer(asyncio.get_running_loop(), time.monotonic_ns), *SPANS)

    uvloop.run(main())


def test_it_is_moved_and_cleared() -> None:
    """The last word counts."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        kernel = kernel_timer(loop)
        woken = asyncio.Event()

        def wake() -> None:
            kernel.clear()
            woken.set()

        kernel.start(wake)
        kernel.set(time.monotonic_ns() + MILLISECOND)
        kernel.clear()
        await asyncio.sleep(0.02)
        assert not woken.is_set()
        kernel.set(time.monotonic_ns() + 3_600_000 * MILLISECOND)
        due = time.monotonic_ns() + MILLISECOND
        kernel.set(due)
        async with asyncio.timeout(10):
            await woken.wait()
        assert time.monotonic_ns() >= due
        kernel.close()
        kernel.close()

    uvloop.run(main())


def test_its_descriptor_is_closed_with_it() -> None:
    """Nothing is left of it."""

    async def main() -> None:
        kernel = kernel_timer(asyncio.get_running_loop())
        number = kernel._fd
        kernel.start(lambda: None)
        os.fstat(number)
        kernel.close()
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            os.fstat(number)

    uvloop.run(main())


def test_without_one_the_loop_s_own_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another system, or no descriptor left."""

    def none() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(timers, "_open", none)

    async def main() -> None:
        assert isinstance(timer(asyncio.get_running_loop(), time.monotonic_ns), LoopTimer)

    uvloop.run(main())


def test_nor_is_it_missed_where_python_cannot_call_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in one that was built without libffi."""
    monkeypatch.setitem(sys.modules, "ctypes", None)

    async def main() -> None:
        assert isinstance(timer(asyncio.get_running_loop(), time.monotonic_ns), LoopTimer)

    uvloop.run(main())
