"""Which namespaces are to be looked at, and when: each is in here once, however much happens in it.

Whoever looks sees everything as it is then, so nothing is lost when ten changes become one look. After a write the next
look waits a moment, until the mirrors show it. What fails is tried again after a wait that doubles. A namespace that is
written to again and again, because somebody else writes there too, is looked at less and less often. Times are
monotonic nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proxy.core.units import MILLISECOND, MINUTE, SECOND

ECHO: Final = 200 * MILLISECOND
"""How long the mirrors usually take at most to show what was written; a look before that would write it again, in vain."""
FIRST_RETRY: Final = 500 * MILLISECOND
LONGEST_RETRY: Final = MINUTE
BURST: Final = 30
EVERY: Final = 5 * SECOND
"""A namespace may be written to thirty times in a row, and then once in five seconds."""


@dataclass(slots=True)
class _Past:
    """How it went: the wait after the next failure, and the writes that were left after the last one, which was at `at`."""

    retry: int = FIRST_RETRY
    tokens: float = BURST
    at: int | None = None

    def tokens_at(self, now: int) -> float:
        return self.tokens if self.at is None else min(BURST, self.tokens + (now - self.at) / EVERY)


class Pending:
    """What is pending. A key that is taken is not given out again before it is put back with `done` or `failed`."""

    def __init__(self) -> None:
        """There is nothing to do yet."""
        self._due: dict[str, int] = {}
        self._taken: set[str] = set()
        self._past: dict[str, _Past] = {}

    def add(self, key: str, now: int) -> None:
        """Let a key be looked at as soon as it may: at once, unless it has failed or was written to too often."""
        if key not in self._due:
            self._due[key] = max(now, self._not_before(key, now))

    def take(self, now: int) -> str | None:
        """Return the key that has been due for longest, None when none is."""
        due = [(at, key) for key, at in self._due.items() if at <= now and key not in self._taken]
        if not due:
            return None
        _, key = min(due)
        del self._due[key]
        self._taken.add(key)
        return key

    def seconds_to_next(self, now: int) -> float | None:
        """Return when the next key is due, None when none is pending that is not taken."""
        waiting = [at for key, at in self._due.items() if key not in self._taken]
        return max(0, min(waiting) - now) / SECOND if waiting else None

    def done(self, key: str, now: int, *, wrote: bool) -> None:
        """Put a key back that was seen to. `wrote`: something had to be written for it."""
        self._taken.discard(key)
        past = self._past.setdefault(key, _Past())
        past.retry = FIRST_RETRY
        if wrote:
            past.tokens, past.at = past.tokens_at(now) - 1, now
        elif past.tokens_at(now) >= BURST:
            del self._past[key]  # nothing to remember
        if key in self._due:
            self._due[key] = max(self._due[key], self._not_before(key, now))

    def failed(self, key: str, now: int) -> None:
        """Put a key back that could not be seen to: it is due again after a while."""
        self._taken.discard(key)
        past = self._past.setdefault(key, _Past())
        self._due[key] = max(now + past.retry, self._not_before(key, now))
        past.retry = min(past.retry * 2, LONGEST_RETRY)

    def forget(self) -> None:
        """Let nothing be pending."""
        self._due.clear()

    def _not_before(self, key: str, now: int) -> int:
        """Return when a key may be looked at again."""
        past = self._past.get(key)
        if past is None or past.at is None:
            return now
        missing = max(0.0, 1 - past.tokens_at(now))
        return max(past.at + ECHO, now + int(missing * EVERY))
