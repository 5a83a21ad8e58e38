"""From known inputs to new ones: every format here is text with lines, words, numbers and brackets, more or less.

A change that keeps the form (another word in the place of a word, a line twice, a length that is off by one) gets further
into a reader than a flipped bit does, so there are more of them. All chance comes from the one generator that is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

# A string, a word or number, a run of white space, or one other octet.
_WORDS: Final = re.compile(rb'"(?:[^"\\\r\n]|\\.)*"|[A-Za-z0-9_.+-]+|\r\n|[ \t]+|[^A-Za-z0-9]', re.DOTALL)
_NUMBERS: Final = re.compile(rb"[0-9]+")
_NEWS: Final = re.compile(rb"[A-Za-z]+")

_OCTETS: Final = b"\x00\t\n\r \"',-.:;=[]{}\\%#\x7f\x80\xc3\xff\x0b\x1e0Aa"
_ODD_NUMBERS: Final = (
    b"0",
    b"1",
    b"-1",
    b"00",
    b"2147483648",
    b"9223372036854775808",
    b"18446744073709551616",
    b"999999999999999999999999",
    b"1e308",
    b"1e999",
    b"0x10",
    b"1_0",
    b"1.5",
    b"NaN",
    b"Infinity",
    b"\xd9\xa3",
)
_MOST_CHANGES: Final = 5
_MOST_REPEATS: Final = 64

Change = Callable[[bytes, Random, "Material"], bytes]


class Material:
    """What new inputs are made of: the tokens of the target, and its corpus so far."""

    def __init__(self, tokens: Sequence[bytes], corpus: Sequence[bytes]) -> None:
        self.tokens = tokens
        self.corpus = corpus


def mutated(data: bytes, rng: Random, material: Material, largest: int) -> bytes:
    """Make a new input from a known one, by one to five changes; no longer than `largest`."""
    for _ in range(min(_MOST_CHANGES, 1 + int(rng.expovariate(0.9)))):
        data = rng.choice(_CHANGES)(data, rng, material)
        if len(data) > 2 * largest:
            break
    return data[:largest]


def _flip(data: bytes, rng: Random, material: Material) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _octet(data: bytes, rng: Random, material: Material) -> bytes:
    at, over = rng.randint(0, len(data)), rng.randint(0, 1)
    octet = rng.randrange(256) if rng.random() < 0.3 else rng.choice(_OCTETS)
    return data[:at] + bytes([octet]) + data[at + over :]


def _cut_out(data: bytes, rng: Random, material: Material) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _twice(data: bytes, rng: Random, material: Material) -> bytes:
    start, end = _span(data, rng)
    times = rng.choice((1, 1, 1, 2, _MOST_REPEATS))
    return data[:end] + data[start:end] * times + data[end:]


def _stop(data: bytes, rng: Random, material: Material) -> bytes:
    return data[: rng.randint(0, len(data))]


def _token_in(data: bytes, rng: Random, material: Material) -> bytes:
    if not material.tokens:
        return _octet(data, rng, material)
    start, end = rng.choice(_words(data)) if data and rng.random() < 0.5 else (rng.randint(0, len(data)),) * 2
    return data[:start] + rng.choice(material.tokens) + data[end:]


def _word_for_word(data: bytes, rng: Random, material: Material) -> bytes:
    """Put a word of this input, or of another one, in the place of a word."""
    source = data if rng.random() < 0.5 else rng.choice(material.corpus)
    if not data or not source:
        return data
    start, end = rng.choice(_words(data))
    first, last = rng.choice(_words(source))
    return data[:start] + source[first:last] + data[end:]


def _word_out(data: bytes, rng: Random, material: Material) -> bytes:
    if not data:
        return data
    start, end = rng.choice(_words(data))
    return data[:start] + data[end:]


def _number(data: bytes, rng: Random, material: Material) -> bytes:
    """Change a number a little, or make an odd one of it."""
    numbers = [found.span() for found in _NUMBERS.finditer(data)]
    if not numbers:
        return _token_in(data, rng, material)
    start, end = rng.choice(numbers)
    if end - start > 18 or rng.random() < 0.4:
        new = rng.choice(_ODD_NUMBERS)
    else:
        new = b"%d" % max(0, int(data[start:end]) + rng.choice((-2, -1, 1, 2, 16)))
    return data[:start] + new + data[end:]


def _case(data: bytes, rng: Random, material: Material) -> bytes:
    words = [found.span() for found in _NEWS.finditer(data)]
    if not words:
        return data
    start, end = rng.choice(words)
    return data[:start] + data[start:end].swapcase() + data[end:]


def _lines(data: bytes, rng: Random, material: Material) -> bytes:
    """Double a line, leave one out, change two, or take one from another input."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at = rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        lines.insert(rng.randint(0, len(lines)), lines[at])
    elif what == 1:
        del lines[at]
    elif what == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        others = rng.choice(material.corpus).splitlines(keepends=True)
        if others:
            lines.insert(at, rng.choice(others))
    return b"".join(lines)


def _splice(data: bytes, rng: Random, material: Material) -> bytes:
    """Go on with the end of another input."""
    other = rng.choice(material.corpus)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def _after(data: bytes, rng: Random, material: Material) -> bytes:
    """Put another input behind this one: what follows on a connection."""
    return data + rng.choice(material.corpus)


def _words(data: bytes) -> list[tuple[int, int]]:
    return [found.span() for found in _WORDS.finditer(data)]


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice((1, 2, 4, 16, 64)))


_CHANGES: Final[tuple[Change, ...]] = (
    _flip,
    _octet,
    _octet,
    _cut_out,
    _twice,
    _stop,
    _token_in,
    _token_in,
    _token_in,
    _word_for_word,
    _word_for_word,
    _word_for_word,
    _word_out,
    _number,
    _number,
    _case,
    _lines,
    _lines,
    _splice,
    _after,
)
