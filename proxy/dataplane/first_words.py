"""What a client says first, on a connection of which nobody knows yet what it carries.

Both ways in ask the same: a redirected connection and a tunnel may carry anything. Whatever can be read here is kept from
the other side until it is known what it is: nothing of a write may have left before it is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from proxy.wire.sniff import Sniffed

if TYPE_CHECKING:
    from proxy.dataplane.client import Client


class FirstWords:
    """The bytes of a client so far. One of the two is called once it is clear what they are; neither after `close`.

    `patience`: how many seconds the client may leave it open. Nobody stops in the first word of an HTTP request; in another
    protocol such a word may be a whole question. None: as long as it likes.
    """

    __slots__ = ("_is_http", "_is_opaque", "_loop", "_patience", "_sniff", "_timer", "said")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sniff: Callable[[bytes], Sniffed],
        is_http: Callable[[], object],
        is_opaque: Callable[[], object],
        patience: float | None = None,
    ) -> None:
        """Wait for the first one."""
        self.said = b""
        self._loop = loop
        self._sniff = sniff
        self._is_http = is_http
        self._is_opaque = is_opaque
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, data: bytes) -> None:
        """Take more of them, and say what they are as soon as that is clear."""
        self.said += data
        self.close()
        found = self._sniff(self.said)
        if found is Sniffed.HTTP1:
            self._is_http()
        elif found is not Sniffed.NEED_MORE:
            self._is_opaque()
        elif self._patience is not None:
            self._timer = self._loop.call_later(self._patience, self._is_opaque)

    def close(self) -> None:
        """Wait no longer: it is known by now, or does not matter any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def hand_over(transport: asyncio.Transport, client: Client, said: bytes) -> None:
    """Let a client serve a connection from here on, beginning with what has been said on it."""
    transport.set_protocol(cast(asyncio.Protocol, client))
    client.connection_made(transport)
    client.data_received(said)
