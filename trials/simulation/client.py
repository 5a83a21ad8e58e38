"""One connection of a client: requests go out as told, answers are read with h11, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import h11

from proxy.core.units import MILLISECOND, SECOND
from trials.simulation.clock import Clock
from trials.simulation.draws import Draws, split_at
from trials.simulation.model import Answer, Call, Model
from trials.simulation.network import Network
from trials.simulation.pipes import End

NO_REQUEST: Final = b"\0\1\2 no request\r\n\r\n"
_READS: Final = 65_536
_MOST_INCOMPLETE: Final = 1 << 20
Told = Callable[[Answer], None]


def _nobody(answer: Answer) -> None:
    """Nobody waits for the answer to a CONNECT that is refused: whoever would have used the tunnel is told."""


class _Asked(NamedTuple):
    """A request that waits for its answer."""

    call: Call
    told: Told


class Line:
    """A connection to the sidecar. `leads_to`: the one host that can be asked on it; None: any, by a proxy's absolute form."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        draws: Draws,
        model: Model,
        port: int,
        who: str,
        *,
        leads_to: str | None = None,
        original: tuple[str, int] | None = None,
        connect: bytes | None = None,
    ) -> None:
        """Connect. `original`: where to, had it not been redirected; `connect`: the request for a tunnel, asked first."""
        self.leads_to = leads_to
        self.who = who
        self._clock = clock
        self._draws = draws
        self._model = model
        self._end: End | None = None
        self._out: deque[bytes] = deque()
        self._asked: deque[_Asked] = deque()
        self._http: h11.Connection | None = None
        self._status = 0
        self._fields: dict[str, str] = {}
        self._body = bytearray()
        self.over = False
        self._ends_later = False
        self._lazy = draws.happens(0.1)
        self._dripping = False
        self._spoilt = False
        self._pieces: deque[bytes] = deque()
        self._tunnel = connect
        self._held: deque[bytes] = deque()  # until the tunnel stands
        if connect is not None:
            self._asked.append(_Asked(Call(0, "", "CONNECT", "", b"", None, who, False, False, 0), _nobody))
            self._out.append(connect)
        network.dial(port, self._opened, who, original)

    @property
    def free(self) -> bool:
        """Whether another request can be sent on it, after those that wait."""
        return not (self.over or self._ends_later)

    def ask(self, call: Call, wire: bytes, told: Told, *, most_pieces: int = 1, gap: int = 0) -> None:
        """Send a request; `told` is told of the answer once. In pieces, each after a gap (nanoseconds)."""
        if self.over:
            told(Answer(0, {}, b"", whole=False, end="refused"))
            return
        self._asked.append(_Asked(call, told))
        if most_pieces > 1 and self._tunnel is None:
            self._pieces.extend(split_at(self._draws, wire, most_pieces))
            if not self._dripping:
                self._dripping = True
                self._drip(gap)
        else:
            (self._out if self._tunnel is None else self._held).append(wire)
            self._flush()

    def spoil(self, draws: Draws, wire: bytes) -> None:
        """Send what is no request, or half of one, and end this side: there is no whole answer to wait for."""
        if self._tunnel is None and not self._dripping:
            part = wire[: draws.between(1, len(wire) - 1)]
            # On a connection that leads to one host, what is no HTTP may pass as it is.
            self._out.append(part if self.leads_to is not None or draws.happens(0.6) else NO_REQUEST)
            self._spoilt = True
            self.end_side()
        self._clock.after(draws.span(MILLISECOND, SECOND), lambda: self.leave(hard=False))

    def end_side(self) -> None:
        """Say that no more will be asked, and wait for the answers."""
        self._ends_later = True
        self._flush()

    def leave(self, *, hard: bool) -> None:
        """Leave now."""
        self._over("left")
        if self._end is not None:
            self._end.close(hard=hard)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _opened(self, end: End | None) -> None:
        if end is None:
            self._over("refused")
        elif self.over:
            end.close()
        else:
            self._end = end
            end.on_readable = self._readable
            end.on_room = self._flush
            self._flush()

    def _drip(self, gap: int) -> None:
        """Send one piece of those that wait, and the next one after a while."""
        self._dripping = bool(self._pieces) and not self.over
        if self._dripping:
            self._out.append(self._pieces.popleft())
            self._flush()
            self._clock.after(gap, self._drip, gap)

    def _flush(self) -> None:
        end = self._end
        if end is None or self.over:
            return
        while self._out:
            data = self._out.popleft()
            taken = end.write(data)
            if taken < len(data):
                self._out.appendleft(data[taken:])
                return
        if self._ends_later and self._tunnel is None:
            end.end()

    def _readable(self) -> None:
        if self._lazy:
            self._clock.after(self._draws.span(100_000, 50_000_000), self._read)
        else:
            self._read()

    def _read(self) -> None:
        end = self._end
        if end is None or self.over:
            return
        while end.inbox:
            self._take(end.take(_READS))
        if end.reset:
            self._over("reset")
            end.close()
        elif end.ended:
            self._take(b"")
            self._over("closed")
            end.close()

    def _take(self, data: bytes) -> None:
        """Read bytes; none are the other side's end. Nothing is read after a leave."""
        while not self.over:
            if self._http is None:
                if not self._asked:
                    if data and not self._is_last_word(data):
                        self._model.stray.append(
                            f"{self.who} was sent what it has not asked for: {data[:80]!r}"
                        )
                    return
                self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_INCOMPLETE)
                method = self._asked[0].call.method
                self._http.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
                self._http.send(h11.EndOfMessage())
                self._status, self._fields = 0, {}
                self._body.clear()
            if not self._hear(data):
                return
            data, _ = self._http.trailing_data
            self._http = None
            if not data:
                return

    def _hear(self, data: bytes) -> bool:
        """Read one answer on; return whether that was its end."""
        http = self._http
        assert http is not None
        try:
            http.receive_data(data)
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return False
                if isinstance(event, h11.InformationalResponse):
                    continue
                if isinstance(event, h11.Response):
                    if self._tunnel is not None and event.status_code // 100 == 2:
                        self._tunnel_stands()
                        return True
                    self._status = event.status_code
                    self._fields = {name.decode(): value.decode("latin-1") for name, value in event.headers}
                elif isinstance(event, h11.Data):
                    self._body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    for name, value in event.headers:
                        self._fields.setdefault(name.decode(), value.decode("latin-1"))
                    self._tell(whole=True, end="open")
                    return True
        except h11.RemoteProtocolError as fault:
            if data:
                self._model.stray.append(f"{self.who} was sent what is no answer ({fault}): {data[:200]!r}")
            return False

    def _tunnel_stands(self) -> None:
        self._tunnel = None
        self._asked.popleft()
        self._out.extend(self._held)
        self._held.clear()
        self._flush()

    def _is_last_word(self, data: bytes) -> bool:
        """Say whether this is what is said to a client that was too slow to ask: no answer to anything, and the end."""
        return self._spoilt or data.startswith((b"HTTP/1.1 408", b"HTTP/1.1 400"))

    def _tell(self, *, whole: bool, end: str) -> None:
        asked = self._asked.popleft()
        answer = Answer(self._status, self._fields, bytes(self._body), whole, end)
        asked.call.answers.append(answer)
        if answer.fields.get("connection", "").lower() == "close":
            self._ends_later = True
        if self._tunnel is not None and asked.call.method == "CONNECT" and not self.over:
            self.leave(hard=False)  # it is refused
        self._clock.after(0, asked.told, answer)

    def _over(self, end: str) -> None:
        """The connection has ended: tell all who wait."""
        if self.over:
            return
        self.over = True
        first = True
        while self._asked:
            if not first or self._http is None:
                self._status, self._fields = 0, {}
                self._body.clear()
            first = False
            self._tell(whole=False, end=end)
