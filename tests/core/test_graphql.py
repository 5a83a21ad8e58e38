"""Whether a GraphQL document only asks. What is not surely a query counts as a write, so tricks must not help."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.graphql import LONGEST, only_asks

QUERIES = {
    "named": "query Hero { hero { name } }",
    "anonymous": "query { hero }",
    "short form": "{ hero { name } }",
    "variables with a default object": 'query Q($in: In = {kind: "x", list: [1, 2]}, $n: Int!) { a(in: $in) }',
    "directive after variables": "query Q($n: Int) @live { a }",
    "directives": "query Q @live @cost(max: {n: 1}) { a @include(if: $yes) { b } }",
    "directive without a name": "query@live{a}",
    "no spaces": "query{a}",
    "commas and a byte order mark": "\ufeff,,query,Q,{a,b}",
    "several queries": "query A { a } query B { b } ",
    "fragment last": "{ a { ...F } } fragment F on A { b }",
    "fragment first": "fragment F on A { b }\nquery Q { a { ...F } }",
    "inline fragment": "{ a { ... on B { c } ... @skip(if: true) { d } } }",
    "description": '"""Reads only; no mutation."""\nquery Q { a }',
    "comment after": "{ a } # mutation M { b }",
    "comment before": "# mutation { b }\nquery Q { a }",
    "comment ends at a carriage return": "# mutation\rquery Q { a }",
    "number and enum": "{ a(x: -1.5e3, y: RED, z: null) }",
}

NAMED_LIKE_A_WRITE = {
    "field": "{ mutation { subscription } }",
    "alias": "{ mutation: a }",
    "argument": "{ a(mutation: true, subscription: {mutation: 1}) }",
    "variable": "query Q($mutation: Int) { a(x: $mutation) }",
    "query": "query mutation { a }",
    "fragment": "fragment mutation on subscription { b } query { ...mutation }",
    "directive": "query Q @mutation { a @mutation }",
    "string": '{ a(x: "} mutation M { b } {") }',
    "string with an escaped quote": '{ a(x: "\\" } mutation { b") }',
    "string that ends in a backslash": '{ a(x: "\\\\") } ',
    "block string": '{ a(x: """ } mutation { b } """) }',
    "block string with quotes": '{ a(x: """ " "" \\""" } mutation { b } """) }',
    "comment": "{ a # } mutation { b }\n }",
    "string in a comment": '{ a # "\n }',
    "comment in a string": '{ a(x: "#") }',
}

WRITES = {
    "mutation": "mutation M { b }",
    "anonymous mutation": "mutation { b }",
    "mutation without a space": "mutation{b}",
    "mutation with a directive": "mutation@x{b}",
    "subscription": "subscription S { b }",
    "mutation after a query": "query A { a } mutation M { b }",
    "mutation before a query": "mutation M { b } query A { a }",
    "mutation after the short form": "{ a } mutation M { b }",
    "mutation after a fragment": "fragment F on A { b } mutation M { ...F }",
    "mutation after a comment": "# query\nmutation M { b }",
    "mutation on the line after a comment that a carriage return ends": "query A {a} # c\rmutation M {b}",
    "mutation after a string": '"query" mutation M { b }',
    "mutation after an empty block string": '"""""" mutation M { b }',
    "mutation after an escaped quote": '"\\"" mutation M { b }',
    "mutation after a block string that ends in a quote": '""" \\""" """ mutation M { b }',
    "mutation behind commas": ",,,mutation,M,{b}",
    "mutation behind a byte order mark": "\ufeffmutation M { b }",
}

BROKEN = {
    "nothing": "",
    "only a comment": "# query { a }",
    "only a fragment": "fragment F on A { b }",
    "no selection": "query Q",
    "not closed": "query Q { a",
    "closed twice": "query Q { a } }",
    "closed otherwise": "query Q { a ) ",
    "crossed": "query Q { a(x: [1) ] }",
    "closed before": "} query Q { a }",
    "begins with a bracket": "(a) { b }",
    "unknown definition": "select { a }",
    "unknown definition later": "{ a } select { a }",
    "schema": "type A { b: Int }",
    "keyword in another case": "Query Q { a }",
    "keyword with a tail": "queryQ { a }",
    "keyword in other letters": "quеry { a }",
    "string not closed": '{ a(x: "b) }',
    "string closed on the next line": '{ a(x: "b\n") }',
    "string with a backslash before the line's end": '{ a(x: "b\\\n") }',
    "block string not closed": '{ a(x: """b") }',
    "block string closed by an escape": '{ a(x: """b\\""") }',
    "not GraphQL": "GET / HTTP/1.1",
    "punctuation first": "! query Q { a }",
}


@pytest.mark.parametrize("document", QUERIES.values(), ids=QUERIES)
def test_queries_only_ask(document: str) -> None:
    """Whatever the form and the order of definitions."""
    assert only_asks(document)


@pytest.mark.parametrize("document", NAMED_LIKE_A_WRITE.values(), ids=NAMED_LIKE_A_WRITE)
def test_a_word_is_a_keyword_only_where_a_definition_begins(document: str) -> None:
    """Elsewhere `mutation` is a name, a text or a remark."""
    assert only_asks(document)


@pytest.mark.parametrize("document", WRITES.values(), ids=WRITES)
def test_one_other_operation_makes_it_a_write(document: str) -> None:
    """Wherever it stands: `operationName` may choose it. A subscription is no read either."""
    assert not only_asks(document)


@pytest.mark.parametrize("document", BROKEN.values(), ids=BROKEN)
def test_what_is_not_whole_is_a_write(document: str) -> None:
    """Servers differ in how they read what is wrong, so nothing is concluded from it."""
    assert not only_asks(document)


PIECES = [
    "query",
    "fragment",
    "mutation",
    "F",
    " ",
    "{",
    "}",
    "(",
    ")",
    '"',
    '"""',
    "\\",
    "#",
    "\n",
    "\r",
    "...",
    ",",
]
WHOLE = ["query Q {a}", "{a}", "fragment F on A {b}", '"}"', '"""\\""" " """', "# {"]


@given(
    st.lists(st.sampled_from(PIECES + WHOLE), max_size=24).map("".join), st.sampled_from(["\n", "\r", "\r\n"])
)
@example("{a} # ", "\r")
def test_nothing_put_before_it_hides_a_mutation(before: str, line_end: str) -> None:
    """After a document that is whole, a mutation is always seen."""
    if only_asks(before + line_end):
        assert not only_asks(f"{before}{line_end}mutation M {{a}}")


LONG = {
    "escaped quotes": '"' + '\\"' * (LONGEST // 2 - 1),
    "escaped block quotes": '"""' + '\\"""' * (LONGEST // 4 - 1),
    "quotes": '"' * LONGEST,
    "backslashes": '"' + "\\" * (LONGEST - 1),
    "open brackets": "{" * LONGEST,
    "pairs": "{}" * (LONGEST // 2),
    "comments": "#\n" * (LONGEST // 2),
    "words": "a " * (LONGEST // 2),
}


@pytest.mark.parametrize("document", LONG.values(), ids=LONG)
def test_reading_takes_linear_time(document: str) -> None:
    """Promise 14: the longest document that is read, of the worst kind, does not hold up other calls."""
    begun = time.perf_counter()
    only_asks(document)
    assert time.perf_counter() - begun < 1  # tens of milliseconds; a regex that goes back takes minutes


def test_a_document_beyond_all_measure_is_not_read() -> None:
    """It is a write, and costs nothing."""
    assert only_asks("{" + "a" * (LONGEST - 2) + "}")
    assert not only_asks("{" + "a" * (LONGEST - 1) + "}")
