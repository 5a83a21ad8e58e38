"""WebSocket by every way in: as what follows an upgrade that the sidecar has seen, or within a tunnel."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import trustme
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.http11 import Request
from websockets.sync.client import ClientConnection, connect

from tests.support.ports import nobody_at
from tests.support.sidecar import Sidecar
from tests.support.waiting import eventually, now_ms

SLACK = 1500.0


class AbsoluteForm(ClientConnection):
    """Asks as clients do that send their upgrade to the proxy, without a tunnel (aiohttp, http-proxy-agent)."""

    scheme = "ws"

    def handshake(self, *args: Any, **more: Any) -> None:
        plain = self.protocol.connect

        def absolute() -> Request:
            request = plain()
            request.path = f"{self.scheme}://{request.headers['Host']}{request.path}"
            return request

        self.protocol.connect = absolute  # type: ignore[method-assign]
        super().handshake(*args, **more)


class AbsoluteHttp(AbsoluteForm):
    """The same, with the scheme that the connection begins with."""

    scheme = "http"


class Server:
    """A WebSocket server that sends back what it is sent. `closed`: the codes with which its connections ended."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.authority = ""
        self.closed: list[int | None] = []
        self.paths: list[str] = []
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self._serve()), daemon=True
        )
        self._listening = threading.Event()

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        settings: dict[str, Any] = {"ping_interval": None, "close_timeout": 1}
        async with serve(self._handle, "127.0.0.1", 0, ssl=self._tls, **settings) as server:
            self.authority = "{}:{}".format(*next(iter(server.sockets)).getsockname())
            self._listening.set()
            await self._over.wait()

    async def _handle(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.paths.append(connection.request.path)
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                await connection.send(message)
        self.closed.append(connection.close_code)


class Place(NamedTuple):
    """A sidecar, and the servers behind it."""

    sidecar: Sidecar
    plain: Server
    safe: Server


@pytest.fixture(scope="module")
def standing(ca: trustme.CA, ca_file: Path) -> Iterator[Place]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    # The client reads in one thread and writes in another, which OpenSSL takes badly if session tickets come meanwhile
    # (CPython before 3.13 has no lock around them): its request is then never sent.
    context.num_tickets = 0
    with Server() as plain, Server(context) as safe:
        known = {"ca": str(ca_file), "cap": "300ms"}
        rooms, base = f"http://{plain.authority}/rooms", f"https://{safe.authority}"
        policy = {
            "budget": {"default": "300ms"},
            "subscription": {"idle": "500ms"},
            "routes": [
                {"name": "originated", "match": {"path": "/safe/**"}, "tls": "originate", **known},
                {"name": "others", "match": {"path": "/**"}, "cap": "300ms"},
                {"name": "base", "prefix": "/chat", "upstream": rooms, "cap": "300ms"},
                {"name": "safe-base", "prefix": "/safe-chat", "upstream": base, **known},
            ],
        }
        with Sidecar(policy) as sidecar:
            yield Place(sidecar, plain, safe)


@pytest.fixture
def place(standing: Place) -> Iterator[Place]:
    before = len(standing.sidecar.faults)
    for server in standing[1:]:
        server.closed.clear()
        server.paths.clear()
    yield standing
    assert not standing.sidecar.faults[before:]


class Way(NamedTuple):
    """How to get there: the URL as the client has it, how it asks, and what the server is asked for then.

    `by_tunnel`: with a CONNECT; `closed`: nobody but the two ends can see what is in it.
    """

    uri: str
    asks: type[ClientConnection]
    path: str
    by_tunnel: bool = False
    closed: bool = False


WAYS = {
    "ws in absolute form": Way("ws://{plain}/a?b", AbsoluteForm, "/a?b"),
    "http in absolute form": Way("ws://{plain}/a?b", AbsoluteHttp, "/a?b"),
    "origin form": Way("ws://{plain}/a?b", ClientConnection, "/a?b"),
    "TLS by route": Way("ws://{safe}/safe/a", AbsoluteForm, "/safe/a"),
    "base URL": Way("ws://{sidecar}/chat/a?b", ClientConnection, "/rooms/a?b"),
    "base URL of a TLS server": Way("ws://{sidecar}/safe-chat/a", ClientConnection, "/a"),
    "CONNECT": Way("ws://{plain}/a?b", ClientConnection, "/a?b", by_tunnel=True),
    "CONNECT, and TLS within": Way("wss://{safe}/a", ClientConnection, "/a", by_tunnel=True, closed=True),
}
every_way = pytest.mark.parametrize("way", WAYS)
SEEN = [name for name, way in WAYS.items() if not way.closed]


def going(
    place: Place,
    ca_file: Path,
    way: Way,
    budget: str = "",
    stated: int | None = None,
    ping: float | None = None,
) -> Any:
    """Connect that way, under a budget if one is given."""
    sidecar = place.sidecar
    here = f"127.0.0.1:{sidecar.outbound}"
    uri = way.uri.format(plain=place.plain.authority, safe=place.safe.authority, sidecar=here)
    context = ssl.create_default_context(cafile=str(ca_file)) if uri.startswith("wss") else None
    if way.by_tunnel:
        proxy = sidecar.budget_url(budget, stated) if budget else sidecar.proxy_url
        return connect(uri, ssl=context, proxy=proxy, ping_interval=ping, close_timeout=2)
    headers = {"Budget-Id": budget, "Budget-Remaining-Ms": str(stated)} if budget else {}
    return connect(
        uri,
        sock=socket.create_connection(sidecar.address, 10),
        create_connection=way.asks,
        additional_headers=headers,
        proxy=None,
        ping_interval=ping,
        close_timeout=2,
    )


@every_way
def test_echo(place: Place, ca_file: Path, budget: str, way: str) -> None:
    """Messages of any size pass both ways, and the two say goodbye as if nobody stood between them."""
    with going(place, ca_file, WAYS[way], budget, 60_000) as client:
        for message in ("hello", b"\x00\xff" * 10, "x" * 300_000, b""):
            client.send(message)
            assert client.recv(timeout=10) == message
        assert place.sidecar.gauges()["opaque_connections_active"] == 1
    (record,) = place.sidecar.records_of(budget)
    assert (record["kind"], record["outcome"], record["effect"]) == ("opaque", "completed", "reported")
    assert record["method"] == ("CONNECT" if WAYS[way].closed else "GET")
    assert record["status"] == (None if WAYS[way].closed else 101)
    server = place.safe if "TLS" in way else place.plain
    eventually(lambda: server.closed == [1000], what="the server's end")
    assert server.paths == [WAYS[way].path]
    place.sidecar.at_rest()


@pytest.mark.parametrize("way", SEEN)
def test_the_upgrade_is_annotated(place: Place, ca_file: Path, budget: str, way: str) -> None:
    with going(place, ca_file, WAYS[way], budget, 60_000) as client:
        headers = client.response.headers
        assert headers["Budget-Id"] == budget
        assert headers["Budget-Outcome"].startswith("in_progress")
        assert headers["Via"].startswith("1.1 waterclock-")
    server = place.safe if "TLS" in way else place.plain
    eventually(lambda: server.closed == [1000], what="the server's end")


@pytest.mark.parametrize(
    "way", ["ws in absolute form", "TLS by route", "base URL", "CONNECT", "CONNECT, and TLS within"]
)
def test_a_stated_budget_ends_it(place: Place, ca_file: Path, budget: str, way: str) -> None:
    """In the middle of a conversation. Without a close frame, so that nobody takes it for the other one's goodbye."""

    def converse_without_end(client: ClientConnection) -> None:
        while True:
            client.send("tick")
            client.recv(timeout=10)
            time.sleep(0.01)

    begun = now_ms()
    with (
        going(place, ca_file, WAYS[way], budget, 250) as client,
        pytest.raises(ConnectionClosedError) as ended,
    ):
        converse_without_end(client)
    assert 250 <= now_ms() - begun < 250 + SLACK
    assert ended.value.rcvd is None
    (record,) = place.sidecar.records_of(budget)
    assert (record["outcome"], record["reason"]) == ("deadline_exceeded", "budget_remaining")
    assert (record["kind"], record["effect"]) == ("opaque", "uncertain")
    assert record["elapsed_ms"] + record["started_ms"] >= 250
    server = place.safe if "TLS" in way else place.plain
    eventually(lambda: server.closed, what="the server's end")
    assert server.closed == [1006]
    place.sidecar.at_rest()


@pytest.mark.parametrize("way", ["ws in absolute form", "TLS by route"])
def test_without_a_budget_it_is_a_standing_ear(place: Place, ca_file: Path, way: str) -> None:
    """Pings keep it past the cap, the default budget, and the patience with silence."""
    with going(place, ca_file, WAYS[way], ping=0.1) as client:
        assert client.response.headers.get("Budget-Allowed-Ms") is None
        time.sleep(0.9)
        client.send("still there")
        assert client.recv(timeout=10) == "still there"
    place.sidecar.at_rest()


@pytest.mark.parametrize("way", ["TLS by route", "base URL"])
def test_a_silent_one_is_closed(place: Place, ca_file: Path, way: str) -> None:
    """After `subscription.idle`, counted from the last byte."""
    with going(place, ca_file, WAYS[way]) as client:
        id = client.response.headers["Budget-Record"]
        client.send("hello")
        assert client.recv(timeout=10) == "hello"
        begun = now_ms()
        with pytest.raises(ConnectionClosedError):
            client.recv(timeout=10)
    assert 490 <= now_ms() - begun < 500 + SLACK
    record = place.sidecar.record(id)
    assert (record["outcome"], record["reason"], record["budget_id"]) == ("completed", "idle", None)


@pytest.mark.parametrize("way", ["ws in absolute form", "TLS by route"])
def test_the_client_drops_it(place: Place, ca_file: Path, way: str) -> None:
    """A process that dies sends no close frame. The server hears of it at once, also over TLS."""
    server = place.safe if "TLS" in way else place.plain
    with contextlib.suppress(ConnectionClosed), going(place, ca_file, WAYS[way], ping=None) as client:
        client.send("hello")
        assert client.recv(timeout=10) == "hello"
        client.socket.shutdown(socket.SHUT_RDWR)
        begun = now_ms()
        eventually(lambda: server.closed, what="the server's end")
        assert now_ms() - begun < 400, "long before the silence would have ended it"
    place.sidecar.at_rest()


def test_a_server_that_wants_no_websocket(place: Place, ca_file: Path) -> None:
    """Its refusal reaches the client as it is."""
    with nobody_at() as port:
        way = Way(f"ws://127.0.0.1:{port}/", AbsoluteForm, "/")
        with pytest.raises(InvalidStatus) as refused, going(place, ca_file, way):
            pass
    assert refused.value.response.status_code == 502


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_aiohttp(place: Place, ca_file: Path, budget: str, scheme: str) -> None:
    """It asks for `ws://` in absolute form, and for `wss://` by CONNECT."""
    server = place.plain if scheme == "ws" else place.safe

    async def converse() -> Any:
        context = ssl.create_default_context(cafile=str(ca_file))
        proxy = place.sidecar.budget_url(budget, 60_000)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{scheme}://{server.authority}/a", proxy=proxy, ssl=context) as client,
        ):
            await client.send_str("hello")
            said = (await client.receive(timeout=10)).data
        await asyncio.sleep(0.1)  # a session is closed before its TLS is (aiohttp's "graceful shutdown")
        return said

    assert asyncio.run(converse()) == "hello"
    (record,) = place.sidecar.records_of(budget)
    assert (record["method"], record["outcome"]) == ("GET" if scheme == "ws" else "CONNECT", "completed")
