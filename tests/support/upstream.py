"""The other side, as badly behaved as a test wants it: an HTTP/1.1 server that counts exactly what reached it.

    with Upstream(stall()) as upstream:
        ... a call to upstream.url("/orders") ...
    assert len(upstream.whole) == 1

The n-th request gets the n-th behaviour, and the last one stays in force; `on(path, behaviour)` is for one path. A
behaviour is an `async def` of one `Exchange`; `behaviours` has the usual ones. The server runs in a thread with a loop
of its own, so a test may be blocking or async. Requests are read with h11, a second opinion on what the sidecar sends:
what it would not take stands in `malformed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeAlias, cast

import h11

from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, eventually

_LONGEST_HEAD = 4 * 1024 * 1024


class Gone(Exception):
    """The peer has closed the connection, or reset it. Ends a behaviour."""


@dataclass
class Request:
    """A request whose head has arrived. `whole`: its body was read to its end."""

    method: str
    target: str
    fields: list[tuple[str, str]]
    version: str
    connection: int
    at: int
    body: bytes = b""
    whole: bool = False

    def get(self, name: str) -> str | None:
        """The value of a field, repeated ones joined."""
        values = [value for known, value in self.fields if known == name.lower()]
        return ", ".join(values) if values else None


@dataclass
class Connection:
    """A connection that was accepted. `closed_at`: when its peer was seen to end it (nanoseconds), however it did."""

    number: int
    at: int
    bytes: int = 0
    received: bytearray = field(default_factory=bytearray)
    closed_at: int | None = None
    reset: bool = False


class Wire(asyncio.Protocol):
    """One connection, as a behaviour handles it. Every method that waits raises `Gone` when the peer leaves."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.connection: Connection = None  # type: ignore[assignment]  # set before anything else can happen
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.task: asyncio.Task[None] | None = None
        self.ended = False
        self.lost = False
        self._arrived = bytearray()
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # -- asyncio.Protocol ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        upstream = self.upstream
        self.connection = Connection(len(upstream.connections), time.monotonic_ns())
        upstream.connections.append(self.connection)
        upstream.wires.add(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self.connection.bytes += len(data)
        self.connection.received += data
        self._arrived += data
        self._news.set()

    def eof_received(self) -> bool:
        self.ended = True
        self.connection.closed_at = self.connection.closed_at or time.monotonic_ns()
        self._news.set()
        return self.transport.get_extra_info("sslcontext") is None  # TLS has no half-closed state here

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = self.lost = True
        self.connection.closed_at = self.connection.closed_at or time.monotonic_ns()
        self.connection.reset = exc is not None
        self.upstream.wires.discard(self)
        self._news.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- for a behaviour -------------------------------------------------------------------------------------------

    @property
    def arrived(self) -> bool:
        """Whether bytes have come that nobody has read yet."""
        return bool(self._arrived)

    async def receive(self) -> bytes:
        """Whatever bytes have come, as they are; b"" once the peer has ended its side."""
        while not self._arrived:
            if self.ended:
                return b""
            self._news.clear()
            await self._news.wait()
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    async def send(self, data: bytes) -> None:
        """Send, and wait while the peer does not read."""
        if self.lost or self.transport.is_closing():
            raise Gone
        self.transport.write(data)
        await self._writable.wait()
        await asyncio.sleep(0)  # a behaviour that sends without end must not keep the others from their turn
        if self.lost:
            raise Gone

    async def sleep(self, seconds: float) -> None:
        """Let time pass, unless the peer leaves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.until_left()
            raise Gone

    async def sleep_regardless(self, seconds: float) -> None:
        """Let time pass, whatever the peer does."""
        await asyncio.sleep(seconds)

    async def until_left(self) -> None:
        """Wait until the peer has ended its side."""
        while not self.ended:
            self._news.clear()
            await self._news.wait()

    def deaf(self) -> None:
        """Read nothing more."""
        self.transport.pause_reading()

    def half_close(self) -> None:
        """End our side, and go on reading."""
        self.transport.write_eof()

    def close(self) -> None:
        """Close, once what was sent has left."""
        self.transport.close()

    def reset(self) -> None:
        """End with a RST instead of a FIN."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            if self.upstream.talk is not None:
                await self.upstream.talk(self)
            else:
                while await self._serve_one():
                    pass
        except (Gone, OSError):
            pass
        except asyncio.CancelledError:
            pass  # the test is over
        except Exception as failure:  # noqa: BLE001 - shown by the test's end, in the test's own thread
            self.upstream.failures.append(failure)
        finally:
            self.transport.close()

    async def _serve_one(self) -> bool:
        """Serve one request; say whether another may follow on this connection."""
        exchange = Exchange(self)
        request = await exchange.begin()
        if request is None:
            return False
        await self.upstream.choose(request)(exchange)
        if not request.whole or not exchange.keep:
            return False
        self._arrived[:0] = exchange.rest()
        return not self.transport.is_closing()


class Exchange:
    """One request and the means to answer it. What `Wire` can do, this can do too."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.request: Request = None  # type: ignore[assignment]  # `begin` sets it, or there is no exchange
        self.keep = True
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_LONGEST_HEAD)
        self.send = wire.send
        self.sleep = wire.sleep
        self.until_left = wire.until_left
        self.deaf = wire.deaf
        self.half_close = wire.half_close
        self.close = wire.close
        self.reset = wire.reset

    @property
    def waits_for_continue(self) -> bool:
        """Whether the request asks to be told to send its body, and has not been."""
        return self._parser.they_are_waiting_for_100_continue

    async def begin(self) -> Request | None:
        """Read a head; None when the peer leaves instead."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            return None
        upstream = self.wire.upstream
        self.request = Request(
            event.method.decode(),
            event.target.decode(),
            [(name.decode(), value.decode("latin-1")) for name, value in event.headers],
            event.http_version.decode(),
            self.wire.connection.number,
            time.monotonic_ns(),
        )
        upstream.requests.append(self.request)
        return self.request

    async def read(self) -> bytes:
        """The next part of the body, b"" at its end. Raises `Gone` when it will never be whole."""
        if self.request.whole:
            return b""
        event = await self._next()
        if isinstance(event, h11.Data):
            self.request.body += bytes(event.data)
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            self.request.whole = True
            self.wire.upstream.whole.append(self.request)
            return b""
        raise Gone

    async def read_all(self) -> bytes:
        """The whole body."""
        while await self.read():
            pass
        return self.request.body

    async def receive(self) -> bytes:
        """Bytes of whatever is spoken after HTTP."""
        return self.rest() or await self.wire.receive()

    def rest(self) -> bytes:
        """What has arrived beyond the end of the request. Given once."""
        data, _ = self._parser.trailing_data
        self._parser = h11.Connection(h11.SERVER)
        return bytes(data)

    async def _next(self) -> Any:
        while True:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError as fault:
                self.wire.upstream.malformed.append(
                    f"{fault}: {bytes(self.wire.connection.received[:500])!r}"
                )
                raise Gone from None
            if event is not h11.NEED_DATA:
                return event
            data = await self.wire.receive()
            if not data:
                raise Gone
            self._parser.receive_data(data)


Behaviour: TypeAlias = Callable[[Exchange], Awaitable[None]]
Talk: TypeAlias = Callable[[Wire], Awaitable[None]]


class Upstream:
    """A server on a port of its own. `talk` replaces HTTP altogether: it is given each connection as it is.

    `connections`, `requests` (their heads came), `whole` (read to the end of the body), `malformed`, and `bytes` say
    what reached it. They grow while the test looks; `wait` waits until they are as they should be.
    """

    def __init__(
        self,
        *script: Behaviour,
        talk: Talk | None = None,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        backlog: int = 512,
    ) -> None:
        self.host = host
        self.port = port if port is not None else free_port()
        self.talk = talk
        self.connections: list[Connection] = []
        self.requests: list[Request] = []
        self.whole: list[Request] = []
        self.malformed: list[str] = []
        self.failures: list[Exception] = []
        self.wires: set[Wire] = set()
        self._script = list(script)
        self._by_path: dict[str, list[Behaviour]] = {}
        self._tls = tls
        self._backlog = backlog
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"upstream {self.port}", daemon=True)
        self._listening = threading.Event()
        self._server: asyncio.Server | None = None

    # -- what it does ----------------------------------------------------------------------------------------------

    def on(self, path: str, *script: Behaviour) -> Upstream:
        """Behave so for requests of this path, whatever the script says for others."""
        self._by_path[path] = list(script)
        return self

    def then(self, *script: Behaviour) -> Upstream:
        """Behave so from the next request on."""
        self._script = list(script)
        return self

    def choose(self, request: Request) -> Behaviour:
        """The behaviour for a request."""
        script = self._by_path.get(request.target.partition("?")[0], self._script)
        if not script:
            raise AssertionError(f"nothing is scripted for {request.method} {request.target}")
        return script.pop(0) if len(script) > 1 else script[0]

    # -- what it has seen ------------------------------------------------------------------------------------------

    @property
    def authority(self) -> str:
        """Host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def url(self, path: str = "/") -> str:
        """The absolute form of a path here."""
        return f"{'https' if self._tls is not None else 'http'}://{self.authority}{path}"

    @property
    def bytes(self) -> int:
        """How many bytes have arrived on all connections together."""
        return sum(connection.bytes for connection in self.connections)

    @property
    def open(self) -> int:
        """How many connections are open."""
        return len(self.wires)

    def seen(self, path: str) -> list[Request]:
        """The requests of one path."""
        return [request for request in self.requests if request.target == path]

    def wait(self, look: Callable[[Upstream], Any], *, within: float = PATIENCE) -> Any:
        """Wait until something is so."""
        return eventually(lambda: look(self), within=within, what=f"of {self!r}")

    def __repr__(self) -> str:
        return (
            f"<upstream {self.authority}: {len(self.connections)} connections ({self.open} open), "
            f"{len(self.requests)} requests ({len(self.whole)} whole), {self.bytes} bytes, malformed {self.malformed}>"
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> Upstream:
        """Listen."""
        self._thread.start()
        assert self._listening.wait(PATIENCE)
        return self

    def stop(self) -> None:
        """Drop every connection and stop listening. Raises what went wrong in a behaviour."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
        if self.failures:
            raise self.failures[0]

    def stop_listening(self) -> None:
        """Refuse new connections, and keep those that are open."""
        assert self._server is not None
        self._loop.call_soon_threadsafe(self._server.close)
        with socket.socket() as probe:
            eventually(lambda: probe.connect_ex((self.host, self.port)) != 0)

    def __enter__(self) -> Upstream:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if failure is None:
            self.stop()
            return
        with contextlib.suppress(Exception):  # the test's own failure says more
            self.stop()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        self._server = loop.run_until_complete(
            loop.create_server(
                lambda: Wire(self),
                self.host,
                self.port,
                ssl=self._tls,
                backlog=self._backlog,
                reuse_address=True,
            )
        )
        self._listening.set()
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(self._end())
            loop.close()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [wire.task for wire in self.wires if wire.task is not None]
        for wire in list(self.wires):
            wire.transport.abort()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        await asyncio.sleep(0.01)
