"""Small servers of the demos, on the loopback, for as long as they are needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

HOST = "127.0.0.1"


@asynccontextmanager
async def serving(app: web.Application, port: int = 0, *, cancels: bool = True) -> AsyncIterator[str]:
    """Serve until the block is left, on a free port unless one is given; yields the URL.

    `cancels`: a handler whose caller leaves is cancelled, so that a server knows for whom it has worked in vain; else it
    goes on to its end.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=cancels)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        host, bound = runner.addresses[0][:2]
        yield f"http://{host}:{bound}"
    finally:
        await runner.cleanup()
