"""Connections as kernels have them: two byte streams, each with its latency, its buffers, its end, and a reset for both.

A pipe takes as many bytes as there is room for, and cuts them into segments wherever it is drawn; each arrives after its
own latency and none before an earlier one. What nobody reads keeps its room, so a slow reader slows the writer down.
An end that is closed with bytes unread, or that hears more after it was closed, answers with a reset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from proxy.core.units import MICROSECOND, MILLISECOND
from trials.simulation.clock import Clock
from trials.simulation.draws import Draws, split_at
from trials.simulation.trace import Trace

DISTANCES: Final = {
    "same host": (10 * MICROSECOND, 60 * MICROSECOND),
    "same cluster": (100 * MICROSECOND, 2 * MILLISECOND),
    "far away": (10 * MILLISECOND, 60 * MILLISECOND),
}
"""The least and the most that a segment takes."""
ROOMS: Final = (2_000, 20_000, 200_000, 2_000_000)
"""How many bytes the kernels of both sides hold of one direction."""
MOST_PIECES: Final = 4


def _nobody() -> None:
    """Nobody listens yet."""


class End:
    """One end of a connection, as the kernel of its side has it.

    `on_readable`: bytes, the other side's end or a reset have come. `on_room`: there is room for more bytes again.
    """

    __slots__ = (
        "closed",
        "conn",
        "ended",
        "inbox",
        "on_readable",
        "on_room",
        "other",
        "refused",
        "reset",
        "room",
        "said_end",
        "unread",
        "window",
    )

    other: End

    def __init__(self, conn: Connection, room: int) -> None:
        """Begin open. `room`: for how many bytes to this end."""
        self.conn = conn
        self.inbox: deque[bytes] = deque()
        self.unread = 0
        self.room = self.window = room
        self.ended = False  # the other side has said its end
        self.reset = False
        self.closed = False
        self.said_end = False
        self.refused = False  # a writer was told that there is no room
        self.on_readable: Callable[[], None] = _nobody
        self.on_room: Callable[[], None] = _nobody

    def write(self, data: bytes) -> int:
        """Send as many bytes as there is room for; return how many."""
        if self.reset or self.closed or self.said_end:
            return len(data)  # they go nowhere
        taken = min(len(data), max(0, self.other.room))
        if taken < len(data):
            self.refused = True
        if taken:
            self.other.room -= taken
            self.conn.carry(self, data[:taken] if taken < len(data) else data)
        return taken

    def end(self) -> None:
        """Say that no more will be sent."""
        if not (self.said_end or self.closed or self.reset):
            self.said_end = True
            self.conn.carry(self, None)

    def close(self, *, hard: bool = False) -> None:
        """Let go of the connection. `hard`: with a reset, as for a socket that lingers for no time."""
        if self.closed:
            return
        if hard or (self.unread and not self.reset):
            self.conn.carry_reset(self)
        else:
            self.end()
        self.closed = True
        self.inbox.clear()
        self.on_readable = self.on_room = _nobody

    def take(self, most: int) -> bytes:
        """Read up to so many bytes."""
        data = self.inbox.popleft()
        if len(data) > most:
            self.inbox.appendleft(data[most:])
            data = data[:most]
        self.unread -= len(data)
        self.room += len(data)
        if self.other.refused and 2 * self.room >= self.window:
            self.other.refused = False
            self.conn.tell_room(self.other)
        return data


class Connection:
    """Two ends, and the way between them. `a` has opened it; `who` names it in the trace."""

    def __init__(self, clock: Clock, draws: Draws, trace: Trace, who: str, distance: str) -> None:
        """Begin with nothing on its way."""
        self.who = who
        self._clock = clock
        self._draws = draws
        self._trace = trace
        self._least, self._most = DISTANCES[distance]
        self._jumpy = draws.happens(0.3)
        self._pieces = draws.one_of((1, 1, 2, MOST_PIECES))
        self.a = End(self, draws.one_of(ROOMS))
        self.b = End(self, draws.one_of(ROOMS))
        self.a.other, self.b.other = self.b, self.a
        self._arrives = {id(self.a): 0, id(self.b): 0}
        self._under_way = {id(self.a): 0, id(self.b): 0}

    def latency(self) -> int:
        """Return how long a segment takes now."""
        if self._jumpy:
            return self._draws.span(self._least, self._most)
        return self._least

    def carry(self, sender: End, data: bytes | None) -> None:
        """Bring bytes to the other end, or that there will be no more."""
        way = ">" if sender is self.a else "<"
        if data is None:
            self._trace.note(self._clock.now, self.who, f"{way} end")
            self._clock.at(self._next(sender), self._arrive, sender.other, None)
            return
        self._trace.note(self._clock.now, self.who, way, data)
        self._under_way[id(sender)] += len(data)
        pieces = split_at(self._draws, data, self._pieces) if self._pieces > 1 else (data,)
        for piece in pieces:
            self._clock.at(self._next(sender), self._arrive, sender.other, piece)

    def carry_reset(self, sender: End) -> None:
        """Bring a reset to the other end. It comes after what is on its way already."""
        self._trace.note(self._clock.now, self.who, f"{'>' if sender is self.a else '<'} reset")
        self._clock.at(self._next(sender), self._arrive_reset, sender.other)

    def tell_room(self, writer: End) -> None:
        """Tell a writer that there is room again."""
        self._clock.after(self.latency(), self._has_room, writer)

    def under_way(self, sender: End) -> int:
        """Return how many bytes from this end have not arrived."""
        return self._under_way[id(sender)]

    def _next(self, sender: End) -> int:
        """Return when the next segment arrives: in the order in which they are sent."""
        key = id(sender)
        when = max(self._arrives[key] + 1, self._clock.now + self.latency())
        self._arrives[key] = when
        return when

    def _arrive(self, end: End, data: bytes | None) -> None:
        if data is not None:
            self._under_way[id(end.other)] -= len(data)
        if end.reset:
            return
        if end.closed:
            if data is not None:
                self.carry_reset(end)
            return
        if data is None:
            end.ended = True
        else:
            end.inbox.append(data)
            end.unread += len(data)
        end.on_readable()

    def _arrive_reset(self, end: End) -> None:
        if not end.reset:
            end.reset = True
            if not end.closed:
                end.on_readable()

    def _has_room(self, writer: End) -> None:
        if not (writer.closed or writer.reset):
            writer.on_room()
