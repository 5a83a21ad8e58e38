"""Stores for tests: a real redis-server, servers that only pretend to be one, and a RedisStore that asks them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from proxy.core.degrading import CachePolicy, CacheUse
from proxy.core.policy import Connections
from proxy.core.units import SECOND
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.redis_store import RedisStore
from proxy.degrade.cache.remote import Brought
from proxy.degrade.cache.store_address import store_address
from proxy.net.dial import Dialer
from proxy.net.own import OwnPorts
from proxy.net.resolver import Resolver
from tests.degrade.cache.questions import chat, known
from tests.support.ports import free_port
from tests.support.waiting import eventually

EXACT = CacheUse()
ASKED = known(chat("up?"))
NAME = "waterclock:cache:1:" + ASKED.key
LONG = 10 * SECOND
"""A time within which every machine gets an answer."""


class Server:
    """A redis-server on a port of its own, which keeps nothing on disk."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self._command = [
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(folder),
        ]
        self._command += ["--save", "", "--appendonly", "no", "--loglevel", "warning", *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}"

    def client(self, **options: Any) -> redis.Redis:
        """A plain client, for a look at what is there."""
        return redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0), **options)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def answers() -> bool:
            with contextlib.closing(self.client(protocol=2)) as client:
                try:
                    return bool(client.ping())
                except redis.AuthenticationError:
                    return True
                except redis.ConnectionError:
                    return False

        eventually(answers, what="redis-server answers")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[Server]:
    """A redis-server, ended with the test. Skips where there is none."""
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server (Debian's package of that name)")
    server = Server(folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


class Shop:
    """A RedisStore with a clock that stands still unless told, and all that it says."""

    def __init__(self, url: str, dialer: Dialer, **policy: Any) -> None:
        self.now = 1000 * SECOND
        self.policy = CachePolicy(**({"timeout": LONG} | policy))
        self.failures = 0
        loop = asyncio.get_running_loop()
        self.store = RedisStore(
            loop, lambda: self.now, dialer, store_address(url), lambda: self.policy, self._failed
        )

    def _failed(self) -> None:
        self.failures += 1

    def ask(self, asked: Asked = ASKED, within: int = LONG, use: CacheUse = EXACT) -> asyncio.Future[Brought]:
        """Ask, and return what will be heard."""
        heard: asyncio.Future[Brought] = asyncio.get_running_loop().create_future()
        self.store.find(asked, use, within, heard.set_result)
        assert not heard.done()
        return heard

    async def quiet(self) -> None:
        """Wait until nothing is going on in the background."""
        while going := {*self.store._tasks, *self.store._links._opening}:
            await asyncio.wait(going)


@contextlib.asynccontextmanager
async def shop(url: str, *nameservers: str, **policy: Any) -> AsyncIterator[Shop]:
    """A store at that URL; afterwards nothing of it is left: no task, no connection."""
    resolver = Resolver(nameservers)
    before = asyncio.all_tasks()
    opened = Shop(url, Dialer(resolver, Connections, OwnPorts()), **policy)
    try:
        yield opened
    finally:
        opened.store.close()
        await opened.quiet()
        await resolver.close()
        for _ in range(3):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before
        assert opened.store._links._total == 0


Replier = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def commands(reader: asyncio.StreamReader) -> AsyncIterator[list[bytes]]:
    """The commands that arrive, one after another."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            count = int((await reader.readuntil(b"\r\n"))[1:])
            words = []
            for _ in range(count):
                size = int((await reader.readuntil(b"\r\n"))[1:])
                words.append((await reader.readexactly(size + 2))[:-2])
            yield words


def pretender(reply: bytes | Replier, greeting: bytes = b"+OK\r\n") -> Any:
    """A handler that greets as Redis does, and answers each question for an entry with `reply`, whatever that is."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = 0
        async for words in commands(reader):
            if words[0] not in (b"PTTL", b"GETRANGE"):
                writer.write(greeting)
                continue
            asked += 1
            if asked % 3:
                continue
            if isinstance(reply, bytes):
                writer.write(reply)
            else:
                await reply(writer)

    return handle


def bulk(value: bytes) -> bytes:
    """A bulk string of the protocol."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def replies(value: bytes, left: bytes = b":59000\r\n", after: bytes | None = None) -> bytes:
    """The replies to one question: what is left, the value, and what is left then."""
    return left + value + (left if after is None else after)
