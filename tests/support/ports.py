"""Ports for what a test starts. Each is handed out once in a run, so that nothing remembered of one meets another."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterator

# Below the range from which Linux takes the ports of outgoing connections (ip_local_port_range), so that no client
# sits on one between the moment it is chosen and the moment it is bound.
_FIRST, _LAST = 12_000, 32_000
_taken: set[int] = set()
_chance = random.Random(os.getpid())


def free_port() -> int:
    """A port of the loopback that nobody listens on, and that was not handed out before."""
    while True:
        port = _chance.randrange(_FIRST, _LAST)
        if port in _taken:
            continue
        _taken.add(port)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextlib.contextmanager
def nobody_at(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that refuses connections, and that nobody else can take meanwhile: it is bound, and does not listen."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as bound:
        bound.bind((host, 0))
        yield bound.getsockname()[1]
