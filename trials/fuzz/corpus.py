"""The inputs that are kept: one file each, in a folder for each target."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpus"
RESULTS: Final = Path(__file__).parents[1] / "results"

LARGEST: Final = 4096
"""The longest input that is kept (bytes)."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 60


def kept(target: str) -> list[tuple[str, bytes]]:
    """Return the names and contents of the inputs that are kept for a target, by name."""
    return [(path.name, path.read_bytes()) for path in sorted((FOLDER / target).glob("*"))]


def keep(target: str, data: bytes, shows: str = "") -> Path | None:
    """Keep an input, under a name that says what it shows, or a hash; None where it is too long."""
    if len(data) > LARGEST:
        return None
    name = _NOT_IN_NAMES.sub("-", shows.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    path = FOLDER / target / (name or hash_of(data))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def save_failure(target: str, data: bytes) -> Path:
    """Save an input that failed, where git does not look."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"fuzz-{target}-{hash_of(data)}"
    path.write_bytes(data)
    return path


def hash_of(data: bytes) -> str:
    """Return a short name that is the same for the same bytes."""
    return sha256(data).hexdigest()[:12]
