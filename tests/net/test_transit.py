"""How long a request was on its way: half of what the kernel has measured, and nothing where it has not."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import struct
import subprocess
import sys
from typing import Any, cast

import pytest

from proxy.core.units import MICROSECOND, MILLISECOND
from proxy.net.transit import half_round_trip

linux = pytest.mark.skipif(sys.platform != "linux", reason="struct tcp_info is of Linux")


class Pretender:
    """A socket whose kernel says what the test says."""

    def __init__(self, info: bytes | OSError) -> None:
        self._info = info

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO)
        if isinstance(self._info, OSError):
            raise self._info
        return self._info[:size]


def asked(info: bytes | OSError) -> int:
    return half_round_trip(cast(Any, Pretender(info)))


@linux
@pytest.mark.parametrize("round_trip", [0, 1, 85, 1_500, 4_000_000_000])
def test_half_of_the_smoothed_round_trip(round_trip: int) -> None:
    """The kernel counts microseconds; here they are nanoseconds."""
    info = bytes(68) + struct.pack("=I", round_trip) + bytes(160)
    assert asked(info) == round_trip * MICROSECOND // 2


@linux
@pytest.mark.parametrize("info", [b"", b"\x01" * 8, bytes(71), OSError("no such option")])
def test_what_is_not_to_be_known_is_nothing(info: bytes | OSError) -> None:
    """An older kernel, another protocol, a connection that is gone."""
    assert asked(info) == 0


def test_no_socket_at_all() -> None:
    """A transport may have none."""
    assert half_round_trip(None) == 0


def test_a_system_that_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is guessed."""
    monkeypatch.delattr(socket, "TCP_INFO", raising=False)
    with socket.socket() as unconnected:
        assert half_round_trip(unconnected) == 0


def test_sockets_that_have_no_round_trip() -> None:
    """Of another family or kind, and closed ones."""
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        assert half_round_trip(one) == 0
        assert half_round_trip(datagrams) == 0
    closed = socket.socket()
    closed.close()
    assert half_round_trip(closed) == 0


@linux
@pytest.mark.skipif(shutil.which("ss") is None, reason="no second opinion on this machine")
async def test_the_kernel_says_the_same_to_others() -> None:
    """On the transport of a real connection, beside what `ss` shows of it."""
    loop = asyncio.get_running_loop()
    served: asyncio.Future[asyncio.Transport] = loop.create_future()

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            served.set_result(cast(asyncio.Transport, transport))

    server = await loop.create_server(Server, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    transport = await served
    try:
        half = half_round_trip(transport.get_extra_info("socket"))
        command = ["ss", "-Htin", "state", "established", f"sport = :{port}"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout  # noqa: ASYNC221 - nothing else goes on
    finally:
        client.close()
        transport.close()
        server.close()
    match = re.search(r"\brtt:([0-9.]+)/", shown)
    assert match is not None, shown
    assert half == round(float(match[1]) * 1000) * MICROSECOND // 2
    assert 0 < half < 1000 * MILLISECOND
