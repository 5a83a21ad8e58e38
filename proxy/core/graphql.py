"""Whether a GraphQL document only asks: every operation in it is a query.

This reads as much of the language as that takes (specification, October 2021, §2.1 and §2.2): strings and comments, in which
words mean nothing; brackets, which must match; and the word that begins each definition. Whatever else a server would
find wrong it refuses by itself. In one pass, whatever the document: it comes from outside.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 64 * 1024  # characters; no document that a person or a compiler writes comes near

_TOKEN: Final = re.compile(
    # No possessive `(...)*+`, which CPython before 3.11.5 gets wrong: of what may follow, only one alternative fits.
    r'(?P<skipped>"""(?:[^"\\]|\\"""|\\(?!""")|"(?!""))*"""|(?!""")"(?:[^"\\\r\n]|\\[^\r\n])*"|#[^\r\n]*+)'
    r"|(?P<bracket>[()\[\]{}])"
    r'|(?P<text>[^"#()\[\]{}]++)'
    r'|(?P<unterminated>")'
)
_BLANK: Final = " \t\r\n,\ufeff"
_FIRST_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


def only_asks(document: str) -> bool:
    """Say whether a document holds queries, fragments and nothing else, at least one query, and all of it whole.

    With several operations the request chooses one by name; that choice is not followed, so one mutation is enough.
    """
    if len(document) > LONGEST:
        return False
    asks = in_definition = False
    closings: list[str] = []  # what the brackets that are open wait for
    for token in _TOKEN.finditer(document):
        kind, text = token.lastgroup, token[0]
        if kind == "unterminated":
            return False
        if kind == "bracket":
            if text in _CLOSING:
                if not in_definition:  # the short form of a query: a selection set by itself
                    if text != "{":
                        return False
                    asks = in_definition = True
                closings.append(_CLOSING[text])
            elif not closings or closings.pop() != text:
                return False
            elif text == "}" and not closings:
                in_definition = False
        elif kind == "text" and not in_definition and (begun := text.strip(_BLANK)):
            word = _FIRST_WORD.match(begun)
            if word is None or word[0] not in ("query", "fragment"):
                return False
            in_definition = True
            asks = asks or word[0] == "query"
    return asks and not in_definition
