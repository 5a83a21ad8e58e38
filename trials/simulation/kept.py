"""The seeds that were kept: each has once found a fault, of the sidecar or of the simulation, and has to hold ever since."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).resolve().parents[2] / "tests" / "trials" / "seeds.txt"


def kept_seeds() -> list[tuple[int, str]]:
    """Return the seeds, each with why it was kept. Lines that begin with `#` are for people."""
    found = []
    for line in FILE.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            seed, _, why = line.partition(" ")
            found.append((int(seed), why.strip()))
    return found
