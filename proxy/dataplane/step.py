"""What every call has in common, whichever way it came: its facts, its annotation, and the one record it leaves."""

from __future__ import annotations

from proxy.core.admission import Lease
from proxy.core.attempts import failed
from proxy.core.budget import Budget
from proxy.core.calls import Effect, Kind, Outcome, Phase, Retry, Would, effect_of, retry_of
from proxy.core.degrading import Degraded
from proxy.core.history import Event, Happening
from proxy.core.policy import Mode
from proxy.core.problem import Problem
from proxy.core.reasons import Case, Reason, case_of, status_of
from proxy.core.step import StepRecord
from proxy.core.units import SECOND, exact_ms, whole_ms
from proxy.core.writes import NEXT_AFTER, WriteRecord
from proxy.dataplane.answers import LAST_ATTEMPT, annotation, outcome_item, own_answer
from proxy.dataplane.consider import Considered
from proxy.dataplane.dead_letters import exhausted
from proxy.dataplane.plane import Plane
from proxy.wire.events import RequestHead


class Step:
    """The facts of one call. Times are nanoseconds on the plane's clock.

    `due`: when it is cut; None while nothing limits it (no allowance, or `mode: observe` has let it pass). `advice`: what an
    answer of our own has told the caller that it may do. `lease`: what admission has granted. `queued` and `dialled`: how
    long it waited for its turn, and for a connection or its next attempt (since `waits_since`, while it does); `ready_at`:
    when all was here that had to be, so that what is left until `sent_at` is our own doing. `tries` counts the attempts
    that it made itself, `attempt` those of its unit by anybody; `attempting`: one of its own is under way; `attempt_due`:
    when the current one of several is over; `reached`: the phase that its earlier ones have left it in; `told`: how many
    milliseconds the other side was last told are left; `rung`, `degraded` and `cached`: as its record has them;
    `given`: its answer comes from nobody that was asked.
    """

    __slots__ = (
        "advice",
        "arrival",
        "attempt",
        "attempt_due",
        "attempting",
        "cached",
        "case",
        "degraded",
        "dialled",
        "due",
        "ended",
        "enforced",
        "fingerprint",
        "fresh",
        "given",
        "head",
        "kind",
        "lease",
        "number",
        "partial",
        "phase",
        "plane",
        "policy",
        "queued",
        "reached",
        "ready_at",
        "record_id",
        "recorded",
        "relayed",
        "rung",
        "sent_at",
        "stage",
        "status",
        "told",
        "tries",
        "unit",
        "unit_id",
        "unjournaled",
        "waits_since",
        "would",
    )

    def __init__(self, plane: Plane, head: RequestHead, arrival: int) -> None:
        """Begin with what the head says; `take` adds what was decided of it."""
        self.plane = plane
        self.head = head
        self.arrival = arrival
        self.policy = plane.policy
        self.enforced = plane.policy.mode is Mode.ENFORCE
        self.record_id = plane.fresh_id()
        self.case: Considered = None  # type: ignore[assignment]  # `take` is the first thing that happens to a step
        self.kind = Kind.READ
        self.due: int | None = None
        self.phase = Phase.NOT_SENT
        self.attempt = 1
        self.number = 1
        self.sent_at: int | None = None
        self.status: int | None = None
        self.relayed = 0
        self.unit: str | None = None
        self.unit_id: str | None = None  # as `plane.attempts` knows it: of this origin, or of this budget
        self.fingerprint = ""  # by which the records of its unit are found, beside its key
        self.stage: str | None = None
        self.lease: Lease | None = None
        self.queued = 0
        self.dialled = 0
        self.waits_since: int | None = None
        self.ready_at = arrival
        self.tries = 0
        self.attempting = False
        self.attempt_due: int | None = None
        self.reached = Phase.NOT_SENT
        self.told: int | None = None
        self.fresh = False
        self.partial = False
        self.rung: str | None = None
        self.degraded: Degraded | None = None
        self.cached: str | None = None
        self.given = False
        self.advice: Retry | None = None
        self.would: Would | None = None
        self.unjournaled = False  # a write that went on though the journal could not take its intent
        self.ended = self.recorded = False
        plane.in_flight += 1

    def take(self, case: Considered) -> bool:
        """Take what was decided; return whether the call goes on."""
        self.case = case
        self.kind = case.kind
        self.unit = case.limits.key
        decision = case.decision
        self.stage = case.limits.stage or case.route.stage
        if case.extended:
            self.plane.observer.extension_ignored()
        budget = case.budget
        if budget is not None:
            if case.opened:
                self.plane.observer.budget_opened()
            self.number = budget.next_step()
            allowed = decision.allowance.ns
            self.plane.budgets.begin(budget, self.stage, case.limits.phase, self.arrival, allowed)
        if decision.refusal is not None:
            if self.enforced or not case.sendable:
                return False
            self.would = Would.REFUSE
        elif decision.allowance.ns is not None:
            self.due = self.arrival + decision.allowance.ns
        return True

    # -- facts -----------------------------------------------------------------------------------------------------

    @property
    def key_honoured(self) -> bool:
        """Whether the call has an idempotency key that the other side is declared to honour."""
        return self.case.limits.key is not None and self.case.route.idempotency.honoured

    @property
    def once(self) -> bool:
        """Whether it is sent on a connection only that is hardly stale: it could not simply be sent again on another."""
        return self.kind is Kind.WRITE

    @property
    def effect(self) -> Effect:
        """What is known of the effect by now."""
        return effect_of(self.kind, self.phase)

    def overdue(self, now: int) -> bool:
        """Whether the allowance has passed: then that is how the call ended, whatever was seen first."""
        return self.due is not None and now >= self.due

    def time_left(self, now: int) -> bool:
        """Whether a further attempt could still start under the same budget."""
        budget = self.case.budget
        if budget is None:
            return self.case.decision.refusal in (None, Reason.BUSY)
        return self._left(budget, now) > self.case.route.min_start

    def _left(self, budget: Budget, now: int) -> int:
        """Return what is left for calls like this one, of the budget and of their stage."""
        phase = self.case.limits.phase
        left = budget.remaining(now, phase)
        if budget.stages is None:
            return left
        stage = budget.stage(self.stage, phase)
        return left if stage is None else min(left, budget.stages.left(stage, now))

    def made(self, now: int) -> int:
        """Return how many attempts of the call's unit have been made, by anybody, as far as is known."""
        if self.unit_id is None:
            return self.attempt if self.tries else self.case.limits.attempts
        return max(self.plane.attempts.count(self.unit_id, now), self.case.limits.attempts)

    @property
    def used_up(self) -> bool:
        """Whether the last attempt that its unit gets has failed."""
        most, unit = self.case.route.max_attempts, self.unit_id
        if most is None or unit is None or not self.tries or not self.enforced:
            return False
        attempts = self.plane.attempts
        used = attempts.at_stake(unit) if self.attempting else attempts.count(unit)
        others = attempts.running(unit) - self.attempting
        return used >= most and not others and self._failed_at_last

    @property
    def _failed_at_last(self) -> bool:
        """Whether the work is left undone."""
        return failed(self.given or self.phase is Phase.COMPLETE, self.status)

    def retry(self, outcome: Outcome, now: int) -> Retry | None:
        """What the caller may do now."""
        if outcome is Outcome.REFUSED:
            return Retry.NEVER
        time_left = self.time_left(now) and (self.case.route.max_attempts is None or not self.used_up)
        return retry_of(self.kind, self.effect, key_honoured=self.key_honoured, time_left=time_left)

    def waited(self, now: int) -> None:
        """Take note that a wait for a connection, or for the next attempt, is over. None counts after the first byte."""
        if self.waits_since is not None and self.sent_at is None:
            self.dialled += now - self.waits_since
        self.waits_since = None

    def end_attempt(self, now: int, *, undone: bool) -> None:
        """Take note that the attempt under way, if there is one, has ended."""
        if self.attempting and self.unit_id is not None:
            self.plane.attempts.end(self.unit_id, undone=undone, now=now)
        self.attempting = False

    def note(self, what: Happening, now: int, detail: str = "") -> None:
        """Add an event to the timeline of the call's budget, where somebody may ask for it."""
        budget = self.case.budget
        if budget is not None and not budget.lone:
            slot = self.lease.slot if self.lease is not None else None
            self.plane.budgets.note(budget, Event(now, what, self.number, self.record_id, slot, detail))

    def fits(self, wait: int, now: int) -> bool:
        """Whether another attempt could still start after a wait of whole seconds, as `Retry-After` counts them."""
        budget, limits = self.case.budget, self.case.limits
        if budget is None:
            return limits.remaining is None or limits.remaining > _whole_seconds(wait)
        return self._left(budget, now) > _whole_seconds(wait) + self.case.route.min_start

    # -- what is said of it ----------------------------------------------------------------------------------------

    def annotation(self, outcome: str, now: int, retry: Retry | None, reason: str | None) -> list[bytes]:
        """Return the field lines that every answer carries."""
        case = self.case
        budget = case.budget
        allowed = case.decision.allowance.ns
        item = outcome_item(
            outcome,
            effect=self.effect,
            retry=retry,
            reason=reason,
            phase=self.phase,
            would=self.would,
            journaled=not self.unjournaled,
        )
        return annotation(
            budget.id if budget is not None else case.limits.budget_id,
            whole_ms(budget.remaining(now, case.limits.phase)) if budget is not None else None,
            whole_ms(allowed) if allowed is not None else None,
            whole_ms(now - self.arrival),
            item,
            self.record_id,
        )

    def own_answer(
        self,
        outcome: Outcome,
        reason: str,
        detail: str,
        now: int,
        *,
        close: bool,
        first: WriteRecord | None = None,
        wait: int = SECOND,
    ) -> bytes:
        """Return an answer of the sidecar's own.

        `first`: the write that this call would repeat. `wait`: in how long a call that is shed may try again (ns).
        """
        case = case_of(outcome, reason, self.kind, self.phase, self.effect)
        retry = self.retry(outcome, now)
        if case is Case.SHED and not self.fits(wait, now):
            case, retry = Case.SHED_LATE, Retry.NEVER
        elif first is not None:
            case, retry = Case.REPEATED, Retry.NEVER
        elif reason == Reason.DEAD_LETTERED:
            retry = Retry.NEVER
        self.advice = retry
        self.status = status_of(case, self.policy.statuses)
        considered = self.case
        budget, allowed = considered.budget, considered.decision.allowance.ns
        follows = NEXT_AFTER.get(first.state) if first is not None else None
        problem = Problem(
            case=case,
            status=self.status,
            detail=detail,
            outcome=outcome,
            effect=self.effect,
            phase=self.phase,
            reason=reason,
            budget_id=budget.id if budget is not None else considered.limits.budget_id,
            step=self.number,
            allowed_ms=whole_ms(allowed) if allowed is not None else None,
            elapsed_ms=whole_ms(now - self.arrival),
            remaining_ms=whole_ms(budget.remaining(now, considered.limits.phase))
            if budget is not None
            else None,
            idempotency_key=considered.limits.key,
            record=first.id if first is not None else self.record_id,
            next=LAST_ATTEMPT if self.used_up else follows,
            retry=retry,
            retry_after_ms=whole_ms(wait) if case is Case.SHED else None,
        )
        return own_answer(
            problem,
            self.annotation(outcome, now, retry, reason),
            close=close,
            bodiless=self.head.method == "HEAD",
        )

    def finish(self, outcome: Outcome, reason: str | None, now: int) -> None:
        """Leave the record, and give back what was held. Called once, by whatever ended the call."""
        assert not self.recorded
        self.ended = self.recorded = True
        plane = self.plane
        plane.in_flight -= 1
        if plane.draining:
            plane.ended()
        case = self.case
        budget, limits, decision = case.budget, case.limits, case.decision
        allowed = decision.allowance.ns
        cut = outcome is Outcome.DEADLINE_EXCEEDED and self.due is not None
        record = StepRecord(
            self.record_id,
            budget.id if budget is not None else limits.budget_id,
            self.number,
            self.stage,
            case.route.name,
            self.head.method,
            case.target.shown,
            self.kind,
            self.unit,
            self.attempt,
            limits.depth,
            exact_ms(self.arrival - budget.opened) if budget is not None else 0.0,
            exact_ms(decision.remaining) if decision.remaining is not None else None,
            exact_ms(allowed) if allowed is not None else None,
            exact_ms((self.sent_at if self.sent_at is not None else now) - self.arrival),
            exact_ms(now - self.arrival),
            exact_ms(now - self.due) if cut and self.due is not None and now >= self.due else None,
            outcome,
            self.effect,
            self.phase,
            reason,
            self.advice or self.retry(outcome, now),
            self.would,
            self.status,
            self.relayed,
            self.degraded,
            exact_ms(self.queued),
            exact_ms(self.sent_at - self.ready_at - self.queued - self.dialled)
            if self.sent_at is not None and self.tries
            else None,
            self.tries,
            int(self.fresh),
            self.partial,
            self.rung,
            self.cached,
            exact_ms(decision.carried) if decision.carried else None,
        )
        plane.observer.step(record)
        if record.degraded is not None:
            plane.observer.degraded(record, budget, now)
        self._give_back(record, now)

    def _give_back(self, record: StepRecord, now: int) -> None:
        """Give back the unit, the share of the budget, and last the lease: whoever is granted it next may end at once."""
        plane, case = self.plane, self.case
        self.end_attempt(now, undone=self._failed_at_last)
        if self.used_up:
            exhausted(self, now)
        lease, budget = self.lease, case.budget
        if lease is not None and budget is not None and not budget.lone:
            if record.outcome == Outcome.DEADLINE_EXCEEDED:
                self.note(Happening.EXPIRED, now, record.reason or "")
            elif record.outcome == Outcome.COMPLETED:
                self.note(Happening.COMPLETED, now)
            self.note(Happening.RELEASED, now)
        if budget is not None and plane.budgets.finish(budget, self.stage, case.limits.phase, record, now):
            plane.budget_finished(budget, now)
        if lease is not None:
            self.lease = None
            plane.turns.give_back(lease, now)


def _whole_seconds(span: int) -> int:
    """Return a span rounded up to whole seconds, in nanoseconds."""
    return -(-span // SECOND) * SECOND
