"""What happened in one run, in order: a digest over all of it, and as much of it in words as is asked for.

The digest takes every byte that is sent on any connection with its time, every record, every change of a disk and every
turn of fortune. Two runs of one seed have the same digest, or something leaked in that was not drawn from it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final, NamedTuple

from proxy.core.units import SECOND
from trials.simulation.clock import STARTS_AT

KEPT: Final = 300
"""How many of the last entries are kept when the whole trace is not asked for."""
_SHOWN: Final = 400


class Entry(NamedTuple):
    """One thing that happened. `at`: nanoseconds on the run's clock; shown are seconds since its beginning."""

    at: int
    who: str
    what: str
    data: bytes

    def __str__(self) -> str:
        return f"{(self.at - STARTS_AT) / SECOND:11.6f}  {self.who:<22} {self.what}{_shown(self.data)}"


class Trace:
    """The trace of one run. `whole`: keep every entry, else the last ones."""

    def __init__(self, *, whole: bool = False) -> None:
        """Begin with nothing."""
        self._hash = hashlib.sha256()
        self.entries: deque[Entry] = deque(maxlen=None if whole else KEPT)
        self.count = 0

    def note(self, at: int, who: str, what: str, data: bytes = b"") -> None:
        """Take what happened, to whom, when."""
        self.count += 1
        self._hash.update(b"%d|%b|%b|%d|" % (at, who.encode(), what.encode(), len(data)))
        self._hash.update(data)
        self.entries.append(Entry(at, who, what, data))

    def digest(self) -> str:
        """Return the digest of all that has happened so far."""
        return self._hash.hexdigest()


def _shown(data: bytes) -> str:
    """Return bytes in a form that can be read, in one line."""
    if not data:
        return ""
    text = data[:_SHOWN].decode("latin-1").replace("\r\n", "⏎")
    text = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    more = f" … {len(data)} bytes" if len(data) > _SHOWN else ""
    return f"  {text}{more}"
