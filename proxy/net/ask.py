"""One small request of our own, and its whole answer, within a bound of bytes and a time.

For what the sidecar itself asks: a tool whether a write has happened, a service whether it has an answer. A call of the
agent's is none of these; it is relayed as it comes (`dataplane`).

The connection is one of the pool. It goes back only after a clean end; whatever else happens, and when nobody wants the
answer any more, it is dropped.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from proxy.core.target import Origin
from proxy.net.alarm import Alarm, Alarms
from proxy.net.connection import UpstreamConnection
from proxy.net.errors import DialError
from proxy.net.pool import Pool, Ticket
from proxy.wire.events import END, Event, ResponseHead, WireFault

_SWITCHING: Final = 101  # to another protocol, which nobody has asked for


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes


class Failure(StrEnum):
    """Why there is none.

    `unreachable`: no connection could be opened. `broken`: the other side broke off, or broke the rules of HTTP.
    `too_long`: the answer has more bytes than are read. `late`: the time was over.
    """

    UNREACHABLE = "unreachable"
    BROKEN = "broken"
    TOO_LONG = "too_long"
    LATE = "late"


Done: TypeAlias = Callable[[Answer | Failure], None]


class Question(NamedTuple):
    """What is asked, and within which bounds.

    `render`: the whole request, in the form that a connection takes (to a parent proxy it is another). `most`: how many bytes
    the answer's body may have; `within`: how long all of it may take (nanoseconds). `fresher_than`: a connection that has
    lain idle for longer will not do (nanoseconds); None: any will.
    """

    origin: Origin
    method: str
    render: Callable[[UpstreamConnection], bytes]
    most: int
    within: int
    fresher_than: int | None = None


class Ask:
    """A question that is under way: the waiter and the sink of its connection."""

    __slots__ = ("_alarm", "_body", "_connection", "_done", "_pool", "_question", "_status", "_ticket")

    def __init__(
        self, loop: AbstractEventLoop, clock: Callable[[], int], pool: Pool, question: Question, done: Done
    ) -> None:
        """Ask. `done` is called once, from the loop and never from in here, unless the question is cancelled before."""
        now = clock()
        self._pool = pool
        self._question = question
        self._done: Done | None = done
        self._status = 0
        self._body = bytearray()
        self._ticket: Ticket | None = None
        self._connection: UpstreamConnection | None = None
        self._alarm = Alarm(Alarms(loop, clock), self._late)
        self._alarm.set(now + question.within)
        if question.within <= 0:
            return  # the alarm says so
        connection = pool.take(question.origin, now, question.fresher_than)
        if connection is not None:
            self.on_connection(connection)
        else:
            self._ticket = pool.request(question.origin, self)

    def cancel(self) -> None:
        """Want nothing any more: nobody is called. Safe to call at any time."""
        self._done = None
        self._drop()

    # -- as the waiter and the sink of a connection ------------------------------------------------------------------

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Put the question."""
        self._ticket = None
        self._connection = connection
        connection.begin(self, self._question.method)
        connection.write(self._question.render(connection))

    def on_dial_failed(self, error: DialError) -> None:
        """There is nobody to ask."""
        self._ticket = None
        self._end(Failure.UNREACHABLE)

    def on_response(self, events: list[Event]) -> None:
        """Take the answer."""
        for event in events:
            if type(event) is ResponseHead:
                if event.status == _SWITCHING:
                    self._end(Failure.BROKEN)
                    return
                if not event.interim:
                    self._status = event.status
            elif type(event) is bytes:
                self._body += event
                if len(self._body) > self._question.most:
                    self._end(Failure.TOO_LONG)
                    return
            elif event is END:
                connection, self._connection = self._connection, None
                if connection is not None:
                    self._pool.give_back(connection)
                self._end(Answer(self._status, bytes(self._body)))
                return
            elif type(event) is WireFault:
                self._end(Failure.BROKEN)
                return

    def on_congestion(self, congested: bool) -> None:
        """The send buffer takes a request of this size whole."""

    # -- inside ----------------------------------------------------------------------------------------------------

    def _late(self, _: int) -> None:
        self._end(Failure.LATE)

    def _end(self, answer: Answer | Failure) -> None:
        """Tell whoever asks, once nothing is held any more."""
        self._drop()
        done, self._done = self._done, None
        if done is not None:
            done(answer)

    def _drop(self) -> None:
        self._alarm.close()
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
