"""The inbound side: entry requests, on their way to the agent's own port.

An entry request opens the budget of its job, or joins the one that it names. The app is given the budget's id and what
is left of it; the request itself is cut at the end of the total; and its answer carries the verdict, so that a result
that is incomplete cannot pass for a success. It is the job and no step of it: it takes no slot, repeats nothing, and
its record is that of the budget.

What an entry request asks of the app is a unit of the job's work like that of any step: one that was cut, broken off or
left leaves its job incomplete, until it is repeated and succeeds. A refused one asks nothing of the app, and is no part
of a job that it did not open.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.core.budget import UNLIMITED, Budget, CallPhase
from proxy.core.calls import Kind, Outcome, Retry, Would, kind_of_method
from proxy.core.decision import UNLIMITED_STEP, Decision, decide
from proxy.core.entry import EntryRecord
from proxy.core.limits import NOTHING_STATED, MalformedLimit
from proxy.core.policy import OnMissing, Route
from proxy.core.reasons import Reason
from proxy.core.target import DEFAULT_PORTS, Origin, Target, split_authority, split_url
from proxy.core.units import MILLISECOND, exact_ms, whole_ms
from proxy.core.verdict import Verdict, complete, counts_of, degraded, steps_field
from proxy.dataplane.call import Call
from proxy.dataplane.consider import Considered, limits_of, listens
from proxy.dataplane.onward import onward_head
from proxy.dataplane.plane import Plane
from proxy.net.connection import UpstreamConnection
from proxy.net.transit import half_round_trip
from proxy.wire.events import RequestHead, ResponseHead, WireFault
from proxy.wire.render import line

if TYPE_CHECKING:
    from proxy.dataplane.client import Client

ENTRY: Final = Route("entry")
WAKE_TIME: Final = 50 * MILLISECOND
"""How long after its due time a cut may come and still be taken for one that came in time: timers wake a little late."""

_PROBES: Final = (b"kube-probe/", b"GoogleHC/", b"ELB-HealthChecker/")
"""Who asks only whether the app is alive (User-Agent): no job begins with that."""
_OUTCOMES: Final = frozenset(Outcome)
_TRAILER: Final = b"Trailer: Budget-Steps, Budget-Verdict\r\n"


class Entry(Call):
    """One entry request. `_entered`: it counts among those of its budget; `_apart`: it may make calls, and has none."""

    __slots__ = ("_apart", "_entered")

    def __init__(self, plane: Plane, client: Client, head: RequestHead, arrival: int) -> None:
        """Take the head; nothing happens yet."""
        super().__init__(plane, client, head, arrival)
        self.number = 0  # before the first step
        self._entered = False
        self._apart = False

    # -- begin -----------------------------------------------------------------------------------------------------

    def look(self) -> Considered:
        """Find or open the budget, and decide."""
        try:
            target = self._target()
        except ValueError as problem:
            target = Target(self._app(), "", self.head.target)
            detail = f"The request target cannot be used: {problem}."
            return self._refused(target, Reason.MALFORMED, detail)._replace(sendable=False)
        try:
            limits = limits_of(self.policy, ENTRY, self.head)
        except MalformedLimit as malformed:
            return self._refused(target, Reason.MALFORMED, f"The header {malformed}.")
        kind = kind_of_method(self.head.method)
        listening = listens(self.head)
        if (listening and not limits.stated) or self._probes():
            return Considered(target, ENTRY, limits, kind, None, UNLIMITED_STEP, subscription=listening)
        found = self.plane.budgets.find(
            limits, self.policy.budget, self.arrival, self.record_id, entry=True, transit=self._transit()
        )
        if found.crowded:
            detail = (
                "As many budgets as the sidecar can keep are open; end some of the jobs, and repeat the call."
            )
            return self._refused(target, Reason.BUSY, detail)
        budget = found.budget
        if budget is None and self.policy.budget.on_missing is OnMissing.REFUSE:
            detail = (
                "The request states no budget, and this sidecar takes none without: send Budget-Remaining-Ms."
            )
            return self._refused(target, Reason.NO_BUDGET, detail)
        # The whole total is the entry request's: the reserve is kept from the steps, so that it can still be answered.
        limits = limits._replace(phase=CallPhase.CLEANUP)
        decision = decide(self.policy, ENTRY, limits, budget, self.arrival)
        return Considered(
            target, ENTRY, limits, kind, budget, decision, extended=found.extended, opened=found.opened
        )

    def take(self, case: Considered) -> bool:
        """Take what was decided. The budget is entered, not stepped into."""
        self.case = case
        self.kind = case.kind
        if case.extended:
            self.plane.observer.extension_ignored()
        decision, budget = case.decision, case.budget
        goes_on = decision.refusal is None or (case.sendable and not self.enforced)
        if budget is not None and (goes_on or case.opened):
            self._enter(budget)
        elif budget is None and goes_on and self._may_call():
            self._apart = True
            self.plane.budgets.others += 1
        if not goes_on:
            return False
        if decision.refusal is not None:
            self.would = Would.REFUSE
        elif decision.allowance.ns is not None:
            self.due = self.arrival + decision.allowance.ns
        return True

    def start(self) -> None:
        """Go on to the app at once: admission is for the steps."""
        self.open(self.plane.clock())

    def _enter(self, budget: Budget) -> None:
        """Count among the budget's entry requests. What an earlier one left undone is being done again."""
        self._entered = True
        again = self.plane.budgets.enter(budget, self.case.limits)
        self.plane.budgets.worked_on(budget, self._work(), done=True)
        if again or self.case.opened:
            self.plane.observer.budget_opened()

    # -- on the way ------------------------------------------------------------------------------------------------

    @property
    def once(self) -> bool:
        """Whatever it asks for: a job that is begun twice costs more than one that has to be asked for again."""
        return True

    def may_resend(self, connection: UpstreamConnection, problem: WireFault) -> bool:
        """For the same reason, it is never sent on a second connection."""
        return False

    def onward(self, connection: UpstreamConnection, now: int) -> bytes:
        """Return the head for the app, with the budget that its calls belong to."""
        budget = self.case.budget
        lines: list[bytes] = []
        if budget is not None:
            left = budget.remaining(now, CallPhase.CLEANUP) - self.policy.budget.hop_allowance
            lines = [
                line(b"Budget-Id", budget.id.encode()),
                b"Budget-Remaining-Ms: %d\r\n" % whole_ms(left),
                b"Budget-Depth: %d\r\n" % self.case.limits.depth,
            ]
        return onward_head(self, connection, lines)

    def holds(self, head: ResponseHead) -> bool:
        """Hold the answer until it is whole, for a while: the verdict stands in its head."""
        return self.case.budget is not None

    def trusts(self) -> bool:
        """The verdict is ours to say, and no app's."""
        return False

    def annotation(self, outcome: str, now: int, retry: Retry | None, reason: str | None) -> list[bytes]:
        """Return the field lines that every answer carries, and the two verdicts as far as they can be said by now."""
        lines = super().annotation(outcome, now, retry, reason) + self._verdict_lines(outcome, now)
        if self.case.budget is not None and outcome not in _OUTCOMES and self._response.has_trailers:
            lines.append(_TRAILER)
        return lines

    def last_lines(self, now: int) -> list[bytes]:
        """Return the trailers of an answer that passed as it came: its head was too early for the verdict."""
        return self._verdict_lines(Outcome.COMPLETED, now)

    def _verdict_lines(self, outcome: str, now: int) -> list[bytes]:
        budget = self.case.budget
        if budget is None:
            return []
        steps, verdict = steps_field(counts_of(budget)), self._verdict(budget, outcome, now).field()
        return [b"Budget-Steps: %b\r\n" % steps.encode(), b"Budget-Verdict: %b\r\n" % verdict.encode()]

    def _verdict(self, budget: Budget, outcome: str, now: int) -> Verdict:
        """Return the verdicts on the job as this entry request ends: without an answer of the app, it is not done."""
        if outcome not in _OUTCOMES:
            return Verdict(None, None, degraded(budget))
        done = outcome == Outcome.COMPLETED and complete(budget)
        return Verdict(done, self._closing(outcome, now) <= budget.deadline, degraded(budget))

    def _closing(self, outcome: str, now: int) -> int:
        """Return when the job is over for this entry request: one that is cut ends when it is due."""
        due = self.due
        if outcome == Outcome.DEADLINE_EXCEEDED and due is not None and due <= now <= due + WAKE_TIME:
            return due
        return now

    # -- the end ---------------------------------------------------------------------------------------------------

    def on_alarm(self, now: int) -> None:
        """Look what it is time for when the books are in order: steps that are due as well count in what is said of the job."""
        self.plane.alarms.afterwards(partial(super().on_alarm, now))

    def finish(self, outcome: Outcome, reason: str | None, now: int) -> None:
        """Leave the record of the entry request; with the last one its budget is closed."""
        assert not self.recorded
        self.ended = self.recorded = True
        plane, case, budget = self.plane, self.case, self.case.budget
        plane.in_flight -= 1
        late = outcome is Outcome.DEADLINE_EXCEEDED and self.due is not None and now >= self.due
        plane.observer.entry(
            EntryRecord(
                self.record_id,
                budget.id if budget is not None else case.limits.budget_id,
                self.head.method,
                case.target.shown,
                case.limits.depth,
                exact_ms(budget.total) if budget is not None else None,
                exact_ms(now - self.arrival),
                exact_ms(now - self.due) if late and self.due is not None else None,
                outcome,
                self.effect,
                self.phase,
                reason,
                self.would,
                self.status,
                self.relayed,
                steps_field(counts_of(budget)) if budget is not None else None,
                self._verdict(budget, outcome, now).field() if budget is not None else None,
            )
        )
        if self._apart:
            plane.budgets.others -= 1
        if budget is not None and self._entered:
            plane.budgets.worked_on(budget, self._work(), done=outcome is Outcome.COMPLETED)
            if plane.budgets.leave(budget, self._closing(outcome, now)):
                plane.budget_finished(budget, now)
        if plane.draining:
            plane.ended()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _app(self) -> Origin:
        inbound = self.plane.inbound
        assert inbound is not None
        return Origin("http", inbound.app.host, inbound.app.port, inbound.app.host, inward=True)

    def _target(self) -> Target:
        """Return where the request goes: to the app, under the name that the caller gave it. Raises ValueError."""
        if self.head.method == "CONNECT":
            raise ValueError("this is the agent's own port, and no proxy; CONNECT goes to the outbound port")
        host = (self.head.get(b"host") or b"").decode("latin-1")
        path = self.head.target
        if not path.startswith("/") and path != "*":
            _, host, path = split_url(path)
            split_authority(host, DEFAULT_PORTS["http"])
        app = self.plane.inbound.app if self.plane.inbound is not None else None
        return Target(self._app(), host or str(app), path)

    def _transit(self) -> int:
        """Return how long the request was on its way here, as far as that is to be measured."""
        inbound = self.plane.inbound
        if inbound is None or not inbound.measure_transit:
            return 0
        return half_round_trip(self.client.transport.get_extra_info("socket"))

    def _probes(self) -> bool:
        agent = self.head.get(b"user-agent")
        return agent is not None and agent.startswith(_PROBES)

    def _may_call(self) -> bool:
        """Say whether the app may make calls on behalf of this request: not of a probe, or of one that only listens."""
        return not self._probes() and not (self.case.subscription and self.head.upgrade is None)

    def _work(self) -> str:
        """Return by what a repetition of this request is known within its job."""
        key = self.case.limits.key
        return f"entry {key}" if key is not None else f"entry {self.head.method} {self.case.target.path}"

    def _refused(self, target: Target, reason: Reason, detail: str) -> Considered:
        kind: Kind = kind_of_method(self.head.method)
        decision = Decision(UNLIMITED, None, reason, detail)
        return Considered(target, ENTRY, NOTHING_STATED, kind, None, decision)
