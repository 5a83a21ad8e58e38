"""A kept answer, and the bytes it becomes outside this process.

Those bytes come back from a store that others can write to. What is not exactly what `encode` writes is no entry: it is a
ValueError, and the call goes on as if nothing had been found. The form has a version, so that pods of two versions can
share a store; neither reads what it does not know.

    magic "WCE", version 1, then big-endian: status u16; age, fresh, stale, kept i64 (nanoseconds; stale -1: never);
    number of fields u16, of varies u8; length of the body u32
    each field: length of the name u16, of the value u16, name, value
    each vary:  length of the name u16, name, 16 bytes of digest
    the body, and nothing after it
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final

from proxy.core.units import HOUR
from proxy.wire.fields import HOP_BY_HOP

MOST_SPAN: Final = 365 * 24 * HOUR
"""Spans beyond this are taken for this."""
MOST_FIELDS: Final = 256
MOST_NAME: Final = 256
MOST_VALUE: Final = 0xFFFF
MOST_VARIES: Final = 16
MOST_BYTES: Final = 64 * 1024 * 1024
"""How long an entry may be in its encoded form, whoever asks for it."""
DIGEST_BYTES: Final = 16
KEPT_STATUSES: Final = frozenset({200, 203, 204})
"""Whole answers that mean the same at any time. A 206 is a part, 201, 202 and 205 tell of something that happened once."""

# Beside what ends at this hop: what frames a message, is counted anew for each answer, is said by this hop, proves who
# somebody is, or tells of the moment in which it was sent.
_UNKEPT: Final = HOP_BY_HOP | {
    b"age",
    b"authentication-info",
    b"clear-site-data",
    b"content-length",
    b"proxy-status",
    b"retry-after",
    b"server-timing",
    b"set-cookie",
    b"set-cookie2",
    b"trailer",
    b"www-authenticate",
    b"x-should-retry",
    b"stripe-should-retry",
}
_UNKEPT_FAMILIES: Final = re.compile(rb"budget-|(?:[a-z]+-){0,2}rate-?limit(?:-|\Z)")

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_LOWER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+\Z")
_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*\Z")

_MAGIC: Final = b"WCE\x01"
_HEAD: Final = struct.Struct(">4sHqqqqHBI")
_LENGTHS: Final = struct.Struct(">HH")
_LENGTH: Final = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class Entry:
    """A whole answer as it is kept. Spans are nanoseconds.

    `fields`: name as received, and value, without those that are not kept. `age`: how old it was when it was kept.
    `fresh`: up to which age it is fresh (RFC 9111 §4.2). `stale`: how long after that it says itself that it may serve in
    place of an error (RFC 5861 §4); None: never, whatever a route says. `kept`: how long it is of use to anybody, from its
    keeping on. `varies`: the request fields that it depends on, in lower case, and a digest of what the request had there
    (RFC 9111 §4.1).
    """

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    age: int
    fresh: int
    stale: int | None
    kept: int
    varies: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def size(self) -> int:
        """How many bytes the answer itself has, body and fields: what `entry_bytes` bounds."""
        return len(self.body) + sum(len(name) + len(value) for name, value in self.fields)


def is_kept(name: bytes) -> bool:
    """Say whether a response field of this name (in lower case) is kept with an answer."""
    return name not in _UNKEPT and _UNKEPT_FAMILIES.match(name) is None


def check(entry: Entry) -> None:
    """Raise ValueError for what no answer of this cache has: it could end a field, frame a message, or live for ever."""
    if entry.status not in KEPT_STATUSES or (entry.status == 204 and entry.body):
        raise ValueError(
            f"an answer of status {entry.status} with {len(entry.body)} bytes is none that is kept"
        )
    spans = (entry.age, entry.fresh, entry.stale or 0, entry.kept)
    if min(spans) < 0 or max(spans) > MOST_SPAN:
        raise ValueError(f"a span is out of range (0 to {MOST_SPAN} ns): {spans}")
    if len(entry.fields) > MOST_FIELDS or len(entry.varies) > MOST_VARIES:
        raise ValueError(f"{len(entry.fields)} fields, varying by {len(entry.varies)}, are too many")
    for name, value in entry.fields:
        if not (len(name) <= MOST_NAME and _TOKEN.match(name) and is_kept(name.lower())):
            raise ValueError(f"{name[:80]!r} is no field that is kept")
        if not (len(value) <= MOST_VALUE and _VALUE.match(value)):
            raise ValueError(f"the value of {name!r} is none that a field can have")
    for name, digest in entry.varies:
        if not (len(name) <= MOST_NAME and _LOWER.match(name) and len(digest) == DIGEST_BYTES):
            raise ValueError(f"{name[:80]!r} is nothing that an answer varies by")
    if len(entry.body) > MOST_BYTES:
        raise ValueError(f"a body of {len(entry.body)} bytes, where {MOST_BYTES} are the most")


def encode(entry: Entry) -> bytes:
    """Return the bytes of an entry. Raises ValueError for one that `decode` would not read."""
    check(entry)
    parts = [
        _HEAD.pack(
            _MAGIC,
            entry.status,
            entry.age,
            entry.fresh,
            -1 if entry.stale is None else entry.stale,
            entry.kept,
            len(entry.fields),
            len(entry.varies),
            len(entry.body),
        )
    ]
    for name, value in entry.fields:
        parts += (_LENGTHS.pack(len(name), len(value)), name, value)
    for name, digest in entry.varies:
        parts += (_LENGTH.pack(len(name)), name, digest)
    parts.append(entry.body)
    return b"".join(parts)


def decode(data: bytes, most: int = MOST_BYTES) -> Entry:
    """Return the entry that these bytes are. Raises ValueError with what is wrong when they are none, or over `most` bytes."""
    if len(data) > most:
        raise ValueError(f"an entry of {len(data)} bytes, where {most} are the most")
    if data[:3] != _MAGIC[:3] or len(data) < _HEAD.size:
        raise ValueError("no entry of this cache")
    if data[:4] != _MAGIC:
        raise ValueError(f"an entry of version {data[3]}, where {_MAGIC[3]} is read")
    _, status, age, fresh, stale, kept, fields, varies, length = _HEAD.unpack_from(data)
    reader = _Reader(data, _HEAD.size)
    entry = Entry(
        status=status,
        fields=reader.fields(fields),
        varies=reader.varies(varies),
        body=reader.rest(length),
        age=age,
        fresh=fresh,
        stale=None if stale == -1 else stale,
        kept=kept,
    )
    check(entry)
    return entry


class _Reader:
    """Takes bytes one after another, and never more than there are."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def fields(self, count: int) -> tuple[tuple[bytes, bytes], ...]:
        fields = []
        for _ in range(count):
            name, value = _LENGTHS.unpack(self._take(_LENGTHS.size))
            fields.append((self._take(name), self._take(value)))
        return tuple(fields)

    def varies(self, count: int) -> tuple[tuple[bytes, bytes], ...]:
        varies = []
        for _ in range(count):
            (name,) = _LENGTH.unpack(self._take(_LENGTH.size))
            varies.append((self._take(name), self._take(DIGEST_BYTES)))
        return tuple(varies)

    def rest(self, length: int) -> bytes:
        if len(self._data) - self._at != length:
            raise ValueError("the body of an entry is not as long as the entry says")
        return self._data[self._at :]

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) != length:
            raise ValueError("an entry ends in its middle")
        self._at += length
        return taken
