"""The timing of an opaque connection: bursts, found from the bytes alone.

A client's pool keeps such a connection open across jobs, so its age means nothing. A burst begins with the first
byte that the client sends after a quiet spell, and ends when the other side has spoken last and nothing has passed
for `quiet`. While the client waits for its answer there is no quiet, however long the silence.

Not every word of the other side is an answer. In TLS 1.3 a server sends session tickets of its own accord as soon as
the handshake is over, by which time the client has sent its first request (RFC 8446 §4.6.1), and HTTP/2 has its
settings. So in the first burst of such a connection the other side is taken to answer only with what it sends beyond
a `preamble`.
"""

from __future__ import annotations


class Bursts:
    """The state of one connection's bursts. Times are nanoseconds, `now` is always an argument."""

    __slots__ = ("_answered", "_owed", "_quiet", "count", "preamble", "started")

    def __init__(self, quiet: int) -> None:
        """Start in silence."""
        self._quiet = quiet
        self._answered: int | None = None  # None while the client waits
        self._owed = 0  # bytes that the other side sends before its word is an answer
        self.preamble = 0
        self.started: int | None = None
        self.count = 0

    def client_spoke(self, now: int) -> bool:
        """Take bytes from the client; return whether they begin a burst."""
        begins = not self.active(now)
        if begins:
            self.started = now
            self.count += 1
        self._answered = None
        self._owed = self.preamble if self.count == 1 else 0
        return begins

    def server_spoke(self, now: int, size: int) -> None:
        """Take `size` bytes from the other side."""
        self.active(now)  # a burst that quiet has ended must not be revived by a later word
        self._owed -= size
        if self._owed <= 0:
            self._answered = now

    def active(self, now: int) -> bool:
        """Say whether a burst is under way, ending one that has gone quiet."""
        if self._answered is not None and now - self._answered >= self._quiet:
            self.started = None
        return self.started is not None
