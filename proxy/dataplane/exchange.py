"""One request and its answer, and every way in which they can end.

    deliver     the whole answer is here, and goes to the client
    answer      an answer of the sidecar's own, while nothing has gone to the client yet
    break off   in the middle of an answer: in the stream's own form where it has one, and never like a clean end

The first that comes ends the exchange, at the allowance at the latest; what is known of the upstream by then is
settled in `_leave_upstream`. `_end` and `_break_off` are the only ways out, and one of them is gone through once.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.core.admission import Task
from proxy.core.budget import WORDS, Limit
from proxy.core.calls import Kind, Outcome, Phase, Would
from proxy.core.degrading import Why
from proxy.core.policy import Retries
from proxy.core.reasons import Reason
from proxy.core.units import MILLISECOND, SECOND, exact_ms
from proxy.core.writes import LateAnswer, WriteRecord, repetition
from proxy.dataplane.answers import degraded_line, error_payload
from proxy.dataplane.descent import Descent
from proxy.dataplane.keeping import keeps, keeps_after_own_answer
from proxy.dataplane.linger import Linger, has_room
from proxy.dataplane.plane import Plane
from proxy.dataplane.request import RequestSide
from proxy.dataplane.response import ResponseSide
from proxy.dataplane.step import Step
from proxy.dataplane.write import WriteSide
from proxy.net.connection import UpstreamConnection
from proxy.net.pool import Ticket
from proxy.wire.events import RequestHead, WireFault

if TYPE_CHECKING:
    from proxy.dataplane.client import Client

STREAM_MARGIN: Final = 10 * MILLISECOND
"""How long before its allowance a stream is ended in its own form, so that the end arrives in time (nanoseconds)."""
_NOTHING_FOLLOWS: Final = frozenset({Reason.MALFORMED, Reason.REDIRECT_LOOP})
"""Why a connection is of no further use: nobody knows where its next request begins, or it is one of our own."""


class Exchange(Step):
    """The state of one request and its answer. `call` tells how it goes well.

    `task`: there while the call waits for its turn. `retries`: what the sidecar tries again by itself, if anything.
    `descent`: where it stands on the ladder of its route, if that has one or a cache.
    """

    __slots__ = (
        "_backoff",
        "_connection",
        "_idle_due",
        "_response",
        "_ticket",
        "_timer",
        "_write",
        "client",
        "descent",
        "request",
        "retries",
        "task",
    )

    def __init__(self, plane: Plane, client: Client, head: RequestHead, arrival: int) -> None:
        """Take the head; nothing happens yet."""
        super().__init__(plane, head, arrival)
        self.client = client
        self.request = RequestSide(head)
        self._response = ResponseSide(head)
        self._connection: UpstreamConnection | None = None
        self._ticket: Ticket | None = None
        self._write: WriteSide | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._backoff: asyncio.TimerHandle | None = None
        self._idle_due: int | None = None
        self.task: Task | None = None
        self.descent: Descent | None = None
        self.retries: Retries | None = None

    # -- the good end ----------------------------------------------------------------------------------------------

    def _deliver(self, error: Exception | None = None, *, reason: Reason | None = None) -> None:
        """Pass on the rest of a whole answer. `error`: the journal could not take it in, and will say so itself.

        `reason`: how it came to be, where it is not the answer to this very call.
        """
        if self.ended:
            return
        now = self.plane.clock()
        response, descent = self._response, self.descent
        if self.kind is not Kind.READ:
            self.has_written()
        keep = self._keeps_after_own_answer() if self.given else self._keeps()
        if response.head_sent:
            response.last_lines += self.last_lines(now)
            data = response.pending(ended=True)
        else:
            data = self._rendered_head(Outcome.COMPLETED, now, close=not keep, reason=reason)
            data += response.pending(ended=True)
        self.client.send(data)
        if self._write is not None and self._write.intent is not None:
            self._write.intent.delivered()
        self._end(Outcome.COMPLETED, reason, now, keep=keep)
        if descent is not None:
            self.after_delivery(descent)

    def _rendered_head(self, outcome: str, now: int, *, close: bool, reason: Reason | None = None) -> bytes:
        if self.descent is not None:
            self.answer_leaves(self.descent)
        retry = self.retry(Outcome.COMPLETED, now) if outcome is Outcome.COMPLETED else None
        annotated = self.annotation(outcome, now, retry, reason)
        if self._response.degraded is not None:
            annotated.append(degraded_line(self._response.degraded))
        if self.descent is not None or self.case.route.truncate is not None:
            annotated += self.said_besides()
        return self._response.rendered_head(self.plane.via, annotated, close=close)

    def last_lines(self, now: int) -> list[bytes]:
        """Return what there is to say after an answer that has passed as it came (trailers)."""
        return []

    def _keeps(self) -> bool:
        return keeps(self.client, self.request, self._response)

    def _keeps_after_own_answer(self) -> bool:
        return keeps_after_own_answer(self.client, self.request, self._response)

    # -- out of time -----------------------------------------------------------------------------------------------

    def on_alarm(self, now: int) -> None:
        """Look what it is time for: the cut, the end of a stream shortly before it, the end of a long silence."""
        if self.ended:  # it has been answered in this very ring, and its record is left for afterwards
            return
        if self.phase is Phase.COMPLETE:
            self._no_longer_wait_for_the_disk(now)
            return
        task = self.task
        if task is not None and task.latest is not None and now >= task.latest:
            self._too_late(task, now)
        elif self.due is not None and now >= self._cut_at(self.due):
            self._cut(now)
        elif self.attempt_due is not None and now >= self._cut_at(self.attempt_due):
            self._attempt_over(now)
        elif self._idle_due is not None and now >= self._idle_due:
            self._fall_silent(now)
        if not self.ended:
            self._set_alarm()

    def _no_longer_wait_for_the_disk(self, now: int) -> None:
        """Pass on a whole answer in time, though the journal does not know of it yet.

        If the sidecar dies before it does, the write is found to be uncertain, which errs on the careful side.
        """
        by = self.due if self.due is not None else self._idle_due
        if by is not None and now >= by:
            self._deliver()
        elif by is not None:
            self.client.alarm.set(by)

    def _cut_at(self, due: int) -> int:
        if not self._response.by_event:
            return due
        return due - self.stream_margin(due)

    def stream_margin(self, due: int) -> int:
        """Return how long before it is due a stream is ended, so that its end arrives in time (nanoseconds)."""
        return min(STREAM_MARGIN, (due - self.arrival) // 10)

    def _set_alarm(self) -> None:
        """Set the client's alarm to what comes first."""
        if self.attempt_due is not None and (self.due is None or self.attempt_due < self.due):
            self.client.alarm.set(self._cut_at(self.attempt_due))
        elif self.task is not None and self.task.latest is not None:
            self.client.alarm.set(self.task.latest)
        elif self.due is not None:
            self.client.alarm.set(self._cut_at(self.due))
        elif self._idle_due is not None:
            self.client.alarm.set(self._idle_due)
        else:
            self.client.alarm.clear()

    def _fall_silent(self, now: int) -> None:
        """End a standing ear that has heard nothing for too long."""
        if not self.enforced:
            self.would = Would.CUT
            self._idle_due = None
            return
        self._leave_upstream(Reason.IDLE, linger=False)
        self._give_up(Outcome.DEADLINE_EXCEEDED, Reason.IDLE, "Nothing was heard for too long.", now)

    def _out_of_time(self, now: int) -> bool:
        """Cut the call if it is overdue, whatever else has happened to it; return whether that has ended it."""
        if self.overdue(now):
            self._cut(now)
        return self.ended

    def _cut(self, now: int) -> None:
        """End the call at its allowance; in `mode: observe`, say that it would have been."""
        if not self.enforced:
            if self.would is not Would.DEGRADE:
                self.would = Would.CUT
            self.due = None
            return
        if self.last_resort(now):
            return
        allowance = self.case.decision.allowance
        allowed = exact_ms(allowance.ns or 0)
        detail = f"It waited for the answer of the same call, for the {allowed:g} ms that it was allowed."
        if not self._waits_in_vain(allowance.bound, detail, now):
            self._cut_by(allowance.bound, allowed, now)

    def _waits_in_vain(self, reason: str, detail: str, now: int) -> bool:
        """End a call that waits for the answer of an equal one, if that may have been sent; return whether it did so.

        What it asked for may have happened, so it is no more to be repeated than after an end of that one.
        """
        first = self._write.joined_to() if self._write is not None else None
        if first is None:
            return False
        known = repetition(first, self.plane.wall_ms())
        self._answer(Outcome.DEADLINE_EXCEEDED, reason, f"{detail} {known}", now, first=first)
        return True

    def _cut_by(self, bound: Limit, allowed_ms: float, now: int, *, what: str = "The call") -> None:
        self._leave_upstream(bound, linger=True)
        detail = f"{what} was allowed {allowed_ms:g} ms ({WORDS[bound]}) and was cut then."
        self._give_up(Outcome.DEADLINE_EXCEEDED, bound, detail, now)

    def leave_queue(self, now: int) -> None:
        """Wait for a turn no longer: it has come, or never will."""
        self.task = None
        self.queued = now - max(self.arrival, self.ready_at)

    # -- what those above have to say of it --------------------------------------------------------------------------

    def answer_leaves(self, descent: Descent) -> None:
        """The head of an answer is about to be passed on."""

    def after_delivery(self, descent: Descent) -> None:
        """A whole answer has been passed on."""

    def has_written(self) -> None:
        """What is no read has been answered, or may have been."""

    def said_besides(self) -> list[bytes]:
        """Return what else there is to say in the head of an answer."""
        return []

    def last_resort(self, now: int) -> bool:
        """Give what can be given when no time is left; return False where there is nothing."""
        return False

    def _too_late(self, task: Task, now: int) -> None:
        """Give up waiting for a turn."""
        raise NotImplementedError

    def _attempt_over(self, now: int) -> None:
        """One of several attempts has taken its time."""
        raise NotImplementedError

    def refuse_repeat(self, first: WriteRecord) -> bool:
        """Refuse what would repeat another call."""
        raise NotImplementedError

    # -- who leaves first ------------------------------------------------------------------------------------------

    def request_broken(self, problem: WireFault) -> None:
        """The body turned out to be malformed: what was sent of it can never become whole."""
        outcome = Outcome.REFUSED if self.phase is Phase.NOT_SENT else Outcome.CLIENT_GONE
        self._leave_upstream(Reason.MALFORMED, linger=False)
        self._give_up(outcome, Reason.MALFORMED, problem.detail, self.plane.clock())

    def stop(self) -> None:
        """The sidecar stops, and cannot wait any longer: say so, rather than hang up on a client that still waits."""
        if self.ended or self.phase is Phase.COMPLETE:
            return
        now, detail = self.plane.clock(), "The sidecar was stopped before the call had ended."
        if not self._waits_in_vain(Reason.SHUTTING_DOWN, detail, now):
            self._leave_upstream(Reason.SHUTTING_DOWN, linger=False)
            self._give_up(Outcome.DEADLINE_EXCEEDED, Reason.SHUTTING_DOWN, detail, now)

    def client_left(self, now: int) -> None:
        """The client is gone, or can never finish what it began."""
        if self.ended:
            return
        if self.phase is Phase.COMPLETE and self._write is not None and self._write.intent is not None:
            self._write.intent.undelivered(self._answer_so_far())
        self._leave_upstream(Reason.CLIENT_LEFT, linger=True)
        if self.overdue(now) and not self.enforced:
            self.would = Would.CUT
            self._end(Outcome.CLIENT_GONE, Reason.CLIENT_LEFT, now, keep=False)
        elif self.overdue(now):
            self._end(Outcome.DEADLINE_EXCEEDED, self.case.decision.allowance.bound, now, keep=False)
        else:
            self._end(Outcome.CLIENT_GONE, Reason.CLIENT_LEFT, now, keep=False)

    # -- what all ends share ---------------------------------------------------------------------------------------

    def _leave_upstream(self, reason: str, *, linger: bool) -> None:
        """Let go of the upstream, or of the wait for it, and settle what is known of a write by now."""
        self._cancel_timer()
        if self._ticket is not None:
            self._ticket.cancel()
            self._ticket = None
        if self._backoff is not None:
            self._backoff.cancel()
            self._backoff = None
        if self.task is not None:
            self.plane.turns.leave(self.task)
            self.leave_queue(self.plane.clock())
        connection, self._connection = self._connection, None
        if self.kind is not Kind.READ and self.phase is not Phase.NOT_SENT:
            self.has_written()  # or may have
        intent = self._write.intent if self._write is not None else None
        if intent is not None and self.phase is Phase.NOT_SENT:
            intent.withdraw()
        elif self._write is not None and intent is not None and self.phase is not Phase.COMPLETE:
            intent.lost(self.phase, reason)
            self.plane.verifier.watch(intent.record, self.case.route, self.case.target, self.head)
            if linger and connection is not None and self.request.sent and has_room(self.plane):
                late, waited_for = self._response.for_linger(), self._write.hand_over_claim()
                Linger(self.plane, intent, connection, late, self.arrival, waited_for)
                return
        if connection is not None:
            self.plane.alarms.afterwards(connection.abort)

    def _give_up(self, outcome: Outcome, reason: str, detail: str, now: int) -> None:
        """Tell the client, in the way that is still open."""
        if not self._response.head_sent:
            self._answer(outcome, reason, detail, now)
            return
        error = error_payload(outcome, reason, detail, self.effect, self.phase, self.record_id)
        data = self._response.pending(ended=False) + self._response.ending(error)
        if data:
            self.client.send(data)
        self._break_off(outcome, reason, now)

    def _answer(
        self,
        outcome: Outcome,
        reason: str,
        detail: str,
        now: int,
        *,
        first: WriteRecord | None = None,
        wait: int = SECOND,
    ) -> None:
        """Give an answer of our own. `first`: the write it would repeat; `wait`: until a call that is shed may come again."""
        self._response.discard()
        keep = reason not in _NOTHING_FOLLOWS and self._keeps_after_own_answer()
        answer = self.own_answer(outcome, reason, detail, now, close=not keep, first=first, wait=wait)
        self.client.send(answer)
        if self.case.route.max_attempts is not None:  # how many there still are, the answers of others say
            self._end(outcome, reason, now, keep=keep)
            return
        self.ended = (
            True  # for everybody; but others may be due, and their answers come before this one's record
        )
        self.plane.alarms.afterwards(partial(self._end, outcome, reason, now, keep=keep))

    def _break_off(self, outcome: Outcome, reason: str, now: int) -> None:
        """End a response in the middle, so that nobody takes it for complete."""
        self._finish(outcome, reason, now)
        self.client.break_off(reset=self._response.ends_with_close)

    def _end(self, outcome: Outcome, reason: str | None, now: int, *, keep: bool) -> None:
        """Record, and leave the client to its next request."""
        self._finish(outcome, reason, now)
        self.client.call_done(keep=keep)

    def _finish(self, outcome: Outcome, reason: str | None, now: int) -> None:
        self.relayed = self._response.relayed
        self.degraded = self._response.degraded
        if self.descent is not None:
            self.descent.end()
        write = self._write
        self.finish(outcome, reason, now)
        if write is not None:
            # What only this one's own time made less is nobody else's answer.
            own = self.degraded is not None and self.degraded.why != Why.DELEGATED
            write.let_go(self._response.shared() if outcome is Outcome.COMPLETED and not own else None)
            if outcome is Outcome.COMPLETED:
                self._write = None  # the two make a ring, which only the garbage collector would free

    def _answer_so_far(self, *, whole: bool = True) -> LateAnswer | None:
        return self._response.as_answer(exact_ms(self.plane.clock() - self.arrival), whole=whole)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
