"""Whether two texts may have one answer: what an embedding does not hear has to be the same in both.

An embedding says how much two texts are about the same. It takes "a table for two" and "a table for three" for nearly one
text, and "from Paris to London" and "from London to Paris" for exactly one. So numbers, days, negations, names and literals
are compared one by one, words that exclude one another may not stand against each other, and nothing may have changed places.
A pure function decides, and says why.

What is left are the words that only one of the texts has. Where only one has such words, it asks for more than the other.
Where both have, they may be two ways to say one thing, or not: that is for the embedding of those words alone to say.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from proxy.semantic.reading import grammar
from proxy.semantic.reading.facts import Facts, Item, bare

AGREED: Final = "agreed"
WORDS_DIFFER: Final = "words differ"
_SHORTEST_DENIED: Final = 3
"""A word shorter than this has no opposite with a prefix: `to` is not that of `into`."""


class Verdict(NamedTuple):
    """What a comparison has found.

    `why`: what differs, in a few words, or `agreed`. `asked` and `kept`: the words that only one of the texts has, both or
    neither of them empty; they agree only as far as these mean the same.
    """

    agrees: bool
    why: str
    asked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def agree(asked: Facts, kept: Facts) -> Verdict:
    """Compare what is asked with what was asked when an answer was kept. Which of them is which makes no difference."""
    for differ, why in _COMPARISONS:
        if differ(asked, kept):
            return Verdict(False, why)
    ours, theirs = _rest(asked, kept), _rest(kept, asked)
    if bool(ours) != bool(theirs) or not all(map(_is_latin, ours + theirs)):
        return Verdict(False, WORDS_DIFFER)
    return Verdict(True, AGREED, ours, theirs)


# -- one comparison each -----------------------------------------------------------------------------------------------


def _numbers(one: Facts, other: Facts) -> bool:
    return one.amounts != other.amounts


def _moments(one: Facts, other: Facts) -> bool:
    return one.moments != other.moments


def _negations(one: Facts, other: Facts) -> bool:
    return one.negations != other.negations


def _literals(one: Facts, other: Facts) -> bool:
    """Whether a quotation, an address, code or an identifier of one is nowhere in the other."""
    return _lacks(one, other) or _lacks(other, one)


def _lacks(one: Facts, other: Facts) -> bool:
    if any(each not in other.exact and f" {each} " not in other.text for each in one.exact):
        return True
    known = other.literals | {literal.casefold() for literal in other.exact}
    return any(each not in known and f" {each} " not in other.folded for each in one.literals)


def _names(one: Facts, other: Facts) -> bool:
    """Whether a name of one is nowhere in the other. What may be none counts only where both have one that does not fit."""
    if one.names - other.words or other.names - one.words:
        return True
    return bool(one.maybe_names - other.words) and bool(other.maybe_names - one.words)


def _units(one: Facts, other: Facts) -> bool:
    return one.units != other.units


def _questions(one: Facts, other: Facts) -> bool:
    return bool(one.questions - other.questions) and bool(other.questions - one.questions)


def _opposites(one: Facts, other: Facts) -> bool:
    """Whether one says more of a word, and the other more of what excludes it."""
    ours, theirs = one.poles - other.poles, other.poles - one.poles
    if any(
        axis == other_axis and pole != other_pole for axis, pole in ours for other_axis, other_pole in theirs
    ):
        return True
    return _denied(one, other) or _denied(other, one)


def _denied(one: Facts, other: Facts) -> bool:
    """Whether one has a word, and the other has it with a prefix that makes it its opposite."""
    new = other.words - one.words
    low, high = grammar.TOO_LITTLE, grammar.TOO_MUCH
    if any(word.startswith(low) and high + word.removeprefix(low) in new for word in one.words):
        return True
    return any(
        prefix + word in new
        for word in one.words - other.words
        if len(word) >= _SHORTEST_DENIED
        for prefix in grammar.DENYING_PREFIXES
    )


def _signs(one: Facts, other: Facts) -> bool:
    return one.signs != other.signs or one.symbols != other.symbols


def _order(one: Facts, other: Facts) -> bool:
    """Whether the same things have other parts: who does it, where from, how many of which."""
    return any(moved(one, other) for moved in (_swapped, _turned, _recounted, _resequenced, _changed_places))


def _swapped(one: Facts, other: Facts) -> bool:
    """Whether a thing stands under a preposition in one text, and another of its things in the other text."""
    keys, others = {item.key for item in one.items}, {item.key for item in other.items}
    ours, theirs = _by_role(one), _by_role(other)
    return any(
        (ours[role] - theirs[role]) & others and (theirs[role] - ours[role]) & keys
        for role in ours.keys() & theirs.keys()
    )


def _by_role(facts: Facts) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for item in facts.items:
        if item.role:
            found[item.role].add(item.key)
    return found


def _turned(one: Facts, other: Facts) -> bool:
    """Whether a thing stands under another of the prepositions that exclude one another: by five, to five."""
    ours, theirs = _directions(one), _directions(other)
    return any(ours[key].isdisjoint(theirs[key]) for key in ours.keys() & theirs.keys())


def _directions(facts: Facts) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for item in facts.items:
        if item.role in grammar.DIRECTIONS:
            found[item.key].add(item.role)
    return found


def _recounted(one: Facts, other: Facts) -> bool:
    """Whether two numbers count other things: two adults and a child, two children and an adult."""
    ours, theirs = _counts(one), _counts(other)
    keys, others = {item.key for item in one.items}, {item.key for item in other.items}
    changed = [
        key
        for key in ours.keys() & theirs.keys()
        if ours[key] != theirs[key] and ours[key] in others and theirs[key] in keys
    ]
    return len(changed) > 1


def _counts(facts: Facts) -> Mapping[str, str]:
    return {item.key: item.after for item in facts.items if item.after and item.key[:1].isdigit()}


def _resequenced(one: Facts, other: Facts) -> bool:
    """Whether names, numbers or literals that nothing binds to a place stand in another order: drop 5, keep 6."""
    ours, theirs = _unbound(one), _unbound(other)
    return [key for key in ours if key in theirs] != [key for key in theirs if key in ours]


def _unbound(facts: Facts) -> Mapping[str, Item]:
    """Return what stands in a text once, and is compared by itself, without a preposition or a list around it."""
    bound = {item.key for item in facts.items if item.role or item.joined or not item.fixed}
    often = Counter(item.key for item in facts.items)
    return {item.key: item for item in facts.items if item.key not in bound and often[item.key] == 1}


def _changed_places(one: Facts, other: Facts) -> bool:
    """Whether two of the things that both speak of have changed places around a third, as in: who invites whom."""
    shared = {item.key for item in one.items} & {item.key for item in other.items}
    ours = [item for item in one.items if item.key in shared]
    theirs = [item for item in other.items if item.key in shared]
    if len(ours) != len(shared) or len(theirs) != len(shared):
        return False
    moved = [at for at, (item, there) in enumerate(zip(ours, theirs, strict=True)) if item.key != there.key]
    if len(moved) != 2 or moved[1] - moved[0] < 2:
        return False
    return not any(side[at].role or side[at].joined for side in (ours, theirs) for at in moved)


def _rest(one: Facts, other: Facts) -> tuple[str, ...]:
    """Return the words that only one text has, as it has them."""
    keys = {item.key for item in other.items}
    return tuple(
        item.shown
        for item in one.items
        if not item.fixed and item.key not in keys and bare(item.shown.casefold()) not in other.words
    )


def _is_latin(word: str) -> bool:
    """Say whether a word is of Latin letters. Others are not read here, and many of them are not parted by spaces."""
    return all(unicodedata.name(char, "").startswith("LATIN") for char in word if char.isalpha())


_COMPARISONS: Final = (
    (_numbers, "numbers differ"),
    (_moments, "days or times differ"),
    (_negations, "negations differ"),
    (_literals, "literals differ"),
    (_names, "names differ"),
    (_units, "units differ"),
    (_questions, "questions differ"),
    (_opposites, "opposites"),
    (_signs, "signs differ"),
    (_order, "order differs"),
)
REASONS: Final = (*(why for _, why in _COMPARISONS), WORDS_DIFFER)
"""All that a verdict can say of texts that do not agree."""
