"""The service that knows what means the same (`waterclock cache`): asked within a time, told in the background, and done without.

What comes back is somebody else's word, and is read strictly: an answer is used only if it is a whole entry, similar enough
by its own saying, and not older than it may be. A service that is slow, gone or not what it should be is left alone for a
while (`breaker`), asking and telling each by itself.
"""

from __future__ import annotations

import base64
import json
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, Final

from proxy.core.degrading import CachePolicy, CacheUse
from proxy.core.policy import Connections
from proxy.core.target import Origin
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.upstream import Upstream
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.breaker import Breaker
from proxy.degrade.cache.entry import Entry, decode, encode
from proxy.degrade.cache.remote import Brought
from proxy.net.ask import Answer, Ask, Failure, Question
from proxy.net.connection import UpstreamConnection
from proxy.net.parent import authorization
from proxy.net.pool import Pool
from proxy.wire.render import line, request_head

MOST_TEXT: Final = 4_096
"""How many characters of text the service compares; nothing is asked about a longer one."""
MOST_PENDING: Final = 256
"""How many questions may be on their way; further ones bring nothing at once."""
MOST_TELLING: Final = 16
MOST_TELLING_BYTES: Final = 8 * 1024 * 1024
"""How much may be on its way to be kept; what comes on top of it is not kept there."""
TELLING_TIME: Final = SECOND
"""How long that may take for one answer (nanoseconds). No call waits for it."""

# What an encoded entry has beside what `entry_bytes` counts, and what an answer has beside the entry.
_ENTRY_ROOM: Final = 16_384
_ANSWER_ROOM: Final = 12 * MOST_TEXT + 4_096
_TOO_LARGE: Final = 413  # the text, in the form in which it is compared, or the answer: no fault of anybody's
_ROUNDING: Final = 1e-4
"""By how much a cosine may be more than 1."""


class SemanticClient:
    """The service, for one event loop. `failed` is called for each question and each entry that it fails."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Callable[[], int],
        pool: Pool,
        service: Upstream,
        policy: Callable[[], CachePolicy],
        connections: Callable[[], Connections],
        failed: Callable[[], None],
    ) -> None:
        """Connect to nothing yet. `connections` is asked for the parent proxy, where there is one on the way."""
        self._loop = loop
        self._clock = clock
        self._pool = pool
        self._origin = Origin(service.scheme, service.host, service.port)
        self._path = service.path
        self._policy = policy
        self._connections = connections
        self._failed = failed
        self._reads = Breaker()
        self._writes = Breaker()
        self._asking: set[_Search] = set()
        self._telling: dict[int, tuple[Ask, int]] = {}
        self._told = 0  # how many answers so far; the name of each that is on its way
        self._telling_bytes = 0
        self._closed = False

    # -- asked -----------------------------------------------------------------------------------------------------

    def find(
        self, asked: Asked, use: CacheUse, within: int, done: Callable[[Brought], None]
    ) -> Callable[[], None]:
        """Look for the answer to a question that means the same, for `within` nanoseconds at most. See `Remote`."""
        if (
            self._closed
            or use.semantic is None
            or asked.partition is None
            or not _compared(asked.text)
            or within <= 0
            or len(self._asking) >= MOST_PENDING
            or not self._reads.allows(self._clock())
        ):
            search = _Search(self, 0.0, within, done)
            self._loop.call_soon(search.answer, None)
            return search.withdraw
        search = _Search(self, use.semantic, within, done)
        self._asking.add(search)
        body = _object(partition=asked.partition, text=asked.text, threshold=use.semantic)
        most = (self._policy().entry_bytes + _ENTRY_ROOM) * 4 // 3 + _ANSWER_ROOM
        search.ask = self._ask("/v1/find", body, most, within, search.heard)
        return search.withdraw

    def heard(self, search: _Search, answer: Answer | Failure) -> None:
        """Take what a question has brought."""
        self._asking.discard(search)
        if answer is Failure.LATE:
            if self._reads.unanswered(self._clock(), search.within, self._policy().timeout):
                self._failed()
            search.answer(None)
            return
        brought: Brought = None
        try:
            brought = _brought(answer, search.threshold, self._policy().entry_bytes + _ENTRY_ROOM)
        except (ValueError, OverflowError, RecursionError):
            self._reads.failed(self._clock())
            self._failed()
        else:
            self._reads.succeeded()
        search.answer(brought)

    def withdrawn(self, search: _Search) -> None:
        """Take note that nobody waits for a question any more."""
        if search in self._asking:
            self._asking.discard(search)
            self._reads.withdrawn()

    # -- told ------------------------------------------------------------------------------------------------------

    def keep(self, asked: Asked, entry: Entry) -> None:
        """Keep an answer for questions that mean the same. See `Remote`."""
        partition, text = asked.partition, asked.text
        if (
            self._closed
            or partition is None
            or text is None
            or not _compared(text)
            or entry.size > self._policy().entry_bytes
            or len(self._telling) >= MOST_TELLING
            or self._telling_bytes + entry.size > MOST_TELLING_BYTES
            or not self._writes.allows(self._clock())
        ):
            return
        keep_ms = max(entry.kept // MILLISECOND, 1)
        head = _object(partition=partition, text=text, keep_ms=keep_ms)
        body = b'%b,"entry":"%b"}' % (head[:-1], base64.b64encode(encode(entry)))
        self._told += 1
        number = self._told
        ask = self._ask(
            "/v1/keep", body, _ANSWER_ROOM, TELLING_TIME, lambda answer: self._kept(number, answer)
        )
        self._telling[number] = (ask, len(body))
        self._telling_bytes += len(body)

    def _kept(self, number: int, answer: Answer | Failure) -> None:
        _, size = self._telling.pop(number)
        self._telling_bytes -= size
        if isinstance(answer, Answer) and (200 <= answer.status < 300 or answer.status == _TOO_LARGE):
            self._writes.succeeded()
        else:
            self._writes.failed(self._clock())
            self._failed()

    # -- both ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Break off what is going on. See `Remote`."""
        self._closed = True
        for search in self._asking:
            search.stop()
            self._loop.call_soon(search.answer, None)
        self._asking.clear()
        for ask, _ in self._telling.values():
            ask.cancel()
        self._telling.clear()
        self._telling_bytes = 0

    def _ask(
        self, path: str, body: bytes, most: int, within: int, done: Callable[[Answer | Failure], None]
    ) -> Ask:
        def render(connection: UpstreamConnection) -> bytes:
            return self._rendered(connection, self._path + path, body)

        question = Question(self._origin, "POST", render, most, within)
        return Ask(self._loop, self._clock, self._pool, question, done)

    def _rendered(self, connection: UpstreamConnection, path: str, body: bytes) -> bytes:
        """Return a request in the form that its connection takes: to the service, or to a parent proxy."""
        fields = [
            b"Host: %b\r\n" % str(self._origin).partition("://")[2].encode("latin-1"),
            b"Content-Type: application/json\r\n",
            b"Content-Length: %d\r\n" % len(body),
        ]
        parent = self._connections().proxy if connection.via_parent else None
        if parent is None:
            return request_head("POST", path, fields) + body
        credentials = authorization(parent)
        if credentials is not None:
            fields.append(line(b"Proxy-Authorization", credentials.encode()))
        return request_head("POST", f"{self._origin}{path}", fields) + body


class _Search:
    """One question, until answered or withdrawn."""

    __slots__ = ("_client", "_done", "ask", "threshold", "within")

    def __init__(
        self, client: SemanticClient, threshold: float, within: int, done: Callable[[Brought], None]
    ) -> None:
        self._client = client
        self._done: Callable[[Brought], None] | None = done
        self.threshold = threshold
        self.within = within
        self.ask: Ask | None = None

    def heard(self, answer: Answer | Failure) -> None:
        """Hand the answer to the client, who knows what to make of it."""
        self.ask = None
        self._client.heard(self, answer)

    def answer(self, brought: Brought) -> None:
        """Tell whoever asks."""
        done, self._done = self._done, None
        if done is not None:
            done(brought)

    def withdraw(self) -> None:
        """Ask no more, and tell nobody."""
        self._done = None
        self.stop()
        self._client.withdrawn(self)

    def stop(self) -> None:
        """Ask no more."""
        ask, self.ask = self.ask, None
        if ask is not None:
            ask.cancel()


def _compared(text: str | None) -> bool:
    """Say whether the service compares a text. Half of a surrogate pair has no UTF-8."""
    if text is None or not 0 < len(text) <= MOST_TEXT:
        return False
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _object(**members: Any) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()


def _brought(answer: Answer | Failure, threshold: float, most: int) -> Brought:
    """Return what an answer brings. Raises ValueError for what the service does not say, and for less than was asked for."""
    if isinstance(answer, Answer) and answer.status == _TOO_LARGE:
        return None
    if isinstance(answer, Failure) or answer.status != 200:
        raise ValueError("no answer to a question")
    said = json.loads(answer.body)
    match said:
        case {"found": False}:
            return None
        case {
            "found": True,
            "entry": str(encoded),
            "age_ms": int(age),
            "similarity": int() | float() as similarity,
        }:
            pass
        case _:
            raise ValueError("the service answers something else")
    if isinstance(age, bool) or age < 0 or isinstance(similarity, bool):
        raise ValueError("an age or a similarity is none")
    if (
        not threshold <= similarity <= 1 + _ROUNDING
    ):  # as they are: no whole number is too large for this, and NaN is never
        raise ValueError(f"the similarity is not from {threshold} to 1")
    entry = decode(base64.b64decode(encoded, validate=True), most)
    held = age * MILLISECOND
    if held > entry.kept:
        raise ValueError("an entry is kept for longer than it is of use")
    return entry, held
