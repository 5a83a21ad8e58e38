"""Waiting for what will be so in a moment, with a limit that only a failure reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 10.0
"""How long anything may take on a busy machine before the test gives up (seconds)."""


def eventually(look: Callable[[], T | None], *, within: float = PATIENCE, what: str = "") -> T:
    """Look until there is something true to see, and return it."""
    end = time.monotonic() + within
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= end:
            raise AssertionError(f"not within {within:g} s: {what or look} (last seen: {seen!r})")
        time.sleep(0.002)


def now_ms() -> float:
    """The monotonic clock in milliseconds, to judge how long something took."""
    return time.monotonic_ns() / 1e6
