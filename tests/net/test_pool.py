"""What an idle connection has heard before it is used again: nothing may be sent on one whose other side has moved on."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from proxy.core.policy import Connections
from proxy.core.target import Origin
from proxy.net.connection import UpstreamConnection
from proxy.net.pool import Pool

ORIGIN = Origin("http", "tool.internal", 80)

News = Callable[[socket.socket], Any]


def says_more(far: socket.socket) -> None:
    """An answer that nobody has asked for."""
    far.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nnobody")


def closes(far: socket.socket) -> None:
    """It was idle for too long, as the other side sees it."""
    far.close()


@pytest.mark.parametrize(("news", "fit"), [(None, True), (says_more, False), (closes, False)])
async def test_what_the_loop_has_not_read_yet(news: News | None, fit: bool) -> None:
    """It stands in the kernel, and the next call comes in the same turn of the loop: it gets another connection."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    pool = Pool(loop, time.monotonic_ns, None, Connections)  # type: ignore[arg-type]  # nothing is dialled here
    connection = UpstreamConnection(ORIGIN, lambda _: None)
    await loop.create_connection(lambda: cast(asyncio.Protocol, connection), sock=near)
    pool.adopt(connection, ORIGIN)
    if news is not None:
        news(far)
    taken = pool.take(ORIGIN, time.monotonic_ns())
    assert (taken is connection) is fit
    assert connection.closed is not fit, "nor is it ever used again"
    connection.abort()
    pool.close()
    far.close()
    await asyncio.sleep(0)
