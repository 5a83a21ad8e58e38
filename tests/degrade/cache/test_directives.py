"""Cache-Control is read as RFC 9111 §5.2 writes it, and what cannot be read does no harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.degrade.cache.directives import MOST_SECONDS, directives, seconds


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (None, {}),
        (b"", {}),
        (b"no-store", {b"no-store": None}),
        (b"No-Store , MAX-AGE=5", {b"no-store": None, b"max-age": b"5"}),
        (b'max-age="5"', {b"max-age": b"5"}),
        (b"max-age = 5", {b"max-age": b"5"}),
        (b'private="set-cookie, x", max-age=5', {b"private": b"set-cookie, x", b"max-age": b"5"}),
        (b'x="no-store, no-cache"', {b"x": b"no-store, no-cache"}),
        (rb'x="a\"b", no-store', {b"x": rb"a\"b", b"no-store": None}),
        (b",, ,no-cache,,", {b"no-cache": None}),
        (b"max-age=60, max-age=5", {b"max-age": b"5"}),
        (b"max-age=5, max-age=60", {b"max-age": b"5"}),
        (b"max-age=5, max-age=x", {b"max-age": b"x"}),
        (b"max-age", {b"max-age": None}),
        (b"max-age=5 no-store", {b"max-age": b"5"}),
        (b'max-age=5"x", no-store', {b"max-age": b"5", b"x": None, b"no-store": None}),
        (b"=5, no-store", {b"no-store": None}),
    ],
)
def test_what_is_read(value: bytes | None, read: dict[bytes, bytes | None]) -> None:
    found = directives(value)
    assert {name: found.get(name) for name in read} == read
    assert b"no-store" in found or b"no-store" not in read


@pytest.mark.parametrize(
    ("argument", "number"),
    [
        (b"0", 0),
        (b"60", 60),
        (b"007", 7),
        (b"99999999999999999999999", MOST_SECONDS),
        (b"9999999999", MOST_SECONDS),
        (b"9" * 20_000, MOST_SECONDS),
        (b"-1", 0),
        (b"+1", 0),
        (b"1.5", 0),
        ("٣".encode(), 0),
        (b"", 0),
        (None, 0),
    ],
)
def test_seconds(argument: bytes | None, number: int) -> None:
    assert seconds(argument) == number


@given(st.binary(max_size=200))
def test_nothing_that_arrives_makes_it_fail(value: bytes) -> None:
    for argument in directives(value).values():
        assert 0 <= seconds(argument) <= MOST_SECONDS


@given(st.text(' ,;="\\abno-store', max_size=60))
def test_a_directive_that_stands_alone_is_always_seen(rest: str) -> None:
    assert b"no-store" in directives(b"no-store," + rest.encode())
