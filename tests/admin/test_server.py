"""Listening, and what strangers can make it cost."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time

import pytest

from proxy.admin import server
from proxy.admin.plain import PlainSite, Reply
from proxy.admin.server import ListenFailed, listen
from proxy.core.policy import Address
from proxy.wire.events import RequestHead
from tests.admin.asking import ANY_PORT, ask, parsed, rest, served


async def hello(_: RequestHead) -> Reply:
    return Reply(b"hello", "text/plain")


def site() -> PlainSite:
    return PlainSite({"/": hello})


async def test_port_in_use_names_the_key() -> None:
    """Who has to mend it is told which key, which address, what is wrong and what helps."""
    async with served(site()) as first:
        with pytest.raises(ListenFailed) as caught:
            await listen(site(), first.address, "listen.metrics")
    failed = caught.value
    assert (failed.key, failed.address) == ("listen.metrics", first.address)
    assert str(failed) == (
        f"listen.metrics: cannot listen on {first.address}: address already in use. "
        "End what listens there, or set listen.metrics to a free port."
    )


async def test_address_of_another_machine() -> None:
    """Not every failure is a port in use."""
    with pytest.raises(ListenFailed) as caught:
        await listen(site(), Address("192.0.2.1", 0), "listen.control")
    assert "cannot assign requested address" in str(caught.value)
    assert "127.0.0.1" in caught.value.remedy


async def test_host_that_is_none() -> None:
    """A name that cannot be looked up has no number of the system's, and still a sentence."""
    with pytest.raises(ListenFailed) as caught:
        await listen(site(), Address("no such host", 0), "listen.control")
    assert "listen.control" in caught.value.remedy
    assert caught.value.problem


@pytest.mark.parametrize("number", [errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL, errno.EMFILE])
def test_every_failure_is_said_in_words(number: int) -> None:
    """The system's words, without those that asyncio puts around them."""
    error = OSError(number, f"error while attempting to bind: [Errno {number}]")
    failed = ListenFailed("listen.control", ANY_PORT, error)
    assert failed.problem == os.strerror(number).lower()
    assert "listen.control" in failed.remedy


def test_reason_of_a_failed_lookup() -> None:
    """Its numbers are not the system's."""
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert "name or service not known" in ListenFailed("listen.control", ANY_PORT, error).problem


async def test_close_frees_the_port() -> None:
    """At once, also with a connection open."""
    listening = await listen(site(), ANY_PORT, "listen.control")
    reader, writer = await asyncio.open_connection(listening.address.host, listening.address.port)
    writer.write(b"GET")
    await asyncio.sleep(0.05)
    begun = time.monotonic()
    await listening.close()
    assert time.monotonic() - begun < 1
    assert await rest(reader) == b""
    writer.close()
    again = await listen(site(), listening.address, "listen.control")
    await again.close()


async def test_oldest_connection_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections held open cannot keep a probe out."""
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 3)
    async with served(site()) as at:
        held = []
        for _ in range(5):
            held.append(await asyncio.open_connection(at.address.host, at.address.port))
            await asyncio.sleep(0.02)
        assert (await ask(at, "/")).body == b"hello"
        for reader, _ in held[:3]:
            assert await rest(reader) == b""
        reader, writer = held[4]
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert parsed(await rest(reader)).body == b"hello"
        for _, writer in held:
            writer.close()
