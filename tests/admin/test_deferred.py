"""A server that comes with its first caller: nobody is lost on the way, and nobody is held up by it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from proxy.admin.aside import aside
from proxy.admin.deferred import DeferredSite, Runner, Start
from proxy.admin.plain import PlainSite, Reply
from proxy.wire.events import RequestHead
from tests.admin.asking import ask, exchange, parsed, rest, served

ROOT = Path(__file__).parent.parent.parent
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Loading:
    """A server that takes as long to load as the test says."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.loads = 0
        self.cleaned = False
        self.failures: list[Exception] = []

    def site(self) -> DeferredSite:
        return DeferredSite(self.load)

    def load(self) -> Start:
        self.loads += 1
        assert self.go_on.wait(10)
        if self.failures:
            raise self.failures.pop()
        return self.start

    async def start(self) -> Runner:
        return self

    @property
    def server(self) -> type[asyncio.Protocol]:
        return self.serve  # type: ignore[return-value]

    def serve(self) -> asyncio.Protocol:
        async def hello(_: RequestHead) -> Reply:
            return Reply(b"hello", "text/plain")

        return PlainSite({"/": hello}).accept()

    async def cleanup(self) -> None:
        self.cleaned = True


@pytest.fixture
def loading() -> Loading:
    return Loading()


async def test_nothing_is_loaded_before_somebody_comes(loading: Loading) -> None:
    """And then once, for all who come."""
    loading.go_on.set()
    async with served(loading.site()) as at:
        await asyncio.sleep(0.05)
        assert loading.loads == 0
        for _ in range(3):
            assert (await ask(at, "/")).body == b"hello"
    assert loading.loads == 1
    assert loading.cleaned


async def test_early_callers_are_all_served(loading: Loading) -> None:
    """Those that have sent their request, a part of it or nothing yet; and who has left is no trouble."""
    async with served(loading.site()) as at:
        connections = [await asyncio.open_connection(at.address.host, at.address.port) for _ in range(4)]
        for (_, writer), sent in zip(connections, (GET, GET[:9], b"", GET), strict=True):
            writer.write(sent)
        connections[3][1].transport.abort()
        await asyncio.sleep(0.1)
        assert loading.loads == 1
        loading.go_on.set()
        await asyncio.sleep(0.1)
        connections[1][1].write(GET[9:])
        connections[2][1].write(GET)
        for reader, writer in connections[:3]:
            assert parsed(await rest(reader)).body == b"hello"
            writer.close()


async def test_much_that_is_said_early_is_bounded(loading: Loading) -> None:
    """A caller that floods the port before it is served is not read any more, and served afterwards."""
    async with served(loading.site()) as at:
        _, writer = await asyncio.open_connection(at.address.host, at.address.port)
        writer.write(b"x" * 20_000_000)
        await asyncio.sleep(0.2)
        (transport,) = at._open
        assert not transport.is_reading()
        assert len(transport.get_protocol()._said) < 1_000_000  # type: ignore[attr-defined]
        loading.go_on.set()
        assert (await ask(at, "/")).body == b"hello"
        writer.transport.abort()


async def test_failure_is_reported_and_tried_again(
    loading: Loading, caplog: pytest.LogCaptureFixture
) -> None:
    """A library that cannot be loaded costs this port, and not the sidecar."""
    loading.failures = [ImportError("no such library")]
    loading.go_on.set()
    async with served(loading.site()) as at:
        assert await exchange(at, GET) == b""
        assert "no such library" in caplog.text
        assert (await ask(at, "/")).body == b"hello"


async def test_close_while_loading(loading: Loading) -> None:
    """The end of the sidecar does not wait for it."""
    async with served(loading.site()) as at:
        reader, writer = await asyncio.open_connection(at.address.host, at.address.port)
        await asyncio.sleep(0.05)
        begun = time.monotonic()
    assert time.monotonic() - begun < 1
    assert await rest(reader) == b""
    writer.close()
    loading.go_on.set()


async def test_aside_leaves_the_loop_alone() -> None:
    """While the thread sleeps, the loop turns."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    def work() -> str:
        time.sleep(0.1)
        return "done"

    turning = asyncio.get_running_loop().create_task(turn())
    assert await aside(work) == "done"
    turning.cancel()
    assert turns > 10


async def test_aside_raises_what_was_raised() -> None:
    """As if it had been called here."""

    def fail() -> None:
        raise OSError(28, "full")

    with pytest.raises(OSError, match="full"):
        await aside(fail)


def test_sidecar_starts_without_the_heavy_libraries() -> None:
    """They cost every pod 15 MiB and a tenth of a second, and most pods never need them."""
    code = (
        "import sys\n"
        "import proxy.admin.control, proxy.admin.health, proxy.admin.server\n"
        "import proxy.observe.observer, proxy.observe.handler\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    assert {"aiohttp", "prometheus_client", "urllib.request", "http.client"}.isdisjoint(loaded.stdout.split())
