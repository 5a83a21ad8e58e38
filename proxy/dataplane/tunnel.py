"""Opaque connections on their way in: a CONNECT (RFC 9110 §9.3.6), or a redirected connection that is not HTTP/1.1.

Both open a connection, and then are a `Relay`. A CONNECT may be refused by the policy for its host or port, and is
answered; a redirected connection has no way to be told, so it is only closed. Whether what comes through a tunnel is
opaque is found out when it stands (`tunnelled`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.budget import UNLIMITED
from proxy.core.calls import Kind, Outcome, Phase, Would
from proxy.core.decision import Decision
from proxy.core.ledger import Ledger
from proxy.core.limits import NOTHING_STATED, MalformedLimit
from proxy.core.policy import Policy, Tunnel
from proxy.core.reasons import Reason, outcome_without_connection
from proxy.core.routing import Router
from proxy.core.target import DEFAULT_PORTS, Origin, Target, split_authority
from proxy.dataplane.consider import NOWHERE, Considered, barred, limits_of, observe_denied, weighed
from proxy.dataplane.plane import Plane
from proxy.dataplane.step import Step
from proxy.dataplane.tunnelled import LateTunnel, OpenTunnel
from proxy.dataplane.ways import names_sidecar
from proxy.net.connection import UpstreamConnection
from proxy.net.errors import DialError
from proxy.net.own import OwnPorts
from proxy.net.pool import Ticket
from proxy.wire.events import Event, Field, RequestHead, WireFault
from proxy.wire.render import response_head

if TYPE_CHECKING:
    from proxy.dataplane.client import Client

_CONNECT_PORT = 443


def consider_tunnel(
    policy: Policy,
    router: Router,
    budgets: Ledger,
    own: OwnPorts,
    head: RequestHead,
    address: str | None,
    arrival: int,
    fresh_id: str,
) -> Considered:
    """Return what is decided of a connection to the authority in `head.target`; `address`: where iptables found it going."""
    try:
        host, port = split_authority(head.target, _CONNECT_PORT)
    except ValueError as problem:
        target = Target(NOWHERE, "", head.target)
        decision = Decision(
            UNLIMITED, None, Reason.MALFORMED, f"The CONNECT target cannot be used: {problem}."
        )
        return Considered(
            target, policy.fallback, NOTHING_STATED, Kind.OPAQUE, None, decision, sendable=False
        )
    target = Target(Origin("tcp", host, port, address), head.target, "")
    route = router.by_target(host, "", "CONNECT")
    refusal = None
    if names_sidecar(own, host, port):
        refusal = Decision(UNLIMITED, None, Reason.LOOP, f"{head.target} is the sidecar itself.")
        return Considered(target, route, NOTHING_STATED, Kind.OPAQUE, None, refusal, sendable=False)
    try:
        limits = limits_of(policy, route, head)
    except MalformedLimit as malformed:
        refusal = Decision(UNLIMITED, None, Reason.MALFORMED, f"The header {malformed}.")
        return Considered(target, route, NOTHING_STATED, Kind.OPAQUE, None, refusal)
    case = weighed(policy, budgets, arrival, fresh_id, target, route, limits, Kind.OPAQUE)
    denied = address is None and denial(policy.tunnel, host, port)
    if denied and case.decision.refusal is None:
        case = case._replace(decision=case.decision._replace(refusal=Reason.TUNNEL_DENIED, detail=denied))
    return barred(policy, case) if policy.egress.deny else case


def denial(rules: Tunnel, host: str, port: int) -> str:
    """Return the sentence that says why a CONNECT to this place is not allowed; empty when it is."""
    if rules.ports is not None and port not in rules.ports:
        allowed = ", ".join(map(str, sorted(rules.ports)))
        return f"CONNECT to port {port} is not allowed; the policy's tunnel.ports are {allowed}."
    if any(pattern.fullmatch(host) for pattern in rules.deny):
        return f"CONNECT to {host} is denied by the policy's tunnel.deny."
    if rules.allow and not any(pattern.fullmatch(host) for pattern in rules.allow):
        return f"CONNECT to {host} is not among the policy's tunnel.allow."
    return ""


class Connect(Step):
    """A CONNECT request. Has the face of a `call.Call` towards its client.

    It is counted, and so is the budget that it opens, when it is known to be opaque, or has failed.
    """

    __slots__ = ("_counted", "_opens", "_ticket", "client")

    def __init__(self, plane: Plane, client: Client, head: RequestHead, arrival: int) -> None:
        """Take the head; nothing happens before `begin`."""
        super().__init__(plane, head, arrival)
        self.kind = Kind.OPAQUE
        self.client = client
        self._ticket: Ticket | None = None
        self._opens = False
        self._counted = False

    def begin(self) -> None:
        """Consider the tunnel; the connection is opened when the request has ended."""
        plane = self.plane
        case = consider_tunnel(
            self.policy, plane.router, plane.budgets, plane.own, self.head, None, self.arrival, self.record_id
        )
        if not self.take(case):
            decision = case.decision
            assert decision.refusal is not None
            self._fail(Outcome.REFUSED, decision.refusal, decision.detail, plane.clock())
        elif self.due is not None:
            self.client.alarm.set(self.due)
        else:
            self.client.alarm.clear()

    def on_request_end(self) -> None:
        """Open the connection, unless the route speaks TLS with that place, and so on another port."""
        origin, plane = self.case.target.origin, self.plane
        plain = origin.port == DEFAULT_PORTS["http"]
        if plain and plane.router.by_target(origin.host, "/", "GET").originate_tls:
            # In the next turn: what came together with the CONNECT has yet to be taken from the parser.
            plane.loop.call_soon(self._listen_late)
        else:
            self._ticket = plane.pool.request(origin, self)

    def _listen_late(self) -> None:
        if not self.ended:
            self._listen(LateTunnel(self, self.client.transport))

    def on_connection(self, connection: UpstreamConnection) -> None:
        """The tunnel stands."""
        self._ticket = None
        observe_denied(self, connection)
        self.phase = Phase.SENT
        self.sent_at = self.plane.clock()
        self._listen(OpenTunnel(self, self.client.transport, connection))

    def _listen(self, tunnel: OpenTunnel) -> None:
        """Tell the client, and listen to what comes through the tunnel."""
        annotated = self.annotation("in_progress", self.plane.clock(), None, None)
        head = response_head(200, "Connection established", [], annotated)
        client = self.client
        tunnel.listen(client.hand_over(), head, client_ended=client.half_closed)

    def take(self, case: Considered) -> bool:
        """Take what was decided. That it opens a budget is told later, if it does."""
        self._opens = case.opened
        return super().take(case._replace(opened=False))

    def count(self) -> None:
        """Count it as opaque."""
        self._counted = True
        self.plane.observer.opaque("connect")
        if self._opens:
            self.plane.observer.budget_opened()

    def withdraw(self) -> None:
        """Leave no record, and no trace in the budget: it was no call, but the way for those that come through it."""
        self.ended = self.recorded = True
        plane, budget = self.plane, self.case.budget
        plane.in_flight -= 1
        if budget is None:
            return
        plane.budgets.withdraw(budget, self.stage, self.case.limits.phase, plane.clock())
        if budget.steps == self.number:
            budget.steps -= 1
        if self._opens and not budget.lone:
            plane.observer.budget_opened()

    def finish(self, outcome: Outcome, reason: str | None, now: int) -> None:
        """Leave the record."""
        if not self._counted:
            self.count()
        super().finish(outcome, reason, now)

    def on_dial_failed(self, error: DialError) -> None:
        """There is no connection."""
        self._ticket = None
        now = self.plane.clock()
        outcome = outcome_without_connection(error.reason)
        if outcome is not Outcome.REFUSED and self.enforced and self.overdue(now):
            self._cut(now)
        else:
            self._fail(outcome, error.reason, error.detail, now)

    def on_alarm(self, now: int) -> None:
        """The connection takes longer to open than the tunnel is allowed."""
        if self.overdue(now):
            self._cut(now)

    def stop(self) -> None:
        """The sidecar stops before the connection was open."""
        if not self.ended:
            self._cancel()
            detail = "The sidecar was stopped before the connection was open."
            self._fail(Outcome.DEADLINE_EXCEEDED, Reason.SHUTTING_DOWN, detail, self.plane.clock())

    def client_left(self, now: int) -> None:
        """The client did not wait for the connection."""
        if self.ended:
            return
        self._cancel()
        self.finish(Outcome.CLIENT_GONE, Reason.CLIENT_LEFT, now)
        self.client.call_done(keep=False)

    def _cut(self, now: int) -> None:
        if not self.enforced:
            self.would = Would.CUT
            self.due = None
            return
        self._cancel()
        bound = self.case.decision.allowance.bound
        self._fail(
            Outcome.DEADLINE_EXCEEDED, bound, "The connection could not be opened in the time allowed.", now
        )

    def _fail(self, outcome: Outcome, reason: str, detail: str, now: int) -> None:
        """Answer, and close: what follows on the connection was meant for somebody else."""
        self.client.send(self.own_answer(outcome, reason, detail, now, close=True))
        self.finish(outcome, reason, now)
        self.client.call_done(keep=False)

    def _cancel(self) -> None:
        if self._ticket is not None:
            self._ticket.cancel()
            self._ticket = None

    # -- the rest of a call's face: a CONNECT has no body, and nothing is relayed before it is open ------------------

    def request_broken(self, problem: WireFault) -> None:
        """Take no notice."""

    def on_request_data(self, data: bytes) -> None:
        """Take no notice."""

    def on_request_trailers(self, fields: list[Field]) -> None:
        """Take no notice."""

    def on_client_congestion(self, congested: bool) -> None:
        """Take no notice."""

    def on_response(self, events: list[Event]) -> None:
        """Take no notice."""

    def on_congestion(self, congested: bool) -> None:
        """Take no notice."""
