"""The request side of a call: its body, on its way from the client to the upstream.

The body is first collected, then streamed. A write's is collected whole, up to a bound, so that its fingerprint is
known before its first byte leaves; any other's only until there is a connection to send it on.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from proxy.net.connection import UpstreamConnection
from proxy.wire.events import Field, Framing, RequestHead
from proxy.wire.render import LAST_CHUNK, chunk, last_chunk_with

WAITING_BYTES: Final = 65_536
"""How much of a body is collected while there is no connection yet, before the client is made to wait."""
MANY_PARTS: Final = 4096
"""How many parts of a body are held before they are joined: a body in tiny chunks would take many times its size."""


class RequestSide:
    """One request's body and where it has got to."""

    __slots__ = (
        "_connection",
        "_digest",
        "_keeps",
        "_parked",
        "_parts",
        "ended",
        "head",
        "instead",
        "size",
        "trailers",
    )

    def __init__(self, head: RequestHead) -> None:
        """Begin with nothing of the body."""
        self.head = head
        self.size = 0
        self.ended = False
        self._parts: list[bytes] = []
        self.trailers: list[Field] = []
        self._connection: UpstreamConnection | None = None
        self._parked = False
        self._digest: blake2b | None = None
        self._keeps = 0
        # Sent in place of the body, in one piece whose length the head tells.
        self.instead: bytes | None = None

    def keep(self, most: int) -> None:
        """Keep the body after it was sent, up to a size, so that it can be sent again."""
        self._keeps = most

    @property
    def repeatable(self) -> bool:
        """Whether all of the body so far is still here."""
        return self.head.framing is Framing.NO_BODY or self._connection is None or self.size <= self._keeps

    @property
    def sent(self) -> bool:
        """Whether all of the request has been given to the connection."""
        return self.ended and self._connection is not None and not self._parked

    def body(self) -> bytes:
        """Return what has been collected."""
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0] if self._parts else b""

    def digest_with(self, digest: blake2b) -> None:
        """Take the fingerprint of the body as it passes, from what has been collected on."""
        self._digest = digest
        for part in self._parts:
            digest.update(part)

    def digest(self) -> str | None:
        """Return the fingerprint of a body that was taken as it passed."""
        return self._digest.hexdigest() if self._digest is not None else None

    def data(self, data: bytes) -> None:
        """Take a part of the body."""
        self.size += len(data)
        if self._digest is not None:
            self._digest.update(data)
        waits = self._connection is None or self._parked
        if waits or self.size <= self._keeps:
            self._parts.append(data)
            if len(self._parts) >= MANY_PARTS:
                self._parts = [b"".join(self._parts)]
        elif self._keeps:
            self._parts.clear()
        if self._connection is not None and not self._parked:
            self._connection.write(chunk(data) if self.head.framing is Framing.CHUNKED else data)

    def end(self) -> None:
        """Take the end of the body."""
        self.ended = True
        if self._connection is not None and not self._parked:
            self._write_end(self._connection)

    def attach(self, connection: UpstreamConnection, head: bytes, *, park: bool = False) -> None:
        """Send the head, and what there is of the body. `park`: keep the body until the other side asks for it."""
        self._connection = connection
        self._parked = park
        body = b"" if park else self._rendered()
        connection.write(head + body if len(body) <= WAITING_BYTES else head)
        if len(body) > WAITING_BYTES:
            connection.write(body)
        if not park and self.size > self._keeps:
            self._parts.clear()

    def detach(self) -> None:
        """Let go of a connection, to send the same on another; only while it is `repeatable`."""
        self._connection = None

    def forget(self) -> None:
        """Keep nothing of what has been sent: it is not sent again."""
        if self.sent:
            self._keeps = 0
            self._parts.clear()
            self.instead = None

    def unpark(self) -> None:
        """Send the body that was kept back."""
        if self._parked and self._connection is not None:
            self._parked = False
            self._connection.write(self._rendered())
            if self.size > self._keeps:
                self._parts.clear()

    def _rendered(self) -> bytes:
        """Return what has been collected, in the framing that the head announced."""
        if self.instead is not None:
            return self.instead
        body = self.body()
        if self.head.framing is not Framing.CHUNKED:
            return body
        framed = chunk(body) if body else b""
        return framed + self._last() if self.ended else framed

    def _write_end(self, connection: UpstreamConnection) -> None:
        if self.head.framing is Framing.CHUNKED:
            connection.write(self._last())

    def _last(self) -> bytes:
        return last_chunk_with(self.trailers) if self.trailers else LAST_CHUNK
