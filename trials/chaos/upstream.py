"""The upstream's process: six ports, a behaviour for each request as its head asks for, and the account of it all.

    python -m trials.chaos.upstream ACCOUNT PORT...

The ports are those of `words.Place`, in its order, but for the one that nobody listens on. It ends on SIGTERM, and says
`ready` once it listens. The account is written line by line, each before what it says is done, so that it is whole whenever
somebody reads it.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.support.behaviours import head
from tests.support.upstream import Behaviour, Exchange, Request, Upstream, Wire
from trials.chaos.facts import Seen
from trials.chaos.misbehaving import BEHAVIOURS
from trials.chaos.turn import MOST_SECONDS, Turn
from trials.chaos.words import BY_NAME, ROUTE, Place

_CALL: Final = re.compile(rb"\r\nX-Call: ([^\r\n]+)\r\n")
_TARGET: Final = re.compile(rb"[A-Z]+ (\S+) HTTP/1\.1\r\n")
LISTENED: Final = tuple(place for place in Place if place is not Place.REFUSES)


class Book:
    """Writes the account. Shared by the threads of all ports."""

    def __init__(self, path: Path) -> None:
        """Append to a file."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, seen: Seen) -> None:
        """Add a line, in one write."""
        os.write(self._file, seen.line())

    def trouble(self, event: str, detail: str) -> None:
        """Add what belongs to no call."""
        self.note(Seen(event, "", "", 0, time.monotonic_ns(), detail))


class Server(Upstream):
    """The main port. What was done, and how often each call arrived, is kept here; what passes is not."""

    def __init__(self, book: Book, port: int) -> None:
        """Listen on a port."""
        super().__init__(port=port)
        self._book = book
        self._arrivals: dict[str, int] = {}
        self._done: set[tuple[str, str]] = set()

    def choose(self, request: Request) -> Behaviour:
        """Behave as the request says, or answer a question about a write."""
        self.requests.clear()
        self.whole.clear()
        self.connections[request.connection].received.clear()
        while self.malformed:
            self._book.trouble("malformed", self.malformed.pop())
        parts = urlsplit(request.target)
        if parts.path == "/asked/verify":
            return self._verify(parse_qs(parts.query))
        return self._turn

    def _verify(self, query: dict[str, list[str]]) -> Behaviour:
        key, record = query["key"][0], query["record"][0]

        async def behave(exchange: Exchange) -> None:
            await exchange.read_all()
            status = 200 if ("asked", key) in self._done else 404
            self._book.note(Seen("asked", record, key, 0, time.monotonic_ns(), str(status)))
            await exchange.send(head(status, [("Content-Length", "0")]))

        return behave

    async def _turn(self, exchange: Exchange) -> None:
        request = exchange.request
        call = request.get("x-call") or ""
        route, _, unit = request.target.removeprefix("/").partition("/")
        key = request.get("idempotency-key")
        arrival = self._arrivals[call] = self._arrivals.get(call, 0) + 1
        turn = Turn(
            exchange, call, unit, arrival, self._book.note, time.monotonic_ns, lambda: self._do(route, key)
        )
        turn.note("head", _port(exchange.wire))
        ways = (request.get("x-behave") or "well").split()
        await BEHAVIOURS[ways[min(arrival, len(ways)) - 1]](turn)

    def _do(self, route: str, key: str | None) -> bool:
        if key is None:
            return True
        done = (route, key) in self._done
        self._done.add((route, key))
        return not (done and ROUTE[route].honoured)

    def say_faults(self) -> None:
        """Put what went wrong in here into the account."""
        while self.failures:
            self._book.trouble("fault", repr(self.failures.pop()))
        while self.malformed:
            self._book.trouble("malformed", self.malformed.pop())


def _port(wire: Wire) -> str:
    """Return the port that a connection comes from; nothing when it is gone already."""
    name = wire.transport.get_extra_info("peername")
    return str(name[1]) if name else ""


def talk_of(place: Place, book: Book) -> Callable[[Wire], object]:
    """Return what is done with a connection to a port where no request is ever understood."""

    async def resets(wire: Wire) -> None:
        wire.reset()

    async def stalls(wire: Wire) -> None:
        wire.deaf()
        await wire.sleep(MOST_SECONDS)

    async def in_head(wire: Wire) -> None:
        touched(await wire.receive(), _port(wire))
        if place is Place.RESETS_IN_HEAD:
            wire.reset()
        else:
            wire.deaf()
            await wire.sleep(MOST_SECONDS)

    def touched(data: bytes, port: str) -> None:
        call, target = _CALL.search(data), _TARGET.match(data)
        if call is not None and target is not None:
            unit = target[1].rpartition(b"/")[2].decode()
            book.note(Seen("touched", call[1].decode(), unit, 1, time.monotonic_ns(), port))

    if place is Place.RESETS_ON_ACCEPT:
        return resets
    return stalls if place is Place.STALLS_ON_ACCEPT else in_head


def main(account: str, *ports: str) -> None:
    """Serve until SIGTERM."""
    assert BY_NAME.keys() - BEHAVIOURS.keys() <= {
        way.name for way in BY_NAME.values() if way.place is not Place.MAIN
    }
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to the whole group; the run sees to the end
    book = Book(Path(account))
    server = Server(book, int(ports[0]))
    server.start()
    others = [
        Upstream(talk=talk_of(place, book), port=int(port)).start()  # type: ignore[arg-type]  # a coroutine, awaited there
        for place, port in zip(LISTENED[1:], ports[1:], strict=True)
    ]
    print("ready", flush=True)
    while not over.wait(1.0):
        server.say_faults()
    server.say_faults()
    for each in (server, *others):
        each.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
