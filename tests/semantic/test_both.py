"""A sidecar's client and the service, over real sockets: what one pod keeps another finds, and a service that misbehaves costs no call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from proxy.core.degrading import CachePolicy, CacheUse
from proxy.core.policy import Address, Connections
from proxy.core.units import MILLISECOND, MINUTE, SECOND
from proxy.core.upstream import Upstream
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.entry import Entry
from proxy.degrade.cache.remote import Brought
from proxy.degrade.cache.semantic import SemanticClient
from proxy.net.dial import Dialer
from proxy.net.own import OwnPorts
from proxy.net.pool import Pool
from proxy.net.resolver import Resolver
from tests.degrade.cache.questions import SEMANTIC, chat, header, kept, known
from tests.semantic.test_api import Client, service

LONG = 10 * SECOND
SOON = 100 * MILLISECOND
ALIKE = CacheUse(semantic=0.8, text=SEMANTIC.text)


def says(text: str, key: str = "one") -> Asked:
    """What the cache knows somebody's question by."""
    return known(chat(text), header(authorization=f"Bearer {key}"), use=ALIKE)


class Pod:
    """A sidecar's client with a pool of its own."""

    def __init__(self, port: int, within: int) -> None:
        loop = asyncio.get_running_loop()
        resolver = Resolver()
        self._resolver = resolver
        self.within = within
        self.failures = 0
        self.pool = Pool(loop, time.monotonic_ns, Dialer(resolver, Connections, OwnPorts()), Connections)
        self.client = SemanticClient(
            loop,
            time.monotonic_ns,
            self.pool,
            Upstream("http", "127.0.0.1", port),
            lambda: CachePolicy(timeout=within),
            Connections,
            self._failed,
        )

    def _failed(self) -> None:
        self.failures += 1

    async def ask(self, asked: Asked) -> Brought:
        heard: asyncio.Future[Brought] = asyncio.get_running_loop().create_future()
        self.client.find(asked, ALIKE, self.within, heard.set_result)
        return await heard

    async def close(self) -> None:
        self.client.close()
        self.pool.close()
        await self._resolver.close()


@asynccontextmanager
async def pod(port: int, within: int = LONG) -> AsyncIterator[Pod]:
    """A sidecar's client that is let go of."""
    opened = Pod(port, within)
    try:
        yield opened
    finally:
        await opened.close()


async def there(client: Client, count: int) -> None:
    """Wait until so many answers are kept."""
    async with asyncio.timeout(10):
        while True:
            if f"waterclock_semantic_entries {count}.0" in (await client.get("/metrics"))[1]:
                return
            await asyncio.sleep(0.005)


async def test_what_one_pod_keeps_another_finds_by_other_words() -> None:
    entry = kept(b"It is up.", kept=MINUTE)
    async with service() as client, pod(client.server.port) as one, pod(client.server.port) as other:
        one.client.keep(says("Is the payment service up?"), entry)
        await there(client, 1)
        brought = await other.ask(says("please, is the payment service up?"))
        assert brought is not None
        assert brought[0] == entry
        assert 0 <= brought[1] < MINUTE
        for asked in (
            says("Is the payment service not up?"),
            says("Is the payment service up?", key="two"),
            known(chat("Is the payment service up?", model="small"), use=ALIKE),
            known(chat("Is the payment service up?"), route="other", use=ALIKE),
        ):
            assert await other.ask(asked) is None
        assert (one.failures, other.failures) == (0, 0)


async def test_a_large_answer_comes_back_whole() -> None:
    entry = Entry(200, (), bytes(range(256)) * 4_000, 0, MINUTE, None, MINUTE)
    async with service() as client, pod(client.server.port) as one:
        one.client.keep(says("Is it up now?"), entry)
        await there(client, 1)
        brought = await one.ask(says("Is it up now?"))
        assert brought is not None
        assert brought[0] == entry


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def hangs(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def talks_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"\x16\x03\x01 what?\r\n\r\n")


async def fails(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\noh")


async def never_ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"8000\r\n" + b" " * 32_768 + b"\r\n")
        await writer.drain()


async def says_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"found": true}')


async def hangs_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(1)


@pytest.mark.parametrize("serve", [hangs, talks_garbage, fails, never_ends, says_nonsense, hangs_up])
async def test_a_service_that_misbehaves_costs_its_time_at_most(serve: Serve) -> None:
    """And the next question nothing."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(behave, "127.0.0.1", 0)
    try:
        async with pod(server.sockets[0].getsockname()[1], SOON) as one, asyncio.timeout(5):
            asked = says("Is it up?")
            assert await one.ask(asked) is None
            assert one.failures == 1
            asks = one.pool.counts()["opening"]
            assert await one.ask(asked) is None
            assert (one.pool.counts()["opening"], one.failures) == (asks, 1), "it is not asked again at once"
    finally:
        server.close()


async def test_a_service_that_has_gone_and_comes_again_is_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.degrade.cache.breaker.SHORTEST", 20 * MILLISECOND)
    async with service() as client:
        port = client.server.port
    async with pod(port) as one:
        asked = says("Is it up?")
        assert await one.ask(asked) is None
        assert one.failures == 1
        async with service(listen=Address("127.0.0.1", port)) as client, asyncio.timeout(10):
            while True:
                one.client.keep(asked, kept())
                if await one.ask(asked) is not None:
                    break
                await asyncio.sleep(0.01)
