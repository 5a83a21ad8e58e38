"""The client's side of the outbound port: one connection, its requests one after the other.

The parser's events are taken in order; a request that arrives while another one is being served waits, and the
client is not read from meanwhile. What happens to a request is `call`'s subject; here is only what concerns the
connection: order, flow, who has left, and when it closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from proxy.core.target import Origin
from proxy.core.units import SECOND
from proxy.dataplane.answers import malformed_answer
from proxy.dataplane.call import Call
from proxy.dataplane.leaving import AT_LENGTH, has_left, pause_before
from proxy.dataplane.looped import Looped, goes_round
from proxy.dataplane.plane import Plane
from proxy.dataplane.tunnel import Connect
from proxy.dataplane.tunnelled import Passage
from proxy.net.alarm import Alarm
from proxy.net.reset import end_with_reset
from proxy.wire.events import END, Event, RequestHead, Trailers, Upgraded, WireFault
from proxy.wire.faults import fault
from proxy.wire.parser import RequestParser

HEAD_TIME: Final = 30 * SECOND
"""How long a request head may take from its first byte (nanoseconds), before it is answered 408."""
IDLE_TIME: Final = 300 * SECOND
"""How long a connection may say nothing between requests (nanoseconds)."""
DRAIN_TIME: Final = 5 * SECOND
"""How long the rest of a body is read and thrown away after its answer, so that the answer is not lost by a reset."""


class Client:
    """One client connection: an `asyncio.Protocol` by what it can do (see `UpstreamConnection`). `original`: where it was going before iptables redirected it.

    `serves` makes what its requests become; a CONNECT is a tunnel where they become calls. `passage`: the tunnel that its
    requests come through. `place`: where they all go, for one of these two reasons.
    """

    __slots__ = (
        "_arrival", "_call", "_closing", "_held_off", "_in_head", "_look",
        "_parser", "_passage", "_pumping", "_serves", "_standing", "_waiting", "alarm", "body_open",
        "congested", "half_closed", "original", "place", "plane", "transport",
    )  # fmt: skip

    def __init__(
        self,
        plane: Plane,
        original: tuple[str, int] | None = None,
        serves: type[Call] = Call,
        passage: Passage | None = None,
    ) -> None:
        """Wait for a transport."""
        self._serves: Callable[[Plane, Client, RequestHead, int], Call | Connect] = serves
        self._passage = passage
        self.plane = plane
        self.original = original
        self.place: Origin | None = None
        if passage is not None:
            self.place, self._serves = passage.place, self._bound
        elif original is not None:
            self.place, self._serves = Origin("tcp", *original, original[0]), self._bound
        self.congested = False
        self.half_closed = False  # the client has said all that it will say
        self.body_open = False  # the current request's body is still arriving
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set before anything else can happen
        self.alarm = Alarm(plane.alarms, self._on_alarm)
        self._parser = RequestParser()
        self._call: Call | Connect | None = None
        # Events, each feed's preceded by the time of its arrival; the next one is the last of the list. An empty deque would
        # take 700 bytes of every connection.
        self._waiting: list[Event | int] = []
        self._arrival = 0
        self._standing: bytes | None = None  # what follows a request that asked for another protocol
        self._held_off = False  # by the call: its upstream takes no more for now
        self._in_head = False
        self._closing = False  # nothing more is served
        self._pumping = False
        self._look: asyncio.TimerHandle | None = None

    # -- asyncio.Protocol ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, and wait for a head."""
        self.transport = cast(asyncio.Transport, transport)
        self.plane.clients.add(self)
        self.alarm.set(self.plane.clock() + IDLE_TIME)

    def data_received(self, data: bytes) -> None:
        """Parse, and serve what is complete. What is due by now comes before it."""
        now = self.plane.clock()
        if now >= self.plane.alarms.first:
            self.plane.alarms.ring()
        if self._standing is not None:
            self._standing += data
            self._arrival = now
            self._flow()
            return
        self._await_turn(now, self._parser.feed(data))
        if not self._pumping:
            self._pump()
        self._watch_head(now)

    def eof_received(self) -> bool:
        """Take the end of the client's side: it has left, or it only says that it will send no more."""
        self.half_closed = True
        if self._call is None and not self._waiting:
            return False
        self._after_half_close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the client's leave."""
        self._closing = True
        self._waiting.clear()
        call = self._call
        self._release()
        if call is not None:
            call.client_left(self.plane.clock())

    def pause_writing(self) -> None:
        """The client reads slowly: its upstream must wait."""
        self.congested = True
        if self._call is not None:
            self._call.on_client_congestion(True)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.congested = False
        if self._call is not None:
            self._call.on_client_congestion(False)
        elif not self._pumping:
            self._pump()

    # -- for the plane ---------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """How many bytes are still on their way to the client."""
        return self.transport.get_write_buffer_size()

    def wind_down(self) -> None:
        """End a standing ear: it would last as long as the sidecar."""
        if self._call is not None and self._call.case.subscription:
            self._call.stop()

    def stop(self) -> None:
        """End now: with an answer for a call that still waits for one, else by hanging up."""
        call = self._call
        if call is not None:
            call.stop()
            if call.ended:
                return
            end_with_reset(self.transport)  # what was being answered must not look whole
        self.transport.abort()

    # -- for the call ----------------------------------------------------------------------------------------------

    @property
    def ends(self) -> bool:
        """Whether the connection closes after the current exchange."""
        return (
            self._closing
            or self.plane.draining
            or (self.half_closed and not self._waiting and not self._standing)
        )

    def send(self, data: bytes) -> None:
        """Send to the client."""
        self.transport.write(data)

    def pause_reading(self) -> None:
        """Read no more for now; safe to call twice."""
        self._held_off = True
        self._flow()

    def resume_reading(self) -> None:
        """Read again; safe to call twice."""
        self._held_off = False
        self._flow()

    def call_done(self, *, keep: bool) -> None:
        """End the current exchange: serve the next request, or close once the client has had its answer."""
        self._call = None
        self._held_off = False
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if keep and not self._closing:
            self.alarm.set(self.plane.clock() + IDLE_TIME)
            if not self._pumping:
                self._pump()
        elif self.body_open and not self.half_closed:
            self._drain()
        else:
            self.close()

    def break_off(self, *, reset: bool) -> None:
        """End in the middle of a response. `reset`: the close is the only sign of its end, so it must not look clean."""
        self._call = None
        if reset:
            end_with_reset(self.transport)
        self.close()

    def close(self) -> None:
        """Close once all that was sent has left, and not much later whatever has not."""
        self._closing = True
        self._waiting.clear()
        if not self.transport.is_closing():
            self.alarm.set(self.plane.clock() + DRAIN_TIME)
            self.transport.close()

    @property
    def asks(self) -> Origin | None:
        """Who is asked just now."""
        return self._call.case.target.origin if self._call is not None else None

    def successor(self, passage: Passage) -> Client:
        """Return who serves the requests that come through a tunnel which this client has opened."""
        return Client(self.plane, self.original, passage=passage)

    def hand_over(self) -> bytes:
        """Give the connection up to another protocol; return what has already been read of it."""
        rest, self._standing = self._standing or b"", None
        self._release()
        return rest

    # -- inside ----------------------------------------------------------------------------------------------------

    def _await_turn(self, arrival: int, events: list[Event]) -> None:
        """Put what has arrived behind what waits already."""
        events.reverse()
        waiting = self._waiting
        if waiting:
            waiting[:0] = [*events, arrival]
        else:
            waiting.extend(events)
            waiting.append(arrival)

    def _pump(self) -> None:
        """Take events in order, as far as the current call allows."""
        self._pumping = True
        waiting = self._waiting
        while waiting or self._takes_back_standing():
            event = waiting[-1]
            if self._call is None:
                if self.congested and type(event) is RequestHead:
                    break  # who does not take one answer is not given the next
            elif not self.body_open and type(event) is not Upgraded:
                break
            waiting.pop()
            if type(event) is int:
                self._arrival = event
            else:
                self._take(event)  # type: ignore[arg-type]
        self._pumping = False
        if self.half_closed:
            self._after_half_close()
        self._flow()

    def _takes_back_standing(self) -> bool:
        """Read on in HTTP what was kept for another protocol that nobody agreed to speak."""
        if self._call is not None or self._standing is None:
            return False
        rest, self._standing = self._standing, None
        if rest:
            self._await_turn(self._arrival, self._parser.feed(rest))
        return bool(rest)

    def _flow(self) -> None:
        """Read while there is somebody to take what comes. Not in the middle of a pump, which does it at its end."""
        if self._pumping:
            return
        transport = self.transport
        if self._held_off or self._waiting or self._standing:
            if transport.is_reading():
                transport.pause_reading()
            if self._call is not None and self._look is None:
                # Without reading, nobody sees the client leave.
                pause = pause_before(AT_LENGTH)
                self._look = self.plane.loop.call_later(pause, self._look_for_client, AT_LENGTH)
        elif not transport.is_reading() and not transport.is_closing():
            transport.resume_reading()

    def _after_half_close(self) -> None:
        """Nothing more will come: see who is still waiting for an answer, and what can never become whole."""
        if self._call is None:
            if not self._waiting and not self._closing:
                self.close()
        elif self.body_open and not self._waiting:
            self._call.client_left(self.plane.clock())
        elif self._look is None:
            self._look_for_client(0)

    def _take(self, event: Event) -> None:
        """Take one event. Without a call, the rest of a body that was answered early is thrown away."""
        call = self._call
        if type(event) is RequestHead:
            if not self._closing:
                self.body_open = True
                self._call = call = self._made(event)
                call.begin()
        elif event is END:
            self.body_open = False
            if call is not None:
                call.on_request_end()
            elif self._closing:
                self.close()
        elif type(event) is bytes:
            if call is not None:
                call.on_request_data(event)
        elif type(event) is Trailers:
            if call is not None:
                call.on_request_trailers(event.fields)
        elif type(event) is Upgraded:
            self._standing = event.rest
        elif type(event) is WireFault:
            self._malformed(event)

    def _made(self, head: RequestHead) -> Call | Connect:
        """Make what a request becomes."""
        if self._serves is not Call:
            return self._serves(self.plane, self, head, self._arrival)
        if head.method == "CONNECT":
            return Connect(self.plane, self, head, self._arrival)
        return Call(self.plane, self, head, self._arrival)

    def _bound(self, plane: Plane, client: Client, head: RequestHead, arrival: int) -> Call | Connect:
        """Make what a request becomes on a connection that leads to one place, whatever it asks for."""
        if self._passage is not None:
            call = Call(plane, client, head, arrival)
            self._passage.enter(call)
            return call
        if self.original is not None and goes_round(plane, self.transport, self.original, head):
            return Looped(plane, client, head, arrival)
        return (Connect if head.method == "CONNECT" else Call)(plane, client, head, arrival)

    def _malformed(self, problem: WireFault) -> None:
        """Answer what is no request, and close: nobody knows where the next one would begin."""
        self.plane.observer.malformed(problem.reason)
        call = self._call
        if call is not None:
            call.request_broken(problem)
        elif not self._closing:
            self.send(malformed_answer(problem, self.plane.policy.statuses, self.plane.fresh_id()))
            self._drain()

    def _drain(self) -> None:
        """Read on and throw away, for a while, so that the answer reaches a client that is still sending."""
        self._closing = True
        self._waiting.clear()
        self._standing = None
        if self.transport.is_closing():
            return
        self.alarm.set(self.plane.clock() + DRAIN_TIME)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.resume_reading()

    def _watch_head(self, now: int) -> None:
        """Hold a head to its time, counted from its first byte."""
        in_head = self._call is None and not self._closing and self._parser.mid_head
        if in_head and not self._in_head:
            self.alarm.set(now + HEAD_TIME)
        self._in_head = in_head

    def _on_alarm(self, now: int) -> None:
        if self._call is not None:
            self._call.on_alarm(now)
        elif self._closing:
            self.transport.abort()
        elif self._in_head:
            self._malformed(fault("request", "head_timeout"))
        else:
            self.close()

    def _look_for_client(self, look: int) -> None:
        """See whether a client that has ended its side, or is not read from, has left altogether; if not, look again."""
        self._look = None
        if self._call is None or not (self.half_closed or not self.transport.is_reading()):
            return
        if has_left(self, self._call.kind):
            self._call.client_left(self.plane.clock())
        else:
            self._look = self.plane.loop.call_later(pause_before(look + 1), self._look_for_client, look + 1)

    def _release(self) -> None:
        """Let go of all that would keep this connection alive."""
        self.plane.clients.discard(self)
        if self.plane.draining:
            self.plane.ended()
        self.alarm.close()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._call = None
