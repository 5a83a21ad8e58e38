"""Counts, as sentences have them."""

from __future__ import annotations


def many(count: int, one: str, more: str) -> str:
    """Return a count with its noun, and whatever goes with that."""
    return f"{count} {one if count == 1 else more}"
