"""Whose turn it is: calls ask the scheduler for a lease, wait for it, and hand it back.

`core.admission` decides; here are only the calls behind its tasks. A lease that is handed back may be granted to
another call at once, and that one may end in the same moment, so grants are handed out in a loop and never from within
one another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from proxy.core.admission import Lease, Scheduler, Shed, Task


class Waiting(Protocol):
    """A call that waits for its turn."""

    def on_lease(self, lease: Lease, now: int) -> None:
        """Take the lease: it is the call's until it is handed back."""


class Turns:
    """The calls that wait, by their tasks."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], int]) -> None:
        """Stand in front of a scheduler."""
        self._scheduler = scheduler
        self._clock = clock
        self._waiting: dict[str, Waiting] = {}
        self._granted: deque[Lease] = deque()
        self._handing = False

    def ask(self, task: Task, call: Waiting, now: int) -> Lease | Shed | None:
        """Return a lease or the reason why there will be none; None: the call waits, and `on_lease` is its turn."""
        answer = self._scheduler.ask(task, now)
        if isinstance(answer, str):
            self._waiting[task.id] = call
            return None
        return answer

    def insist(self, task: Task, now: int) -> Lease:
        """Return a lease, whether or not there is room."""
        self._waiting.pop(task.id, None)
        return self._scheduler.insist(task, now)

    def late(self, task: Task) -> Shed:
        """Stop waiting: it is too late to start. Return what is to be said."""
        self._waiting.pop(task.id, None)
        return self._scheduler.late(task)

    def leave(self, task: Task) -> None:
        """Stop waiting: the call has ended."""
        self._waiting.pop(task.id, None)
        self._scheduler.leave(task)

    def give_back(self, lease: Lease, now: int) -> None:
        """Hand a lease back; those whose turn it is then go on."""
        granted = self._scheduler.release(lease, now)
        if granted:
            self.hand(granted)

    def hand(self, leases: Iterable[Lease]) -> None:
        """Hand out leases, one after the other."""
        self._granted.extend(leases)
        if self._handing:
            return
        self._handing = True
        try:
            while self._granted:
                lease = self._granted.popleft()
                call = self._waiting.pop(lease.task.id, None)
                if call is None:
                    self._granted.extend(self._scheduler.release(lease, self._clock()))
                else:
                    call.on_lease(lease, self._clock())
        finally:
            self._handing = False
