"""Where a stream can be cut: events, lines and characters. Nothing is lost or changed, however the bytes come."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from proxy.wire.boundary import HELD, Boundary
from proxy.wire.characters import CharacterBoundary
from proxy.wire.eventstream import EventBoundary
from proxy.wire.lines import LineBoundary
from trials.fuzz.target import Seen, Target, hold
from trials.fuzz.targets._cuts import cuts

_EMPTY_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)\Z")
_KINDS: Final[tuple[type[Boundary], ...]] = (EventBoundary, LineBoundary, CharacterBoundary)


def check(data: bytes) -> Seen:
    """Feed each kind of boundary, whole and in pieces."""
    seen: set[str] = set()
    for make in _KINDS:
        whole = _passed(make, [data])
        seen |= _sound(make, data, whole)
        for feeds in cuts(data):
            parts = _passed(make, feeds)
            hold(parts == whole, "same-cut-however-fed", make.__name__, whole, parts)
    return seen


def _passed(make: Callable[[], Boundary], feeds: Sequence[bytes]) -> tuple[bytes, bytes, bool]:
    """All that was passed on, all that was kept back, and whether it stood between two pieces of the stream."""
    boundary = make()
    passed = b"".join(boundary.feed(data) for data in feeds)
    between, whole = boundary.between_events, boundary.passed_whole
    rest = boundary.flush()
    hold(between is (whole and not rest), "between-is-whole-with-nothing-kept", between, whole, rest)
    return passed, rest, whole


def _sound(make: type[Boundary], data: bytes, said: tuple[bytes, bytes, bool]) -> set[str]:
    passed, rest, whole = said
    hold(passed + rest == data, "nothing-is-lost", make.__name__, data, passed, rest)
    hold(len(rest) <= HELD, "no-more-is-kept-than-said", len(rest))
    if whole and len(data) < HELD:
        ends = {
            EventBoundary: passed.strip(b"\r\n") == b"" or _EMPTY_LINE.search(passed) is not None,
            LineBoundary: not passed or passed.endswith(b"\n"),
            CharacterBoundary: True,
        }
        hold(ends[make], "whole-pieces-pass", make.__name__, passed)
    if make is CharacterBoundary:
        hold(_same_text(data, passed, rest), "no-character-is-cut", data, passed, rest)
    return {f"{make.__name__} passed {bool(passed)} kept {bool(rest)} whole {whole}"}


def _same_text(data: bytes, passed: bytes, rest: bytes) -> bool:
    """A text in UTF-8 is one before the cut, too."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    passed.decode()
    return not rest


TARGET: Final = Target(
    "eventstream",
    "where events, lines and characters can be cut: nothing lost, the same place however the bytes come",
    check,
    tokens=(
        b"data: {}\n\n",
        b"data: a\r\n\r\n",
        b"\r\r",
        b"\n\r",
        b"\r\n\r",
        b"event: x\n",
        b": comment\n",
        b"\xef\xbb\xbf",
        b"\xe8\x8c\xb6",
        b"\xf0\x9f\xab\x96",
        b"\xf0\x9f",
        b'{"a":1}\n',
        b"\x1e",
        b"\0",
    ),
)
