"""A call on a route that can do with less: which rung of the ladder answers it, and what happens when one does not.

    descend      once the request is known: what is fresh in the cache, or the highest rung that fits what is left
    go_as_fits   its turn has come: is the rung still the right one?
    try_again    it has failed: the next one that fits
    last_resort  no time is left: what can be given without asking anybody

How long one that says nothing is waited for is told in `patience`.

A rung asks an upstream, looks into the cache, or stands in the policy. Only the first takes a slot and makes attempts. When
nothing below can answer either, the caller gets what the last attempt has come to.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from proxy.core.admission import Shed, Task
from proxy.core.attempts import asks_again
from proxy.core.budget import Limit
from proxy.core.calls import Kind, Outcome, Phase, Would
from proxy.core.degrading import CacheUse, Rung, Why
from proxy.core.ladder import Choice, choose, fits
from proxy.core.reasons import Reason
from proxy.core.retries import Failure
from proxy.core.units import exact_ms
from proxy.dataplane.answered import Answered
from proxy.dataplane.claims import Answer
from proxy.dataplane.descent import Descent
from proxy.dataplane.request import WAITING_BYTES
from proxy.degrade.callers import tells_caller
from proxy.degrade.change import Unchangeable, changed
from proxy.wire.events import Framing, ResponseHead

if TYPE_CHECKING:
    from proxy.degrade.cache.found import Found


class Rungs(Answered):
    """A call that may be answered with less."""

    __slots__ = ()

    # -- the start -------------------------------------------------------------------------------------------------

    def known(self) -> None:
        """Go on with a call of which all is known that has to be: choose how it is answered, or let it ask for a turn."""
        if self.descent is None and self.case.route.degrades:
            self.descend()
        else:
            self.admit()

    def descend(self) -> None:
        """Choose how the call is answered, before it asks for a turn."""
        if self.kind is not Kind.READ or self.case.subscription:
            self.admit()
            return
        now = self.plane.clock()
        if self._out_of_time(now):
            return
        if self.unit_id is None:
            self.know_unit()
        descent = self.descent = Descent(self.case.target)
        descent.otherwise = self._nothing_fits
        if not self.enforced:
            self._say_what_would(now)
            self.admit()
            return
        if self._whole:
            self.request.keep(self.policy.writes.fingerprint_bytes)
            descent.asked = self.asked_for(None)
        if not self._answered_first():
            self._begin(now)

    def _begin(self, now: int) -> None:
        """Take the first rung that fits. A route that has only a cache has one, which is the call as it came."""
        if self.case.route.ladder:
            self._descend(0, None, now)
        else:
            self.admit()

    def _answered_first(self) -> bool:
        """Give what is fresh in the cache, if the route asks for that before anything else; return whether it is seen to."""
        cache, descent = self.case.route.cache, self.descent
        if cache is None or not cache.first or descent is None or descent.asked is None:
            return False
        found = self.plane.cache.at_hand(descent.asked, None)
        if found is not None:
            self.give_found(0, found, None)
            return True
        self.cached = "miss"
        left = self._left_now(self.plane.clock())
        most = left // 2 if left is not None else None
        return self._searches(CacheUse(), most, self._found_first, fresh=True)

    def _found_first(self, found: Found | None, now: int) -> None:
        if found is not None:
            self.give_found(0, found, None)
        else:
            self._begin(now)

    def _say_what_would(self, now: int) -> None:
        """Under `mode: observe`, say that the call would be answered with less."""
        route = self.case.route
        if route.ladder:
            spent = self.case.decision.refusal is Reason.BUDGET_EXHAUSTED
            choice = choose(route.ladder, self._needs(now), 0 if spent else self._left_now(now))
            if choice is None or choice.level:
                self.would = Would.DEGRADE
            self.rung = route.ladder[0].name

    def _nothing_fits(self, now: int) -> None:
        """No rung can be taken with what is left."""
        left = self._left_now(now)
        shown = (
            f"in the {exact_ms(max(0, left)):g} ms that may be used" if left is not None else "this request"
        )
        detail = f"No rung of the ladder of route {self.case.route.name!r} fits {shown}."
        if self.descent is not None and self.descent.problem:
            detail += f" One that fits cannot be taken: {self.descent.problem}."
        self._leave_upstream(Reason.BELOW_MIN_START, linger=False)
        self._answer(self.for_all_attempts(Outcome.REFUSED), Reason.BELOW_MIN_START, detail, now)

    # -- down ------------------------------------------------------------------------------------------------------

    def _descend(self, start: int, why: Why | None, now: int) -> None:
        """Take the highest rung from `start` on that can be taken; where there is none, do what is done otherwise."""
        descent, ladder = self.descent, self.ladder
        assert descent is not None
        needs = self._needs(now)
        while (
            choice := choose(ladder, needs, self._left_now(now), start=start, why=why, local=descent.local)
        ) is not None:
            skipped = self._take(choice, now)
            if skipped is None:
                return
            start = choice.level + 1
            # That a rung which fits could not be sent says more than that others did not fit.
            why = (
                skipped
                if choice.why is None or (choice.why is Why.TIME and skipped is Why.BODY)
                else choice.why
            )
        if descent.otherwise is not None:
            descent.otherwise(now)

    def _take(self, choice: Choice, now: int) -> Why | None:
        """Take a rung, or return why it cannot be taken."""
        rung = choice.rung
        if rung.answer is not None:
            self.give_fixed(choice.level, rung.answer, choice.why)
            return None
        if rung.cache is not None:
            return None if self._looks(choice, rung.cache, now) else Why.MISSED
        return self._takes_upstream(choice, now)

    def _takes_upstream(self, choice: Choice, now: int) -> Why | None:
        """Send the call as the rung says, or return why it cannot be sent so."""
        descent, route, level = self.descent, self.case.route, choice.level
        assert descent is not None
        if self.tries and not self._has_another(now):
            return Why.FAILED
        try:
            body = self.request.body() if self._whole else None
            change = changed(choice.rung, route, descent.target, self.head.index, body)
        except Unchangeable as unchangeable:
            descent.problem = str(unchangeable)
            return Why.BODY
        if self.attempting:
            self._let_go(now)
        descent.level, descent.why, descent.changed, descent.before = level, choice.why, change, self.tries
        self.rung = choice.rung.name
        self.request.instead = change.body
        self.case = self.case._replace(target=change.target)
        if self.leads_elsewhere(descent):
            self.request.trailers = [each for each in self.request.trailers if not tells_caller(each[0])]
        if self.lease is None:
            self.admit()
        else:
            self.go(now)
        return None

    def go_as_fits(self, now: int) -> None:
        """Begin an attempt, on the rung that fits by now: the call may have waited."""
        descent = self.descent
        if descent is not None and self.enforced and self.case.route.ladder and not self.overdue(now):
            choice = choose(
                self.case.route.ladder, self._needs(now), self._left_now(now), start=descent.level
            )
            if choice is None or choice.level != descent.level:
                self._descend(descent.level, Why.TIME, now)
                return
        self.go(now)

    # -- the cache -------------------------------------------------------------------------------------------------

    def _looks(self, choice: Choice, use: CacheUse, now: int) -> bool:
        """Answer from the cache, or ask where it is asked elsewhere; return False where there is nothing to be had."""
        found = self._at_hand(use)
        if found is not None:
            self.give_found(choice.level, found, choice.why)
            return True
        return self._searches(use, self.spare(choice.level, now), partial(self._looked, choice))

    def _looked(self, choice: Choice, found: Found | None, now: int) -> None:
        if found is not None:
            self.give_found(choice.level, found, choice.why)
        else:
            self._descend(choice.level + 1, choice.why or Why.MISSED, now)

    # -- failed ----------------------------------------------------------------------------------------------------

    def try_again(self, failure: Failure, now: int) -> bool:
        """Make another attempt, or answer with less."""
        if self._still_fits(now) and super().try_again(failure, now):
            return True
        if failure.outcome is Outcome.COMPLETED:
            return False  # the answer that it has come to is here, and is seen to by who has it
        why = Why.SLOW if failure.outcome is Outcome.DEADLINE_EXCEEDED else Why.FAILED
        return self._steps_down(why, now, partial(self._failed, failure))

    def _still_fits(self, now: int) -> bool:
        """Whether the rung that was taken would be taken again."""
        descent, ladder = self.descent, self.ladder
        if descent is None or not ladder or not self.enforced:
            return True
        return fits(ladder[descent.level], self._needs(now)[descent.level], self._left_now(now))

    def _steps_down(self, why: Why, now: int, otherwise: partial[None], *, local: bool = False) -> bool:
        """Answer with less, if there is a way to; `otherwise` when that comes to nothing."""
        descent, ladder = self.descent, self.ladder
        if descent is None or not ladder or not self.enforced or self._response.head_sent:
            return False
        sent = self.phase is not Phase.NOT_SENT
        descent.local = local or (sent and not self.request.repeatable)
        left, start = self._left_now(now), descent.level + 1
        if choose(ladder, self._needs(now), left, start=start, local=descent.local) is None:
            return False
        descent.otherwise = otherwise
        descent.since = None  # how long it took to fail says nothing of how long it takes
        if self.attempting:
            self._let_go(now)
        self._descend(start, why, now)
        return True

    def goes_elsewhere(self, failure: Failure, now: int) -> bool:
        """Answer with less, where the rung that was taken cannot even be tried."""
        why = Why.BUSY if failure.outcome is Outcome.SHED else Why.FAILED
        return self._steps_down(why, now, partial(self._failed, failure))

    def gives_up_held(self) -> bool:
        """Answer with less than a failure that does not come to its end; return False where there is nothing."""
        head = self._response.head
        now = self.plane.clock()
        if head is None or not asks_again(head.status) or not self._has_more_than_a_chance(now):
            return False
        detail = f"It answered {head.status}, and did not come to the end of that."
        failure = Failure(Outcome.UPSTREAM_FAILED, reason=Reason.RESPONSE_INCOMPLETE, detail=detail)
        return self._steps_down(Why.FAILED, now, partial(self._failed, failure))

    def _has_more_than_a_chance(self, now: int) -> bool:
        """Whether something below is sure to answer, or at least to be asked; what may be kept elsewhere is neither."""
        descent = self.descent
        if descent is None:
            return False
        ladder, needs, left = self.ladder, self._needs(now), self._left_now(now)
        return any(
            fits(rung, need, left) and (rung.cache is None or self._at_hand(rung.cache) is not None)
            for rung, need in zip(ladder[descent.level + 1 :], needs[descent.level + 1 :], strict=True)
        )

    def _failed(self, failure: Failure, now: int) -> None:
        """Say how the last attempt has failed: nothing below could answer either."""
        if failure.outcome is Outcome.DEADLINE_EXCEEDED:
            self._cut_by(Limit.ROUTE_CAP, exact_ms(self.case.route.cap or 0), now, what="Its last attempt")
            return
        self._leave_upstream(failure.reason, linger=False)
        self._answer(self.for_all_attempts(failure.outcome), failure.reason, failure.detail, now)

    def may_try_again_after(self, head: ResponseHead) -> bool:
        """Say whether something else may follow the answer with this head, so that it is held."""
        if super().may_try_again_after(head):
            return True
        descent, ladder = self.descent, self.ladder
        if descent is None or not asks_again(head.status) or not self.enforced:
            return False
        now = self.plane.clock()
        return choose(ladder, self._needs(now), self._left_now(now), start=descent.level + 1) is not None

    def tries_again_after_answer(self) -> bool:
        """Say whether a whole answer is not passed on, because something better may follow it."""
        if super().tries_again_after_answer():
            return True
        head = self._response.head
        if head is None or self.descent is None or not asks_again(head.status) or self._response.head_sent:
            return False
        connection, self._connection = self._connection, None
        kept = self._response.taken()._replace(degraded=self.less_by(self.descent) or self._response.degraded)
        if not self._steps_down(
            Why.FAILED, self.plane.clock(), partial(self._relay_after_all, kept, self.rung)
        ):
            self._connection = connection
            return False
        if connection is not None and self.request.sent and self.request.size <= WAITING_BYTES:
            self.plane.pool.give_back(connection)
        elif connection is not None:
            connection.abort()
        return True

    def _relay_after_all(self, kept: Answer, rung: str | None, now: int) -> None:
        """Pass on the answer of a failed attempt: nothing below could give a better one."""
        self._leave_upstream(Reason.RESPONSE_INCOMPLETE, linger=False)
        self.rung = rung
        self.phase = Phase.COMPLETE
        self.give(kept.head, kept.body, kept.trailers, kept.degraded, delegated=kept.delegated)

    def _shed(self, task: Task, shed: Shed, now: int) -> None:
        """Answer with less where there is no place, if that asks no upstream; else turn the call away."""
        turned_away = partial(self._turned_away, task, shed)
        if not self._steps_down(Why.BUSY, now, turned_away, local=True):
            super()._shed(task, shed, now)

    def _turned_away(self, task: Task, shed: Shed, now: int) -> None:
        super()._shed(task, shed, now)

    # -- too late --------------------------------------------------------------------------------------------------

    def apologises(self) -> bool:
        """Give what can be given though nothing is left to begin with; return False where there is nothing."""
        refusal = self.case.decision.refusal
        if refusal is not Reason.BUDGET_EXHAUSTED or not self.enforced:
            return False
        self.descent = Descent(self.case.target)
        if self.head.framing is Framing.NO_BODY:
            self.know_unit()
            self.descent.asked = self.asked_for(None)
        return self._gives_at_once(0, Why.TIME)

    def last_resort(self, now: int) -> bool:
        """Give what can be given without asking anybody; return False where there is nothing, or it is too late."""
        if not self.ladder or self.kind is not Kind.READ:
            return False
        if self.descent is None:
            self.descent = Descent(self.case.target)
        self.took(self.descent.since, self.rung, now)
        if self._response.head_sent:
            return False
        return self._gives_at_once(self.descent.level, Why.SLOW if self.tries else Why.TIME)

    def _gives_at_once(self, start: int, why: Why) -> bool:
        ladder, needs = self.ladder, self._needs(self.plane.clock())
        while (choice := choose(ladder, needs, 0, start=start, why=why)) is not None:
            if choice.rung.answer is not None:
                self.give_fixed(choice.level, choice.rung.answer, choice.why)
                return True
            found = self._at_hand(choice.rung.cache) if choice.rung.cache is not None else None
            if found is not None:
                self.give_found(choice.level, found, choice.why)
                return True
            start = choice.level + 1
        return False

    # -- inside ----------------------------------------------------------------------------------------------------

    def spare(self, level: int, now: int) -> int | None:
        """Return how long a rung may take with the next one that fits now still fitting then (nanoseconds; None: any time)."""
        left, needs = self._left_now(now), self._needs(now)
        if left is None:
            return None
        return left - next((need for need in needs[level + 1 :] if need <= left), 0)

    def _needs(self, now: int) -> list[int]:
        """Return what each rung needs by now (nanoseconds): one that is not measured yet, nothing that is known of."""
        least = self.case.route.min_start
        return [rung.needs or 0 if rung.local else max(self._need(rung, now), least) for rung in self.ladder]

    def _need(self, rung: Rung, now: int) -> int:
        if rung.needs is not None:
            return rung.needs
        return self.plane.measured.need(self.case.route.name, rung.name, now) or 0

    def leads_elsewhere(self, descent: Descent) -> bool:
        """Whether the rung goes to another place than the caller has chosen, which is not told who is asking."""
        moved = self.case.target.origin[:3] != descent.target.origin[:3]
        return moved and not self.ladder[descent.level].credentials

    def _left_now(self, now: int) -> int | None:
        return self.due - now if self.due is not None else None

    @property
    def _whole(self) -> bool:
        """Whether all of the request is here."""
        return self.request.ended or self.head.framing is Framing.NO_BODY
