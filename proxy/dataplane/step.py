"""What every call has in common, whichever way it came: its facts, its annotation, and the one record it leaves."""

from __future__ import annotations

import json

from proxy.core.calls import Effect, Kind, Outcome, Phase, Retry, Would, effect_of, retry_of
from proxy.core.policy import Mode
from proxy.core.problem import Problem
from proxy.core.reasons import case_of, status_of
from proxy.core.step import StepRecord
from proxy.core.units import exact_ms, whole_ms
from proxy.core.writes import NEXT_AFTER, WriteRecord
from proxy.dataplane.answers import annotation, outcome_item, own_answer
from proxy.dataplane.consider import Considered
from proxy.dataplane.plane import Plane
from proxy.wire.events import RequestHead


class Step:
    """The facts of one call. Times are nanoseconds on the plane's clock.

    `due`: when it is cut; None while nothing limits it (no allowance, or `mode: observe` has let it pass).
    """

    __slots__ = (
        "arrival",
        "attempt",
        "case",
        "due",
        "ended",
        "enforced",
        "head",
        "kind",
        "number",
        "phase",
        "plane",
        "policy",
        "record_id",
        "relayed",
        "sent_at",
        "status",
        "unit",
        "unjournaled",
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
        self.would: Would | None = None
        self.unjournaled = False  # a write that went on though the journal could not take its intent
        self.ended = False
        plane.in_flight += 1

    def take(self, case: Considered) -> bool:
        """Take what was decided; return whether the call goes on."""
        self.case = case
        self.kind = case.kind
        self.unit = case.limits.key
        decision = case.decision
        if case.extended:
            self.plane.observer.extension_ignored()
        if case.budget is not None:
            self.number = case.budget.next_step()
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
            return self.case.decision.refusal is None
        return budget.remaining(now, self.case.limits.phase) > self.case.route.min_start

    def retry(self, outcome: Outcome, now: int) -> Retry | None:
        """What the caller may do now."""
        if outcome is Outcome.REFUSED:
            return Retry.NEVER
        return retry_of(self.kind, self.effect, key_honoured=self.key_honoured, time_left=self.time_left(now))

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
    ) -> bytes:
        """Return an answer of the sidecar's own. `first`: the write that this call would repeat."""
        case = case_of(outcome, reason, self.kind, self.phase, self.effect)
        self.status = status_of(case, self.policy.statuses)
        retry = self.retry(outcome, now)
        considered = self.case
        budget, allowed = considered.budget, considered.decision.allowance.ns
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
            next=NEXT_AFTER.get(first.state) if first is not None else None,
            retry=retry,
        )
        return own_answer(
            problem,
            self.annotation(outcome, now, retry, reason),
            close=close,
            bodiless=self.head.method == "HEAD",
        )

    def error_event(self, outcome: Outcome, reason: str, detail: str) -> bytes:
        """Return the payload of the error event that ends a stream, in the form that LLM clients raise on."""
        error = {
            "type": outcome,
            "code": reason,
            "message": detail,
            "effect": self.effect,
            "phase": self.phase,
            "record": self.record_id,
        }
        return json.dumps({"error": error}).encode()

    def finish(self, outcome: Outcome, reason: str | None, now: int) -> None:
        """Leave the record. Called once, by whatever ended the call."""
        assert not self.ended
        self.ended = True
        plane = self.plane
        plane.in_flight -= 1
        if plane.draining:
            plane.ended()
        case = self.case
        budget, limits, decision = case.budget, case.limits, case.decision
        allowed = decision.allowance.ns
        cut = outcome is Outcome.DEADLINE_EXCEEDED and self.due is not None
        plane.observer.step(
            StepRecord(
                self.record_id,
                budget.id if budget is not None else limits.budget_id,
                self.number,
                limits.stage,
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
                self.retry(outcome, now),
                self.would,
                self.status,
                self.relayed,
            )
        )
