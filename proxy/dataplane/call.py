"""One call, from its head to its record.

    begin       consider it: where to, what is left, start or refuse
    hold        a write is held until its body is known, and checked against unresolved ones
    admit       a place among the calls in flight: at once, in its turn, or not (`attempt`)
    proceed     a write's intent is written to the journal
    open        a connection: one that lies idle, or a fresh one
    send        the head with what is left by now, then the body as it comes
    answered    relay what the upstream says; a write's answer whole, a stream event by event
    deliver     settle, annotate, record

Anything can come in between: the alarm at the allowance, the client's leave, the upstream's failure, a refusal. These
ends are `exchange`'s subject; that some are followed by another attempt is `attempt`'s.
"""

from __future__ import annotations

from typing import Final

from proxy.core.calls import Kind, Outcome, Phase
from proxy.core.reasons import Reason, outcome_without_connection
from proxy.core.retries import Failure
from proxy.core.units import SECOND
from proxy.dataplane.consider import Considered, consider, observe_denied
from proxy.dataplane.onward import budget_lines, onward_head
from proxy.dataplane.relay import Relay
from proxy.dataplane.request import WAITING_BYTES
from proxy.dataplane.upload import Upload
from proxy.dataplane.write import WriteSide
from proxy.net.connection import UpstreamConnection
from proxy.net.errors import DialError
from proxy.net.pool import STALE_FOR_WRITES
from proxy.wire.events import (
    END,
    Event,
    Framing,
    ResponseHead,
    Trailers,
    Upgraded,
    WireFault,
)
from proxy.wire.eventstream import read_as_it_comes
from proxy.wire.render import interim_head

PROXY_AUTHENTICATION: Final = 407
SETTLE_TIME: Final = 5 * SECOND
"""How long the journal may take to know of an answer that nothing else limits, before it is delivered all the same."""
EXPECT_SECONDS: Final = 1.0
"""How long the other side may think about `Expect: 100-continue` before it is sent the body all the same."""


class Call(Upload):
    """One HTTP call of one client."""

    __slots__ = ()

    # -- begin -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Consider the call, and start or refuse it."""
        case = self.look()
        if not self.take(case):
            if self.case.route.degrades and self.apologises():
                return
            decision = case.decision
            assert decision.refusal is not None
            if self.head.framing is Framing.NO_BODY:
                self.know_refused_unit()
            self.refuse(decision.refusal, decision.detail)
            return
        if case.subscription:
            self._idle_due = self.arrival + self.policy.subscription_idle
        self._set_alarm()
        self.start()

    def look(self) -> Considered:
        """Return what is decided of the call."""
        plane = self.plane
        return consider(
            self.policy,
            plane.router,
            plane.budgets,
            plane.own,
            self.head,
            self.client.place,
            self.arrival,
            self.record_id,
        )

    def start(self) -> None:
        """Hold what has to be known first; all else asks for its turn."""
        case, has_body = self.case, self.head.framing is not Framing.NO_BODY
        keyed = case.limits.key is not None and not case.subscription
        route = case.route
        less = route.degrades
        if self.kind is Kind.WRITE or keyed or (has_body and (less or route.max_attempts is not None)):
            self._write = WriteSide(self)
            self._write.begin()
        elif less:
            self.descend()
        else:
            self.admit()

    def proceed(self, now: int) -> None:
        """Begin an attempt: a write's, once its intent is on disk."""
        if self._write is not None and self.kind is Kind.WRITE:
            self._write.declare(now)
        elif self.descent is not None:
            self.go_as_fits(now)
        else:
            self.go(now)

    def refuse(self, reason: Reason, detail: str) -> None:
        """End the call before anything of it was sent."""
        outcome = Outcome.SHED if reason is Reason.BUSY else Outcome.REFUSED
        self._answer(outcome, reason, detail, self.plane.clock())

    # -- open and send ---------------------------------------------------------------------------------------------

    def open(self, now: int) -> None:
        """Get a connection: at once, or when the pool has one."""
        if self._out_of_time(now):
            return
        origin = self.case.target.origin
        connection = self.plane.pool.take(origin, now, STALE_FOR_WRITES if self.once else None)
        if connection is not None:
            self._send(connection, now)
        else:
            self._dial(now)

    def _dial(self, now: int) -> None:
        """Wait for a fresh connection."""
        self.waits_since = now
        self._ticket = self.plane.pool.request(self.case.target.origin, self)

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Take the connection that was waited for. Many may come in one turn, and what is due does not wait for all of them."""
        self._ticket = None
        now = self.plane.clock()
        self.waited(now)
        self._send(connection, now)
        if now >= self.plane.alarms.first:
            self.plane.alarms.ring()

    def on_dial_failed(self, error: DialError) -> None:
        """There is no connection, and nothing was sent on one."""
        self._ticket = None
        now = self.plane.clock()
        self.waited(now)
        outcome = outcome_without_connection(error.reason)
        if outcome is not Outcome.REFUSED and self._out_of_time(now):
            return
        failure = Failure(outcome, reason=error.reason, detail=error.detail)
        if outcome is Outcome.CONNECT_FAILED and self.try_again(failure, now):
            return
        if outcome is not Outcome.CONNECT_FAILED and self.goes_elsewhere(failure, now):
            return
        self._leave_upstream(error.reason, linger=False)
        self._answer(self.for_all_attempts(outcome), error.reason, error.detail, now)

    def _send(self, connection: UpstreamConnection, now: int) -> None:
        """Send the head, and of the body what is here. What is sent on is computed last."""
        if self._out_of_time(now):
            self.plane.pool.give_back(connection)
            return
        self._connection = connection
        observe_denied(self, connection)
        connection.begin(self, self.head.method)
        bodiless = self.head.framing is Framing.NO_BODY
        if not (self.request.ended or bodiless) or self.request.size > WAITING_BYTES:
            connection.expect_early_answer()
        if self.phase is Phase.NOT_SENT:
            self.phase = Phase.SENDING
            if self.sent_at is None:
                self.sent_at = now
        # The client was told to go on when its body was collected; now the other side is asked before it is sent.
        held = self._write is not None and self.request.ended and self.request.instead is None
        park = held and self.head.expect_continue
        self.request.attach(connection, self.onward(connection, now), park=park)
        if self.request.sent:
            self.phase = Phase.SENT
        elif park:
            self._timer = self.plane.loop.call_later(EXPECT_SECONDS, self._unpark)
        if not connection.congested:
            self.client.resume_reading()

    def onward(self, connection: UpstreamConnection, now: int) -> bytes:
        """Return the head that goes out: what is sent on is reckoned now, for this attempt."""
        lines = budget_lines(self, connection, now)
        if self.descent is not None or self.case.route.truncate is not None:
            return self.changed_head(connection, lines)
        return onward_head(self, connection, lines)

    def _unpark(self) -> None:
        """Send the body that waited for `100 Continue`: asked for, or waited for long enough."""
        self._cancel_timer()
        self.request.unpark()
        if self.phase is Phase.SENDING and self.request.sent:
            self.phase = Phase.SENT

    # -- from the upstream -----------------------------------------------------------------------------------------

    def on_response(self, events: list[Event]) -> None:
        """Take what the upstream said. Heads and ends that arrive together leave together."""
        response, connection = self._response, self._connection
        last: Event | None = None
        for event in events:
            if type(event) is bytes:
                response.body(event)
            elif type(event) is ResponseHead:
                if event.status == PROXY_AUTHENTICATION and connection is not None and connection.via_parent:
                    self.refused_by_parent()
                    return
                self._take_head(event)
            elif type(event) is Trailers:
                response.end_with(event.fields)
                self.partial = response.says_incomplete
            else:
                last = event
        if response.copied and response.size > self.most_copied:
            self.copies_no_more()
        if self._idle_due is not None:
            self._idle_due = self.plane.clock() + self.policy.subscription_idle
        if last is None:
            self._relay()
        elif last is END:
            self._answered()
        elif type(last) is Upgraded:
            self._switch(last.rest)
        elif type(last) is WireFault:
            self._broken(last)

    def _take_head(self, head: ResponseHead) -> None:
        if head.interim:
            self._take_interim(head)
            return
        self._cancel_timer()
        self.phase = Phase.HEAD_RECEIVED
        self.status = head.status
        held = self.holds(head) and not read_as_it_comes(head.get(b"content-type") or b"")
        descent = self.descent
        held = held or ((self.retries is not None or descent is not None) and self.may_try_again_after(head))
        watched = descent is not None or self.case.route.truncate is not None
        ending = self.ending(head) if watched else None
        self._response.begin(head, held=held, delegated=self.trusts(), ending=ending)
        self.partial = self._response.says_incomplete
        if descent is not None and not held:
            held = self._response.held = self.answer_begins(descent, head)
        if held:
            self._timer = self.plane.loop.call_later(
                self.policy.writes.hold_back_time / SECOND, self._release
            )
        elif self._response.by_event:
            self._set_alarm()

    def holds(self, head: ResponseHead) -> bool:
        """Say whether an answer is held until it is whole: that to a write, so that a cut can still be told as one."""
        return self.kind is Kind.WRITE

    def trusts(self) -> bool:
        """Say whether what an answer says of its own job is passed on: that of a neighbour of our own side."""
        return self._connection is not None and self._connection.inside

    def _take_interim(self, head: ResponseHead) -> None:
        """Relay a 1xx to a client that can take it. `100 Continue` is passed only to one that still waits for it."""
        if head.status == 100 and self._write is not None and self._write.told_to_continue:
            self._unpark()
        elif self.head.minor == 1 and (head.status != 100 or self.head.expect_continue):
            self.client.send(interim_head(head, self.plane.via))
            if self.client.congested and self._connection is not None:
                self._connection.pause_reading()

    def _release(self) -> None:
        """Hold the answer no longer: it takes too long, or is too large."""
        self._cancel_timer()
        if self.descent is not None and self.gives_up_held():
            return
        self._response.held = False
        self._relay()

    def _relay(self) -> None:
        """Pass on what may be passed on by now."""
        response = self._response
        if response.head is None:
            return
        if response.held:
            if response.size <= self.policy.writes.hold_back_bytes:
                return
            self._cancel_timer()
            response.held = False
        client = self.client
        data = response.pending(ended=False)
        if not response.head_sent:
            data = self._rendered_head("in_progress", self.plane.clock(), close=not self._keeps()) + data
            self.outlive_client_timer()
        if data:
            client.send(data)
            if client.congested and self._connection is not None:
                self._connection.pause_reading()

    def _answered(self) -> None:
        """The whole answer is here. A write is settled on disk before its caller hears of it."""
        self._cancel_timer()
        if (self.retries is not None or self.descent is not None) and self.tries_again_after_answer():
            return
        self.phase = Phase.COMPLETE
        self.attempt_due = None
        connection, self._connection = self._connection, None
        assert connection is not None
        if self.request.sent and (self.request.size <= WAITING_BYTES or connection.all_arrived):
            self.plane.pool.give_back(connection)
        else:
            connection.abort()
        if self._write is not None and self._write.intent is not None:
            if self.due is None:
                self._idle_due = self.plane.clock() + SETTLE_TIME
                self._set_alarm()
            self._write.intent.answered(self._answer_so_far(whole=False), self._deliver)
        else:
            self._deliver()

    def _broken(self, problem: WireFault) -> None:
        """The upstream broke off, or broke the rules."""
        now = self.plane.clock()
        connection = self._connection
        if connection is not None and not self.overdue(now) and self.may_resend(connection, problem):
            self.begin_anew(now)
            self._dial(now)
            return
        reason = _BROKEN.get(problem.reason, Reason.PROTOCOL_ERROR)
        failure = Failure(Outcome.UPSTREAM_FAILED, reason=reason, detail=problem.detail)
        if self._out_of_time(now) or self.try_again(failure, now):
            return
        self._leave_upstream(reason, linger=False)
        self._give_up(Outcome.UPSTREAM_FAILED, reason, problem.detail, now)

    def _switch(self, rest: bytes) -> None:
        """The upstream has agreed to leave HTTP: from here on bytes are passed both ways."""
        self._cancel_timer()
        connection, self._connection = self._connection, None
        assert connection is not None
        if self.head.upgrade is None:
            self._connection = connection
            self._broken(
                WireFault(502, "bad_upgrade", "The upstream switched protocols without being asked to.")
            )
            return
        now = self.plane.clock()
        if self._write is not None and self._write.intent is not None:
            self._write.intent.delivered()  # by this agreement; what follows is no call any more
        if self._write is not None:
            self._write.let_go(None)
        self.kind = Kind.OPAQUE
        self.relayed = len(rest)
        head = self._rendered_head("in_progress", now, close=False)
        self.degraded = self._response.degraded
        transport = self.client.transport
        Relay(self, transport, connection).start(self.client.hand_over(), head + rest)


_BROKEN: Final = {
    "closed_before_response": Reason.CONNECTION_TERMINATED,
    "closed_in_head": Reason.RESPONSE_INCOMPLETE,
    "closed_in_body": Reason.RESPONSE_INCOMPLETE,
}
