"""Looking at one call before anything is done about it: where it goes, what it states, what is decided.

The result is a value. `call` acts on it, `waterclock explain` prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from proxy.core.budget import UNLIMITED, Budget
from proxy.core.calls import Kind, Would, kind_of_method
from proxy.core.decision import UNLIMITED_STEP, Decision, decide, too_deep
from proxy.core.kinds import early_kind
from proxy.core.ledger import Ledger
from proxy.core.limits import NOTHING_STATED, Limits, MalformedLimit, read_limits
from proxy.core.policy import Correlation, OnMissing, Policy, Route
from proxy.core.reasons import Reason
from proxy.core.routing import Router
from proxy.core.target import Origin, Target
from proxy.dataplane.ways import BadTarget, way_in
from proxy.net.own import OwnPorts
from proxy.values import Value
from proxy.wire.events import Framing, RequestHead

if TYPE_CHECKING:
    from proxy.dataplane.step import Step
    from proxy.net.connection import UpstreamConnection

NOWHERE: Final = Origin("http", "", 0)


class Considered(Value):
    """What is known and decided of a call from its head alone.

    `sendable`: it has somewhere to go, so that `mode: observe` can let it pass. `subscription`: a standing ear and no
    step (an upgrade or an event stream without a stated budget). `extended`: it stated more than is left of its budget. `opened`: its budget begins with it.
    """

    _fields: ClassVar[tuple[str, ...]] = (
        "target",
        "route",
        "limits",
        "kind",
        "budget",
        "decision",
        "sendable",
        "subscription",
        "extended",
        "opened",
    )
    __slots__ = _fields

    def __init__(
        self,
        target: Target,
        route: Route,
        limits: Limits,
        kind: Kind,
        budget: Budget | None,
        decision: Decision,
        sendable: bool = True,
        subscription: bool = False,
        extended: bool = False,
        opened: bool = False,
    ) -> None:
        """Take what is known."""
        self.target: Final = target
        self.route: Final = route
        self.limits: Final = limits
        self.kind: Final = kind
        self.budget: Final = budget
        self.decision: Final = decision
        self.sendable: Final = sendable
        self.subscription: Final = subscription
        self.extended: Final = extended
        self.opened: Final = opened


def consider(
    policy: Policy,
    router: Router,
    budgets: Ledger,
    own: OwnPorts,
    head: RequestHead,
    place: Origin | None,
    arrival: int,
    fresh_id: str,
) -> Considered:
    """Return what is decided of a request that arrived at `arrival`. A budget that it names is opened or shortened.

    `place`: where its connection leads whatever it asks for, as `ways.way_in` takes it.
    """
    try:
        target, route = way_in(head, place, router, own)
    except BadTarget as bad:
        target = Target(NOWHERE, "", head.target)
        decision = Decision(UNLIMITED, None, bad.reason, bad.detail)
        return Considered(
            target,
            policy.fallback,
            NOTHING_STATED,
            kind_of_method(head.method),
            None,
            decision,
            sendable=False,
        )
    kind = early_kind(route, head.method, target)
    try:
        limits = limits_of(policy, route, head)
    except MalformedLimit as malformed:
        decision = Decision(UNLIMITED, None, Reason.MALFORMED, f"The header {malformed}.")
        return Considered(target, route, NOTHING_STATED, kind, None, decision)
    names_budget = limits.trace_id is not None and budgets.by_trace(limits.trace_id) is not None
    if not limits.stated and not names_budget and listens(head):
        decision = too_deep(policy, limits) or UNLIMITED_STEP
        case = Considered(target, route, limits, kind, None, decision, subscription=True)
    else:
        case = weighed(policy, budgets, arrival, fresh_id, target, route, limits, kind)
    return barred(policy, case) if policy.egress.deny else case


def observe_denied(step: Step, connection: UpstreamConnection) -> None:
    """Take note that a step has got a connection to where none may lead: `mode: observe` has let it pass."""
    if connection.denied:
        step.would = Would.REFUSE


def barred(policy: Policy, case: Considered) -> Considered:
    """Refuse a call to where none may lead, as far as that is known by now; what its name stands for is seen when it is dialled.

    Whatever else there is to say against it: a place that is denied is no matter of time.
    """
    denied = policy.egress.denies(case.target.origin)
    if not denied:
        return case
    return case._replace(decision=case.decision._replace(refusal=Reason.EGRESS_DENIED, detail=denied))


def limits_of(policy: Policy, route: Route, head: RequestHead) -> Limits:
    """Read what a head states, by the names that its route uses. Raises MalformedLimit."""
    by_trace = Correlation.TRACEPARENT in policy.budget.correlate
    return read_limits(head.index, route.idempotency.header, by_trace=by_trace)


def weighed(
    policy: Policy,
    budgets: Ledger,
    arrival: int,
    fresh_id: str,
    target: Target,
    route: Route,
    limits: Limits,
    kind: Kind,
) -> Considered:
    """Find the budget of a call that can go somewhere, and decide."""
    found = budgets.find(limits, policy.budget, arrival, fresh_id)
    if found.crowded:
        detail = (
            "As many budgets as the sidecar can keep are open; end some of the jobs, and repeat the call."
        )
        return Considered(target, route, limits, kind, None, Decision(UNLIMITED, None, Reason.BUSY, detail))
    budget = found.budget
    if budget is None and policy.budget.on_missing is OnMissing.REFUSE:
        detail = "The call states no budget, and this sidecar takes none without: send Budget-Remaining-Ms."
        return Considered(
            target, route, limits, kind, None, Decision(UNLIMITED, None, Reason.NO_BUDGET, detail)
        )
    if budget is not None and budget.depth > limits.depth:
        limits = limits._replace(depth=budget.depth)  # its entry request has been delegated that often
    decision = decide(policy, route, limits, budget, arrival)
    return Considered(
        target,
        route,
        limits,
        kind,
        budget,
        decision,
        extended=found.extended,
        opened=found.opened,
    )


def listens(head: RequestHead) -> bool:
    """Say whether a request asks for a standing ear: an upgrade, or a GET that accepts an event stream and no more.

    HTTP/2 over an upgrade (h2c) is another way to make the same calls, and a request with a body is one.
    """
    if head.method != "GET" or head.framing is not Framing.NO_BODY:
        return False
    if head.upgrade is not None:
        return b"h2c" not in head.upgrade.lower()
    return head.get(b"accept") == b"text/event-stream"
