"""What operators see and decide, as the control API asks for it (`admin.control.Control`)."""

from __future__ import annotations

import asyncio

from proxy.core.budget import Budget
from proxy.core.ledger import Ledger
from proxy.core.policy import Policy
from proxy.core.verdict import counts_of, steps_field, verdict_of
from proxy.core.writes import WriteBook, WriteEvent, WriteRecord
from proxy.dataplane.plane import Plane
from proxy.observe.steplog import StepLog
from proxy.store.errors import JournalError
from proxy.store.journal import Journal


class Desk:
    """The books of one sidecar, open to its operators."""

    def __init__(self, plane: Plane, journal: Journal, log: StepLog) -> None:
        """Look at a plane's books; what is decided goes into the journal."""
        self._plane = plane
        self._journal = journal
        self._log = log

    @property
    def writes(self) -> WriteBook:
        """The records of writes."""
        return self._plane.book

    @property
    def ledger(self) -> Ledger:
        """The budgets."""
        return self._plane.budgets

    def policy(self) -> Policy:
        """Return the policy in force."""
        return self._plane.policy

    def clock(self) -> int:
        """Return the time on the clock of the budgets, in nanoseconds."""
        return self._plane.clock()

    def close_budget(self, id: str) -> Budget:
        """Take note that a job is done; a second time changes nothing. Raises KeyError."""
        ledger, now = self._plane.budgets, self._plane.clock()
        ledger.sweep(now)
        budget = ledger.get(id)
        if budget is None:
            raise KeyError(id)
        ran_out = budget.deadline < now  # which is told by itself, once
        if ledger.close(budget, now, "request"):
            if not ran_out:
                self._plane.budget_finished(budget, now)
            verdict, steps = verdict_of(budget, now).field(), steps_field(counts_of(budget))
            self._log.event("budget_closed", budget_id=id, by="request", verdict=verdict, steps=steps)
        return budget

    async def resolve(self, id: str, applied: bool) -> WriteRecord:
        """Keep what somebody found out about a write. Raises KeyError, WrongTransition, JournalError."""
        return await self._settle(id, WriteEvent.FOUND_APPLIED if applied else WriteEvent.FOUND_ABSENT)

    async def release(self, id: str) -> WriteRecord:
        """Let a dead letter be attempted again. Raises KeyError, WrongTransition, JournalError."""
        return await self._settle(id, WriteEvent.RELEASED)

    async def discard(self, id: str) -> WriteRecord:
        """Have a dead letter never sent again. Raises KeyError, WrongTransition, JournalError."""
        return await self._settle(id, WriteEvent.DISCARDED)

    async def _settle(self, id: str, event: WriteEvent) -> WriteRecord:
        """Keep what somebody has found out or decided about a write, durably."""
        record = self._plane.book.get(id)
        if record is None:
            raise KeyError(id)
        settled = record.settled(event, "operator", self._plane.wall_ms())
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if durable.cancelled():
                return
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)

        # Known at once, so that a late answer that arrives meanwhile is added to it rather than lost under it.
        self._plane.book.put(settled)
        self._journal.put(settled, done)
        try:
            await durable
        except JournalError:
            if self._plane.book.get(id) is settled:
                self._plane.book.put(record)
            raise
        self._plane.account_for(settled)
        return settled
