"""One connection to an upstream: HTTP exchanges, one after another, or raw bytes once it has been upgraded.

The connection parses and tells its sink; it decides nothing. Whether it may be used again is the parser's verdict
and the sink's together: an exchange that did not end cleanly ends the connection (promise 12).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import socket
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, cast

from proxy.core.target import Origin
from proxy.net.reset import GONE, end_with_reset
from proxy.wire.events import END, Event
from proxy.wire.faults import fault
from proxy.wire.parser import ResponseParser

_UNREAD_BYTES: Final = 65_536

EARLY_BYTES: Final = 65_536
"""How much a server may say before it is asked."""


class Sink(Protocol):
    """Who listens to an exchange. Calls come from the event loop, in order, and never after the exchange is let go."""

    def on_response(self, events: list[Event]) -> None:
        """Take what was parsed. The last event is a `WireFault` if the other side broke off or broke the rules."""

    def on_congestion(self, congested: bool) -> None:
        """Take a change of the send buffer: congested is full, so that sending more must wait."""


class UpstreamConnection:
    """A connection of a pool. `era`, `idle_since` and `uses` are the pool's to read.

    `denied`: no call may lead to where it does, and `mode: observe` has let it. It is an `asyncio.Protocol` by what it can do,
    and derives from nothing, so that its attributes, compiled, are those of a struct.
    """

    __slots__ = (
        "_lost",
        "_parser",
        "_poll",
        "_raw",
        "_second",
        "_sink",
        "_transport",
        "congested",
        "denied",
        "early",
        "era",
        "idle_since",
        "inside",
        "origin",
        "uses",
        "via_parent",
    )

    def __init__(self, origin: Origin, lost: Callable[[UpstreamConnection], None]) -> None:
        """Wait for a transport. `lost` is called once, when the connection is closed, by whoever closed it."""
        self.origin = origin
        self.inside = False
        self.via_parent = False
        self.denied = False
        self.era = 0
        self.idle_since = 0
        self.uses = 0
        self.congested = False
        self.early = b""  # what came before anybody asked: only a protocol in which the server speaks first may do that
        self._lost: Callable[[UpstreamConnection], None] | None = lost
        self._parser = ResponseParser()
        self._sink: Sink | None = None
        self._transport: asyncio.Transport | None = None
        self._raw = False
        self._second: socket.socket | None = None
        self._poll: Callable[[int], list[tuple[int, int]]] | None = None

    # -- asyncio.Protocol ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse, and tell the sink. Bytes that nobody asked for end the connection."""
        sink = self._sink
        if sink is None:
            if self.uses or len(self.early) > EARLY_BYTES:
                self.abort()
            else:
                self.early += data
        elif self._raw:
            sink.on_response([data])
        else:
            sink.on_response(self._parser.feed(data))

    def eof_received(self) -> bool:
        """Take the other side's end: of a body that lasts until then, or of an exchange that broke off.

        After an upgrade it is the end of one side only, and told as `END`.
        """
        sink = self._sink
        if sink is None:
            return False
        if self._raw:
            sink.on_response([END])
            return not self._speaks_tls  # over TLS the end of one side is the end of both
        self._sink = None
        sink.on_response(self._parser.eof())
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the sink, if an exchange was going on, and the pool."""
        self._transport = None
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.on_response([fault("response", "closed_in_body")] if self._raw else self._last_events(exc))
        if self._second is not None:
            self._second.close()
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost(self)

    def pause_writing(self) -> None:
        """Take note that the send buffer is full."""
        self.congested = True
        if self._sink is not None:
            self._sink.on_congestion(True)

    def resume_writing(self) -> None:
        """Take note that the send buffer has room again."""
        self.congested = False
        if self._sink is not None:
            self._sink.on_congestion(False)

    # -- for the sink ----------------------------------------------------------------------------------------------

    @property
    def _speaks_tls(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    @property
    def reusable(self) -> bool:
        """Whether the last exchange left the connection fit for another one."""
        return not self.closed and not self._raw and self._parser.reusable

    @property
    def unasked(self) -> bool:
        """Whether the other side has ended, or said what nobody asked for, and the loop has not read it yet.

        Then nothing may be sent on it any more: the request would be lost, or its caller be given what was never meant for it.
        Asks the kernel, which takes about a microsecond.
        """
        if self._poll is None:
            sock = self._transport.get_extra_info("socket") if self._transport is not None else None
            if sock is None:
                return False
            poll = select.poll()
            try:
                poll.register(sock.fileno(), select.POLLIN)
            except GONE:
                return True
            self._poll = poll.poll
        return bool(self._poll(0))

    def begin(self, sink: Sink, method: str) -> None:
        """Begin an exchange: the next bytes are the answer to a request with this method."""
        self._sink = sink
        self._parser.start(method)
        self.uses += 1

    def expect_early_answer(self) -> None:
        """Keep a second descriptor of the socket while a long body is sent.

        A server that has heard enough answers and closes, and the next write then fails with a reset. The transport is
        gone with that, and an answer that has arrived, and that it had not read yet, would be lost.
        """
        transport = self._transport
        if self._second is None and transport is not None and transport.get_extra_info("sslcontext") is None:
            sock = transport.get_extra_info("socket")
            if sock is not None:
                with suppress(*GONE):  # no descriptor is left: then this connection does without
                    self._second = socket.socket(fileno=os.dup(sock.fileno()))

    @property
    def all_arrived(self) -> bool:
        """Whether the other side's kernel has all that was sent, as far as this one knows."""
        if self._transport is None or self._transport.get_write_buffer_size():
            return False
        sock = self._transport.get_extra_info("socket")
        if sock is None:
            return True
        try:
            return fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0") == b"\0\0\0\0"
        except GONE:
            return False

    def listen(self, sink: Sink) -> None:
        """Tell a sink whatever the other side says of its own accord, now and before. Nothing has been asked of it yet."""
        self._sink = sink
        self.upgrade()

    def stop_listening(self) -> None:
        """Expect HTTP again: the other side has not said a word."""
        self._sink = None
        self._raw = False

    def hand_over(self, sink: Sink) -> None:
        """Let another sink hear the rest of this exchange."""
        self._sink = sink

    def let_go(self) -> None:
        """End the exchange for its sink: nothing more is told."""
        self._sink = None
        if self._second is not None:
            self._second.close()
            self._second = None

    def upgrade(self) -> None:
        """Take all further bytes as they come, and those that came early: another protocol is spoken now."""
        self._raw = True
        early, self.early = self.early, b""
        if early and self._sink is not None:
            self._sink.on_response([early])

    def pass_on(self, events: list[Event]) -> None:
        """Tell the present sink what an earlier one heard and had no use for."""
        if self._sink is not None:
            self._sink.on_response(events)

    def close(self) -> None:
        """Close once what was sent has left."""
        if self._transport is not None:
            self._transport.close()

    def write(self, data: bytes) -> None:
        """Send. Once closed, bytes go nowhere: the sink is told of the loss by its own event."""
        if self._transport is not None:
            self._transport.write(data)

    def write_eof(self) -> None:
        """Send the end of our side, where the transport can."""
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def pause_reading(self) -> None:
        """Stop reading; safe to call twice."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again; safe to call twice."""
        if (
            self._transport is not None
            and not self._transport.is_reading()
            and not self._transport.is_closing()
        ):
            self._transport.resume_reading()

    def abort(self) -> None:
        """Drop the connection now, whatever is in its buffers."""
        self._sink = None
        if self._transport is not None:
            self._transport.abort()
        if self._second is not None:
            self._second.close()

    def reset(self) -> None:
        """Drop the connection now, and not so that the other side could take it for a clean end."""
        if self._transport is not None:
            end_with_reset(self._transport)
        self.abort()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _last_events(self, exc: Exception | None) -> list[Event]:
        """Return what the end of the connection says, after what had arrived before it and was not read."""
        events: list[Event] = []
        if self._second is not None and exc is not None:
            with suppress(OSError):
                while END not in events and (data := self._second.recv(_UNREAD_BYTES, socket.MSG_DONTWAIT)):
                    events += self._parser.feed(data)
        if END in events:
            return events
        end = self._parser.eof()
        if exc is not None and end == [END]:
            # A body that lasts until the connection ends is whole only if it ends in peace.
            end = [fault("response", "closed_in_body")]
        return events + end
