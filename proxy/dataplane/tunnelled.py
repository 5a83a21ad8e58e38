"""What comes through a tunnel: HTTP that can be read, or anything else.

Some clients open a tunnel even for `http://` (Node from version 24, when it takes its proxy from the environment). What
passes in it then is served like any other call, under the budget that the CONNECT has named.

A CONNECT is answered before anybody knows what it is for, and its connection to the other side stands by then (but for a
`LateTunnel`). Whoever speaks first decides, as for a redirected connection. If it is HTTP, the client's connection goes to
the one who serves that, and the other one to the pool, where the first request finds it. All else is a `Relay`, in the same
time and under the same rules as if nobody had listened: until it is decided, time runs as in a relay.

Of a tunnel that carries HTTP there is no record, it is no step of its budget, and it is not counted as opaque: its requests
are the calls, each of which leaves one, and the first has the record that the answer to the CONNECT has named. A tunnel
through which nothing has come when it ends was an opaque one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from proxy.core.calls import Outcome, Phase, Would
from proxy.core.limits import MalformedLimit, number
from proxy.core.reasons import Reason, outcome_without_connection
from proxy.core.target import Origin
from proxy.core.units import whole_ms
from proxy.dataplane.consider import observe_denied
from proxy.dataplane.first_words import FirstWords, hand_over
from proxy.dataplane.relay import Relay
from proxy.dataplane.request import WAITING_BYTES
from proxy.dataplane.step import Step
from proxy.net.connection import UpstreamConnection
from proxy.net.errors import DialError
from proxy.net.pool import Ticket
from proxy.wire.events import Event, RequestHead
from proxy.wire.sniff import sniff_in_tunnel

if TYPE_CHECKING:
    from proxy.dataplane.tunnel import Connect

_REMAINING: Final = b"budget-remaining-ms"
_NAMES: Final = (b"budget-id", b"proxy-authorization")
_INHERITED: Final = (*_NAMES, b"budget-reserve-ms", b"budget-stage", b"budget-phase", b"budget-depth")
"""What a CONNECT says of the job that it belongs to. Its own timers and its key are its own, and its `Budget-Retry`
confirms nothing that is not there yet."""

STOPPED_SECONDS: Final = 0.05
"""How long a client may stop in a word that could be the first of a request, before it is passed on as it is."""


class Passage:
    """What a CONNECT leaves to the requests that come through its tunnel: a place, a budget, and its record's id.

    A request is read as if it stated itself what the CONNECT has said of the job, unless it names a budget of its own. Of
    a budget that has no name there is left what is left of it by then.
    """

    __slots__ = ("_end", "_record_id", "_stated", "_would", "place")

    def __init__(self, connect: Step) -> None:
        """Take over from a CONNECT that was answered, and is no call of its own."""
        case, index = connect.case, connect.head.index
        self.place: Origin = case.target.origin
        self._stated = {name: index[name] for name in _INHERITED if name in index}
        named = case.limits.budget_id is not None or case.limits.proxy_user is not None
        nameless = case.budget if case.limits.remaining is not None and not named else None
        self._end = nameless.deadline if nameless is not None else None
        self._record_id: str | None = connect.record_id
        self._would: Would | None = connect.would

    def enter(self, call: Step) -> None:
        """Let a call through. The first one has the record that its client was told of with the tunnel."""
        self._state(call.head, call.arrival)
        if self._record_id is not None:
            call.record_id, self._record_id = self._record_id, None
        call.would = self._would  # it would not have come through

    def _state(self, head: RequestHead, arrival: int) -> None:
        own = head.index
        if any(name in own for name in _NAMES):
            return
        if self._stated:
            head.index = self._stated | own
        if self._end is not None:
            left = whole_ms(max(0, self._end - arrival))
            if _stated_ms(own.get(_REMAINING), left) >= left:
                head.index = {**head.index, _REMAINING: b"%d" % left}


def _stated_ms(value: bytes | None, otherwise: int) -> int:
    """Return what a request states of itself; -1 for what cannot be read, which it will be told."""
    if value is None:
        return otherwise
    try:
        return number("Budget-Remaining-Ms", value)
    except MalformedLimit:
        return -1


class OpenTunnel(Relay):
    """A tunnel from its opening on. If it is HTTP that comes through it, it makes way for the one who serves that."""

    def __init__(self, connect: Connect, client: asyncio.Transport, upstream: UpstreamConnection) -> None:
        """Take both sides; `listen` begins."""
        super().__init__(connect, client, upstream)
        self._connect = connect
        self._undecided = True
        loop = connect.plane.loop
        self._words = FirstWords(
            loop, sniff_in_tunnel, self._become_http, self._become_opaque, STOPPED_SECONDS
        )

    def listen(self, said: bytes, answer: bytes, *, client_ended: bool) -> None:
        """Begin, with what has already been read of the client, and the answer to its CONNECT."""
        client = self._client
        self._connect.plane.clients.add(self)
        client.set_protocol(self)
        client.write(answer)
        self._set_alarm()
        if said:
            self.data_received(said)
        if self._step.ended:
            return
        if client_ended:
            self.eof_received()
        self._upstream.listen(self)
        if not client.is_reading() and not client.is_closing():
            client.resume_reading()
        if client.is_closing():
            self._close(Outcome.CLIENT_GONE, Reason.CLIENT_LEFT)

    def data_received(self, data: bytes) -> None:
        """Hear what the client says, and pass it on once it is known that it is for nobody here."""
        if self._undecided:
            self._client_spoke(data)
            self._words.hear(data)
        else:
            super().data_received(data)

    def eof_received(self) -> bool:
        """Take the client's end: what it has said by now is all that it will say, and was no request."""
        if self._undecided:
            self._become_opaque()
        return super().eof_received()

    def on_response(self, events: list[Event]) -> None:
        """Take the other side's bytes, or its end. Where it speaks first, that is no HTTP."""
        if self._undecided:
            self._become_opaque()
        super().on_response(events)

    def _become_opaque(self) -> None:
        """Pass on what was held back, and whatever comes."""
        self._decide()
        self._connect.plane.relays.add(self)
        self._connect.count()
        self._pass_on_words()

    def _pass_on_words(self) -> None:
        if self._words.said:
            self._pass_on(self._words.said)

    def _become_http(self) -> None:
        """Let the requests be served, each for itself."""
        self._decide()
        self._alarm.close()
        connect, plane = self._connect, self._connect.plane
        connect.withdraw()
        passage = Passage(connect)
        origin = passage.place._replace(scheme="http", tunnelled=True)
        plane.pool.adopt(self._upstream, origin)
        client = connect.client.successor(passage)
        hand_over(self._client, client, self._words.said)
        if client.asks not in (None, origin):
            self._upstream.abort()  # its route speaks TLS with that place, on another one
        if plane.draining:
            plane.ended()

    def _decide(self) -> None:
        self._undecided = False
        self._words.close()
        self._connect.plane.clients.discard(self)

    def _close(self, outcome: Outcome, reason: str | None, *, clean: bool | None = None) -> None:
        """End, also before it is known what it was."""
        if self._undecided:
            self._decide()
        super()._close(outcome, reason, clean=clean)


class LateTunnel(OpenTunnel):
    """A tunnel to the port for plain HTTP of a place with which TLS is spoken instead, on another one, as its route says.

    Perhaps nobody is behind that port. So nothing is opened there, unless what comes is no HTTP.
    """

    def __init__(self, connect: Connect, client: asyncio.Transport) -> None:
        """Take the client's side; there is no other one yet."""
        nobody = UpstreamConnection(connect.case.target.origin, _not_missed)
        super().__init__(connect, client, nobody)
        self._upstream_gone = True
        self._ticket: Ticket | None = None

    def data_received(self, data: bytes) -> None:
        """Keep what comes until there is somebody to take it."""
        if self._ticket is None:
            super().data_received(data)
            return
        self._client_spoke(data)
        self._words.said += data
        if len(self._words.said) > WAITING_BYTES and self._client.is_reading():
            self._client.pause_reading()

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Go on as a tunnel like any other."""
        self._ticket = None
        self._upstream, self._upstream_gone = connection, False
        observe_denied(self._step, connection)
        self._step.phase = Phase.SENT
        self._step.sent_at = self._step.plane.clock()
        super()._pass_on_words()
        if self._client_ended:
            connection.write_eof()
        connection.listen(self)
        if not connection.congested:
            self.on_congestion(False)

    def on_dial_failed(self, error: DialError) -> None:
        """There is no other side, and no way to say so any more but to break off."""
        self._ticket = None
        self._close(outcome_without_connection(error.reason), error.reason, clean=False)

    def _pass_on_words(self) -> None:
        self._ticket = self._connect.plane.pool.request(self._connect.case.target.origin, self)

    def _close(self, outcome: Outcome, reason: str | None, *, clean: bool | None = None) -> None:
        """End, also while it is being opened."""
        if self._ticket is not None:
            self._ticket.cancel()
            self._ticket = None
        super()._close(outcome, reason, clean=clean)


def _not_missed(connection: UpstreamConnection) -> None:
    """It was never open."""
