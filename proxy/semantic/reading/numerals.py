"""Numbers as they are written: in digits, in words, and in Roman digits after a name."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from proxy.semantic.reading.tokens import Form, Token

_SMALL: Final = """
zero null zéro cero|one eins uno één|two zwei zwo deux dos twee dois duas|three drei trois tres tre drie três
|four vier quatre cuatro quattro quatro|five fünf cinq cinco vijf|six sechs seis zes|seven sieben sept siete sette zeven sete
|eight acht huit ocho otto oito|nine neun neuf nueve nove negen|ten zehn dix diez dieci tien dez|eleven elf onze
|twelve zwölf douze doce|thirteen dreizehn treize trece|fourteen vierzehn quatorze catorce|fifteen fünfzehn quinze quince
|sixteen sechzehn seize dieciséis|seventeen siebzehn diecisiete|eighteen achtzehn dieciocho|nineteen neunzehn diecinueve
|twenty zwanzig vingt veinte
"""
_TENS: Final = """
thirty dreißig trente treinta|forty fourty vierzig quarante cuarenta|fifty fünfzig cinquante cincuenta
|sixty sechzig soixante sesenta|seventy siebzig septante setenta|eighty achtzig huitante ochenta|ninety neunzig nonante noventa
"""
_ORDINALS: Final = """
first erste ersten erster premier première primero primera|second zweite zweiten zweiter deuxième segunda
|third dritte dritten dritter troisième tercero tercera|fourth vierte vierten quatrième cuarto cuarta
|fifth fünfte fünften cinquième quinto quinta|sixth sechste sixième sexto|seventh siebte septième séptimo
|eighth achte huitième octavo|ninth neunte neuvième noveno|tenth zehnte dixième décimo|eleventh elfte onzième
|twelfth zwölfte douzième|thirteenth|fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth
"""


def _counted(text: str, first: int, step: int = 1) -> dict[str, int]:
    groups = text.casefold().split("|")
    return {word: first + step * at for at, group in enumerate(groups) for word in group.split()}


NUMBERS: Final = (
    _counted(_SMALL, 0) | _counted(_TENS, 30, 10) | dict.fromkeys(("dozen", "dutzend", "docena"), 12)
)
ORDINALS: Final = _counted(_ORDINALS, 1)
_HUNDREDS: Final = frozenset(("hundred", "hundert"))
_SCALES: Final = {
    **dict.fromkeys(("thousand", "tausend", "mille", "mil"), 1_000),
    **dict.fromkeys(("million", "millions", "mio", "millionen", "millones", "millón"), 1_000_000),
    **dict.fromkeys(
        ("billion", "billions", "milliarde", "milliarden", "milliard", "milliards"), 1_000_000_000
    ),
}
_JOINT: Final = frozenset(("and", "und", "et", "y"))
_HALF: Final = ("and", "a", "half")
_NO_NUMBER_AFTER: Final = frozenset(
    (
        "which",
        "this",
        "that",
        "each",
        "any",
        "another",
        "every",
        "some",
        "no",
        "the",
        "good",
        "does",
        "can",
        "is",
        "has",
    )
)
"""After these, `one` stands for a thing or for anybody."""
_GERMAN: Final = re.compile(
    r"(ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und(zwanzig|dreissig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig)\Z"
)
_ROMAN: Final = re.compile(r"(?=[IVX])(X{0,3})(IX|IV|V?I{0,3})\Z")
_ONES: Final = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
_WHOLE: Final = re.compile(r"0|[1-9][0-9]*")
_PARTED: Final = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]{1,2})?|[1-9][0-9]{0,2}(?:'[0-9]{3})+")
_PARTED_BY_POINTS: Final = re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]{1,2}")
_DECIMAL: Final = re.compile(r"-?[0-9]+[.,](?:[0-9]{1,2}|[0-9]{4,})")


def in_digits(text: str) -> Fraction | str:
    """Return the value of digits, or their own text where it is not certain.

    A comma or an apostrophe before three digits parts thousands. A point may do the same, or begin a fraction; and what
    surely is a decimal number is kept as it was written too, since it may be a version.
    """
    if _WHOLE.fullmatch(text):
        return Fraction(int(text))
    if _PARTED.fullmatch(text):
        return Fraction(text.replace(",", "").replace("'", ""))
    if _PARTED_BY_POINTS.fullmatch(text):
        return Fraction(text.replace(".", "").replace(",", "."))
    return text


def decimal(value: Fraction | str) -> Fraction | str:
    """Return the value of a number that is no version, as one with a unit is none."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return Fraction(value.replace(",", "."))
    return value


def scale_of(fold: str) -> int | None:
    """Return how much a word multiplies a number in digits by: `5 million`."""
    return _SCALES.get(fold)


def in_words(tokens: list[Token], at: int) -> tuple[Fraction, int] | None:
    """Return the number in words that begins at a token, and how many tokens it takes: `two hundred and fifty`."""
    if tokens[at].form is not Form.WORD or (
        tokens[at].fold == "one" and at and tokens[at - 1].fold in _NO_NUMBER_AFTER
    ):
        return None
    total, part, length = 0, -1, 0  # part: of the number below the next thousand; -1: nothing of it yet
    while at + length < len(tokens):
        fold = tokens[at + length].fold
        skip = 0
        if fold in _JOINT and part > 0 and at + length + 1 < len(tokens):
            tens = fold != "and" and part % 100 >= 20
            skip = 1 if part % 100 == 0 or tens else 0
            fold = tokens[at + length + skip].fold
        value = _word(fold)
        if value is not None and _may_follow(part, value):
            part = max(part, 0) + value
        elif part == 4 and fold in ("vingt", "vingts"):
            part = 80
        elif fold in _HUNDREDS and part < 10:
            part = 100 * abs(part)
        elif fold in _SCALES and not skip and part < 1_000:
            total, part = total + abs(part) * _SCALES[fold], 0
        else:
            break
        length += 1 + skip
    if not length:
        return None
    whole = Fraction(total + part)
    following = tuple(token.fold for token in tokens[at + length : at + length + 3])
    return (whole + Fraction(1, 2), length + 3) if following == _HALF else (whole, length)


def _may_follow(part: int, value: int) -> bool:
    """Say whether a number's next word may be this one."""
    if part <= 0:
        return True
    rest = part % 100
    return rest % 10 == 0 and rest != 10 and 0 < value < (20 if rest else 100)


def _word(fold: str) -> int | None:
    value = NUMBERS.get(fold)
    match = _GERMAN.match(fold) if value is None else None
    if match is None:
        return value
    return NUMBERS[match[2]] + (1 if match[1] == "ein" else NUMBERS[match[1]])


def roman(token: Token, before: Token | None) -> int | None:
    """Return the number of a king or a war: Roman digits after a name that does not begin the sentence."""
    if before is None or before.form is not Form.WORD or not before.capital or before.opens:
        return None
    match = _ROMAN.match(token.text)
    return None if match is None else 10 * len(match[1]) + _ONES.index(match[2])
