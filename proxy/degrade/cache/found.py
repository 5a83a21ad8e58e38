"""What a question to the cache has brought, and what the answer says of it: `Age` and `Cache-Status`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from proxy.core.units import SECOND
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.entry import Entry
from proxy.wire.events import Field, Framing, ResponseHead
from proxy.wire.render import reason_phrase

_CACHE: Final = b"waterclock"
_STREAMS: Final = (b"text/event-stream", b"application/x-ndjson", b"application/jsonl")


class How(StrEnum):
    """How an answer was found. `hit`: for the same request, and fresh; `semantic`: for one that means the same."""

    HIT = "hit"
    STALE = "stale"
    SEMANTIC = "semantic"


class Found(NamedTuple):
    """A kept answer that may be given now. `age`: how old it is (nanoseconds); `fresh`: whether it is still fresh."""

    entry: Entry
    age: int
    fresh: bool
    how: How

    @property
    def ttl(self) -> int:
        """For how long it stays fresh (whole seconds, rounded down); negative once it is stale."""
        return (self.entry.fresh - self.age) // SECOND

    def field(self) -> bytes:
        """Return the value of `Cache-Status` (RFC 9211 §2): `waterclock; hit; ttl=30`, with `detail` unless it says all."""
        detail = b"" if self.how is How.HIT else b"; detail=" + self.how.encode()
        return b"%b; hit; ttl=%d%b" % (_CACHE, self.ttl, detail)

    def head(self) -> ResponseHead:
        """Return the head of the answer, as if it had come from upstream just now, with `Age` and `Cache-Status`.

        A stream is one again: what came without a length, to be read as it comes, has none now either.
        """
        entry = self.entry
        own = [(b"Age", b"%d" % (self.age // SECOND)), (b"Cache-Status", self.field())]
        framing, length = _framing(entry)
        if length is not None:
            own.append((b"Content-Length", b"%d" % length))
        fields: list[Field] = [(name.lower(), name, value) for name, value in (*entry.fields, *own)]
        index: dict[bytes, bytes] = {}
        for lower, _, value in fields:
            index[lower] = index[lower] + b", " + value if lower in index else value
        return ResponseHead(
            status=entry.status,
            reason=reason_phrase(entry.status),
            minor=1,
            fields=fields,
            index=index,
            framing=framing,
            length=length,
            options=frozenset(),
            keep_alive=True,
        )


def missed(asked: Asked) -> bytes:
    """Return the value of `Cache-Status` for an answer that is not from the cache, though the cache was there to be asked.

    `fwd=request`: the caller wants nothing that was kept (RFC 9211 §2.2).
    """
    return _CACHE + (b"; fwd=request" if asked.most_age == -1 else b"; fwd=miss")


def _framing(entry: Entry) -> tuple[Framing, int | None]:
    if entry.status == 204:
        return Framing.NO_BODY, None
    kind = next((value for name, value in entry.fields if name.lower() == b"content-type"), b"")
    if kind.lower().startswith(_STREAMS):
        return Framing.CHUNKED, None
    return Framing.LENGTH, len(entry.body)
