"""Connections that iptables redirected: what they are is found out by who speaks first, and how.

HTTP/1.1 becomes a `Client` like any other. All else is opaque: TLS, an HTTP/2 preface, a protocol of another kind. If
the client says nothing for a moment, its protocol may be one in which the server speaks first, so the other side is
opened in the meantime; whichever speaks first decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from proxy.core.calls import Kind, Outcome, Phase, Would
from proxy.core.reasons import Reason, outcome_without_connection
from proxy.core.target import Origin
from proxy.dataplane.client import Client
from proxy.dataplane.consider import observe_denied
from proxy.dataplane.first_words import FirstWords, hand_over
from proxy.dataplane.plane import Plane
from proxy.dataplane.relay import Relay
from proxy.dataplane.step import Step
from proxy.dataplane.tunnel import consider_tunnel
from proxy.net.alarm import Alarm
from proxy.net.connection import UpstreamConnection
from proxy.net.errors import DialError
from proxy.net.pool import Ticket
from proxy.net.reset import end_with_reset
from proxy.wire.events import Event, Framing, RequestHead
from proxy.wire.sniff import sniff

SERVER_FIRST_SECONDS: Final = 0.1
"""How long a client may be silent before the server is given the chance to speak first."""
LEAVING_SECONDS: Final = 0.005
"""A FIN can arrive a moment before the process that sent it has let go of its socket."""
_BUFFER_BYTES: Final = 65_536


class Redirected(asyncio.Protocol):
    """One redirected connection, until it is known what it is."""

    def __init__(self, plane: Plane, original: tuple[str, int]) -> None:
        """Take the destination that it was going to."""
        self._plane = plane
        self._original = original
        self._arrival = plane.clock()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set before anything else can happen
        self._words = FirstWords(plane.loop, sniff, self._become_http, self._become_opaque)
        self._client_ended = False
        self._step: Step | None = None  # there once it is known to be opaque
        self._ticket: Ticket | None = None
        self._upstream: UpstreamConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._alarm = Alarm(plane.alarms, self._on_alarm)

    # -- the client ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client to speak, for a moment."""
        self._transport = cast(asyncio.Transport, transport)
        self._plane.clients.add(self)
        self._wait(SERVER_FIRST_SECONDS, self._dial)
        self._alarm.set(self._arrival + self._plane.policy.tunnel.idle)

    def data_received(self, data: bytes) -> None:
        """Look what the client speaks."""
        words = self._words
        if self._step is None:
            words.hear(data)
            return
        words.said += data
        if len(words.said) > _BUFFER_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The client has said all that it will say: it waits for an answer, or has left without a word."""
        self._client_ended = True
        if self._step is None and self._words.said:
            return self._become_opaque()
        if self._step is None:
            self._wait(LEAVING_SECONDS, self._dial_unless_left)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._release()
        if self._upstream is not None:
            self._upstream.abort()
        if self._step is not None and not self._step.ended:
            self._step.finish(Outcome.CLIENT_GONE, Reason.CLIENT_LEFT, self._plane.clock())

    # -- for the plane ---------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """Nothing was ever sent to the client."""
        return 0

    def wind_down(self) -> None:
        """Go on: it is not known yet what this is."""

    def stop(self) -> None:
        """End now."""
        self._transport.abort()

    # -- the upstream ----------------------------------------------------------------------------------------------

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Listen: a server that speaks first has decided the matter."""
        self._ticket = None
        self._upstream = connection
        if self._step is not None:
            self._relay(connection)
        else:
            connection.listen(self)

    def on_dial_failed(self, error: DialError) -> None:
        """There is no other side. An opaque client can only be told so by the close."""
        self._ticket = None
        self._fail(outcome_without_connection(error.reason), error.reason)

    def on_response(self, events: list[Event]) -> None:
        """The server speaks first."""
        upstream = self._upstream
        if self._step is None and not self._become_opaque():
            return
        if upstream is not None:
            upstream.pass_on(events)

    def on_congestion(self, congested: bool) -> None:
        """Nothing has been sent yet."""

    # -- what it is ------------------------------------------------------------------------------------------------

    def _become_http(self) -> None:
        """Hand the connection to the one who serves HTTP."""
        self._release()
        if self._upstream is not None:
            self._upstream.abort()
        hand_over(self._transport, Client(self._plane, self._original), self._words.said)

    def _become_opaque(self) -> bool:
        """Decide on the connection as on a tunnel; return whether it goes on."""
        self._words.close()
        plane = self._plane
        plane.observer.opaque("redirected")
        step = self._begin_step()
        if step.case.decision.refusal is not None and step.due is None and step.would is None:
            self._fail(Outcome.REFUSED, step.case.decision.refusal)
            return False
        if step.due is not None:
            self._alarm.set(step.due)
        else:
            self._alarm.clear()
        if self._upstream is not None:
            self._relay(self._upstream)
        else:
            self._dial()
        return True

    def _begin_step(self) -> Step:
        plane = self._plane
        address, port = self._original
        host = address.partition("%")[0]  # the zone is for us alone (RFC 6874 §1)
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = RequestHead(
            "CONNECT", authority, 1, [], {}, Framing.NO_BODY, None, frozenset(), keep_alive=False, upgrade=None,
            expect_continue=False,
        )  # fmt: skip
        step = Step(plane, head, self._arrival)
        step.take(
            consider_tunnel(
                plane.policy,
                plane.router,
                plane.budgets,
                plane.own,
                head,
                address,
                self._arrival,
                step.record_id,
            )
        )
        step.kind = Kind.OPAQUE
        self._step = step
        return step

    def _dial(self) -> None:
        """Open the other side, for one that is opaque or for one whose server may speak first."""
        address, port = self._original
        if self._ticket is not None or self._upstream is not None:
            return
        if self._plane.peers.is_own(self._transport.get_extra_info("peername"), self._original):
            self._fail(Outcome.REFUSED, Reason.REDIRECT_LOOP)
        else:
            self._ticket = self._plane.pool.request(Origin("tcp", address, port, address), self)

    def _dial_unless_left(self) -> None:
        """Go on with a client that has ended its side without a word: its server may have one to say."""
        info = self._transport.get_extra_info
        if self._plane.peers.has_left(info("sockname"), info("peername"), self._original):
            self._transport.close()
        else:
            self._become_opaque()

    def _relay(self, upstream: UpstreamConnection) -> None:
        step = self._step
        assert step is not None
        self._release()
        observe_denied(step, upstream)
        step.phase = Phase.SENT
        step.sent_at = self._plane.clock()
        relay = Relay(step, self._transport, upstream)
        relay.start(self._words.said, b"")
        if self._client_ended:
            relay.eof_received()

    def _on_alarm(self, now: int) -> None:
        """Neither side has said a word for long, or the other side takes longer to open than it is allowed."""
        step = self._step
        if step is None:
            self._transport.close()
        elif step.enforced:
            self._fail(Outcome.DEADLINE_EXCEEDED, step.case.decision.allowance.bound)
        else:
            step.would = Would.CUT

    def _fail(self, outcome: Outcome, reason: str) -> None:
        """Close, and leave the record."""
        self._release()
        step = self._step or self._begin_step()
        if not step.ended:
            step.finish(outcome, reason, self._plane.clock())
        end_with_reset(self._transport)  # a FIN would say that the other side had nothing to answer
        self._transport.abort()

    def _wait(self, seconds: float, then: Callable[[], object]) -> None:
        """Do something in a moment, unless it is clear by then what the connection is."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._plane.loop.call_later(seconds, then)

    def _release(self) -> None:
        """Stop waiting, for time and for a connection."""
        self._plane.clients.discard(self)
        self._alarm.close()
        self._words.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ticket is not None:
            self._ticket.cancel()
            self._ticket = None
