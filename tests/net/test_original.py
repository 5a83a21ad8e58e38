"""A redirected connection tells where it was going; one that was meant for this socket does not."""

from __future__ import annotations

import asyncio
import socket

import pytest

from proxy.net.original import original_destination
from proxy.net.peer import PeerSockets
from tests.net.hosts import apart

REDIRECT = """
ip addr add 10.9.0.2/24 dev lo
ip addr add fd09::2/64 dev lo nodad
ip route add default dev lo
ip -6 route add default dev lo
iptables -t nat -A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 10800
ip6tables -t nat -A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 10800
"""


class Arrivals(asyncio.Protocol):
    """Says of each connection where it was going, as its transport's socket tells."""

    def __init__(self, found: asyncio.Queue[tuple[asyncio.Transport, tuple[str, int] | None]]) -> None:
        self.found = found

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sock = transport.get_extra_info("socket")
        self.found.put_nowait((transport, original_destination(sock)))  # type: ignore[arg-type]

    def eof_received(self) -> bool:
        return True


async def redirected() -> None:
    """Run where iptables sends port 80 to 10800. Over IPv4, over IPv6, and both through a dual-stack listener."""
    loop = asyncio.get_running_loop()
    peers = PeerSockets()
    for listen, target, direct in (
        ("127.0.0.1", "192.0.2.1", "127.0.0.1"),
        ("::1", "2001:db8::1", "::1"),
        (None, "192.0.2.1", "127.0.0.1"),
        (None, "2001:db8::1", "::1"),
    ):
        found: asyncio.Queue[tuple[asyncio.Transport, tuple[str, int] | None]] = asyncio.Queue()
        with socket.socket(
            socket.AF_INET6 if listen is None or ":" in listen else socket.AF_INET
        ) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((listen or "::", 10800))
            server = await loop.create_server(lambda queue=found: Arrivals(queue), sock=listening)  # type: ignore[misc]
            family = socket.AF_INET6 if ":" in target else socket.AF_INET
            with socket.socket(family) as client:
                client.connect((target, 80))
                transport, original = await found.get()
                assert original == (target, 80)
                name, peer = (transport.get_extra_info(what) for what in ("sockname", "peername"))
                client.shutdown(socket.SHUT_WR)
                assert peers.has_left(name, peer, original) is False
                client.close()
                await asyncio.sleep(0.01)
                assert peers.has_left(name, peer, original) is True
                transport.abort()
            with socket.socket(family) as client:
                client.connect((direct, 10800))
                transport, original = await found.get()
                assert original is None
                transport.abort()
            server.close()
            await asyncio.sleep(0.01)
    peers.close()


def test_redirected_connections_tell_where_they_were_going() -> None:
    apart(REDIRECT, "test_original", "redirected")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_direct_connection_has_no_other_destination(address: str) -> None:
    loop = asyncio.get_running_loop()
    found: asyncio.Queue[tuple[asyncio.Transport, tuple[str, int] | None]] = asyncio.Queue()
    server = await loop.create_server(lambda: Arrivals(found), address, 0)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as client:
        client.connect((address, server.sockets[0].getsockname()[1]))
        transport, original = await found.get()
        assert original is None
        transport.abort()
    server.close()


def test_a_connection_that_has_gone_tells_nothing() -> None:
    with socket.socket() as sock:
        assert original_destination(sock) is None
    assert original_destination(sock) is None
