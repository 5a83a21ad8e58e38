"""What is kept outside comes back as it was, or not at all: the store is somewhere that others can write."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.degrade.cache.entry import (
    DIGEST_BYTES,
    MOST_FIELDS,
    MOST_SPAN,
    MOST_VARIES,
    Entry,
    decode,
    encode,
    is_kept,
)
from tests.degrade.cache.questions import kept

SPAN = st.integers(0, MOST_SPAN)
NAME = st.from_regex(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}", fullmatch=True).filter(
    lambda name: is_kept(name.lower())
)
VALUE = st.binary(max_size=30).map(
    lambda value: bytes(byte for byte in value if byte >= 0x20 and byte != 0x7F)
)
ENTRY = st.builds(
    Entry,
    status=st.sampled_from([200, 203]),
    fields=st.lists(st.tuples(NAME, VALUE), max_size=5).map(tuple),
    body=st.binary(max_size=200),
    age=SPAN,
    fresh=SPAN,
    stale=st.none() | SPAN,
    kept=SPAN,
    varies=st.lists(
        st.tuples(NAME.map(bytes.lower), st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES)), max_size=3
    ).map(tuple),
)


@given(ENTRY)
def test_what_is_encoded_comes_back(entry: Entry) -> None:
    assert decode(encode(entry)) == entry


@given(ENTRY, st.data())
def test_one_byte_less_or_more_is_no_entry(entry: Entry, data: st.DataObject) -> None:
    encoded = encode(entry)
    with pytest.raises(ValueError, match="entry"):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(ValueError, match="entry"):
        decode(encoded + b"x")


def is_sound(entry: Entry) -> bool:
    """Whether nothing in an entry could do harm in an answer."""
    bytes_of_fields = b"".join(name + value for name, value in entry.fields)
    return (
        entry.status in (200, 203, 204)
        and not any(byte in bytes_of_fields for byte in b"\r\n\0")
        and all(is_kept(name.lower()) for name, _ in entry.fields)
        and all(0 <= span <= MOST_SPAN for span in (entry.age, entry.fresh, entry.stale or 0, entry.kept))
    )


@given(st.binary(max_size=200) | st.binary(max_size=200).map(b"WCE\x01".__add__))
def test_any_bytes_are_an_entry_or_a_value_error(data: bytes) -> None:
    try:
        entry = decode(data)
    except ValueError:
        return
    assert is_sound(entry)
    assert encode(entry) == data


@given(ENTRY, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_an_entry_with_other_bytes_in_it_is_sound_or_a_value_error(
    entry: Entry, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(encode(entry))
    for at, byte in changes:
        data[at % len(data)] = byte
    try:
        changed = decode(bytes(data))
    except ValueError:
        return
    assert is_sound(changed)


HEAD = ">4sHqqqqHBI"
SECONDS = 10**9


def head(**changes: Any) -> bytes:
    """The head of an encoded entry without fields, and what is different in it."""
    values = {
        "magic": b"WCE\x01",
        "status": 200,
        "age": 0,
        "fresh": SECONDS,
        "stale": 0,
        "kept": SECONDS,
        "fields": 0,
        "varies": 0,
        "length": 0,
    } | changes
    return struct.pack(HEAD, *values.values())


def field(name: bytes, value: bytes) -> bytes:
    """One encoded field."""
    return struct.pack(">HH", len(name), len(value)) + name + value


def test_the_form_is_the_one_that_is_described() -> None:
    assert decode(head()) == kept(b"", fields=(), fresh=SECONDS, kept=SECONDS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"status":200}',
        b"WCE",
        b"WCE\x01",
        head(magic=b"WCE\x00"),
        head(magic=b"WCE\x02"),
        head(magic=b"wce\x01"),
        head(status=206),
        head(status=503),
        head(status=0),
        head(status=204, length=1) + b"x",
        head(age=-1),
        head(fresh=-5),
        head(stale=-2),
        head(kept=-1),
        head(kept=MOST_SPAN + 1),
        head(fresh=2**63 - 1),
        head(length=2**32 - 1),
        head(length=1),
        head(fields=65_535),
        head(fields=1),
        head(fields=1) + struct.pack(">HH", 65_535, 65_535) + b"x",
        head(fields=MOST_FIELDS + 1) + field(b"a", b"") * (MOST_FIELDS + 1),
        head(varies=MOST_VARIES + 1) + (b"\x00\x01a" + b"d" * DIGEST_BYTES) * (MOST_VARIES + 1),
        head(varies=1) + b"\x00\x01A" + b"d" * DIGEST_BYTES,
        head(varies=1) + b"\x00\x00" + b"d" * DIGEST_BYTES,
        head(varies=1) + b"\x00\x01a" + b"d",
        head(fields=1) + field(b"", b"x"),
        head(fields=1) + field(b"a b", b"x"),
        head(fields=1) + field(b"a:", b"x"),
        head(fields=1) + field(b"a\r\nb", b"x"),
        head(fields=1) + field(b"a" * 300, b"x"),
        head(fields=1) + field(b"a", b"x\r\nSet-Cookie: y"),
        head(fields=1) + field(b"a", b"x\ny"),
        head(fields=1) + field(b"a", b"\0"),
        head(fields=1) + field(b"a", b"\x7f"),
        *(
            head(fields=1) + field(name, b"x")
            for name in (
                b"Connection",
                b"Transfer-Encoding",
                b"Content-Length",
                b"Set-Cookie",
                b"Age",
                b"Upgrade",
                b"Budget-Outcome",
                b"BUDGET-DEGRADED",
                b"Proxy-Authenticate",
                b"WWW-Authenticate",
                b"Retry-After",
                b"X-RateLimit-Remaining",
                b"anthropic-ratelimit-tokens-remaining",
                b"Trailer",
            )
        ),
    ],
)
def test_a_poisoned_store_has_no_answers(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode(data)


def test_an_entry_over_the_bound_is_not_even_looked_at() -> None:
    encoded = encode(kept(b"x" * 1000))
    assert decode(encoded, len(encoded)) == kept(b"x" * 1000)
    with pytest.raises(ValueError, match="the most"):
        decode(encoded, len(encoded) - 1)


@pytest.mark.parametrize(
    "change",
    [
        {"status": 201},
        {"age": -1},
        {"kept": MOST_SPAN + 1},
        {"fields": ((b"Set-Cookie", b"x"),)},
        {"fields": ((b"A", b"\n"),)},
        {"fields": ((b"A", b"x" * 70_000),)},
        {"fields": ((b"A", b""),) * (MOST_FIELDS + 1)},
        {"varies": ((b"a", b"short"),)},
    ],
)
def test_nothing_is_written_that_would_not_be_read(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        encode(kept(**change))


def test_the_size_is_that_of_the_answer() -> None:
    assert kept(b"12345", fields=((b"A", b"123"), (b"BC", b""))).size == 11
