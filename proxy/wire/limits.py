"""How much of a message may be held in memory before it is refused."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds on the parts that must be held whole. Bodies are passed on as they come and need none."""

    head_bytes: int = 64 * 1024
    """The request or status line and all fields of one head. Trailers, and what surrounds chunks, have as much again."""

    field_count: int = 100
    """The fields of one head, and the fields of one trailer section."""

    interim_count: int = 256
    """The interim (1xx) responses before one response. Each is passed on, so that a server could go on for ever."""

    target_bytes: int = 16 * 1024
    """The request target. RFC 9112 §3 asks for 8,000 octets at the least."""
