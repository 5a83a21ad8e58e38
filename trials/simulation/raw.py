"""Connections whose bytes nobody here can read: through a CONNECT, a redirect, or an upgrade. The other side says them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy.core.units import MILLISECOND, SECOND
from trials.simulation.actors import Script, Waits, first_of, pause
from trials.simulation.draws import Draws
from trials.simulation.policies import HOSTS, OUTBOUND
from trials.simulation.server import HELLO

if TYPE_CHECKING:
    from collections.abc import Callable

    from trials.simulation.model import Call
    from trials.simulation.pipes import End
    from trials.simulation.world import World


WAYS: Final = ("connect", "redirect", "upgrade")
_READS: Final = 65_536
_LONGEST: Final = 5 * SECOND


class _Wire:
    """One such connection, at its client. `said`, `heard`: what has passed after the first answer, if there was one."""

    def __init__(self, world: World, way: str) -> None:
        self._world = world
        self._head = way != "redirect"
        self._begun = bytearray()
        self._waiting: Callable[[Any], None] | None = None
        self.end: End | None = None
        self.status = 0
        self.said = bytearray()
        self.heard = bytearray()
        self.over = False

    def opened(self, host: str, way: str) -> Waits:
        """Wait for the connection; it may be refused."""
        original = (HOSTS[host], 80) if way == "redirect" else None

        def waits(tell: Callable[[Any], None]) -> None:
            def take(end: End | None) -> None:
                self.end = end
                if end is not None:
                    end.on_readable = self._readable
                tell(end)

            self._world.network.dial(OUTBOUND, take, f"raw {way}", original)

        return waits

    def answered(self, span: int) -> Waits:
        """Wait for the head of an answer, or the end, for a while."""

        def waits(tell: Callable[[Any], None]) -> None:
            self._waiting = tell
            self._readable()

        return first_of(self._world.clock, span, waits)

    def write(self, data: bytes) -> None:
        """Say something, as far as there is room."""
        if self.end is not None and not self.over:
            self.said += data[: self.end.write(data)]

    def leave(self, draws: Draws) -> None:
        """Leave."""
        self.over = True
        if self.end is not None:
            self.end.close(hard=draws.happens(0.5))

    def _readable(self) -> None:
        end = self.end
        if end is None:
            return
        while end.inbox:
            self._take(end.take(_READS))
        if end.reset or end.ended:
            self.over = True
            end.close()
        if self._waiting is not None and (self.over or not self._head):
            tell, self._waiting = self._waiting, None
            tell(self.status)

    def _take(self, data: bytes) -> None:
        if not self._head:
            self.heard += data
            return
        self._begun += data
        head, mark, rest = bytes(self._begun).partition(b"\r\n\r\n")
        if mark:
            self._head, self.status = False, int(head[9:12])
            if self.status in (101, 200):
                self.heard += rest


class Outcome(NamedTuple):
    """What has passed on such a connection."""

    way: str
    said: bytes
    heard: bytes


def talk(world: World, draws: Draws, call: Call) -> Script:
    """Speak in bursts with a host, in a way that is drawn; leave at some time."""
    way = draws.one_of(WAYS)
    wire = _Wire(world, way)
    end = yield wire.opened(call.host, way)
    if end is None:
        return
    if way == "connect":
        end.write(f"CONNECT {call.host}:80 HTTP/1.1\r\nHost: {call.host}:80\r\n\r\n".encode())
    elif way == "upgrade":
        head = f"GET http://{call.host}/raw HTTP/1.1\r\nHost: {call.host}\r\nX-Request-Id: {call.number}\r\n"
        end.write(f"{head}Upgrade: echo\r\nConnection: Upgrade\r\n\r\n".encode())
    yield wire.answered(draws.span(MILLISECOND, _LONGEST))
    if wire.status == (101 if way == "upgrade" else 200) or (way == "redirect" and not wire.over):
        if way != "upgrade":
            wire.write(HELLO)
        for _ in range(draws.between(1, 5)):
            wire.write(draws.randbytes(draws.one_of((1, 100, 5_000, 100_000))))
            yield pause(world.clock, draws.span(MILLISECOND // 10, SECOND))
        if draws.happens(0.3):
            end.end()
            yield pause(world.clock, draws.span(MILLISECOND, SECOND))
        world.talked.append(Outcome(way, bytes(wire.said), bytes(wire.heard)))
    wire.leave(draws)
