"""How much memory it takes to keep what was read of a text."""

from __future__ import annotations

from itertools import chain
from sys import getsizeof
from typing import Final

from proxy.semantic.reading.facts import Facts

_FACTS: Final = 400
"""Bytes of the object itself."""
_COUNTED: Final = 240
"""Bytes of one thing in a counter: an amount with its fraction."""
_ROUNDING: Final = 8
"""By how much an allocation is rounded up, as a rule."""


def weight(facts: Facts) -> int:
    """Return how many bytes what was read of a text takes, the text as it came not included.

    Most of them are strings, and many of these are in several places.
    """
    sets = (facts.words, facts.moments, facts.literals, facts.exact, facts.names, facts.maybe_names)
    counters = (facts.amounts, facts.questions, facts.poles, facts.units, facts.symbols)
    strings = chain(
        (facts.text, facts.folded), *sets, (part for item in facts.items for part in (item.key, item.shown))
    )
    once = {id(string): string for string in strings}
    return (
        _FACTS
        + sum(map(getsizeof, once.values()))
        + sum(map(getsizeof, (*sets, *counters, facts.signs, facts.items)))
        + sum(map(getsizeof, facts.items))
        + _ROUNDING * (len(once) + len(facts.items))
        + _COUNTED * sum(len(counter) for counter in counters)
    )
