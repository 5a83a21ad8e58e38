"""Readers of single values: spans of time, sizes, numbers, words. Strict, since a misread limit is a broken promise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from proxy.config.faults import Refusal, listed, quoted
from proxy.config.reading import Reader, Scalar, scalar
from proxy.config.shape import Form, Shape
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND

LONGEST: Final = 2400 * HOUR  # what still fits into the ten digits of a `Budget-Remaining-Ms`
LARGEST: Final = 1024**3

_QUANTITY: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,15}))?([A-Za-zµ]*)\Z")
_WHOLE: Final = re.compile(r"(?:0|[1-9][0-9]{0,15})\Z")
_DECIMAL: Final = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,9})?\Z")
_MAX_TEXT: Final = 4096


@dataclass(frozen=True, slots=True)
class Scale:
    """A measure: its units, the largest first and the finest last, and how a value may look."""

    units: Mapping[str, int]
    examples: str
    usual: str  # the unit that was probably meant by a number without one
    finest: str

    def show(self, amount: int) -> str:
        """Return an amount in the largest unit that it is a whole number of."""
        for name, size in self.units.items():
            if amount and amount % size == 0:
                return f"{amount // size}{name}"
        return f"{amount / self.units[self.usual]:g}{self.usual}"

    def amount(self, text: str) -> int:
        """Return the amount that a text states, in whole nanoseconds or bytes. Raises Refusal."""
        match = _QUANTITY.match(text)
        if match is None:
            what = "is negative" if text.startswith("-") else "is not one number with one unit"
            raise Refusal(f"{quoted(text)} {what}", f"write one like {self.examples}")
        whole, fraction, unit = match[1], match[2] or "", match[3]
        if not unit:
            raise Refusal(f"{quoted(text)} has no unit", f"write {text}{self.usual}, {self.examples}")
        if unit not in self.units:
            known = listed([*self.units], "and")
            raise Refusal(f"{quoted(text)} has an unknown unit", f"the units are {known}")
        divisor: int = 10 ** len(fraction)
        amount, rest = divmod(int(whole + fraction) * self.units[unit], divisor)
        if rest:
            raise Refusal(f"{quoted(text)} is finer than {self.finest}", "write fewer digits")
        return amount


SPANS: Final = Scale(
    {"h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND},
    examples="250ms, 5m or 1h",
    usual="s",
    finest="a nanosecond",
)
SIZES: Final = Scale(
    {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024, "GB": 1000**3, "MB": 1000**2, "KB": 1000, "B": 1},
    examples="512KiB, 1MiB or 2MB",
    usual="B",
    finest="a byte",
)


def _between(
    low: int, high: int, parse: Callable[[str], int], show: Callable[[int], str]
) -> Callable[[str], int]:
    """Return a reader of text that refuses what is out of a range, both ends of which are in it."""

    def read(text: str) -> int:
        number = parse(text)
        if low <= number <= high:
            return number
        bound = f"less than {show(low)}" if number < low else f"more than {show(high)}"
        raise Refusal(f"{quoted(text)} is {bound}", f"write {show(low)} to {show(high)}")

    return read


def duration(low: int = 0, high: int = LONGEST) -> Scalar:
    """Return the reader of a span of time, in nanoseconds, from `low` to `high`: `1.5s`, `250ms`, `5m`, `1h`."""
    return scalar(_between(low, high, SPANS.amount, SPANS.show), Shape(Form.SPAN, low=low, high=high))


def size(low: int = 0, high: int = LARGEST) -> Scalar:
    """Return the reader of a size, in bytes, from `low` to `high`: `512KiB`, `1MiB`, `2MB`."""
    return scalar(_between(low, high, SIZES.amount, SIZES.show), Shape(Form.SIZE, low=low, high=high))


def _whole(text: str) -> int:
    if not _WHOLE.match(text):
        what = "is negative" if text.startswith("-") else "is not a whole number"
        raise Refusal(f"{quoted(text)} {what}", "write decimal digits only")
    return int(text)


def integer(low: int, high: int) -> Scalar:
    """Return the reader of a whole number from `low` to `high`."""
    return scalar(_between(low, high, _whole, str), Shape(Form.NUMBER, low=low, high=high), quotes=False)


def fraction(low: int, high: int) -> Scalar:
    """Return the reader of a number from `low` to `high` that may have decimals."""

    def read(text: str) -> float:
        if not _DECIMAL.match(text):
            what = "is negative" if text.startswith("-") else "is not a number"
            raise Refusal(f"{quoted(text)} {what}", "write one like 0.92")
        if not low <= float(text) <= high:
            bound = f"less than {low}" if float(text) < low else f"more than {high}"
            raise Refusal(f"{quoted(text)} is {bound}", f"write {low} to {high}")
        return float(text)

    return scalar(read, Shape(Form.FRACTION, low=low, high=high), quotes=False)


def one_of(words: Mapping[str, Any]) -> Reader:
    """Return the reader of one of these words, which gives what stands beside it."""

    def read(text: str) -> Any:
        if text not in words:
            raise Refusal(f"{quoted(text)} is not known here", f"write {listed([*words])}")
        return words[text]

    return scalar(read, Shape(words=tuple(words)))


def member(of: type[StrEnum]) -> Reader:
    """Return the reader of one of an enumeration's words."""
    return one_of({one.value: one for one in of})


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise Refusal(f"{quoted(text)} is neither true nor false", "write true or false")
    return text == "true"


boolean: Final = scalar(_truth, Shape(Form.TRUTH), quotes=False)


def _path(text: str) -> str:
    if not text or len(text) > _MAX_TEXT or not text.isprintable():
        raise Refusal(f"{quoted(text)} is not the path of a file", "write a path")
    return text


path: Final = scalar(_path, Shape(longest=_MAX_TEXT, never=("",)))


# Statuses that would make a client act by itself, or that promise a header which the sidecar does not send.
_UNFIT_STATUSES: Final = {
    401: "asks for credentials",
    405: "must name the methods that are allowed",
    407: "asks for the credentials of a proxy",
    408: "makes clients send the call again by themselves",
    417: "makes clients send the call again without Expect",
    421: "makes clients send the call again on another connection",
    425: "makes clients send the call again by themselves",
    426: "asks for another protocol",
}


def _status(text: str) -> int:
    number = _between(400, 599, _whole, str)(text)
    if number in _UNFIT_STATUSES:
        raise Refusal(f"{number} {_UNFIT_STATUSES[number]}", "write another status from 400 to 599")
    return number


status: Final = scalar(
    _status, Shape(Form.NUMBER, low=400, high=599, never=tuple(_UNFIT_STATUSES)), quotes=False
)
