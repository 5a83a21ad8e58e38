"""The running service: put together, started, drained and stopped here.

On the way down it calls itself unready first, goes on answering until sidecars have found that out, and only then stops.
What it has kept is gone with it: a cache may always be empty.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast

from aiohttp import web

from proxy import __version__
from proxy.core.policy import MEBIBYTE, Address
from proxy.core.units import SECOND
from proxy.net.families import hosts
from proxy.observe.handler import EventHandler
from proxy.observe.steplog import StepLog
from proxy.semantic.api import Means, api_app
from proxy.semantic.embeddings import Embeddings
from proxy.semantic.embeddings.local import LocalEmbeddings
from proxy.semantic.embeddings.remote import RemoteEmbeddings
from proxy.semantic.metrics import Metrics
from proxy.semantic.service import REASONS, WORDS_ALIKE, Service
from proxy.semantic.shelf import Bounds, Shelf
from proxy.semantic.worker import Worker

MOST_CONNECTIONS: Final = 1_024
"""Further ones are closed at once; a sidecar keeps few."""
_KEEP_ALIVE_SECONDS: Final = 120.0
"""Longer than a sidecar keeps an idle connection, so that none is closed under a question."""
_LINGER_SECONDS: Final = 1.0
"""How long the rest of a body that is refused is read, so that the answer reaches who sends it."""
_SWEEP_SECONDS: Final = 15.0


class CannotListen(Exception):
    """A port that cannot be listened on. The message says which, why not, and what helps."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who makes embeddings, where it is not this process. `key` is a secret; `timeout`: nanoseconds."""

    url: str
    model: str
    key: str | None = None
    timeout: int = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Settings:
    """What the service is told. `embeddings` None: local ones. `drain`: how long it answers once it is told to stop (seconds)."""

    listen: Address = field(default_factory=lambda: Address("0.0.0.0", 10805))  # noqa: S104 - a pod's port is for others
    embeddings: Place | None = None
    bounds: Bounds = field(default_factory=lambda: Bounds(256 * MEBIBYTE, 50_000, 10_000))
    words_alike: float = WORDS_ALIKE
    drain: float = 5.0


class CacheServer:
    """One service. `run` is its whole life; `port` is the one really listened on, and `listening` is set from then on."""

    def __init__(self, settings: Settings, log: StepLog) -> None:
        """Load nothing yet."""
        self._settings = settings
        self._log = log
        self._stop = asyncio.Event()
        self.listening = asyncio.Event()
        self.port = 0

    def stop(self) -> None:
        """Begin to stop, as SIGTERM does."""
        self._stop.set()

    async def run(self) -> None:
        """Start, answer until SIGTERM or SIGINT, drain, stop. Raises CannotListen and EmbeddingsFailed."""
        loop = asyncio.get_running_loop()
        handler = EventHandler(self._log)
        logging.getLogger().addHandler(handler)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        try:
            async with self._embeddings() as (embeddings, worker):
                await self._serve(embeddings, worker)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            logging.getLogger().removeHandler(handler)

    @asynccontextmanager
    async def _embeddings(self) -> AsyncIterator[tuple[Embeddings, Worker]]:
        worker, place = Worker(), self._settings.embeddings
        try:
            if place is None:
                yield LocalEmbeddings(worker), worker
                return
            remote = RemoteEmbeddings(place.url, place.model, place.key, place.timeout)
            try:
                yield remote, worker
            finally:
                await remote.close()
        finally:
            worker.close()

    async def _serve(self, embeddings: Embeddings, worker: Worker) -> None:
        settings, metrics = self._settings, Metrics()
        for reason in REASONS:
            metrics.finds.labels("missed", reason)
        shelf = Shelf(settings.bounds, lambda why: metrics.evictions.labels(why).inc())
        metrics.watch(lambda: len(shelf), lambda: shelf.used, lambda: shelf.partitions)
        service = Service(embeddings, shelf, worker, time.monotonic_ns, settings.words_alike)
        app = api_app(Means(service, metrics, self._log, self.unready, time.monotonic_ns))
        runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            shutdown_timeout=5.0,
        )
        await runner.setup()
        server: asyncio.Server | None = None
        try:
            server = await self._listen(runner)
            self._tell_start()
            self.listening.set()
            await self._until_told(shelf)
            self._log.event("draining", seconds=settings.drain)
            await asyncio.sleep(settings.drain)
        finally:
            if server is not None:
                server.close()
            await runner.cleanup()
            if self.listening.is_set():
                self._log.event("stopped", entries=len(shelf))

    def unready(self) -> Sequence[str]:
        """Return why questions cannot be answered, in a sentence each."""
        return ["The service is draining."] if self._stop.is_set() else []

    async def _listen(self, runner: web.AppRunner) -> asyncio.Server:
        address = self._settings.listen
        serve = runner.server
        assert serve is not None

        def accept() -> asyncio.Protocol:
            return cast(asyncio.Protocol, serve()) if len(serve.connections) < MOST_CONNECTIONS else _Closed()

        # A port that the system chooses is one port only in one family of addresses.
        places = hosts(address.host) if address.port else [address.host]
        try:
            server = await asyncio.get_running_loop().create_server(
                accept, places, address.port, backlog=1_024
            )
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise CannotListen(
                f"{address} cannot be listened on: {why}; end what listens there, or give --listen another address"
            ) from error
        self.port = server.sockets[0].getsockname()[1]
        return server

    def _tell_start(self) -> None:
        settings = self._settings
        self._log.event(
            "started",
            version=__version__,
            listen=str(Address(settings.listen.host, self.port)),
            embeddings="local" if settings.embeddings is None else settings.embeddings.url,
            bytes=settings.bounds.bytes,
            entries=settings.bounds.entries,
        )

    async def _until_told(self, shelf: Shelf) -> None:
        """Wait until it is time to stop, and drop meanwhile what is of no more use."""
        while not self._stop.is_set():
            shelf.sweep(time.monotonic_ns())
            try:
                async with asyncio.timeout(_SWEEP_SECONDS):
                    await self._stop.wait()
            except TimeoutError:
                continue


class _Closed(asyncio.Protocol):
    """A connection that there is no room for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()
