"""The log of the sidecar: one JSON line for each step, and one for each other thing worth a line.

A step's line has `step` and the contract's fields; any other line has `event`, its name. Both begin with `time`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from proxy.core.policy import MEBIBYTE
from proxy.core.step import StepRecord
from proxy.observe.lines import event_line, step_line
from proxy.observe.sink import LineSink
from proxy.observe.walltime import Stamp, unix_ns

STDOUT: Final = 1


class StepLog:
    """Writes lines without ever waiting for their reader (`sink`). Call it from the event loop's thread."""

    def __init__(
        self,
        fd: int = STDOUT,
        *,
        delay: float = 0.05,
        bound: int = 8 * MEBIBYTE,
        clock: Callable[[], int] = unix_ns,
    ) -> None:
        """Write to `fd` at most every `delay` seconds; hold at most `bound` bytes. `clock`: Unix nanoseconds."""
        self._stamp = Stamp(clock)
        self._sink = LineSink(fd, delay=delay, bound=bound)

    @property
    def dropped(self) -> int:
        """How many lines were given up since the start."""
        return self._sink.dropped

    @property
    def errors(self) -> int:
        """How many times writing failed since the start."""
        return self._sink.errors

    @property
    def waiting(self) -> int:
        """How many bytes are not written yet."""
        return self._sink.waiting

    def write(self, record: StepRecord) -> None:
        """Log a step."""
        self._sink.put(step_line(record, self._stamp()))

    def event(self, name: str, /, **fields: Any) -> None:
        """Log anything else: the sidecar's start, a reload, a fault."""
        self._sink.put(event_line(name, self._stamp(), fields))

    def close(self, within: float = 1.0) -> int:
        """Write what is left, for at most `within` seconds; return how many lines are not known to be written."""
        return self._sink.close(within)
