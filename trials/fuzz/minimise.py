"""Making an input that fails as small as it goes (delta debugging on bytes), and as plain."""

from __future__ import annotations

from collections.abc import Callable

_PLAIN = b"a0 "


def minimise(data: bytes, fails: Callable[[bytes], bool], most: int = 1000) -> bytes:
    """Return a smaller input of which `fails` is still true; it is asked `most` times at the most.

    First parts of halving size are left out, until no single octet can be; then octets are made plain where they can be.
    """
    asked = 0

    def still(candidate: bytes) -> bool:
        nonlocal asked
        asked += 1
        return asked <= most and fails(candidate)

    size = max(1, len(data) // 2)
    while asked < most:
        smaller = _without_parts(data, size, still)
        if size == 1 and smaller == data:
            break
        data, size = smaller, max(1, size // 2)
    for at in range(len(data)):
        for plain in _PLAIN:
            if data[at] == plain:
                break
            candidate = data[:at] + bytes([plain]) + data[at + 1 :]
            if still(candidate):
                data = candidate
                break
    return data


def _without_parts(data: bytes, size: int, still: Callable[[bytes], bool]) -> bytes:
    """Leave out each part of this size that is not needed, from the end on."""
    at = len(data)
    while at > 0:
        start = max(0, at - size)
        candidate = data[:start] + data[at:]
        if still(candidate):
            data = candidate
        at = start
    return data
