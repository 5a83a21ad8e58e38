"""Spans, sizes, numbers and words: what is read, what is refused, and what the refusal advises."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import parse
from proxy.config.faults import Refusal
from proxy.config.scalars import SIZES, SPANS
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from tests.config.said import faults

UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR}


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("10s", 10 * SECOND),
        ("250ms", 250 * MILLISECOND),
        ("5m", 5 * MINUTE),
        ("1h", HOUR),
        ("1.5s", 1500 * MILLISECOND),
        ("0.5h", 30 * MINUTE),
        ("0.000001ms", 1),
        ("007s", 7 * SECOND),
    ],
)
def test_span(text: str, span: int) -> None:
    """A number and a unit are whole nanoseconds."""
    assert SPANS.amount(text) == span


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 9), st.sampled_from([*UNITS]))
def test_span_is_exact(whole: int, fraction: int, digits: int, unit: str) -> None:
    """A decimal is read exactly or not at all, never rounded."""
    text = f"{whole}.{fraction:0{digits}d}{unit}"
    exact = (Fraction(text.removesuffix(unit))) * UNITS[unit]
    if exact.denominator == 1:
        assert SPANS.amount(text) == exact
    else:
        with pytest.raises(Refusal, match="finer than a nanosecond"):
            SPANS.amount(text)


@given(st.integers(1, 2**40))
def test_shown_size_is_read_back(amount: int) -> None:
    """What a fault shows of a size can be written into the file."""
    assert SIZES.amount(SIZES.show(amount)) == amount


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0B", 0),
        ("12B", 12),
        ("64KiB", 65536),
        ("1.5MiB", 1572864),
        ("1GiB", 2**30),
        ("2KB", 2000),
        ("3MB", 3 * 10**6),
    ],
)
def test_size(text: str, size: int) -> None:
    """Binary and decimal units are told apart."""
    assert SIZES.amount(text) == size


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10", '"10" has no unit; write 10s, 250ms, 5m or 1h'),
        ("-5s", '"-5s" is negative; write one like 250ms, 5m or 1h'),
        ("1m30s", '"1m30s" is not one number with one unit; write one like 250ms, 5m or 1h'),
        ("5 s", '"5 s" is not one number with one unit; write one like 250ms, 5m or 1h'),
        ("+5s", '"+5s" is not one number with one unit; write one like 250ms, 5m or 1h'),
        ("1e3s", '"1e3s" is not one number with one unit; write one like 250ms, 5m or 1h'),
        ("1_000ms", '"1_000ms" is not one number with one unit; write one like 250ms, 5m or 1h'),
        ("٣s", '"٣s" is not one number with one unit; write one like 250ms, 5m or 1h'),
        ("5sec", '"5sec" has an unknown unit; the units are h, m, s and ms'),
        ("5S", '"5S" has an unknown unit; the units are h, m, s and ms'),
        ("true", '"true" is not one number with one unit; write one like 250ms, 5m or 1h'),
        ("0.3ns", '"0.3ns" has an unknown unit; the units are h, m, s and ms'),
        ("0.0000001ms", '"0.0000001ms" is finer than a nanosecond; write fewer digits'),
        ("0s", '"0s" is less than 1ms; write 1ms to 2400h'),
        ("2401h", '"2401h" is more than 2400h; write 1ms to 2400h'),
        ("~", "has no value; write one, or take the key out"),
        ("", "has no value; write one, or take the key out"),
        ("[1s]", "a list stands where one value is expected; write one value"),
        ("{s: 1}", "a mapping stands where one value is expected; write one value"),
        ("!span 1s", 'has the tag "!span"; take the tag out'),
        ('"\\e[31m"', '"\\x1b[31m" is not one number with one unit; write one like 250ms, 5m or 1h'),
    ],
)
def test_refused_span(text: str, said: str) -> None:
    """A span that is almost right is a fault with a remedy, never a guess."""
    [fault] = faults(f"tunnel:\n  idle: {text}\n")
    assert str(fault) == f"waterclock.yaml:2: tunnel.idle: {said}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "writes: {fingerprint_bytes: 1Mi}",
            '"1Mi" has an unknown unit; the units are GiB, MiB, KiB, GB, MB, KB and B',
        ),
        ("writes: {fingerprint_bytes: 1024}", '"1024" has no unit; write 1024B, 512KiB, 1MiB or 2MB'),
        ("writes: {fingerprint_bytes: 0.5B}", '"0.5B" is finer than a byte; write fewer digits'),
        ("writes: {fingerprint_bytes: 2GiB}", '"2GiB" is more than 1GiB; write 0B to 1GiB'),
        ("budget: {depth: true}", '"true" is not a whole number; write decimal digits only'),
        ("budget: {depth: 0x10}", '"0x10" is not a whole number; write decimal digits only'),
        ("budget: {depth: 010}", '"010" is not a whole number; write decimal digits only'),
        ("budget: {depth: 1.0}", '"1.0" is not a whole number; write decimal digits only'),
        ("budget: {depth: -1}", '"-1" is negative; write decimal digits only'),
        ("budget: {depth: 1001}", '"1001" is more than 1000; write 0 to 1000'),
        ('budget: {depth: "4"}', '"4" is a text, because of its quotes; write it without quotes'),
        ("fallback: {propagate: yes}", '"yes" is neither true nor false; write true or false'),
        ('fallback: {propagate: "true"}', '"true" is a text, because of its quotes; write it without quotes'),
        ("mode: Enforce", '"Enforce" is not known here; write enforce or observe'),
        ("budget: {on_missing: deny}", '"deny" is not known here; write default, refuse or pass'),
        ("fallback: {effect: opaque}", '"opaque" is not known here; write auto, read, idempotent or write'),
        ('journal: {path: ""}', '"" is not the path of a file; write a path'),
        ('journal: {path: "a\\0b"}', '"a\\x00b" is not the path of a file; write a path'),
        ("answers: {shed: 200}", '"200" is less than 400; write 400 to 599'),
        ("answers: {shed: 600}", '"600" is more than 599; write 400 to 599'),
        (
            "answers: {cut: 408}",
            "408 makes clients send the call again by themselves; write another status from 400 to 599",
        ),
        ("tunnel: {ports: 443}", '"443" stands where a list is expected; write [443]'),
        ('tunnel: {allow: "*.a.com"}', '"*.a.com" stands where a list is expected; write ["*.a.com"]'),
        ("tunnel: {ports: {a: 1}}", "a mapping stands where a list is expected; write [first, second]"),
    ],
)
def test_refused_value(line: str, said: str) -> None:
    """Each kind of value refuses what is not of its kind."""
    [fault] = faults(line)
    assert f"{fault.problem}; {fault.remedy}" == said


def test_words_that_yaml_takes_for_others() -> None:
    """A name stays what was written: `on`, `no` and `1` are no truths and no numbers here."""
    policy = parse(
        "routes: [{name: on, match: {host: a}}, {name: no, match: {host: b}}, {name: 1, match: {host: c}}]"
    )
    assert [route.name for route in policy.routes] == ["on", "no", "1"]


def test_long_values_are_shown_short() -> None:
    """A fault is a line, whatever the file holds."""
    [fault] = faults(f"mode: {'x' * 10_000}")
    assert len(str(fault)) < 200


def test_paths_are_left_alone() -> None:
    """A path is kept as it is written; nobody looks whether it exists."""
    assert parse("journal: {path: nowhere/j.db}").journal.path == str(Path("nowhere/j.db"))
