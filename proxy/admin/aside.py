"""Work that would hold up the event loop, on a thread of its own. For what is rare: a library that is loaded, a scrape."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def aside(work: Callable[[], Result]) -> Result:
    """Return what `work` returns, or raise what it raises. The loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def tell(settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed: there is nobody left to tell
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            failure = error
            tell(lambda: done.set_exception(failure))
        else:
            tell(lambda: done.set_result(result))

    threading.Thread(target=run, name="waterclock-aside", daemon=True).start()
    return await done
