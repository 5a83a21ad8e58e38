"""An answer on a route that can do with less: what is given in place of an upstream's, what is kept of one, what is said.

What an answer is less by stands in its head, and where the route wants it in its JSON too. A whole answer of the first rung
is kept in the cache; how long each attempt has taken is measured, for the rungs whose need is not given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from proxy.core.attempts import asks_again
from proxy.core.budget import Limit
from proxy.core.calls import Phase
from proxy.core.decision import decide
from proxy.core.degrading import CacheUse, Degraded, FixedAnswer, RouteCache, Rung, Why
from proxy.core.json_path import JsonPath
from proxy.core.target import Target
from proxy.core.units import whole_ms
from proxy.dataplane.closing import PACKING, UNPACKED, Closing
from proxy.dataplane.descent import Descent
from proxy.dataplane.onward import onward_head
from proxy.dataplane.response import ResponseSide
from proxy.degrade.cache.asked import Asked, asked
from proxy.degrade.cache.found import Found, missed
from proxy.degrade.cache.freshness import entry_of
from proxy.degrade.given import fixed, is_json, marked
from proxy.net.connection import UpstreamConnection
from proxy.wire.events import Field, ResponseHead
from proxy.wire.render import line


class Answered(Closing):
    """A call whose answer may come from elsewhere, or be less than asked."""

    __slots__ = ()

    # -- sent ------------------------------------------------------------------------------------------------------

    def changed_head(self, connection: UpstreamConnection, rendered: list[bytes]) -> bytes:
        """Return the head that goes out, as the rung that was taken changes it. `rendered`: the budget's lines."""
        without: frozenset[bytes] = frozenset()
        change = self.descent.changed if self.descent is not None else None
        if change is not None:
            rendered += change.lines
            without = change.dropped
        if self.case.route.truncate is not None:  # whatever the caller or the rung would rather have
            rendered = [each for each in rendered if each[:16].lower() != b"accept-encoding:"] + [UNPACKED]
            without |= PACKING
        return onward_head(self, connection, rendered, without, chunked=self.request.instead is None)

    # -- received --------------------------------------------------------------------------------------------------

    def answer_begins(self, descent: Descent, head: ResponseHead) -> bool:
        """Take note that an answer is to be relayed; return whether it is held, to be marked as less than asked."""
        self._say_less(descent)
        if not descent.level and self._keepable(head):
            self._response.keep_copy()
        return self._wants_mark(head)

    def answer_leaves(self, descent: Descent) -> None:
        """Take note that the head of an answer goes to the caller: nothing takes its place any more."""
        descent.leave_attempt()
        if self.given:
            self._mark()
            return
        self._say_less(descent)
        self.request.forget()
        descent.changed = None
        self._mark()
        if self.phase is not Phase.COMPLETE and self.attempt_due != descent.cap:
            self.attempt_due = descent.cap
            self._set_alarm()

    def _say_less(self, descent: Descent) -> None:
        """An answer of a lower rung is less than was asked, whatever it says of itself."""
        if (less := self.less_by(descent)) is not None:
            self._response.degraded = less

    def less_by(self, descent: Descent) -> Degraded | None:
        """Return by how much what the current rung answers is less than asked."""
        if not descent.level:
            return None
        return Degraded(descent.level, self.rung or "", descent.why or Why.TIME, self.stage)

    def outlive_client_timer(self) -> None:
        """Let go of the caller's own timer: it waits for an answer to begin, and starts anew with each part of it."""
        case = self.case
        if case.decision.allowance.bound is not Limit.CLIENT_TIMER or self.due is None:
            return
        limits = case.limits._replace(client_timer=None)
        decision = decide(self.policy, case.route, limits, case.budget, self.arrival)
        due = self.arrival + decision.allowance.ns if decision.allowance.ns is not None else None
        if due is not None and due <= self.due:
            return  # what else limits it has become less meanwhile, and a call is never cut before its allowance
        self.case, self.due = case._replace(decision=decision), due
        if case.budget is not None and case.budget.stages is not None and due is not None:
            stage = case.budget.stage(self.stage, case.limits.phase)
            if stage is not None:
                stage.extend(due)
        self._set_alarm()

    @property
    def most_copied(self) -> int:
        """How long an answer may be that is kept for others (bytes)."""
        return self.policy.writes.hold_back_bytes if self.descent is None else self.policy.cache.entry_bytes

    def copies_no_more(self) -> None:
        """The answer has become too large to be kept for anybody."""
        if self._write is not None:
            self._write.share_no_more()
        else:
            self._response.drop_copy()

    def said_besides(self) -> list[bytes]:
        """Return the field lines for what the cache had, and the trailers that may follow."""
        lines = self.announcement()
        asked_for = self.descent.asked if self.descent is not None else None
        if asked_for is not None and self.cached == "miss":
            lines.append(line(b"Cache-Status", missed(asked_for)))
        return lines

    def has_written(self) -> None:
        """Forget what was kept of a target that may have been written to: it may be true no more (RFC 9111 §4.4)."""
        if self.plane.cache.used and (self.status is None or self.status < 400):
            self.plane.cache.changed(_place(self.case.target))

    def after_delivery(self, descent: Descent) -> None:
        """Keep a whole answer of the first rung, and take note of how long it took."""
        response = self._response
        if self.phase is not Phase.COMPLETE or response.head is None or response.head.status >= 300:
            return
        now, since = self.plane.clock(), descent.since
        self.took(since, self.rung, now)
        kept = response.shared() if response.copied else None
        if kept is None or descent.asked is None or descent.level:
            return
        entry = entry_of(
            self._rules(),
            self.head.method,
            descent.asked,
            kept.head,
            kept.body,
            whole=response.whole and not self.partial and response.degraded is None,
            took=now - since if since is not None else 0,
        )
        if entry is not None:
            self.plane.cache.keep(descent.asked, entry, since)

    def _mark(self) -> None:
        """Let a whole JSON answer say itself that it is less than asked, where the route wants that."""
        response = self._response
        head, degraded = response.head, response.degraded
        whole = self.given or self.phase is Phase.COMPLETE
        if head is None or degraded is None or not whole or not self._wants_mark(head):
            return
        latency = whole_ms(self.plane.clock() - self.arrival)
        body = marked(response.taken().body, degraded, latency, self.policy.writes.hold_back_bytes)
        if body is not None:
            response.replace(body)

    def _wants_mark(self, head: ResponseHead) -> bool:
        return self.case.route.degraded_body and self._response.degraded is not None and is_json(head)

    def took(self, since: int | None, rung: str | None, now: int) -> None:
        """Take note of how long an attempt has taken: until its end, or until it was given up as too slow."""
        if since is not None and rung is not None:
            route = self.case.route
            if any(each.needs is None and each.name == rung for each in route.ladder):
                self.plane.measured.add(route.name, rung, now - since, now)
            self.plane.observer.rung_tried(route.name, rung, now - since)

    # -- given -----------------------------------------------------------------------------------------------------

    def give_fixed(self, level: int, answer: FixedAnswer, why: Why | None) -> None:
        """Answer with what stands in the policy."""
        self._give_rung(level, fixed(answer), answer.body, why)

    def give_found(self, level: int, found: Found, why: Why | None) -> None:
        """Answer with what the cache has kept."""
        self.cached = found.how
        self._give_rung(level, found.head(), found.entry.body, why)

    def _give_rung(self, level: int, head: ResponseHead, body: bytes, why: Why | None) -> None:
        self.rung = self.ladder[level].name if level or self.case.route.ladder else None
        degraded = Degraded(level, self.rung or "", why or Why.TIME, self.stage) if level else None
        self._leave_upstream(Limit.NONE, linger=False)
        self.give(head, body, [], degraded)

    def give(
        self,
        head: ResponseHead,
        body: bytes,
        trailers: list[Field],
        degraded: Degraded | None,
        *,
        delegated: bool = False,
    ) -> None:
        """Answer with what is here, whatever an upstream has said so far; nothing of that has been passed on."""
        self.given = True
        if self.unit_id is not None and not asks_again(head.status):
            self.plane.attempts.done(self.unit_id)
        copied = self._response.copied
        response = self._response = ResponseSide(self.head)
        if copied:
            response.keep_copy()
        self.status = head.status
        response.begin(head, held=True, delegated=delegated)
        response.degraded = degraded
        if self.head.method != "HEAD":
            response.body(body)
        response.end_with(trailers)
        self._deliver()

    # -- the cache -------------------------------------------------------------------------------------------------

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The rungs of the route. One that has only a cache gives what that has kept in place of an error."""
        route = self.case.route
        return route.ladder or (_KEPT if route.cache is not None else ())

    def asked_for(self, use: CacheUse | None) -> Asked | None:
        """Return what the cache knows the call by; None where it is not to be asked.

        `use`: how it is asked; None: as the ladder does, that looks for what means the same if any rung does.
        """
        route = self.case.route
        uses = [rung.cache for rung in route.ladder if rung.cache is not None]
        if self.head.upgrade is not None or (route.cache is None and not uses):
            return None
        use = use or next((each for each in uses if each.text == self._text_at()), None)
        target = self.descent.target if self.descent is not None else self.case.target
        return asked(route, self.head.method, _place(target), self.head.index, self.request.body(), use)

    def _text_at(self) -> JsonPath | None:
        """Return where the first rung that looks for what means the same finds its text."""
        uses = (rung.cache for rung in self.case.route.ladder if rung.cache is not None)
        return next((use.text for use in uses if use.text is not None), None)

    def _at_hand(self, use: CacheUse) -> Found | None:
        """Return what this process has kept, fresh or not too stale."""
        descent = self.descent
        if descent is None or descent.asked is None or not use.exact:
            return None
        return self.plane.cache.at_hand(descent.asked, self._rules().stale_if_error)

    def _searches(
        self,
        use: CacheUse,
        most: int | None,
        then: Callable[[Found | None, int], None],
        *,
        fresh: bool = False,
    ) -> bool:
        """Ask elsewhere, if there is anybody to ask, and time to; `then` goes on with what was found.

        `most`: how long that may take, for what follows where nothing is found. `fresh`: only what is fresh will do.
        """
        descent, cache = self.descent, self.plane.cache
        question = descent.asked if descent is not None else None
        if question is not None and use.text is not None and use.text != self._text_at():
            question = self.asked_for(
                use
            )  # it looks elsewhere in the body than the rung that the call was first read for
        if descent is None or question is None or not cache.asks(question, use):
            self._missed()
            return False
        within = 2 * self.policy.cache.timeout  # the store, and then the service
        if most is not None:
            within = min(most, within)
        if within <= 0:
            self._missed()
            return False
        stale = None if fresh else self._rules().stale_if_error
        descent.search = cache.find(question, use, stale, within, partial(self._search_over, then))
        return True

    def _search_over(self, then: Callable[[Found | None, int], None], found: Found | None) -> None:
        if self.ended or self.descent is None:
            return
        self.descent.search = None
        if found is None:
            self._missed()
        then(found, self.plane.clock())

    def _missed(self) -> None:
        if self.cached is None:
            self.cached = "miss"

    def _rules(self) -> RouteCache:
        return self.case.route.cache or _RULES

    def _keepable(self, head: ResponseHead) -> bool:
        return (
            self.descent is not None
            and self.descent.asked is not None
            and 200 <= head.status < 300
            and not self._response.head_sent
        )


def _place(target: Target) -> str:
    """Return what was asked for, as the cache tells it from all else: the same name at another address is another place."""
    address = target.origin.address
    return target.url if address is None else f"{target.url}\0{address}"


_RULES: Final = RouteCache()
_KEPT: Final = (Rung("asked"), Rung("cached", cache=CacheUse()))
