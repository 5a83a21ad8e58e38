"""The attempts of one call: each has a turn of its own in admission's eyes once, and a share of what is left every time.

    admit       ask for a lease: granted at once, after a wait in the queue, or not (shed)
    on_lease    start the first attempt
    try_again   after an attempt that failed: another one, where the route asks for it, it is safe, and it fits

What is left is reckoned anew for each attempt. The lease is held from the first to the end of the call, backoff and all.
"""

from __future__ import annotations

from typing import Final

from proxy.core.admission import Lease, Shed, Task
from proxy.core.budget import Limit
from proxy.core.calls import Kind, Outcome, Phase, Would
from proxy.core.fingerprint import fingerprint, start
from proxy.core.history import Happening
from proxy.core.reasons import Reason
from proxy.core.retries import NOT_ASKED, Failure, again
from proxy.core.units import SECOND, exact_ms
from proxy.core.writes import DEAD, WriteRecord, WriteState, repetition
from proxy.dataplane.dead_letters import dead_letter_of, exhausted
from proxy.dataplane.descent import Descent
from proxy.dataplane.exchange import Exchange
from proxy.dataplane.request import WAITING_BYTES
from proxy.dataplane.response import ResponseSide, retry_after
from proxy.net.connection import UpstreamConnection
from proxy.wire.events import Framing, ResponseHead, WireFault

_CUT: Final = Failure(Outcome.DEADLINE_EXCEEDED, 504)
_OTHERS_TRY: Final = "The last attempts at the same work are under way just now; it gets no more than these."
_OVERTAKEN: Final = "Other calls have used up the attempts at the same work meanwhile."


class Attempts(Exchange):
    """A call as a number of attempts. `call` tells what one of them does."""

    __slots__ = ()

    # -- its turn --------------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Ask for a place among the calls in flight. A standing ear holds none."""
        now = self.plane.clock()
        if self._out_of_time(now):
            return
        if self.case.subscription:
            self._count_attempt(now)
            self.open(now)
            return
        if self.unit_id is None and self.kind is not Kind.WRITE:
            self.know_unit()
        if self.case.route.retries is not None and self.enforced:
            self.retries = self.case.route.retries
            self.request.keep(self.policy.writes.fingerprint_bytes)
        if self.unit is not None and self._given_up(now):
            return
        task = self.plane.scheduler.task(
            self.record_id, self.case.route, self.kind, self.case.budget, self.due
        )
        answer = self.plane.turns.ask(task, self, now)
        if answer is None:
            self.task = task
            self.note(Happening.ENQUEUED, now)
            self._set_alarm()
            if not self.enforced:
                self.on_lease(self.plane.turns.insist(task, now), now)
        elif isinstance(answer, Shed):
            self._shed(task, answer, now)
        else:
            self.on_lease(answer, now)

    def on_lease(self, lease: Lease, now: int) -> None:
        """Start."""
        self.lease = lease
        waited = self.task is not None
        if waited:
            self.leave_queue(now)
            self._set_alarm()
        budget = self.case.budget
        if budget is not None and not budget.lone:
            self.note(Happening.GRANTED, now)
        if waited and (self._out_of_time(now) or self._given_up(now) or not self._still_clear()):
            return
        self.proceed(now)

    def _still_clear(self) -> bool:
        """Look again whether a write repeats one that is unresolved: much can have happened while it waited."""
        write = self._write
        return write is None or write.intent is not None or write.clear()

    def proceed(self, now: int) -> None:
        """Do what comes before an attempt: for a write, see to its record. Then `go`."""
        raise NotImplementedError

    def go(self, now: int) -> None:
        """Begin an attempt: all that must be done before its first byte is done."""
        if self._out_of_time(now):
            return
        if self.tries and self._tries_of_rung:
            self.plane.observer.retried(self.case.route.name)
        self._begin_attempt(now)
        self.open(now)

    def open(self, now: int) -> None:
        """Get a connection."""
        raise NotImplementedError

    def _shed(self, task: Task, shed: Shed, now: int) -> None:
        """Turn the call away, and say when it may come again."""
        if not self.enforced:
            self.would = self.would or Would.SHED
            self.on_lease(self.plane.turns.insist(task, now), now)
            return
        self._answer(Outcome.SHED, shed.reason, shed.detail, now, wait=shed.wait)

    def _too_late(self, task: Task, now: int) -> None:
        """Give up waiting: there would not be enough time any more."""
        self.leave_queue(now)
        self.note(Happening.EXPIRED, now, Reason.QUEUE_DEADLINE)
        self._shed(task, self.plane.turns.late(task), now)

    # -- the unit --------------------------------------------------------------------------------------------------

    def know_unit(self) -> None:
        """Say which unit of work this is. Reads of a job are known by what they ask for; with a body, once it has passed.

        A read that belongs to no job could be anybody's: it has no unit but itself, whatever its caller says of it.
        """
        case = self.case
        if case.limits.key is not None:
            self.unit = case.limits.key
            self.unit_id = f"{case.target.origin} {case.limits.key}"
        elif case.budget is not None and not case.budget.lone:
            digest = start(f"{case.budget.id} {self.head.method}", case.target.url)
            if self.head.framing is Framing.NO_BODY or self.request.ended:
                digest.update(self.request.body())
                self.unit = self.unit_id = self.fingerprint = digest.hexdigest()
            else:
                self.request.digest_with(digest)

    def know_refused_unit(self) -> None:
        """Say which unit a call without a body would have been, so that it is known again when it comes and is let in."""
        if self.kind is Kind.WRITE and self.case.limits.key is None:
            self.unit = fingerprint(self.head.method, self.case.target.url, b"")
        elif self.case.sendable:
            self.know_unit()

    def know_unit_late(self, digest: str) -> None:
        """Take what the body has shown, now that it has passed; attempts that have begun are counted now."""
        self.fingerprint = digest
        if self.unit_id is not None:
            return
        self.unit = digest
        self.unit_id = f"{self.case.target.origin} {digest}" if self.kind is Kind.WRITE else digest
        if not self.tries:
            return
        now, attempts = self.plane.clock(), self.plane.attempts
        for number in range(1, self.tries + 1):
            stated = self.case.limits.attempts if number == 1 else 0
            counted = attempts.begin(self.unit_id, now, keyed=False, stated=stated)
            self.fresh = counted.fresh if number == 1 else self.fresh
            self.attempt = counted.number
            if number < self.tries or not self.attempting:
                attempts.end(self.unit_id, undone=True, now=now)

    def _given_up(self, now: int) -> bool:
        """Refuse a unit that is attempted no more; return whether it was one."""
        first = dead_letter_of(self)
        if first is None:
            most = self.case.route.max_attempts
            if most is None or self.unit_id is None or self.made(now) < most:
                return False
            if not self.enforced:
                self.would = Would.REFUSE
                return False
            if self.plane.attempts.running(self.unit_id):
                self._answer(Outcome.REFUSED, Reason.DEAD_LETTERED, _OTHERS_TRY, now)
                return True
            first = exhausted(self, now)
        return not self.refuse_repeat(first)

    def refuse_repeat(self, first: WriteRecord) -> bool:
        """Refuse what would repeat an unresolved write. Return True if it goes on all the same (`mode: observe`)."""
        if not self.enforced:
            if first.state is not WriteState.INTENT:  # it would wait for that one's answer
                self.would = Would.REFUSE
            return True
        self.unit = first.unit or self.unit  # under whatever key it came: it is the same work
        detail = repetition(first, self.plane.wall_ms())
        reason = Reason.DEAD_LETTERED if first.state in DEAD else Reason.UNRESOLVED_WRITE
        self._answer(Outcome.REFUSED, reason, detail, self.plane.clock(), first=first)
        return False

    def _begin_attempt(self, now: int) -> None:
        """Count an attempt, and say what it may take: the cap of its route, which starts anew with each."""
        self._count_attempt(now)
        route = self.case.route
        if self.retries is not None and self.tries == 1:
            self.plane.retry_budget(route.name).call(now)
        if route.retries is not None and route.cap is not None and not self.case.subscription:
            self.attempt_due = now + route.cap
            self._set_alarm()
        if self.descent is not None:
            self.attempt_begins(self.descent, now)

    def attempt_begins(self, descent: Descent, now: int) -> None:
        """An attempt begins that something else may follow."""

    def _count_attempt(self, now: int) -> None:
        """Count an attempt that begins."""
        case = self.case
        self.tries += 1
        self.attempting = True
        self.reached = self.phase
        if self.unit_id is not None:
            counted = self.plane.attempts.begin(
                self.unit_id,
                now,
                keyed=case.limits.key is not None,
                stated=case.limits.attempts if self.tries == 1 else 0,
            )
            self.attempt = counted.number
            self.fresh = self.fresh or counted.fresh
        elif self.tries == 1:
            self.attempt = case.limits.attempts + 1
            self.fresh = not case.limits.attempts
        else:
            self.attempt += 1

    # -- another attempt -------------------------------------------------------------------------------------------

    def try_again(self, failure: Failure, now: int) -> bool:
        """Make another attempt, if that is what the route asks for and it fits; return whether there will be one."""
        retries = self.retries
        if retries is None:
            return False
        name = self.case.route.name
        budget = self.plane.retry_budget(name)
        decision = again(
            retries,
            failure,
            made=self._tries_of_rung if self._has_another(now) else retries.max + 1,
            repeatable=self._repeatable(),
            kept=self.phase is Phase.NOT_SENT or self.request.repeatable,
            left=self.due - now if self.due is not None else None,
            min_start=self.case.route.min_start,
            jitter=self.plane.jitter(),
            granted=budget.allows(retries, now),
        )
        if decision.after is None:
            if decision is not NOT_ASKED:
                self.plane.observer.retry_withheld(name, decision.why)
            return False
        budget.spend(now)
        self._let_go(now)
        self.note(Happening.RENEWED, now, f"attempt {self.tries + 1}")
        if self.lease is not None:
            self.lease.renew(self.due, now)
        self.waits_since = now
        self._backoff = self.plane.loop.call_later(decision.after / SECOND, self._next_attempt)
        self._set_alarm()
        return True

    @property
    def _tries_of_rung(self) -> int:
        """How many attempts were made of the same thing: a lower rung is another one."""
        return self.tries - self.descent.before if self.descent is not None else self.tries

    def _has_another(self, now: int) -> bool:
        """Whether the unit gets another attempt. Those of a call that repeats no other are its own."""
        most = self.case.route.max_attempts
        if most is None or not self.enforced:
            return True
        if self.unit_id is None:
            return self.tries < most
        attempts = self.plane.attempts
        return (
            attempts.at_stake(self.unit_id) if self.attempting else attempts.count(self.unit_id, now)
        ) < most

    def _repeatable(self) -> bool:
        """Whether the unit may be sent again: nothing of it was, or repeating it does no harm."""
        if self._response.head_sent:
            return False
        if self.phase is Phase.NOT_SENT:
            return True
        return self.kind in (Kind.READ, Kind.IDEMPOTENT) or self.key_honoured

    def for_all_attempts(self, outcome: Outcome) -> Outcome:
        """Say how a call has ended whose last attempt ended so: it has failed after sending if an earlier one had sent."""
        return outcome if self.phase is Phase.NOT_SENT else Outcome.UPSTREAM_FAILED

    def refused_by_parent(self) -> None:
        """The parent proxy wants credentials of the sidecar: no question for the client, and nothing has reached the tool."""
        self.phase = self.reached
        detail = "The parent proxy asks for credentials (407); give them in connections.proxy (http://user:password@host:port)."
        now, reason = self.plane.clock(), Reason.PARENT_PROXY_REFUSED
        if self.goes_elsewhere(Failure(Outcome.CONNECT_FAILED, reason=reason, detail=detail), now):
            return
        self._leave_upstream(reason, linger=False)
        self._answer(self.for_all_attempts(Outcome.CONNECT_FAILED), reason, detail, now)

    def goes_elsewhere(self, failure: Failure, now: int) -> bool:
        """Answer in another way than by trying the same again; return False where there is none."""
        return False

    def may_try_again_after(self, head: ResponseHead) -> bool:
        """Say whether the answer with this head may yet be followed by another attempt, so that it is held."""
        retries = self.retries
        wanted = retries is not None and head.status in retries.statuses
        return wanted and self._repeatable() and self.request.repeatable

    def tries_again_after_answer(self) -> bool:
        """Say whether a whole answer is not passed on, because the route asks for another attempt after it."""
        head, retries = self._response.head, self.retries
        if head is None or retries is None or head.status not in retries.statuses:
            return False
        failure = Failure(Outcome.COMPLETED, head.status, retry_after(head))
        connection, self._connection = self._connection, None
        reusable = self.request.sent and self.request.size <= WAITING_BYTES
        if not self.try_again(failure, self.plane.clock()):
            self._connection = connection
            return False
        if connection is not None and reusable:
            self.plane.pool.give_back(connection)
        elif connection is not None:
            connection.abort()
        return True

    def may_resend(self, connection: UpstreamConnection, problem: WireFault) -> bool:
        """Whether a read met a connection that the other side had closed for idleness, and can simply be asked again."""
        return (
            problem.reason == "closed_before_response"
            and connection.uses > 1
            and self.head.method in ("GET", "HEAD")
            and self.kind is Kind.READ
            and self.head.framing is Framing.NO_BODY
            and self.reached is Phase.NOT_SENT
            and self._has_another(self.plane.clock())
        )

    def _let_go(self, now: int) -> None:
        """Forget the attempt that failed, all but what may have come of it: an earlier phase is not gone back to."""
        self._cancel_timer()
        if self._backoff is not None:
            self._backoff.cancel()
            self._backoff = None
        if self.descent is not None:
            self.descent.leave_attempt()
        if self._ticket is not None:
            self._ticket.cancel()
            self._ticket = None
        self.waited(now)
        if self.phase is not Phase.NOT_SENT:
            whole = self.request.sent or self.reached is Phase.SENT
            self.phase = Phase.SENT if whole else Phase.SENDING
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self.end_attempt(now, undone=True)
        if self._write is not None:
            self._write.put_off()
        self.request.detach()
        copied = self._response.copied
        self._response = ResponseSide(self.head)
        if copied:
            self._response.keep_copy()
        self.status = None
        self.partial = False
        self.attempt_due = None

    def _next_attempt(self) -> None:
        """The backoff is over."""
        self._backoff = None
        now = self.plane.clock()
        self.waited(now)
        if self._out_of_time(now):
            return
        if not self._has_another(now):
            self._leave_upstream(Reason.DEAD_LETTERED, linger=False)
            self._answer(self.for_all_attempts(Outcome.REFUSED), Reason.DEAD_LETTERED, _OVERTAKEN, now)
        elif self._still_clear():
            self.proceed(now)

    def begin_anew(self, now: int) -> None:
        """Begin another attempt at once, in place of one that met a connection which had ended."""
        self._let_go(now)
        self._begin_attempt(now)

    def _attempt_over(self, now: int) -> None:
        """The attempt has taken as long as one may: make another one, or end the call."""
        self.attempt_due = None
        if not self.enforced:
            self.would = Would.CUT
        elif not self.try_again(_CUT, now):
            self._cut_by(Limit.ROUTE_CAP, exact_ms(self.case.route.cap or 0), now, what="Its last attempt")
