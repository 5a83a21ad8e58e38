"""A port at which nobody is."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def nobody_at(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that refuses connections, and that nobody else can take meanwhile: it is bound, and does not listen."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as bound:
        bound.bind((host, 0))
        yield bound.getsockname()[1]
