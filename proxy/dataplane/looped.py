"""A request that the sidecar has sent itself, and that was led back to it: the redirect does not let its own user pass.

It would go round until something breaks, so it is refused where it comes in for the second time. For what is no HTTP,
`redirected` looks whose the connection is before it opens another one.
"""

from __future__ import annotations

import asyncio
import os

from proxy.core.budget import UNLIMITED
from proxy.core.calls import kind_of_method
from proxy.core.decision import Decision
from proxy.core.limits import NOTHING_STATED
from proxy.core.reasons import Reason
from proxy.core.target import Target
from proxy.dataplane.call import Call
from proxy.dataplane.consider import NOWHERE, Considered
from proxy.dataplane.plane import Plane
from proxy.wire.events import RequestHead
from proxy.wire.fields import has_passed


def goes_round(
    plane: Plane, transport: asyncio.Transport, original: tuple[str, int], head: RequestHead
) -> bool:
    """Say whether a request on a redirected connection comes from this very sidecar.

    That it has passed here (RFC 9110 §7.6.3) is not enough: it may have come in by the inbound port, and an app that is a
    proxy itself passes on what it was told. Where the kernel does not know whose the connection is, it has to be.
    """
    if not has_passed(head, plane.via):
        return False
    return plane.peers.is_own(transport.get_extra_info("peername"), original) is not False


class Looped(Call):
    """A call that is refused for that. It opens no budget, and belongs to none: its first pass has the step."""

    __slots__ = ()

    def look(self) -> Considered:
        """Refuse, in `mode: observe` too: there is nowhere to let it pass to."""
        host = (self.head.get(b"host") or b"").decode("latin-1")
        detail = (
            f"What the sidecar sends to {host or 'the tool'} is redirected to the sidecar itself; exempt its user id "
            f"({os.geteuid()}) from the redirect, as `waterclock redirect` does."
        )
        decision = Decision(UNLIMITED, None, Reason.REDIRECT_LOOP, detail)
        target, kind = Target(NOWHERE, host, self.head.target), kind_of_method(self.head.method)
        return Considered(target, self.policy.fallback, NOTHING_STATED, kind, None, decision, sendable=False)
