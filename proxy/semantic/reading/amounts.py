"""Numbers, with what they count: `two`, `2`, `1,000`, `15%`, `400mg`, `half an hour`, `the third`, `twice`.

Equal amounts are equal values: an hour and a half is 90 minutes, and a kilogram 1000 g. What cannot be read for certain is
its own text, which equals itself only: 1.000 is one to some and a thousand to others, and the version 3.10 is not 3.1.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, NamedTuple

from proxy.semantic.reading.numerals import NUMBERS, ORDINALS, decimal, in_digits, in_words, roman, scale_of
from proxy.semantic.reading.tokens import Form, Token
from proxy.semantic.reading.units import UNITS, Unit


class Amount(NamedTuple):
    """A number. `measure`: what is measured (`time`, `USD`, `ordinal`, `times`), empty for a bare one.

    `value` is in the measure's own unit, or the text of a number that cannot be read for certain.
    """

    value: Fraction | str
    measure: str = ""


class Read(NamedTuple):
    """An amount that begins at a token, and how many tokens it takes."""

    amount: Amount
    length: int


_TIMES: Final = {"once": 1, "einmal": 1, "twice": 2, "zweimal": 2, "thrice": 3, "dreimal": 3}
_TIMES_AFTER: Final = frozenset(("times", "mal", "fois", "veces"))
_HALVES: Final = frozenset(("half", "halbe", "halben", "demi", "demie", "media", "medio"))
_PARTS: Final = {"third": 3, "quarter": 4}
_BEFORE_FINER: Final = frozenset(("us", "degree", "degrees", "°", "grad"))
_FINER: Final = {
    **dict.fromkeys(("c", "celsius", "centigrade"), UNITS["celsius"]),
    **dict.fromkeys(("f", "fahrenheit"), UNITS["fahrenheit"]),
    **dict.fromkeys(("dollar", "dollars"), UNITS["dollars"]),
}
_PERCENT: Final = (("pour", "cent"), ("por", "ciento"), ("per", "cent"))
_ORDINAL: Final = re.compile(r"([0-9]{1,9})(?:st|nd|rd|th|er|ère|ème|e|º|ª)\Z")
_WITH_UNIT: Final = re.compile(r"([0-9]{1,40}(?:[.,][0-9]{1,40}){0,4})-?([^\W\d_]+)\Z")
_MULTIPLES: Final = {"k": 1_000, "m": 1_000_000}


def measured(value: Fraction | str, unit: Unit) -> Amount:
    """Return a number with its unit. One that cannot be read for certain is kept with the unit as it was written."""
    value = decimal(value)
    if isinstance(value, str):
        return Amount(value, unit.name)
    return Amount(value * unit.size, unit.measure)


def amount_at(tokens: list[Token], at: int, language: str) -> Read | None:
    """Return the amount that begins at a token, or None."""
    token = tokens[at]
    before = tokens[at - 1] if at else None
    if token.form is Form.MIXED:
        return _mixed(token, tokens, at)
    if token.form is Form.SIGN:
        return _money(tokens, at)
    if token.form is Form.NUMBER:
        return _with_unit(*_scaled(in_digits(token.text), tokens, at, 1), tokens, at)
    if token.form is not Form.WORD:
        return None
    counted = before is not None and (before.form is Form.NUMBER or before.fold in NUMBERS)
    if (number := roman(token, before)) is not None:
        return Read(Amount(Fraction(number), "ordinal"), 1)
    if token.fold in _PARTS and before is not None and before.fold in ("a", "one"):
        return Read(Amount(Fraction(1, _PARTS[token.fold])), 1)
    if token.fold in ORDINALS and not (token.fold == "second" and counted):
        return Read(Amount(Fraction(ORDINALS[token.fold]), "ordinal"), 1)
    if token.fold in _TIMES and not (token.fold == "once" and language == "es"):
        return Read(Amount(Fraction(_TIMES[token.fold]), "times"), 1)
    if token.fold in _HALVES:
        return _half(tokens, at)
    if token.fold == "single":
        return Read(Amount(Fraction(1)), 1)
    spelled = in_words(tokens, at)
    return None if spelled is None else _with_unit(*spelled, tokens, at)


def _fold(tokens: list[Token], at: int) -> str:
    return tokens[at].fold if 0 <= at < len(tokens) else ""


def _scaled(value: Fraction | str, tokens: list[Token], at: int, length: int) -> tuple[Fraction | str, int]:
    """Take a following `thousand` or `million` into a number in digits."""
    scale, plain = scale_of(_fold(tokens, at + length)), decimal(value)
    return (
        (plain * scale, length + 1) if scale is not None and isinstance(plain, Fraction) else (value, length)
    )


def _with_unit(value: Fraction | str, length: int, tokens: list[Token], at: int) -> Read:
    """Take the unit that stands after a number, and the minus before it."""
    if _is_negative(tokens, at):
        value = -value if isinstance(value, Fraction) else f"-{value}"
    after, following = _fold(tokens, at + length), _fold(tokens, at + length + 1)
    if after in _TIMES_AFTER:
        return Read(Amount(value, "times"), length + 1)
    if after in _BEFORE_FINER and following in _FINER:
        return Read(measured(value, _FINER[following]), length + 2)
    if (after, following) in _PERCENT:
        return Read(measured(value, UNITS["percent"]), length + 2)
    if after in UNITS and not (len(after) == 1 and tokens[at + length].text.isupper()):
        return Read(measured(value, UNITS[after]), length + 1)
    return Read(Amount(value), length)


def _is_negative(tokens: list[Token], at: int) -> bool:
    """Say whether a minus stands before a number, and no number before the minus, which would make it a range."""
    before, earlier = _fold(tokens, at - 1), tokens[at - 2].form if at > 1 else Form.STOP
    return before == "minus" or (before in ("-", "−") and earlier not in (Form.NUMBER, Form.MIXED))


def _money(tokens: list[Token], at: int) -> Read | None:
    """Return what a currency's sign and the number after it say: $50, €800, £1,000.50, $5k."""
    unit = UNITS.get(tokens[at].fold)
    if unit is None or tokens[at].fold in ("%", "°") or at + 1 >= len(tokens):
        return None
    number = tokens[at + 1]
    if number.form is Form.NUMBER:
        value, length = _scaled(in_digits(number.text), tokens, at + 1, 1)
        return Read(measured(value, unit), length + 1)
    match = _WITH_UNIT.match(number.fold)
    plain = decimal(in_digits(match[1])) if match is not None else ""
    if match is None or match[2] not in _MULTIPLES or isinstance(plain, str):
        return None
    return Read(measured(plain * _MULTIPLES[match[2]], unit), 2)


def _mixed(token: Token, tokens: list[Token], at: int) -> Read | None:
    """Return what digits with letters say: 3rd, 400mg, 10-year, 5k, 2x."""
    ordinal = _ORDINAL.match(token.fold)
    if ordinal is not None:
        return Read(Amount(Fraction(int(ordinal[1])), "ordinal"), 1)
    match = _WITH_UNIT.match(token.fold)
    if match is None:
        return None
    value, unit = in_digits(match[1]), match[2]
    plain = decimal(value)
    if unit == "k" and isinstance(plain, Fraction):
        return _with_unit(plain * 1_000, 1, tokens, at)
    if unit == "x":
        return Read(Amount(value, "times"), 1)
    return Read(measured(value, UNITS[unit]), 1) if unit in UNITS else None


def _half(tokens: list[Token], at: int) -> Read:
    """Return what a half is: of a unit (`half an hour`, `eine halbe Stunde`), or of something else."""
    for ahead in (1, 2):
        unit = UNITS.get(_fold(tokens, at + ahead))
        if unit is not None:
            return Read(measured(Fraction(1, 2), unit), ahead + 1)
    return Read(Amount(Fraction(1, 2)), 1)
