"""One event loop for what is asynchronous without waiting for anybody."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_LOOP: Final = asyncio.new_event_loop()
atexit.register(_LOOP.close)


def finished(work: Coroutine[Any, Any, _T]) -> _T:
    """Run it to its end, and return what it comes to."""
    return _LOOP.run_until_complete(work)
