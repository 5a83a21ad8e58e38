"""Who may come in: by the outbound port the pod and nobody else, by either only as many as leave room for what they call.

A call that comes in by the outbound port goes out with the pod's own rights, to wherever it names. Where the port listens on
the loopback alone, others cannot reach it to begin with (but for a node with `route_localnet`, which lets its neighbours do so);
where it listens on other addresses too, this is what stands between them and the pod's network.

Each client takes a descriptor, and each call another one. So clients may have half of those that there are; the inbound side,
which anybody in the cluster reaches, lets nobody in once a quarter is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from proxy.core.units import MINUTE
from proxy.net import descriptors
from proxy.net.own import is_local
from proxy.net.reset import end_with_reset

TELL_EVERY: Final = MINUTE
"""How often it is told that somebody was turned away for one reason (nanoseconds); what comes in between is counted."""

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})


class Why(StrEnum):
    """Why somebody is turned away."""

    OUTSIDE = "outside"
    CROWDED = "crowded"


class Door:
    """Says of each new connection whether it may stay; one that may not is reset, without an answer.

    `inside`: how many clients there are. `tell` is called with the reason, the address of one who was turned away for it, and
    how many there were since the last time.
    """

    def __init__(
        self, inside: Callable[[], int], clock: Callable[[], int], tell: Callable[[Why, str, int], None]
    ) -> None:
        """Have turned nobody away yet."""
        self.turned_away: dict[str, int] = dict.fromkeys(Why, 0)
        self._inside = inside
        self._clock = clock
        self._tell = tell
        self._told: dict[Why, tuple[int, int]] = {}

    def opens_to_pod(self, transport: asyncio.Transport) -> bool:
        """Let a connection of this pod in, on the outbound port; return whether it may stay.

        One that was reset already has no address any more, and what it has left to be read is not worth guessing whose it is.
        """
        peer = transport.get_extra_info("peername")
        if peer is None:
            transport.abort()
            return False
        if peer[0] not in _LOOPBACK and not is_local(_address(peer)):
            return self._turn_away(transport, Why.OUTSIDE, peer)
        return self._has_room(transport, peer, descriptors.limit() // 2)

    def opens_to_anybody(self, transport: asyncio.Transport) -> bool:
        """Let a connection from wherever in, on the inbound port; return whether it may stay."""
        return self._has_room(
            transport, transport.get_extra_info("peername") or ("",), descriptors.limit() // 4
        )

    def _has_room(self, transport: asyncio.Transport, peer: tuple[Any, ...], most: int) -> bool:
        return self._inside() < most or self._turn_away(transport, Why.CROWDED, peer)

    def _turn_away(self, transport: asyncio.Transport, why: Why, peer: tuple[Any, ...]) -> bool:
        end_with_reset(transport)
        transport.abort()
        self.turned_away[why] += 1
        now, count = self._clock(), self.turned_away[why]
        told_at, told = self._told.get(why, (now - TELL_EVERY, 0))
        if now - told_at >= TELL_EVERY:
            self._told[why] = now, count
            self._tell(why, str(peer[0]), count - told)
        return False


def _address(peer: tuple[Any, ...]) -> str:
    """Return a peer's address with its interface, which a link-local one of IPv6 is not known without (RFC 4007)."""
    host = str(peer[0])
    return f"{host}%{peer[3]}" if len(peer) > 3 and peer[3] and "%" not in host else host
