"""The request head as it is sent on: what the client sent, less what ended here, with what the budget has to say.

Nothing that the client sent under a name of the budget passes through; what is sent on is computed from what is left
at this moment, for this attempt, and only for a neighbour whose business it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.budget import sent_on
from proxy.core.policy import Policy
from proxy.core.target import Target, is_inside
from proxy.core.units import whole_ms
from proxy.net.connection import UpstreamConnection
from proxy.net.parent import authorization
from proxy.wire.events import Framing
from proxy.wire.fields import HOP_BY_HOP, dropped
from proxy.wire.render import line, lines, request_head, via

if TYPE_CHECKING:
    from proxy.dataplane.step import Step

_DROPPED: Final = HOP_BY_HOP | {b"host"}


def onward_head(
    step: Step,
    connection: UpstreamConnection,
    budget_lines: list[bytes],
    without: frozenset[bytes] = frozenset(),
    *,
    chunked: bool = True,
) -> bytes:
    """Return the head that goes out on `connection`.

    `without`: names of fields that stay behind, besides the usual ones. Not `chunked`: the body goes out in one piece even
    if it came in chunks.
    """
    head, target = step.head, step.case.target
    made = lines(head.fields, dropped(head, _DROPPED | without if without else _DROPPED))
    made += budget_lines
    if head.framing is Framing.CHUNKED and chunked:
        made.append(b"Transfer-Encoding: chunked\r\n")
    if head.upgrade is not None:
        made.append(b"Connection: Upgrade\r\n")
        made.append(line(b"Upgrade", head.upgrade))
    made.append(via(head, step.plane.via))
    return plain_head(step.policy, connection, head.method, target, made)


def plain_head(
    policy: Policy,
    connection: UpstreamConnection,
    method: str,
    target: Target,
    made: list[bytes],
) -> bytes:
    """Return a request head for a target, in the form that its connection takes: to the tool, or to a parent proxy.

    `made`: its field lines but `Host`, looked over where they were made (`wire.render`).
    """
    host = target.host or target.authority
    if not connection.via_parent:
        return request_head(method, target.path, (), made, host)
    parent = policy.connections.proxy
    credentials = authorization(parent) if parent is not None else None
    if credentials is not None:
        made = [*made, line(b"Proxy-Authorization", credentials.encode())]
    return request_head(method, target.url, (), made, host)


def budget_lines(step: Step, connection: UpstreamConnection, now: int) -> list[bytes]:
    """Return the budget's own lines as of `now`, for a neighbour of our own side or one that the route trusts with them."""
    case = step.case
    if not (case.route.propagate or connection.inside or is_inside(case.target.origin.host)):
        return []
    rendered = [b"Budget-Depth: %d\r\n" % (case.limits.depth + 1)]
    if case.budget is not None:
        rendered.append(line(b"Budget-Id", case.budget.id.encode()))
    left = _left(step, now)
    if left is not None:
        rendered.append(b"Budget-Remaining-Ms: %d\r\n" % left)
    return rendered


def _left(step: Step, now: int) -> int | None:
    """Return the milliseconds that the other side is told are left: of this attempt, and less with each one."""
    allowed = step.case.decision.allowance.ns
    hop = step.policy.budget.hop_allowance
    left = None
    if allowed is not None and allowed > 0:
        left = whole_ms(sent_on(allowed, now - step.arrival, hop))
    if step.attempt_due is not None:
        of_attempt = whole_ms(sent_on(step.attempt_due - now, 0, hop))
        left = of_attempt if left is None else min(left, of_attempt)
    if left is not None and step.told is not None:
        left = max(0, min(left, step.told - 1))
    step.told = left
    return left
