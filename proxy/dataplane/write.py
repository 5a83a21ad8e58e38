"""What a write needs that no other call does: it is held, known, checked, and on disk before its first byte leaves.

    collect     its body, up to a bound, so that its fingerprint is known
    check       has this unit been sent before, and is that attempt unresolved?
    declare     the intent in the journal; the call goes on once it is durable

A body larger than the bound passes as a stream: it is checked by its key alone, and known only afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.core.calls import Kind
from proxy.core.fingerprint import fingerprint, start
from proxy.core.kinds import late_kind
from proxy.core.policy import Mode, OnJournalFailure
from proxy.core.reasons import Reason
from proxy.core.units import MILLISECOND
from proxy.core.writes import WriteEvent, WriteRecord, WriteState
from proxy.dataplane.intent import Intent
from proxy.wire.render import CONTINUE

if TYPE_CHECKING:
    from proxy.dataplane.call import Call


class WriteSide:
    """The part of one write's story that comes before its first byte. `intent` is there once it has been declared."""

    __slots__ = ("_call", "collecting", "intent", "told_to_continue")

    def __init__(self, call: Call) -> None:
        """Begin to collect."""
        self._call = call
        self.collecting = True
        # By us, so that an upstream's `100 Continue` is none of the client's business.
        self.told_to_continue = False
        self.intent: Intent | None = None

    def begin(self) -> None:
        """Wait for the body, or go on at once when it is known to be too large to be held."""
        call = self._call
        length = call.head.length
        if length is not None and length > call.policy.writes.fingerprint_bytes:
            self._stream()
        elif call.head.expect_continue:
            self.told_to_continue = True
            call.client.send(CONTINUE)

    def grew(self) -> None:
        """Take note of more of the body: past the bound it is collected no further."""
        if self.collecting and self._call.request.size > self._call.policy.writes.fingerprint_bytes:
            self._stream()

    def ended(self) -> None:
        """Take note of the body's end: of one that was collected, or of one that has passed and is known only now."""
        request = self._call.request
        if self.collecting:
            self._identify()
        elif self.intent is not None and (digest := request.digest()):
            self.intent.identify(digest)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _stream(self) -> None:
        call = self._call
        call.request.digest_with(start(call.head.method, call.case.target.url))
        self._check("")

    def _identify(self) -> None:
        """Say what this call is, now that all of it is here."""
        call = self._call
        body = call.request.body()
        target = call.case.target
        call.kind = late_kind(call.case.route, target, body)
        if call.kind is Kind.WRITE:
            self._check(fingerprint(call.head.method, target.url, body))
        else:
            self.collecting = False
            call.open()

    def _check(self, known_as: str) -> None:
        """Refuse the repetition of an unresolved write; declare any other."""
        self.collecting = False
        call = self._call
        if call.unit is None:
            call.unit = known_as or None
        blocking = self._blocking(known_as)
        while blocking is not None and call.case.limits.confirmed and self._confirm(blocking):
            blocking = self._blocking(known_as)
        if blocking is not None and not call.refuse_repeat(blocking):
            return
        self._declare(known_as)

    def _blocking(self, known_as: str) -> WriteRecord | None:
        call = self._call
        return call.plane.book.blocking(
            call.case.route.guard,
            str(call.case.target.origin),
            call.case.limits.key,
            known_as,
            key_honoured=call.key_honoured,
            since=call.plane.wall_ms() - call.policy.writes.hold // MILLISECOND,
        )

    def _confirm(self, blocking: WriteRecord) -> bool:
        """Take the caller's word (`Budget-Retry: confirmed`) that an earlier attempt did not happen.

        One that is still in flight has lost its claim: it no longer stands for its unit. Against the word of an
        operator, who found that it was applied, the caller's does not count: False.
        """
        if blocking.state is WriteState.APPLIED:
            return False
        plane = self._call.plane
        if blocking.state is WriteState.INTENT:
            blocking = blocking.after(WriteEvent.LOST)
        settled = replace(blocking.after(WriteEvent.FOUND_ABSENT), resolved_by="Budget-Retry: confirmed")
        plane.book.put(settled)
        plane.journal.put(settled)
        return True

    def _declare(self, known_as: str) -> None:
        call = self._call
        target, limits = call.case.target, call.case.limits
        budget = call.case.budget
        record = WriteRecord(
            id=call.record_id,
            state=WriteState.INTENT,
            opened_at=call.plane.wall_ms(),
            origin=str(target.origin),
            method=call.head.method,
            target=target.shown,
            route=call.case.route.name,
            budget_id=budget.id if budget is not None else "",
            step=call.number,
            key=limits.key,
            fingerprint=known_as,
        )
        self.intent = Intent(call.plane, record)
        self.intent.declare(self._declared)

    def _declared(self, error: Exception | None) -> None:
        """Go on once the intent is durable; without it, as the policy says."""
        call = self._call
        if call.ended:
            return
        if error is None:
            call.open()
            return
        refuse = call.policy.journal.on_failure is OnJournalFailure.REFUSE
        if refuse and call.policy.mode is Mode.ENFORCE:
            if self.intent is not None:
                self.intent.withdraw()
            call.refuse(
                Reason.JOURNAL_UNAVAILABLE, f"The intent of this write could not be recorded: {error}."
            )
        else:
            call.unjournaled = True
            call.open()
