"""Where the network may cut a stream: nowhere, everywhere, and at places that follow from the bytes themselves."""

from __future__ import annotations

from random import Random
from typing import Final
from zlib import crc32

_MOST_CUTS: Final = 6
_APART: Final = 512


def cuts(data: bytes) -> list[list[bytes]]:
    """Return ways to cut the data: octet by octet, or its beginning where it is long; then two that are drawn."""
    rng = Random(crc32(data))
    apart = [data[at : at + 1] for at in range(min(len(data), _APART))]
    return [[*apart, data[_APART:]], drawn(data, rng), drawn(data, rng)]


def drawn(data: bytes, rng: Random) -> list[bytes]:
    """Cut the data in up to six places."""
    places = sorted(rng.randint(0, len(data)) for _ in range(rng.randint(1, _MOST_CUTS)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
