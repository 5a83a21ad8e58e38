"""A text, taken apart from left to right: quotations, code, addresses, numbers, words and signs.

One expression does it, so that nothing is read twice: a number within a URL is no number of the text. Every part of it is
bounded, or takes one kind of character until another comes, so that the time it takes grows with the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from enum import Enum
from typing import Final, NamedTuple

MOST_CHARACTERS: Final = 4_096
"""A longer text takes too long to read; whoever is given one turns it away."""


class Form(Enum):
    """What a token is by its looks."""

    CODE = "code"
    QUOTE = "quote"
    ADDRESS = "address"
    DATE = "date"
    CLOCK = "clock"
    NUMBER = "number"
    MIXED = "mixed"
    WORD = "word"
    SIGN = "sign"
    STOP = "stop"


class Token(NamedTuple):
    """A piece of a text. `fold`: as it is compared; `opens`: a sentence begins with it, so that its capital says nothing."""

    form: Form
    text: str
    fold: str
    opens: bool = False

    @property
    def capital(self) -> bool:
        """Whether it is a word that begins with a capital."""
        return self.text[:1].isupper()

    @property
    def capitals(self) -> bool:
        """Whether it is an abbreviation in capitals (NASA, USD)."""
        return len(self.text) > 1 and self.text.isupper()


_PATTERNS: Final = (
    (Form.CODE, r"```[^`]{1,4000}```|`[^`\n]{1,400}`"),
    (
        Form.QUOTE,
        r"\"[^\"\n]{1,400}\"|“[^”“\n]{1,400}[”“]|„[^“”\n]{1,400}[“”]|«[^»\n]{1,400}»|(?<!\w)'[^'\n]{1,200}'(?!\w)",
    ),
    (Form.ADDRESS, r"[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s<>\"'`]+|www\.[^\s<>\"'`]+"),
    (Form.ADDRESS, r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){0,8}"),
    (Form.ADDRESS, r"(?<![\w/])(?:~|\.{1,2})?/[\w.@+*/-]*\w[\w.@+*/-]*|(?<!\w)[A-Za-z]:\\[^\s]+"),
    (Form.ADDRESS, r"(?<![\w-])--?[A-Za-z][\w-]*|(?<!\w)[@#][\w-]+"),
    (
        Form.DATE,
        r"(?<![\d.])[0-9]{4}-[0-9]{2}-[0-9]{2}(?!\d)|(?<![\d/])[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}(?![\d/])",
    ),
    (Form.DATE, r"(?<![\d.])[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}(?![\d.])"),
    (Form.CLOCK, r"(?<![\d:])[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?![\d:])|(?<!\w)[0-9]{1,2}h[0-9]{2}(?!\w)"),
    (
        Form.ADDRESS,
        r"(?<![\w.])v?[0-9]{1,9}(?:\.[0-9]{1,9}){2,8}[\w.-]*|(?<!\w)v[0-9]+(?:\.[0-9]+){0,8}(?!\w)",
    ),
    (Form.NUMBER, r"(?<![\w.,])[0-9]{1,40}(?:[.,'][0-9]{1,40}){0,8}(?!\w|[.,'][0-9]|-[^\W\d])"),
    (Form.MIXED, r"\w+(?:(?:[-.:]|::)\w+){0,16}(?:'\w+|[+#]{1,2}(?!\w))?"),
    (Form.SIGN, r"[+*/=<>^×÷≤≥≠%$€£¥°&|~−-]+"),
    (Form.STOP, r"[.!?…:;,()\[\]{}\n]"),
)
_ONE: Final = re.compile("|".join(f"(?P<p{at}>{pattern})" for at, (_, pattern) in enumerate(_PATTERNS)))
_FORMS: Final = {f"p{at}": form for at, (form, _) in enumerate(_PATTERNS)}

_APOSTROPHES: Final = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "`": "`", "–": "-", "—": "-", "‐": "-", "‑": "-"}
)
_SENTENCE_ENDS: Final = frozenset(".!?…:\n")
_ABBREVIATIONS: Final = frozenset(
    (
        "dr",
        "mr",
        "mrs",
        "ms",
        "prof",
        "st",
        "no",
        "nr",
        "vs",
        "etc",
        "approx",
        "tel",
        "mme",
        "sra",
        "am",
        "pm",
        "eg",
        "ie",
        "us",
        "uk",
    )
)
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?\Z")
_CAMEL: Final = re.compile(r"[^\W\d_]*[a-z][A-Z]")
_SYMBOLS: Final = frozenset(("So", "Sm", "Sk"))
_READ_SYMBOLS: Final = frozenset("°−`´¨")
_BITS: Final = re.compile(r"(\A|[0-9])([KMGT])b\Z")
_PATHS: Final = ("-", "~", "/", "./", "../")
_DOTTED_WORDS: Final = frozenset(("a.m", "p.m", "e.g", "i.e", "z.b", "u.s", "u.k", "d.h"))


def cleaned(text: str) -> str:
    """Return a text without what only looks different: other widths and apostrophes, invisible characters, more spaces."""
    text = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    text = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Co", "Cs", "Cn"))
    return re.sub(r"[^\S\n]+", " ", text).strip()


def symbols(text: str) -> Counter[str]:
    """Return how often a text has each of its symbols: emoji, arrows, operators, and digits above or below the line.

    Those that stand for words are not among them; they are read as what they stand for.
    """
    found = Counter(char for char in text if char > "\x7f" and _is_raised(char))
    found.update(
        char
        for char in unicodedata.normalize("NFKC", text)
        if unicodedata.category(char) in _SYMBOLS and char not in _READ_SYMBOLS
    )
    return found


def _is_raised(char: str) -> bool:
    return (
        unicodedata.decomposition(char).startswith(("<super>", "<sub>"))
        and not unicodedata.normalize("NFKC", char).isalpha()
    )


def tokens(text: str) -> list[Token]:
    """Return the tokens of a cleaned text."""
    found: list[Token] = []
    opens = True
    for match in _ONE.finditer(text):
        assert match.lastgroup is not None
        form, piece = _FORMS[match.lastgroup], match[0]
        if form is Form.STOP:
            opens = (
                opens
                or piece in "(["
                or (piece in _SENTENCE_ENDS and not (found and found[-1].fold in _ABBREVIATIONS))
            )
            found.append(Token(form, piece, piece))
            continue
        found += _as_tokens(form, piece, opens)
        if form is not Form.SIGN:
            opens = False
    return found


def _as_tokens(form: Form, piece: str, opens: bool) -> list[Token]:
    """Return the tokens of a match: a word with hyphens is several, unless it is an identifier."""
    if form is Form.CODE:
        inner = " ".join(piece.strip("`").split())
        return [Token(form, inner, inner, opens)]
    if form is Form.QUOTE:
        inner = " ".join(piece[1:-1].split()).strip(" .,!?")
        return [Token(form, inner, inner.casefold(), opens)]
    if form is Form.ADDRESS:
        piece = piece.rstrip(".,;:!?)")
        return [Token(form, piece, piece if _is_exact(piece) else piece.casefold(), opens)]
    if form is not Form.MIXED:
        return [Token(form, piece, piece.casefold(), opens)]
    if _is_identifier(piece):
        bare = piece.removesuffix("'s")
        return [Token(Form.MIXED, bare, bare if _is_exact(bare) else _folded(bare), opens)]
    if piece.casefold() in _DOTTED_WORDS:
        plain = piece.replace(".", "")
        return [Token(Form.WORD, plain, plain.casefold(), opens)]
    parts = re.split(r"[-.:]+", piece)
    return [Token(Form.WORD, part, _folded(part), opens and at == 0) for at, part in enumerate(parts) if part]


def _folded(piece: str) -> str:
    """Return a piece in small letters. Megabits are not megabytes."""
    return _BITS.sub(r"\1\2bit", piece).casefold()


def _is_exact(piece: str) -> bool:
    """Say whether capitals count in it: an option, a path, or a name in code. In hosts, versions and products they do not."""
    return piece.startswith(_PATHS) or "_" in piece or "::" in piece or piece[1:3] == ":\\"


def _is_identifier(piece: str) -> bool:
    """Whether a piece is a name that somebody has made: with digits, underscores, dots or capitals inside."""
    if _WORD.match(piece):
        return bool(_CAMEL.match(piece))
    if any(char.isdigit() or char in "_+#" for char in piece) or "::" in piece:
        return True
    return "." in piece and piece.casefold() not in _DOTTED_WORDS
