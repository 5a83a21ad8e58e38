"""Whether a client has left that nobody hears of: it has ended its side, or it is not read from.

A connection is looked at while a call on it is not over, soon after its side has ended and then less and less often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.calls import Kind
from proxy.net.reset import was_reset

if TYPE_CHECKING:
    from proxy.dataplane.client import Client

LOOKS: Final[tuple[float, ...]] = (0.0, 0.002, 0.008, 0.015, 0.1)
"""When to look again (seconds); the last one, again and again."""
AT_LENGTH: Final = len(LOOKS) - 1
"""The look from which on they are all as far apart: the last of `LOOKS`."""


def pause_before(look: int) -> float:
    """Return how long to wait for a look, of which 0 is the first (seconds)."""
    return LOOKS[min(look, AT_LENGTH)]


def has_left(client: Client, kind: Kind) -> bool:
    """Return whether a client has left altogether. `kind`: of the call that it has made."""
    info = client.transport.get_extra_info
    local, peer = info("sockname"), info("peername")  # None once the connection was reset
    left = client.plane.peers.has_left(local, peer, client.original) if local and peer else True
    if left is None:
        # Not to be known here. Who asks to read and ends has mostly left, who writes mostly waits.
        return was_reset(info("socket")) or (client.half_closed and kind is Kind.READ)
    return left
