"""An answer from the cache says so: `Age`, and `Cache-Status` in the very grammar of RFC 9211."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import SECOND
from proxy.degrade.cache.found import Found, How, missed
from proxy.wire.events import Framing
from proxy.wire.render import lines
from tests.degrade.cache.questions import header, kept, known

# RFC 9211 §2 as an item of RFC 9651: a token, then parameters whose values are tokens or integers.
TOKEN = r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*"
STATUS = re.compile(
    rf"{TOKEN}(?:; hit; ttl=-?[0-9]{{1,15}}(?:; detail={TOKEN})?|; fwd=(?:bypass|method|uri-miss|vary-miss|miss|request|stale|partial))"
)


@pytest.mark.parametrize(
    ("age", "how", "value"),
    [
        (0, How.HIT, b"waterclock; hit; ttl=60"),
        (59_100_000_000, How.HIT, b"waterclock; hit; ttl=0"),
        (60 * SECOND, How.STALE, b"waterclock; hit; ttl=0; detail=stale"),
        (472_000_000_000, How.STALE, b"waterclock; hit; ttl=-412; detail=stale"),
        (60_100_000_000, How.STALE, b"waterclock; hit; ttl=-1; detail=stale"),
        (10 * SECOND, How.SEMANTIC, b"waterclock; hit; ttl=50; detail=semantic"),
    ],
)
def test_what_is_said_of_a_hit(age: int, how: How, value: bytes) -> None:
    assert Found(kept(), age, age < 60 * SECOND, how).field() == value


def test_what_is_said_of_a_miss() -> None:
    assert missed(known()) == b"waterclock; fwd=miss"
    assert missed(known(fields=header(cache_control="no-cache"))) == b"waterclock; fwd=request"


@given(st.integers(0, 2**60), st.sampled_from(How))
def test_it_is_always_an_item_with_parameters(age: int, how: How) -> None:
    assert STATUS.fullmatch(Found(kept(), age, True, how).field().decode())
    assert STATUS.fullmatch(missed(known()).decode())


def test_the_head_is_that_of_an_answer_from_upstream() -> None:
    fields = ((b"Content-Type", b"application/json"), (b"Cache-Status", b"far; hit"), (b"X-A", b"1"))
    found = Found(kept(b"{ }", fields=fields), 2_900_000_000, True, How.HIT)
    head = found.head()
    assert (head.status, head.reason, head.framing, head.length) == (200, "OK", Framing.LENGTH, 3)
    assert lines(head.fields, frozenset()) == [
        b"Content-Type: application/json\r\n",
        b"Cache-Status: far; hit\r\n",
        b"X-A: 1\r\n",
        b"Age: 2\r\n",
        b"Cache-Status: waterclock; hit; ttl=57\r\n",
        b"Content-Length: 3\r\n",
    ]
    assert head.get(b"cache-status") == b"far; hit, waterclock; hit; ttl=57"


@pytest.mark.parametrize(
    "kind", [b"text/event-stream; charset=utf-8", b"Text/Event-Stream", b"application/x-ndjson"]
)
def test_a_recorded_stream_is_a_stream_again(kind: bytes) -> None:
    head = Found(kept(b"data: x\n\n", fields=((b"Content-Type", kind),)), 0, True, How.HIT).head()
    assert (head.framing, head.length, head.get(b"content-length")) == (Framing.CHUNKED, None, None)


def test_an_answer_without_content_has_no_length() -> None:
    head = Found(kept(b"", status=204, fields=()), 0, True, How.HIT).head()
    assert (head.framing, head.get(b"content-length")) == (Framing.NO_BODY, None)
