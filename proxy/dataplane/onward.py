"""The request head as it is sent on: what the client sent, less what ended here, with what the budget has to say.

Nothing that the client sent under a name of the budget passes through; what is sent on is computed from what is left
at this moment, for this attempt, and only for a neighbour whose business it is.
"""

from __future__ import annotations

from typing import Final

from proxy.core.budget import sent_on
from proxy.core.target import is_inside
from proxy.core.units import whole_ms
from proxy.dataplane.step import Step
from proxy.net.connection import UpstreamConnection
from proxy.net.parent import authorization
from proxy.wire.events import Framing
from proxy.wire.fields import HOP_BY_HOP, dropped, via
from proxy.wire.render import line, lines, request_head

_DROPPED: Final = HOP_BY_HOP | {b"host"}


def onward_head(step: Step, connection: UpstreamConnection, now: int) -> bytes:
    """Return the head that goes out on `connection` at `now`."""
    head, target = step.head, step.case.target
    rendered = [b"Host: %b\r\n" % target.authority.encode("latin-1")]
    rendered += lines(head.fields, dropped(head, _DROPPED))
    rendered += _budget_lines(step, connection, now)
    if head.framing is Framing.CHUNKED:
        rendered.append(b"Transfer-Encoding: chunked\r\n")
    if head.upgrade is not None:
        rendered.append(b"Connection: Upgrade\r\n")
        rendered.append(line(b"Upgrade", head.upgrade))
    rendered.append(via(head, step.plane.via))
    if not connection.via_parent:
        return request_head(head.method, target.path, rendered)
    parent = step.policy.connections.proxy
    credentials = authorization(parent) if parent is not None else None
    if credentials is not None:
        rendered.append(line(b"Proxy-Authorization", credentials.encode()))
    return request_head(head.method, target.url, rendered)


def _budget_lines(step: Step, connection: UpstreamConnection, now: int) -> list[bytes]:
    """Return the budget's own lines, for a neighbour of our own side or one that the route trusts with them."""
    case = step.case
    if not (case.route.propagate or connection.inside or is_inside(case.target.origin.host)):
        return []
    rendered = [b"Budget-Depth: %d\r\n" % (case.limits.depth + 1)]
    if case.budget is not None:
        rendered.append(line(b"Budget-Id", case.budget.id.encode()))
    allowed = case.decision.allowance.ns
    if allowed is not None and allowed > 0:
        left = sent_on(allowed, now - step.arrival, step.policy.budget.hop_allowance)
        rendered.append(b"Budget-Remaining-Ms: %d\r\n" % whole_ms(left))
    return rendered
