"""What a write needs that no other call does: it is held, known, checked, and on disk before its first byte leaves.

    collect     its body, up to a bound, so that its fingerprint is known
    check       has this unit been sent before, and is that attempt unresolved? Is it in flight just now?
    declare     once it is its turn, put the intent in the journal; it goes on when that is durable

A unit with a key has one claim, a read's too: a second call under the key joins the first, and waits for its answer
(`claims`). A body
larger than the bound passes as a stream: it is checked by its key alone, and known only afterwards. Whatever has waited,
for its turn or between two attempts, is checked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.calls import Kind, Phase
from proxy.core.fingerprint import fingerprint, start
from proxy.core.kinds import late_kind
from proxy.core.policy import Mode, OnJournalFailure
from proxy.core.reasons import Reason
from proxy.core.writes import DEAD, WriteEvent, WriteRecord, WriteState
from proxy.dataplane.claims import Answer, Claim, Unit
from proxy.dataplane.dead_letters import held_since, outlived
from proxy.dataplane.intent import BookFull, Intent
from proxy.wire.render import CONTINUE

if TYPE_CHECKING:
    from proxy.dataplane.call import Call

_WHO_ASKS_FOR_WHAT: Final = (
    b"authorization",
    b"cookie",
    b"x-api-key",
    b"api-key",
    b"x-goog-api-key",
    b"x-auth-token",
    b"accept",
    b"accept-encoding",
    b"accept-language",
)
"""What an answer depends on besides the request's line and body: nobody is given one that was meant for another."""


class WriteSide:
    """The part of one write's story that comes before its first byte. `intent` is there once it has been declared."""

    __slots__ = (
        "_call",
        "_claim",
        "_joined",
        "_unit",
        "_unkept",
        "collecting",
        "intent",
        "told_to_continue",
    )

    def __init__(self, call: Call) -> None:
        """Begin to collect."""
        self._call = call
        self.collecting = True
        # By us, so that an upstream's `100 Continue` is none of the client's business.
        self.told_to_continue = False
        self.intent: Intent | None = None
        self._unkept: WriteRecord | None = None  # what would be on record, had there been room for it
        self._claim: Claim | None = None
        self._joined: Claim | None = None
        self._unit: Unit | None = None

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
        elif (digest := request.digest()) is not None:
            self._call.know_unit_late(digest)
            if self.intent is not None:
                self.intent.identify(digest)

    def put_off(self) -> None:
        """Take the intent back until the next attempt, if nothing was sent under it: nothing is under way meanwhile."""
        if self.intent is not None and self._call.phase is Phase.NOT_SENT:
            self.intent.withdraw()
            self.intent = None

    def look_again(self) -> None:
        """Go on after the call that this one has joined: it has ended without an answer for both."""
        self._joined = None
        self._call.ready_at = self._call.plane.clock()
        self._go_on()

    def joined_to(self) -> WriteRecord | None:
        """Return the record of the call whose answer this one waits for, once that may have been sent."""
        return self._joined.holder.declared() if self._joined is not None else None

    def declared(self) -> WriteRecord | None:
        """Return the record of this write, once it may have been sent: for those who wait, whether or not it is kept."""
        return self.intent.record if self.intent is not None else self._unkept

    def share_no_more(self) -> None:
        """The answer has become too large to be kept for those who wait for it."""
        self._call.response_is_mine()
        if self._claim is not None:
            self._call.plane.claims.dismiss(self._claim)

    def hand_over_claim(self) -> Claim | None:
        """Give the claim up to whoever listens on for the answer, if any call waits for that and cannot go on instead."""
        claim = self._claim
        if claim is None or not claim.waiting or self._call.key_honoured:
            return None
        self._claim = None
        return claim

    def let_go(self, answer: Answer | None) -> None:
        """The call has ended: with an answer for those who have joined it, or without."""
        if self._joined is not None:
            self._joined.leave(self._call)
            self._joined = None
        if self._claim is not None:
            claim, self._claim = self._claim, None
            self._call.plane.claims.end(claim, answer)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _stream(self) -> None:
        call = self._call
        call.request.digest_with(start(call.head.method, call.case.target.url))
        self._known("")

    def _identify(self) -> None:
        """Say what this call is, now that all of it is here."""
        call = self._call
        body = call.request.body()
        target = call.case.target
        if call.kind is Kind.WRITE:
            call.kind = late_kind(call.case.route, target, body)
        if call.kind is Kind.WRITE or call.case.limits.key is not None:
            self._known(fingerprint(call.head.method, target.url, body))
        else:
            self.collecting = False
            call.ready_at = call.plane.clock()
            call.known()

    def _known(self, known_as: str) -> None:
        """Take the fingerprint of the unit; empty when the body is too large to be held."""
        self.collecting = False
        call = self._call
        call.ready_at = call.plane.clock()
        call.fingerprint = known_as
        if call.unit is None:
            call.unit = known_as or None
        if call.unit is not None:
            call.unit_id = f"{call.case.target.origin} {call.unit}"
        self._unit = self._shared_unit()
        self._go_on()

    def _go_on(self) -> None:
        if self.clear():
            self._call.known()

    def clear(self) -> bool:
        """Say whether the call may go on: there is no equal one in flight, and a write repeats none that is unresolved."""
        call = self._call
        if not call.case.limits.confirmed and self._join():
            return False
        if call.kind is Kind.WRITE and not self._repeats_nothing():
            return False
        self._hold_claim()
        return True

    def _repeats_nothing(self) -> bool:
        """Say whether a write repeats none that is unresolved; if it does, it is refused, unless its caller knows better."""
        call = self._call
        blocking = self._blocking()
        while blocking is not None and call.case.limits.confirmed and self._confirm(blocking):
            blocking = self._blocking()
        return blocking is None or call.refuse_repeat(blocking)

    def _join(self) -> bool:
        """Wait for the answer of an equal call in flight, if there is one."""
        call, unit = self._call, self._unit
        if unit is None or self._claim is not None:
            return False
        self._joined = call.plane.claims.join(unit, call)
        if self._joined is None:
            return False
        call.plane.observer.joined(call.case.route.name)
        return True

    def _hold_claim(self) -> None:
        if self._unit is not None and self._claim is None:
            self._claim = self._call.plane.claims.claim(self._unit, self._call)

    def _shared_unit(self) -> Unit | None:
        """Return what equal calls have in common: only a key says for sure that they are one piece of work."""
        call = self._call
        key = call.case.limits.key
        if key is None or not call.fingerprint or not call.enforced:
            return None
        asks = tuple(call.head.get(name) for name in _WHO_ASKS_FOR_WHAT)
        return str(call.case.target.origin), key, call.fingerprint, asks

    def _blocking(self) -> WriteRecord | None:
        """Return the record of the write that this one would repeat. One that has outlived its hold is a dead letter now."""
        call = self._call
        plane, route = call.plane, call.case.route
        since = held_since(plane, call.policy)
        found = plane.book.blocking(
            route.guard,
            str(call.case.target.origin),
            call.case.limits.key,
            call.fingerprint,
            key_honoured=call.key_honoured,
            since=since,
        )
        if found is not None and found.state is WriteState.UNCERTAIN and found.opened_at < since:
            return outlived(plane, found) if call.enforced else found
        return found

    def _confirm(self, blocking: WriteRecord) -> bool:
        """Take the caller's word (`Budget-Retry: confirmed`) that an earlier attempt did not happen.

        One that is still in flight has lost its claim: it no longer stands for its unit. Against the word of an
        operator, who found that it was applied, the caller's does not count, nor for a dead letter: False.
        """
        if blocking.state is WriteState.APPLIED or blocking.state in DEAD:
            return False
        if blocking.state is WriteState.INTENT:
            blocking = blocking.after(WriteEvent.LOST)
        self._call.plane.keep(
            blocking.settled(WriteEvent.FOUND_ABSENT, "Budget-Retry: confirmed", self._call.plane.wall_ms())
        )
        return True

    def declare(self, now: int) -> None:
        """Put the intent on disk, unless an earlier attempt was sent under it, and begin an attempt once it is there."""
        call = self._call
        if self.intent is not None:
            call.go(now)
            return
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
            fingerprint=call.fingerprint,
            attempts=call.made(now) + 1,
        )
        self.intent = Intent(call.plane, record)
        self.intent.declare(self._declared)

    def _declared(self, error: Exception | None) -> None:
        """Go on once the intent is durable; without it, as the policy says."""
        call = self._call
        if call.ended:
            return
        refuse = call.policy.journal.on_failure is OnJournalFailure.REFUSE
        if error is not None and refuse and call.policy.mode is Mode.ENFORCE:
            if self.intent is not None:
                self.intent.withdraw()
            detail = f"The intent of this write could not be recorded: {error}."
            call.refuse(Reason.JOURNAL_UNAVAILABLE, detail)
        else:
            call.unjournaled = error is not None
            if isinstance(error, BookFull):
                # It goes on without a record, also of what comes of it.
                self._unkept = self.intent.record if self.intent is not None else None
                self.intent = None
            call.go(call.plane.clock())
