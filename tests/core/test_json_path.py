"""Places in JSON documents: what is read finds what a plain walk finds, and what means several values is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.json_path import ABSENT, JsonPath, parse

NAMES = st.one_of(
    st.sampled_from(["a", "b", "items", "a name", "0", "", "é", "'", '"', "\\", "]", "$", "*"]),
    st.text(max_size=5),
)
INDEXES = st.integers(-4, 4)
STEPS = st.lists(st.one_of(NAMES, INDEXES), max_size=5)
DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=20,
)  # fmt: skip
SHORT = re.compile(r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*\Z")
WIDER = [
    "[*]",
    ".*",
    "..a",
    "..*",
    "..[0]",
    "[0:2]",
    "[:]",
    "[::2]",
    "[0,1]",
    "['a','b']",
    "[?@.a]",
    "[?(@.a > 1)]",
]
MALFORMED = ["[", "]", "[]", "[01]", "[-0]", "[+1]", "[1.0]", "[a]", "['a]", "['a\"]", "[\"a']", r"['\n']", ".", ".1", "-b", " b", " ", "a", "[ 0]", "[٣]", "[12345678901]"]  # fmt: skip


@st.composite
def written(draw: st.DrawFn, steps: list[str | int]) -> str:
    """A query of these steps, each in one of the ways that it can be written."""
    text = "$"
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif SHORT.match(step) and draw(st.booleans()):
            text += f".{step}"
        else:
            mark = draw(st.sampled_from("'\""))
            name = step.replace("\\", "\\\\").replace(mark, f"\\{mark}")
            text += f"[{mark}{name}{mark}]"
    return text


def walk(document: Any, steps: list[str | int]) -> Any:
    """What stands at the end of these steps, or ABSENT."""
    value = document
    for step in steps:
        fits = type(value) is (dict if isinstance(step, str) else list)
        if not fits:
            return ABSENT
        try:
            value = value[step]
        except LookupError:
            return ABSENT
    return value


def within(data: st.DataObject, document: Any) -> list[str | int]:
    """The steps to some place that the document has."""
    steps: list[str | int] = []
    while document and isinstance(document, dict | list) and data.draw(st.integers(0, 5)):
        if isinstance(document, dict):
            step = data.draw(st.sampled_from(list(document)))
        else:
            step = data.draw(st.integers(-len(document), len(document) - 1))
        steps.append(step)
        document = document[step]
    return steps


def refusal(text: str) -> str:
    """The sentence with which a text is refused."""
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    pytest.fail(f"{text!r} was read")


@given(st.data(), STEPS)
def test_steps_are_read_as_they_are_written(data: st.DataObject, steps: list[str | int]) -> None:
    """In dots or in brackets, with either kind of quotes; and it is shown as it was written."""
    text = data.draw(written(steps))
    path = parse(text)
    assert path == JsonPath(text, tuple(steps))
    assert str(path) == text


@given(st.data(), DOCUMENTS)
def test_what_is_there_is_found(data: st.DataObject, document: Any) -> None:
    """Every place of a document, from the front and from the end of its lists."""
    steps = within(data, document)
    found = parse(data.draw(written(steps))).find(document)
    assert found is walk(document, steps)
    assert found is not ABSENT


@given(st.data(), DOCUMENTS, STEPS)
def test_any_place_is_found_or_absent(data: st.DataObject, document: Any, further: list[str | int]) -> None:
    """Beyond what is there, in what holds no values, of the wrong type: absent, and never an error."""
    steps = within(data, document) + further
    assert parse(data.draw(written(steps))).find(document) is walk(document, steps)


@pytest.mark.parametrize(
    ("text", "document", "value"),
    [
        ("$", [1], [1]),
        ("$", None, None),
        ("$.items[0].id", {"items": [{"id": 7}]}, 7),
        ("$['a name'][-1]", {"a name": [1, 2]}, 2),
        (r"$['it\'s']", {"it's": 1}, 1),
        (r'$["a\\b"]', {"a\\b": 1}, 1),
        ("$.a", {"a": None}, None),
        ("$.a", {"a": False}, False),
        ("$[0]", [], ABSENT),
        ("$[-3]", [1, 2], ABSENT),
        ("$[0]", {"0": 1}, ABSENT),
        ("$['0']", ["a"], ABSENT),
        ("$[0]", "text", ABSENT),
        ("$.a.b", {"a": True}, ABSENT),
    ],
)
def test_examples(text: str, document: Any, value: Any) -> None:
    """Null and false are values; a text is not a list, nor a list a mapping."""
    assert parse(text).find(document) is value or parse(text).find(document) == value


@given(st.data(), STEPS, st.lists(INDEXES), st.sampled_from(WIDER + MALFORMED))
def test_wider_is_refused(data: st.DataObject, before: list[str | int], after: list[int], wider: str) -> None:
    """Wherever it stands, the sentence shows the place where reading ended, and what could stand there."""
    start = "$" if wider == "a" else data.draw(written(before))  # after a name it would be more of the name
    sentence = refusal(start + wider + "".join(f"[{index}]" for index in after))
    assert sentence.startswith("cannot be read from ")
    assert sentence.endswith("; names and indexes only, as in $.items[0] or $['a name']")


@pytest.mark.parametrize("wider", WIDER + MALFORMED)
def test_refused_segment(wider: str) -> None:
    """It is shown from where it cannot be read on, to the end."""
    assert refusal(f"$[0]{wider}.b").startswith(f"cannot be read from {wider + '.b'!r} on; ")


@pytest.mark.parametrize("text", ["", "a", ".a", "@.a", " $", "items[0]"])
def test_a_place_begins_at_the_root(text: str) -> None:
    """The sentence says what a query begins with."""
    assert refusal(text) == "begins with $, as in $.items[0]"


@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(["$", ".", "[", "]", "'", '"', "\\", "a", "0", "-", "*"])).map("".join),
    )
)
def test_any_text(text: str) -> None:
    """It is a place that is shown as it was written, or it is refused with a sentence that holds an example."""
    try:
        path = parse(text)
    except ValueError:
        assert "as in $.items[0]" in refusal(text)
    else:
        assert str(path) == text


def test_long_text_is_read_in_time() -> None:
    """Linear, whether it can be read or not."""
    assert len(parse("$" + ".a" * 100_000).steps) == 100_000
    assert refusal("$['" + "\\'" * 100_000).startswith("cannot be read")
