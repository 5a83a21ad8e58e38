"""Connections are opened as asked, every failure has its reason, and nothing is left behind by a dial that ends early."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import Any

import pytest
import trustme

from proxy.core.policy import Connections
from proxy.core.reasons import Reason
from proxy.core.target import Origin
from proxy.core.upstream import Upstream
from proxy.net.dial import Dialer
from proxy.net.errors import DialError
from proxy.net.own import OwnPorts, is_local
from proxy.net.resolver import Resolver
from tests.net.hosts import (
    Parent,
    echo,
    full_backlog,
    name_server,
    resolving,
    server,
    server_context,
    silence,
    unused_port,
)

pytestmark = pytest.mark.usefixtures("leaves_nothing_open")


class Client(asyncio.Protocol):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.data = b""
        self.heard = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.events.append("data")
        self.data += data
        self.heard.set()

    def eof_received(self) -> bool:
        self.events.append("eof")
        self.heard.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set()


def a_dialer(
    resolver: Resolver, connections: Connections | None = None, own: OwnPorts | None = None
) -> Dialer:
    return Dialer(resolver, lambda: connections or Connections(), own or OwnPorts())


async def dial(origin: Origin, connections: Connections | None = None, **options: Any) -> Any:
    """Dial with a resolver that has no name server."""
    async with resolving("127.0.0.1:1") as resolver:
        return await a_dialer(resolver, connections).dial(origin, Client, **options)


async def exchange(dialled: Any, data: bytes) -> bytes:
    """Send, wait for as many bytes, and close."""
    dialled.transport.write(data)
    while len(dialled.protocol.data) < len(data):
        dialled.protocol.heard.clear()
        await asyncio.wait_for(dialled.protocol.heard.wait(), 5)
    received: bytes = dialled.protocol.data
    dialled.transport.abort()
    await dialled.protocol.lost.wait()
    return received


def via(
    port: int,
    scheme: str = "http",
    host: str = "127.0.0.1",
    no_proxy: tuple[str, ...] = (),
    userinfo: str = "",
) -> Connections:
    return Connections(proxy=Upstream(scheme, host, port, userinfo=userinfo), no_proxy=no_proxy)


# -- what works --------------------------------------------------------------------------------------------------------


async def test_a_name_is_looked_up_and_connected_to() -> None:
    names = {"tool.test": ["127.0.0.1"]}
    async with server(echo) as port, name_server(names) as (_, address), resolving(address) as resolver:
        dialled = await a_dialer(resolver).dial(Origin("http", "tool.test", port), Client)
        assert (dialled.peer, dialled.inside, dialled.via_parent) == ("127.0.0.1", True, False)
        sock = dialled.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert await exchange(dialled, b"hello") == b"HELLO"
        assert dialled.protocol.events == ["made", "data", "lost"]


@pytest.mark.parametrize("listen", ["127.0.0.1", "::1"])
async def test_localhost_is_found_on_either_family(listen: str) -> None:
    async with server(echo, listen) as port:
        dialled = await dial(Origin("http", "localhost", port))
        assert dialled.peer == listen
        assert await exchange(dialled, b"hello") == b"HELLO"


async def test_tls_with_the_routes_ca(ca: trustme.CA, ca_file: str) -> None:
    context = server_context(ca, "tool.test")
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with server(echo, tls=context) as port:
        dialled = await dial(Origin("https", "tool.test", port, "127.0.0.1", ca_file))
        assert dialled.transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert await exchange(dialled, b"hello") == b"HELLO"


async def test_tls_to_an_address_is_checked_against_the_address(ca: trustme.CA, ca_file: str) -> None:
    async with server(echo, tls=server_context(ca, "127.0.0.1")) as port:
        dialled = await dial(Origin("https", "127.0.0.1", port, None, ca_file))
        assert await exchange(dialled, b"hello") == b"HELLO"


async def test_an_address_is_connected_to_without_a_lookup() -> None:
    async with server(echo) as port:
        dialled = await dial(Origin("http", "nobody-knows.test", port, "::ffff:127.0.0.1"))
        assert dialled.peer == "127.0.0.1"
        assert await exchange(dialled, b"hello") == b"HELLO"


async def test_an_address_that_does_not_answer_holds_up_the_next_one_a_quarter_second() -> None:
    with full_backlog() as port, socket.socket() as listening:
        listening.bind(("127.0.0.2", port))
        listening.listen()
        names = {"tool.test": ["127.0.0.1", "127.0.0.2"]}
        async with name_server(names) as (_, address), resolving(address) as resolver:
            async with asyncio.timeout(1):
                dialled = await a_dialer(resolver).dial(Origin("http", "tool.test", port), Client)
            assert dialled.peer == "127.0.0.2"
            dialled.transport.abort()
            await dialled.protocol.lost.wait()


@pytest.mark.parametrize("secured", [False, True])
@pytest.mark.parametrize("ends", [False, True])
async def test_a_server_that_speaks_first_is_heard_whole(
    ca: trustme.CA, ca_file: str, secured: bool, ends: bool
) -> None:
    """What arrives before the caller's protocol is there is kept for it, in order, with the end."""
    banner = b"220 " + bytes(range(256)) * 2000

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(banner)
        if not ends:
            await reader.read(1)

    async with server(speak, tls=server_context(ca, "localhost") if secured else None) as port:
        for _ in range(20):
            scheme = "https" if secured else "http"
            dialled = await dial(Origin(scheme, "localhost", port, "127.0.0.1", ca_file))
            client = dialled.protocol
            while len(client.data) < len(banner):
                client.heard.clear()
                await asyncio.wait_for(client.heard.wait(), 5)
            if not ends:
                dialled.transport.abort()
            await asyncio.wait_for(client.lost.wait(), 5)
            assert client.data == banner
            assert client.events[0] == "made"
            assert client.events[-2:] == (["eof", "lost"] if ends else ["data", "lost"])


async def test_a_protocol_may_pause_at_once() -> None:
    class Pausing(Client):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            transport.pause_reading()  # type: ignore[attr-defined]

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"early")
        await reader.read(1)
        writer.write(b"late" * 1000)
        await reader.read(1)

    async with server(speak) as port, resolving() as resolver:
        dialled = await a_dialer(resolver).dial(Origin("http", "127.0.0.1", port), Pausing)
        dialled.transport.write(b"x")
        await asyncio.sleep(0.05)
        assert b"late" not in dialled.protocol.data
        dialled.transport.abort()
        await dialled.protocol.lost.wait()


# -- what fails --------------------------------------------------------------------------------------------------------


async def refused(origin: Origin, connections: Connections | None = None, **options: Any) -> DialError:
    """The error of a dial that has to fail."""
    with pytest.raises(DialError) as caught:
        await dial(origin, connections, **options)
    return caught.value


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_nobody_listens(host: str) -> None:
    origin = Origin("http", host, unused_port())
    error = await refused(origin)
    assert error.reason is Reason.CONNECTION_REFUSED
    assert str(origin) in error.detail


async def test_no_way_there() -> None:
    assert (await refused(Origin("http", "255.255.255.255", 80))).reason is Reason.DESTINATION_UNROUTABLE


async def test_a_name_nobody_knows() -> None:
    async with name_server({}) as (_, address), resolving(address) as resolver:
        with pytest.raises(DialError, match=r"No address is known for gone\.test") as caught:
            await a_dialer(resolver).dial(Origin("http", "gone.test", 80), Client)
    assert caught.value.reason is Reason.DNS_ERROR


async def test_an_authority_that_is_not_known(ca: trustme.CA) -> None:
    async with server(echo, tls=server_context(ca, "localhost")) as port:
        error = await refused(Origin("https", "localhost", port, "127.0.0.1"))
    assert error.reason is Reason.TLS_CERTIFICATE_ERROR
    assert "set the route's `ca`" in error.detail


async def test_a_certificate_for_another_name(ca: trustme.CA, ca_file: str) -> None:
    async with server(echo, tls=server_context(ca, "other.test")) as port:
        error = await refused(Origin("https", "tool.test", port, "127.0.0.1", ca_file))
    assert error.reason is Reason.TLS_CERTIFICATE_ERROR
    assert "another name" in error.detail


async def test_a_server_without_tls() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with server(plain) as port:
        error = await refused(Origin("https", "127.0.0.1", port))
    assert error.reason is Reason.TLS_PROTOCOL_ERROR
    assert "does not speak TLS" in error.detail


async def test_a_server_that_hangs_up_in_the_handshake() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)

    async with server(hang_up) as port:
        error = await refused(Origin("https", "127.0.0.1", port))
    assert error.reason is Reason.TLS_PROTOCOL_ERROR
    assert "during the TLS handshake" in error.detail


async def test_a_server_with_old_tls_only(ca: trustme.CA, ca_file: str) -> None:
    context = server_context(ca, "localhost")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with server(echo, tls=context) as port:
        error = await refused(Origin("https", "localhost", port, "127.0.0.1", ca_file))
    assert error.reason is Reason.TLS_PROTOCOL_ERROR


@pytest.mark.parametrize("name", [".bad", "a..b", "", "x" * 64])
async def test_a_name_that_tls_cannot_ask_for(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with server(echo) as port:
        error = await refused(Origin("https", name, port, "127.0.0.1"))
    assert error.reason is Reason.TLS_PROTOCOL_ERROR
    assert caplog.records == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_server_that_resets_at_once(scheme: str) -> None:
    """The reset can come at any point of the way; it is an error or a lost connection, and closes nothing twice."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    seen: set[Reason | None] = set()
    async with server(reset) as port, server(reset) as proxy:
        for address, connections in (("127.0.0.1", None), (None, via(proxy))):
            for _ in range(50):
                try:
                    dialled = await dial(Origin(scheme, "api.example", port, address), connections)
                except DialError as error:
                    seen.add(error.reason)
                else:
                    dialled.transport.abort()
                    await dialled.protocol.lost.wait()
    assert seen <= {Reason.CONNECTION_REFUSED, Reason.TLS_PROTOCOL_ERROR, Reason.PARENT_PROXY_REFUSED}


async def test_a_ca_file_that_is_not_there_opens_nothing() -> None:
    opened: list[bool] = []

    async def seen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(True)

    async with server(seen) as port:
        error = await refused(Origin("https", "127.0.0.1", port, None, "/nowhere/ca.pem"))
        await asyncio.sleep(0.02)
    assert error.reason is Reason.TLS_CERTIFICATE_ERROR
    assert "/nowhere/ca.pem" in error.detail
    assert opened == []


async def test_a_factory_that_fails_leaves_nothing_open() -> None:
    def broken() -> Client:
        raise RuntimeError("no protocol today")

    async with server(echo) as port, resolving() as resolver:
        with pytest.raises(DialError, match="no protocol today"):
            await a_dialer(resolver).dial(Origin("http", "127.0.0.1", port), broken)


# -- what leads back ---------------------------------------------------------------------------------------------------


async def test_what_leads_back_is_refused_before_anything_is_opened() -> None:
    """Case sidecar-talks-to-itself."""
    opened: list[bool] = []

    async def seen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(True)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        of_this_host = probe.getsockname()[0]
    assert is_local(of_this_host)
    names = {"me.test": ["127.0.0.1"], "half.test": ["192.0.2.77", "127.0.0.1"]}
    async with (
        server(seen, "0.0.0.0") as port,
        name_server(names) as (_, address),
        resolving(address) as resolver,
    ):
        dialer = a_dialer(resolver, own=OwnPorts([port]))
        for host in (
            "127.0.0.1",
            "127.3.2.1",
            "localhost",
            "::1",
            "0.0.0.0",
            "me.test",
            "half.test",
            of_this_host,
        ):
            for origin in (
                Origin("http", host, port),
                Origin("https", host, port),
                Origin("http", "x", port, "127.0.0.1"),
            ):
                with pytest.raises(DialError, match="leads back to the sidecar itself") as caught:
                    await dialer.dial(origin, Client)
                assert caught.value.reason is Reason.LOOP
        looped = a_dialer(resolver, via(port), OwnPorts([port]))
        with pytest.raises(DialError, match=r"The parent proxy .+ leads back"):
            await looped.dial(Origin("http", "tool.test", 80), Client)
        await asyncio.sleep(0.02)
    assert opened == []


# -- the parent proxy --------------------------------------------------------------------------------------------------


async def test_http_goes_to_the_parent_as_it_is() -> None:
    async with server(echo) as port:
        dialled = await dial(Origin("http", "api.example", 80), via(port))
        assert (dialled.peer, dialled.inside, dialled.via_parent) == ("127.0.0.1", False, True)
        assert await exchange(dialled, b"get http://api.example/") == b"GET HTTP://API.EXAMPLE/"


@pytest.mark.parametrize("tls_parent", [False, True])
async def test_https_goes_through_a_tunnel(
    ca: trustme.CA, ca_file: str, tls_parent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "SSL_CERT_FILE", ca_file
    )  # the parent's own certificate is checked against the system's store
    parent = Parent(interim=b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
    parent.hosts["tool.test"] = "127.0.0.1"
    outer = server_context(ca, "localhost") if tls_parent else None
    async with server(echo, tls=server_context(ca, "tool.test")) as port, server(parent, tls=outer) as proxy:
        connections = via(proxy, "https" if tls_parent else "http", "localhost", userinfo="me:secret")
        dialled = await dial(Origin("https", "tool.test", port, None, ca_file), connections)
        assert (dialled.inside, dialled.via_parent) == (False, False)
        assert await exchange(dialled, b"hello" * 10_000) == b"HELLO" * 10_000
        error = await refused(Origin("https", "127.0.0.2", port, None, ca_file), connections)
        assert error.reason is Reason.CONNECTION_REFUSED  # loopback is always direct
    authority = f"tool.test:{port}"
    request = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
    assert parent.heads == [request]


async def test_behind_the_parent_certificates_are_checked_all_the_same(ca: trustme.CA, ca_file: str) -> None:
    parent = Parent()
    parent.hosts["tool.test"] = "127.0.0.1"
    async with server(echo, tls=server_context(ca, "other.test")) as port, server(parent) as proxy:
        error = await refused(Origin("https", "tool.test", port, None, ca_file), via(proxy))
        assert error.reason is Reason.TLS_CERTIFICATE_ERROR
        assert f"https://tool.test:{port}" in error.detail
        error = await refused(Origin("https", "tool.test", unused_port(), None, ca_file), via(proxy))
        assert error.reason is Reason.PARENT_PROXY_REFUSED


async def test_a_tunnel_carries_bytes_as_they_are_whatever_the_scheme() -> None:
    async with server(echo) as port:
        dialled = await dial(Origin("https", "127.0.0.1", port), tunnel=True)
        assert await exchange(dialled, b"hello") == b"HELLO"


async def test_a_tunnel_through_the_parent_keeps_what_came_with_its_answer() -> None:
    parent = Parent(early=b"220 ready\r\n")
    parent.hosts["mail.test"] = "127.0.0.1"
    async with server(echo) as port, server(parent) as proxy:
        dialled = await dial(Origin("http", "mail.test", port), via(proxy), tunnel=True)
        assert dialled.via_parent is False
        assert dialled.protocol.data == b"220 ready\r\n"
        assert dialled.protocol.events == ["made", "data"]
        dialled.protocol.data = b""
        assert await exchange(dialled, b"hello") == b"HELLO"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n", "credentials"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "answered 403 Forbidden"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "answered 502"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "parent proxy"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "did not answer as an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000, "did not answer as an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000, "did not answer as an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\n", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
async def test_a_parent_that_opens_no_tunnel(answer: bytes, says: str) -> None:
    async def parent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with server(parent) as proxy:
        error = await refused(Origin("https", "api.example", 443), via(proxy))
    assert error.reason is Reason.PARENT_PROXY_REFUSED
    assert says in error.detail
    assert "api.example:443" in error.detail
    assert f"127.0.0.1:{proxy}" in error.detail


async def test_a_parent_that_is_not_there() -> None:
    error = await refused(Origin("https", "api.example", 443), via(unused_port()))
    assert error.reason is Reason.CONNECTION_REFUSED
    assert error.detail.startswith("The parent proxy 127.0.0.1:")


async def test_a_host_that_would_break_the_request_is_not_sent() -> None:
    error = await refused(Origin("https", "a\r\nX: y", 443), via(unused_port()))
    assert error.reason is Reason.MALFORMED


# -- being cut ---------------------------------------------------------------------------------------------------------


async def cut(dialing: asyncio.Task[Any], after: float = 0.05) -> None:
    """Cancel a dial that does not get on, as the caller's allowance does."""
    await asyncio.sleep(after)
    assert not dialing.done()
    dialing.cancel()
    await asyncio.wait([dialing])
    assert dialing.cancelled()


async def test_cut_in_the_lookup() -> None:
    async with name_server({}, {"hung.test"}) as (_, address), resolving(address) as resolver:
        await cut(asyncio.ensure_future(a_dialer(resolver).dial(Origin("http", "hung.test", 80), Client)))


async def test_cut_in_the_connect() -> None:
    with full_backlog() as port:
        await cut(asyncio.ensure_future(dial(Origin("http", "127.0.0.1", port))))


async def test_cut_in_the_connect_to_several_addresses() -> None:
    names = {"tool.test": ["127.0.0.1", "127.0.0.2", "127.0.0.3"]}
    with full_backlog("0.0.0.0") as port:
        async with name_server(names) as (_, address), resolving(address) as resolver:
            dialing = a_dialer(resolver).dial(Origin("http", "tool.test", port), Client)
            await cut(asyncio.ensure_future(dialing), 0.6)


async def test_cut_in_the_tls_handshake() -> None:
    async with server(silence) as port:
        await cut(asyncio.ensure_future(dial(Origin("https", "127.0.0.1", port))))


async def test_cut_in_the_parents_connect() -> None:
    async with server(silence) as proxy:
        await cut(asyncio.ensure_future(dial(Origin("https", "api.example", 443), via(proxy))))


async def test_cut_in_the_tls_handshake_with_the_parent() -> None:
    async with server(silence) as proxy:
        await cut(asyncio.ensure_future(dial(Origin("http", "api.example", 80), via(proxy, "https"))))


async def test_cut_in_the_tls_handshake_behind_the_parent() -> None:
    parent = Parent()
    parent.hosts["tool.test"] = "127.0.0.1"
    async with server(silence) as port, server(parent) as proxy:
        await cut(asyncio.ensure_future(dial(Origin("https", "tool.test", port), via(proxy))))


@pytest.mark.parametrize("way", ["plain", "tls", "parent", "parent, tls"])
async def test_cut_at_any_turn_of_the_loop(ca: trustme.CA, ca_file: str, way: str) -> None:
    """Wherever it is cut: either the dial has returned, or nobody has heard of a connection."""
    heard: list[Client] = []

    def factory() -> Client:
        heard.append(Client())
        return heard[-1]

    parent = Parent()
    parent.hosts["tool.test"] = "127.0.0.1"
    secured = "tls" in way
    context = server_context(ca, "tool.test") if secured else None
    origin_of = {"plain": "http", "tls": "https", "parent": "http", "parent, tls": "https"}
    names = {"tool.test": ["127.0.0.1"]}
    async with (
        server(echo, tls=context) as port,
        server(parent) as proxy,
        name_server(names) as (_, address),
        resolving(address) as resolver,
    ):
        dialer = a_dialer(resolver, via(proxy) if "parent" in way else None)
        origin = Origin(origin_of[way], "tool.test", port, None, ca_file)
        options = {"tunnel": "parent" in way and not secured}
        began = 0.0
        for _ in range(2):
            began = time.perf_counter()
            (await dialer.dial(origin, Client, **options)).transport.abort()
        usual = time.perf_counter() - began
        ends = {"cut": 0, "done": 0}
        for step in range(80):
            heard.clear()
            began = time.perf_counter()
            dialing = asyncio.ensure_future(dialer.dial(origin, factory, **options))
            while time.perf_counter() - began < usual * step / 40 or (step == 79 and not dialing.done()):  # noqa: ASYNC110
                await asyncio.sleep(0)
            dialing.cancel()
            await asyncio.wait([dialing])
            if dialing.cancelled():
                ends["cut"] += 1
                assert heard == []
            else:
                ends["done"] += 1
                dialled = dialing.result()
                assert heard == [dialled.protocol]
                dialled.transport.abort()
                await heard[0].lost.wait()
                assert heard[0].events == ["made", "lost"]
        assert min(ends.values()) > 0
