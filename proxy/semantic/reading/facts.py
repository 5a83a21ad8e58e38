"""What is compared of a text: read once, when it is kept or asked, and frozen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from proxy.semantic.reading import grammar, lexicon
from proxy.semantic.reading.amounts import Amount, amount_at
from proxy.semantic.reading.dates import moment_at
from proxy.semantic.reading.tokens import Form, Token, cleaned, symbols, tokens
from proxy.semantic.reading.units import COUNTED_UNITS, UNITS

_ELISION: Final = re.compile(r"\A(?:l|d|j|n|qu|c|s|m|t)'(?=\w)")
_MOST_CAPITALS: Final = 0.6
"""Where more of the words than this begin with a capital, capitals say nothing."""
_COUNTED_SIGNS: Final = frozenset("+*/=<>^×÷≤≥≠|&%")
_BRACKETS: Final = frozenset("()[]{}")
_I: Final = frozenset(("i", "i'm", "i'd", "i'll", "i've"))
_LETTERS: Final = frozenset(("s", "t", "d", "m", "n", "l", "j", "c"))
"""What an apostrophe leaves of a word."""
_LITERALS: Final = (Form.CODE, Form.QUOTE, Form.ADDRESS)
_MADE: Final = (Form.MIXED, Form.NUMBER, Form.CLOCK, Form.DATE)


class Item(NamedTuple):
    """One thing that a text speaks of: a name, a literal, an amount, a day, or a word that carries something.

    `key`: as it is compared; `role`: the preposition that it stands under, empty for none; `after`: the key of the next
    item, which is what an amount counts; `joined`: listed beside the one before; `fixed`: compared by itself already.
    """

    key: str
    shown: str
    role: str = ""
    after: str = ""
    joined: bool = False
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What a text says.

    `text`: the whole of it, its tokens between spaces; `folded`: the same in small letters; `words`: those of it. `exact`: literals in
    which capitals count. `maybe_names`: words with a capital that the beginning of a sentence may have given them.
    `poles`: how often it names each end of an axis of opposites. `symbols`: emoji, arrows, operators, and digits above or below the line.
    """

    text: str
    folded: str
    words: frozenset[str]
    amounts: Counter[Amount] = field(default_factory=Counter)
    moments: frozenset[str] = frozenset()
    literals: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    maybe_names: frozenset[str] = frozenset()
    negations: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    poles: Counter[tuple[int, int]] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    signs: tuple[str, ...] = ()
    symbols: Counter[str] = field(default_factory=Counter)
    items: tuple[Item, ...] = ()

    @property
    def matter(self) -> str:
        """The text without its form: what it speaks of, each word of it as it is compared."""
        return " ".join(item.key for item in self.items)


def read(text: str) -> Facts:
    """Return what a text says."""
    return _Reading(tokens(cleaned(text))).facts(symbols(text))


def language_of(pieces: Iterable[Token]) -> str:
    """Return the code of a text's language, by its commonest words; English where nothing tells."""
    folds = [piece.fold for piece in pieces]
    counts = {
        code: sum(fold in language.marks for fold in folds) for code, language in grammar.LANGUAGES.items()
    }
    return max(counts, key=lambda code: counts[code])


def stem(word: str) -> str:
    """Return a folded word without the ending of a plural, a past or a participle, as far as that is plain, synonyms as one."""
    word = lexicon.SYNONYMS.get(word, word)
    for ending, least, instead in grammar.ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least and not word.endswith("ss"):
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return lexicon.SYNONYMS.get(word, word)


def bare(fold: str) -> str:
    """Return a folded word without the ending of the possessive."""
    return fold.removesuffix("'s").removesuffix("'")


def _is_term(token: Token) -> bool:
    """Say whether it may be a part of a formula."""
    return token.form is Form.NUMBER or (token.form is Form.WORD and len(token.fold) == 1)


class _Reading:
    """One text, while it is being read."""

    def __init__(self, pieces: list[Token]) -> None:
        self._tokens = pieces
        self._code = language_of(pieces)
        self._language = grammar.LANGUAGES[self._code]
        words = [token for token in pieces if token.form is Form.WORD and len(token.text) > 1]
        self._shouts = len(words) > 3 and sum(word.capital for word in words) > _MOST_CAPITALS * len(words)
        self._amounts: list[Amount] = []
        self._moments: set[str] = set()
        self._literals: set[str] = set()
        self._exact: set[str] = set()
        self._names: set[str] = set()
        self._maybe: set[str] = set()
        self._poles: list[tuple[int, int]] = []
        self._questions: list[str] = []
        self._units: list[str] = []
        self._signs: list[str] = []
        self._items: list[Item] = []

    def facts(self, symbols: Counter[str]) -> Facts:
        """Read it. `symbols`: those of the text as it was written."""
        at = 0
        while at < len(self._tokens):
            at += self._take(at)
        said = [token for token in self._tokens if token.form is not Form.STOP]
        folds = [token.fold for token in said]
        return Facts(
            text=f" {' '.join(token.text for token in said)} ",
            folded=f" {' '.join(folds)} ",
            words=frozenset(
                form for fold in folds for form in (fold, bare(fold), bare(_ELISION.sub("", fold)))
            ),
            amounts=Counter(self._amounts),
            moments=frozenset(self._moments),
            literals=frozenset(self._literals),
            exact=frozenset(self._exact),
            names=frozenset(self._names),
            maybe_names=frozenset(self._maybe),
            negations=self._negations(),
            questions=Counter(self._questions),
            poles=Counter(self._poles),
            units=Counter(self._units),
            signs=tuple(self._signs),
            symbols=symbols,
            items=tuple(
                [item._replace(after=following.key) for item, following in pairwise(self._items)]
                + self._items[-1:]
            ),
        )

    def _take(self, at: int) -> int:
        """Take what begins at a token, and return how many tokens that is."""
        token = self._tokens[at]
        if token.form is Form.STOP:
            if token.text in _BRACKETS and any(map(_is_term, self._around(at))):
                self._signs.append(token.text)
            return 1
        if token.form in _LITERALS:
            return self._literal(at, token)
        moment = moment_at(self._tokens, at, self._code)
        if moment is not None:
            self._moments.add(moment.key)
            return self._item(at, moment.key, moment.length, role="when")
        amount = amount_at(self._tokens, at, self._code)
        if amount is not None:
            self._amounts.append(amount.amount)
            return self._item(at, f"{amount.amount.value} {amount.amount.measure}".strip(), amount.length)
        if token.form in _MADE:
            return self._literal(at, token)
        return self._sign(at, token) if token.form is Form.SIGN else self._word(at, token)

    def _item(self, at: int, key: str, length: int = 1, *, fixed: bool = True, role: str = "") -> int:
        """Take note of a thing, with the preposition that it stands under; what is listed beside another shares its.

        `role`: the part that it has under none.
        """
        preposition, joined = self._role(at)
        if joined and self._items:
            preposition = self._items[-1].role
        role = preposition or role
        self._items.append(Item(key, self._tokens[at].text, role, joined=joined, fixed=fixed))
        return length

    def _role(self, at: int) -> tuple[str, bool]:
        """Return the preposition before a token, past articles, and whether it is listed beside the item before it."""
        before = at - 1
        while before >= 0 and self._tokens[before].fold in self._language.articles:
            before -= 1
        fold = self._tokens[before].fold if before >= 0 else ""
        if fold in grammar.JOINING:
            return "", True
        return self._language.prepositions.get(fold, ""), False

    def _literal(self, at: int, token: Token) -> int:
        exact = token.form is Form.CODE or token.fold != token.fold.casefold()
        (self._exact if exact else self._literals).add(token.fold)
        return self._item(at, token.fold)

    def _sign(self, at: int, token: Token) -> int:
        if token.fold in UNITS and UNITS[token.fold].measure not in COUNTED_UNITS:
            self._units.append(UNITS[token.fold].name)
        around = self._around(at)
        if any(each.form in (Form.NUMBER, Form.CODE) or len(each.fold) == 1 for each in around):
            self._signs += [sign for sign in token.text if sign in _COUNTED_SIGNS]
        return 1

    def _around(self, at: int) -> list[Token]:
        return [self._tokens[place] for place in (at - 1, at + 1) if 0 <= place < len(self._tokens)]

    def _word(self, at: int, token: Token) -> int:
        fold = _ELISION.sub("", token.fold)
        pair = f"{fold} {self._tokens[at + 1].fold}" if at + 1 < len(self._tokens) else ""
        if pair in grammar.QUESTIONS:
            self._questions.append(grammar.QUESTIONS[pair])
            return 2
        if fold in grammar.QUESTIONS:
            self._questions.append(grammar.QUESTIONS[fold])
            return 1
        if pair in grammar.EMPTY_PHRASES:
            return 2
        self._poles += lexicon.OPPOSITES.get(pair) or lexicon.OPPOSITES.get(fold, ())
        if pair in lexicon.PHRASES:
            word = lexicon.PHRASES[pair]
            self._poles += (*lexicon.OPPOSITES.get(word, ()), *lexicon.OPPOSITES.get(pair.split()[1], ()))
            return self._item(at, stem(word), 2, fixed=False)
        unit = UNITS.get(fold)
        if unit is not None and unit.measure not in COUNTED_UNITS and len(fold) > 2:
            self._units.append(unit.name)
            return self._item(at, unit.name)
        if fold in grammar.NEGATIONS:
            return 1
        if self._is_name(at, token):
            if not token.opens:
                self._names.add(bare(fold))
                return self._item(at, bare(fold))
            self._maybe.add(bare(fold))  # and where only one text has it, it asks for more, as other words do
            return self._item(at, stem(bare(fold)), fixed=False)
        if fold not in self._language.form and fold not in _LETTERS:
            return self._item(at, stem(bare(fold)), fixed=False)
        return 1

    def _is_name(self, at: int, token: Token) -> bool:
        """Say whether a word is a name, by its capital.

        German writes every noun with one: there it is a name after a preposition without an article, or another name.
        """
        if not token.capital or self._shouts or token.fold in _I:
            return False
        if token.opens:
            return token.fold not in grammar.OPENERS and self._code != "de"
        if self._code == "de" and not token.capitals:
            before = self._tokens[at - 1]
            return before.fold in grammar.BEFORE_GERMAN_NAMES or (before.capital and not before.opens)
        return True

    def _negations(self) -> int:
        """Return how often the text denies. The two halves of a French denial count once."""
        folds: list[str] = []
        for token in self._tokens:
            if token.form is Form.WORD:
                elided = _ELISION.match(token.fold)
                folds += [token.fold] if elided is None else [elided[0][:-1], token.fold[elided.end() :]]
        if self._code != "fr":
            return sum(fold in grammar.NEGATIONS for fold in folds)
        first, second = (sum(fold in half for fold in folds) for half in grammar.FRENCH_HALVES)
        alone = sum(fold in grammar.NEGATIONS and fold not in grammar.FRENCH_HALVES[1] for fold in folds)
        return alone + (max(first, second) if first else sum(fold == "pas" for fold in folds))
