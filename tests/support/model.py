"""The language model of the demo, for tests that block: it serves from a thread with a loop of its own.

with serving(Model({"gpt-4o": Voice(20)})) as model:
    ... calls to model.url ...
assert model.chats[-1].model == "gpt-4o"
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from proxy.demo.degrade.model import Model, running
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    """Serve it until the block is left. What it has heard may be read at any time, as far as it has been answered."""
    loop = asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with running(model, free_port()):
            ready.set()
            await over.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE)
