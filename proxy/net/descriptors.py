"""How many descriptors this process may have open: each connection is one, and without any left nothing can be opened."""

from __future__ import annotations

import contextlib
import resource
from typing import Final

_ENOUGH: Final = 1 << 20


def raise_limit() -> None:
    """Take as many as are allowed, up to a million: the soft limit is 1,024 in many containers, and is for programs that select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # it is as it was then
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    """Return how many may be open at once by now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else min(soft, _ENOUGH)
