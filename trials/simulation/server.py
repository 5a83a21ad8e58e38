"""The servers: they read with h11, keep the model of what was carried out, and behave as it is drawn for each request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import h11

from proxy.core.units import MILLISECOND, SECOND
from trials.simulation.behaviour import MOODS, Behaviour, drawn
from trials.simulation.clock import Clock, Event
from trials.simulation.draws import Draws
from trials.simulation.model import Attempt, Model
from trials.simulation.pipes import End
from trials.simulation.trace import Trace

_READS: Final = 65_536
HELLO: Final = b"\x16\x03\x01"
"""How TLS begins: a server that hears it says everything back."""
VERIFY: Final = "/verify/"
HANGS_UP_AFTER: Final = 20 * SECOND
"""When a server that has become well drops its old connections."""


class Server:
    """One host outside of the pod, or the app within it. `mood` and `reach` change during a run."""

    def __init__(
        self,
        name: str,
        address: str,
        distance: str,
        clock: Clock,
        draws: Draws,
        trace: Trace,
        model: Model,
    ) -> None:
        """Begin in a mood that is drawn."""
        self.name = name
        self.address = address
        self.distance = distance
        self.clock = clock
        self.draws = draws
        self.trace = trace
        self.model = model
        self.mood = draws.weighted({"well": 4.0, "moody": 3.0, "busy": 1.0, "broken": 1.5})
        self.reach = "open"
        self.open: dict[Session, None] = {}
        self.on_request: Callable[[int, dict[str, str]], None] | None = None

    def answers(self) -> str:
        """Return what becomes of a connection that is opened now."""
        if self.reach == "open" and self.draws.happens(0.02):
            return self.draws.one_of(("refuse", "hang"))
        return self.reach

    def accept(self, end: End) -> None:
        """Take a connection."""
        self.open[Session(self, end)] = None

    def change(self) -> None:
        """Fall into another mood."""
        self.mood = self.draws.one_of(sorted(MOODS))
        self.reach = self.draws.weighted({"open": 8.0, "refuse": 1.0, "hang": 1.0})
        self.trace.note(self.clock.now, self.name, f"mood {self.mood}, {self.reach}")

    def be_well(self) -> None:
        """Be as good as can be, and be done with those that wait in vain."""
        self.mood, self.reach = "well", "open"
        for session in list(self.open):
            self.clock.after(HANGS_UP_AFTER, session.hang_up)


class Session:
    """One connection to a server."""

    def __init__(self, server: Server, end: End) -> None:
        """Listen."""
        self._server = server
        self._end = end
        self._http = h11.Connection(h11.SERVER)
        self._out: deque[bytes] = deque()
        self._attempt: Attempt | None = None
        self._behaviour = Behaviour()
        self._method = ""
        self._target = ""
        self._received = bytearray()
        self._whole = False
        self._reads = True
        self._then = ""
        self._fresh = True
        self._echoes = False
        self._idle: Event | None = None
        end.on_readable = self._readable
        end.on_room = self._flush

    def hang_up(self) -> None:
        """Drop the connection, if it is still there."""
        if not self._end.closed:
            self._close(hard=True)

    # -- what arrives ------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        end = self._end
        while self._reads and end.inbox:
            if self._echoes or (self._fresh and end.inbox[0].startswith(HELLO[:1])):
                self._echoes = True
                self._say(end.take(_READS))
                continue
            self._fresh = False
            self._http.receive_data(end.take(_READS))
            self._take_events()
        if end.reset or (end.ended and not end.inbox and self._reads):
            self._other_left()

    def _take_events(self) -> None:
        try:
            while self._reads and not self._echoes:
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._received += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self._ended()
        except h11.RemoteProtocolError as fault:
            self._server.model.stray.append(f"{self._server.name} was sent what is no HTTP: {fault}")
            self._close(hard=True)

    def _begin(self, request: h11.Request) -> None:
        server = self._server
        if self._idle is not None:
            self._idle.call_off()
            self._idle = None
        fields = {name.decode(): value.decode() for name, value in request.headers}
        self._method, self._target = request.method.decode(), request.target.decode()
        self._received.clear()
        self._whole = False
        now = server.clock.now
        if VERIFY in self._target:
            self._attempt = Attempt(0, server.name, now)
            self._behaviour = self._to_a_question()
            return
        number = int(fields.get("x-request-id", "0"))
        self._attempt = server.model.arrived(number, server.name, now)
        if server.on_request is not None:
            server.on_request(number, fields)
        behaviour = self._behaviour = drawn(server.draws, server.mood)
        server.trace.note(now, server.name, f"call {number} has arrived: {behaviour}")
        self._attempt.may_commit = behaviour.commits and behaviour.breaks not in ("head", "body")
        if "upgrade" in fields and server.draws.happens(0.8):
            self._switch()
        elif behaviour.breaks == "head":
            self._break()
        elif behaviour.early:
            server.clock.after(behaviour.after, self._respond, self._attempt)

    def _switch(self) -> None:
        """Speak another protocol, in which all is said back. It may end at any time."""
        self._attempt, self._echoes = None, True
        self._say(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        if self._server.draws.happens(0.3):
            self._server.clock.after(self._server.draws.span(MILLISECOND, SECOND), self._close)

    def _to_a_question(self) -> Behaviour:
        """Answer as the model has it by then, mostly."""
        server = self._server
        behaviour = drawn(server.draws, "well")._replace(interim=0, early=False, size=0, framing="length")
        return behaviour._replace(status=503) if server.draws.happens(0.1) else behaviour

    def _ended(self) -> None:
        """All of a request is here."""
        server, attempt = self._server, self._attempt
        assert attempt is not None
        attempt.whole = server.clock.now
        self._whole = True
        if self._behaviour.breaks == "head":
            return
        if self._behaviour.early:
            self._next_request()
        elif self._behaviour.breaks == "body":
            self._break()
        else:
            server.clock.after(self._behaviour.think, self._work, attempt, self._behaviour)

    def _work(self, attempt: Attempt, behaviour: Behaviour) -> None:
        """Do what was asked for; as good as at once, and once."""
        server = self._server
        gone = self._end.closed or self._end.reset
        if gone and not behaviour.anyway:
            attempt.may_commit = False
            return
        if behaviour.commits and attempt.call:
            attempt.committed = server.clock.now
            server.trace.note(server.clock.now, server.name, f"call {attempt.call} is carried out")
        attempt.may_commit = False
        if behaviour.breaks == "commit":
            self._break()
        else:
            server.clock.after(behaviour.after, self._respond, attempt)

    # -- what is said ------------------------------------------------------------------------------------------------

    def _respond(self, attempt: Attempt) -> None:
        if self._end.closed or self._end.reset or attempt is not self._attempt:
            return
        given, server = self._behaviour, self._server
        if not attempt.call and given.status == 200:
            key = self._target.partition(VERIFY)[2]
            given = given._replace(status=200 if server.model.happened(server.name, key) else 404)
        body = b""
        if self._method != "HEAD" and given.status not in (204, 304) and attempt.call:
            token = b"call=%d;number=%d;" % (attempt.call, len(server.model.calls[attempt.call].attempts))
            body = token + b"." * given.size
            if given.kind == "application/json":
                body = b'{"answer": "%b"}' % body
            elif given.kind == "text/event-stream":
                body = b"data: %b\n\n" % body
        attempt.answer, attempt.status = body, given.status
        attempt.lied = bool(given.lie) or (given.framing == "close" and given.breaks == "answer_body")
        if given.interim:
            self._say(b"HTTP/1.1 %d Interim\r\n\r\n" % given.interim)
        if given.lie == "garbage":
            self._say(b"\0\1no HTTP\r\n\r\n")
            self._close_later()
            return
        self._say(_head(given, attempt, len(body), bodiless=self._method == "HEAD"))
        if given.breaks == "answer_head":
            self._break()
        else:
            self._say_body(attempt, _pieces(given, body), 0)

    def _say_body(self, attempt: Attempt, pieces: list[bytes], at: int) -> None:
        if self._end.closed or self._end.reset or attempt is not self._attempt:
            return
        given = self._behaviour
        if given.breaks == "answer_body" and at >= max(1, len(pieces) // 2):
            self._break()
            return
        if at < len(pieces):
            self._say(pieces[at])
            if at + 1 < len(pieces):
                self._server.clock.after(given.gap, self._say_body, attempt, pieces, at + 1)
                return
        self._said(attempt)

    def _said(self, attempt: Attempt) -> None:
        """All of an answer has been said."""
        given = self._behaviour
        if given.breaks == "answer_body":
            self._break()
            return
        attempt.said = self._server.clock.now
        if given.lie or given.framing == "close" or given.early:
            self._close_later()
        else:
            self._next_request()

    def _next_request(self) -> None:
        """Serve on, for as long as it is drawn."""
        attempt = self._attempt
        if attempt is None or attempt.said is None or not self._whole:
            return
        self._attempt = None
        if self._http.their_state is not h11.DONE:
            self._close_later()
            return
        self._http = h11.Connection(h11.SERVER)
        idle = self._behaviour.idle
        if idle is not None:
            self._idle = self._server.clock.after(idle, self._close)

    def _break(self) -> None:
        how = self._behaviour.how
        if how == "stall":
            self._reads = self._reads and self._server.draws.happens(0.5)
        elif how == "end":
            self._close_later()
        else:
            self._close(hard=True)

    def _close_later(self) -> None:
        self._server.clock.after(self._server.draws.span(1_000, MILLISECOND), self._close)

    def _other_left(self) -> None:
        if self._end.reset or not self._out:
            self._close()

    # -- the connection ----------------------------------------------------------------------------------------------

    def _say(self, data: bytes) -> None:
        self._out.append(data)
        self._flush()

    def _flush(self) -> None:
        while self._out and not self._end.closed:
            data = self._out.popleft()
            taken = self._end.write(data)
            if taken < len(data):
                self._out.appendleft(data[taken:])
                return
        if self._then:
            self._close()

    def _close(self, *, hard: bool = False) -> None:
        if self._out and not hard and not self._end.reset:
            self._then = "close"
            return
        self._end.close(hard=hard)
        self._reads = False
        if self._attempt is not None and not self._whole:
            self._attempt.may_commit = False  # what is not whole is never carried out
        self._server.open.pop(self, None)


def _head(given: Behaviour, attempt: Attempt, size: int, *, bodiless: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {given.status} Because",
        f"X-Answer-For: {attempt.call}",
        f"Content-Type: {given.kind}",
    ]
    if given.status not in (204, 304):
        if given.framing == "length" or bodiless:
            said = size + {"short": 7, "long": -3}.get(given.lie, 0)
            lines.append(f"Content-Length: {max(0, said)}")
        elif given.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        else:
            lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode()


def _pieces(given: Behaviour, body: bytes) -> list[bytes]:
    """Return what is sent for a body, in the pieces in which it comes."""
    if not body and given.framing != "chunked":
        return []
    step = max(1, -(-len(body) // given.pieces)) if body else 1
    parts = [body[at : at + step] for at in range(0, len(body), step)]
    if given.framing == "chunked" and given.status not in (204, 304):
        parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        parts.append(b"0\r\n\r\n" if given.lie != "short" else b"5\r\nab")
    if given.lie == "garbage after":
        parts.append(b"\0\0more than was said\r\n")
    return parts
