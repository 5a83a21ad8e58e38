"""Keeping what a run has discovered, so that the next one begins with it."""

from __future__ import annotations

from collections.abc import Callable

from trials.fuzz.corpus import LARGEST, keep, kept
from trials.fuzz.engine import Report
from trials.fuzz.minimise import minimise
from trials.fuzz.target import Target

MOST_BYTES = 24 * 1024
"""How much of a corpus is kept for one target (bytes): all of them together stay small enough for git."""

MOST_FILES = 100
"""To how many inputs a corpus may grow."""

_ASKED = 300


def grow(target: Target, report: Report) -> int:
    """Keep inputs that show a word which no kept one shows, made small; return how many were kept."""
    known = [data for _, data in kept(target.name)]
    words: set[str] = set()
    for data in known:
        words |= _seen(target, data)
    room, places = MOST_BYTES - sum(map(len, known)), MOST_FILES - len(known)
    count = 0
    for data in report.discovered:
        new = _seen(target, data) - words
        if not new or count >= places:
            continue
        small = minimise(data, _still(target, frozenset(new)), _ASKED)
        if len(small) > min(LARGEST, room) or keep(target.name, small) is None:
            continue
        room -= len(small)
        count += 1
        words |= _seen(target, small)
    return count


def _still(target: Target, new: frozenset[str]) -> Callable[[bytes], bool]:
    return lambda data: new <= _seen(target, data)


def _seen(target: Target, data: bytes) -> set[str]:
    try:
        return set(target.check(data))
    except Exception:  # noqa: BLE001 - a failure is reported where it is found, and shows nothing
        return set()
