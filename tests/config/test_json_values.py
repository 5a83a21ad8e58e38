"""JSON in a policy: what JSON would read so is read so, and what two readers of YAML take for two things is refused."""

from __future__ import annotations

import json
import math
import re
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.config import document
from proxy.config.faults import Refusal
from proxy.config.json_values import MOST_BYTES, is_text, json_text, sure_text
from proxy.config.reading import MISSING, Report, Value
from proxy.core import exact_json
from tests.config.said import faults


def read(text: str, loader: Any = yaml.SafeLoader) -> tuple[Any, list[str]]:
    """What is made of a value, and what is said of it."""
    report = Report("alone")
    node = yaml.compose(text, Loader=loader)
    assert node is not None
    value = Value(node, "key", 1, report).read(json_text)
    return value, [f"{fault.key}: {fault.problem}; {fault.remedy}" for fault in report.faults]


def value_of(text: str) -> Any:
    """The value that a text stands for; it must have no fault."""
    value, said = read(text)
    assert said == []
    return json.loads(value)


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpt-4o-mini", '"gpt-4o-mini"'),
        ("300", "300"),
        ("-1", "-1"),
        ("-0", "0"),
        ("0.2", "0.2"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("1.5E+3", "1500"),
        ("1e-7", "1e-07"),
        ("1e22", "1e+22"),
        ("9007199254740991", "9007199254740991"),
        ("true", "true"),
        ("True", "true"),
        ("FALSE", "false"),
        ("null", "null"),
        ("~", "null"),
        ('"on"', '"on"'),
        ("'010'", '"010"'),
        ("|-\n  no", '"no"'),
        (">\n  1\n  2", '"1 2"'),
        ("2026-01-02", '"2026-01-02"'),
        ("2026-01-02T03:04:05Z", '"2026-01-02T03:04:05Z"'),
        ("1.2.3", '"1.2.3"'),
        ("10.0.0.1", '"10.0.0.1"'),
        ("1:99", '"1:99"'),
        ("=", '"="'),
        ("0x", '"0x"'),
        ("ünï", '"ünï"'),
        ('"a\\tb\\u2028"', '"a\\tb\u2028"'),
        ("{}", "{}"),
        ("[]", "[]"),
        ("{z: 1, a: [true, null, {b: x}]}", '{"z":1,"a":[true,null,{"b":"x"}]}'),
        ('{"y": 1, "on": 2, "1": 3, "<<": 4, "": 5}', '{"y":1,"on":2,"1":3,"<<":4,"":5}'),
        ("[&a {b: 1}, *a]", '[{"b":1},{"b":1}]'),
    ],
)
def test_value(text: str, expected: str, loader: Any) -> None:
    """A value is the JSON that it looks like, in the order of the file, and with either of PyYAML's parsers."""
    assert read(text, loader) == (expected, [])


ORDINARY = "is a truth value to some readers of YAML, and a text to others; write true or false, or put quotes around it"
NUMERAL = "is a number to some readers of YAML, and none as JSON writes it; write it in plain decimal digits, or put quotes around it"
TOO_MUCH = "is a number that not every reader of JSON can keep; write fewer digits, or put quotes around it"


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((word, f'key: "{word}" {ORDINARY}') for word in ("on", "Off", "yes", "NO", "y", "N")),
        *(
            (word, f'key: "{word}" {NUMERAL}')
            for word in ("010", "0x1F", "0o17", "0b11", "1_000", "+1", ".5", "5.", "12:30", "1:30:00.5", ".inf", "-.INF", ".NaN", "08", "1_0e3")
        ),
        *((word, f'key: "{word}" {TOO_MUCH}') for word in ("9007199254740992", "-9007199254740992", "1e400", "1.7976931348623159e308")),
        ("1" * 5000, f'key: "{"1" * 60}…" {TOO_MUCH}'),
        ("<<", 'key: "<<" is a merge key to some readers of YAML; write the keys out, or put quotes around it'),
        ("a: ", "key.a: has no value; write null, or take it out"),
        ("- ", "key[0]: has no value; write null, or take it out"),
        ("!!str 5", 'key: has the tag "tag:yaml.org,2002:str"; take the tag out'),
        ('!!int "5"', 'key: has the tag "tag:yaml.org,2002:int"; take the tag out'),
        ("!secret x", 'key: has the tag "!secret"; take the tag out'),
        ("!!binary aGk=", 'key: has the tag "tag:yaml.org,2002:binary"; take the tag out'),
        ("!!set {a: 1}", 'key: something with the tag "tag:yaml.org,2002:set" stands where keys are expected; write keys with their values'),
        ("!list [1]", 'key: something with the tag "!list" stands where a list is expected; write [first, second]'),
        ('"a\\0b"', "key: has a NUL in it; take it out"),
        ("'\\u0000'", "key: has in it what reads like the escape of a NUL; take it out"),
        ("{a: 1, a: 2}", "key.a: is given twice, first on line 1; keep one of the two"),
        ("{y: 1}", "key.y: is a name that is not a text to every reader of YAML; put quotes around it"),
        ("{1: a}", "key.1: is a name that is not a text to every reader of YAML; put quotes around it"),
        ("{true: a}", "key.true: is a name that is not a text to every reader of YAML; put quotes around it"),
        ("{<<: {a: 1}}", "key.<<: is a name that is not a text to every reader of YAML; put quotes around it"),
        ("? [a]\n: 1", "key.?: a list stands where a key is expected; write a key"),
        (f'"{"x" * MOST_BYTES}"', "key: is more than 64 KiB of JSON; make it shorter"),
        (f"[{', '.join(['é'] * 20_000)}]", "key: is more than 64 KiB of JSON; make it shorter"),
    ],
)  # fmt: skip
def test_refused_value(text: str, expected: str, loader: Any) -> None:
    """One fault, at the place within the value, with what to write instead; nothing is made of the rest."""
    assert read(text, loader) == (MISSING, [expected])


def test_every_fault_within_a_value() -> None:
    """All at once, each with its line."""
    text = """
fallback:
  effect: read
  ladder:
  - name: a
    set:
      json:
        "$.a":
          - on
          - b: 010
        "$.b": {"c": , "c": 1}
"""
    where = "fallback.ladder[0].set.json"
    assert [(fault.line, fault.key) for fault in faults(text)] == [
        (9, f"{where}.$.a[0]"),
        (10, f"{where}.$.a[1].b"),
        (11, f"{where}.$.b.c"),
        (11, f"{where}.$.b.c"),
    ]


def test_half_a_character_is_refused() -> None:
    """The escape of a surrogate stands for no character, and UTF-8 cannot carry it; one of PyYAML's parsers lets it pass."""
    with mock.patch.object(document, "LOADER", yaml.SafeLoader):
        for text in ('json: "\\ud800"', 'json: {"\\ud800": 1}', 'text: "\\ud800"'):
            [fault] = faults(
                f"fallback: {{effect: read, ladder: [{{name: a}}, {{name: b, answer: {{{text}}}}}]}}"
            )
            assert fault.problem == "has half a character in it (a lone surrogate)"


# -- as JSON has it ----------------------------------------------------------------------------------------------------

# Less what YAML cannot hold, or would fold as the end of a line.
_texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Zl", "Zp")), max_size=20)
_numbers = st.one_of(st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)),
    max_leaves=12,
)


def told_apart(value: Any) -> Any:
    """A value, so that a truth differs from a number; JSON does not tell 1.0 from 1."""
    if isinstance(value, dict):
        return {name: told_apart(each) for name, each in value.items()}
    if isinstance(value, list):
        return [told_apart(each) for each in value]
    return (type(value).__name__ if isinstance(value, bool) else "", value)


@given(json_values)
def test_json_may_be_pasted_as_it_is(value: Any) -> None:
    """Whatever JSON says, YAML of 1.2 says too (YAML 1.2 §1.3). Escapes of two surrogates are all that YAML has not."""
    escaped = json.dumps(value)
    assume("\\u0000" not in escaped)
    if not re.search(r"\\ud[89ab]", escaped):
        assert told_apart(value_of(escaped)) == told_apart(value)
    assert told_apart(value_of(json.dumps(value, ensure_ascii=False, indent=1))) == told_apart(value)


@given(json_values)
def test_what_is_kept_can_be_put_into_a_body(value: Any) -> None:
    """By the reader that changes bodies, which is stricter than Python's own."""
    text, said = read(json.dumps(value, ensure_ascii=False))
    if said:
        assert "\\u0000" in json.dumps(value)
    else:
        assert exact_json.dump(exact_json.load(text.encode()))


WORDS = st.one_of(
    st.from_regex(r"[-+]?[0-9_.:]{1,6}([eE][-+]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[-+]?0[xXoObB][0-9a-fA-F_]{0,4}", fullmatch=True),
    st.sampled_from(["on", "On", "oN", "y", "yes", "null", "~", "true", "True", "tRue", ".inf", "-.inf", ".nan", "=", "<<", "2026-01-02"]),
    _texts,
)  # fmt: skip


@given(WORDS)
def test_a_plain_word_is_one_thing_or_refused(word: str) -> None:
    """What an older reader takes for a truth, a number or nothing is read as the same, or not at all."""
    try:
        older = yaml.safe_load(word)
        node = yaml.compose(word, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError):
        return
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return
    value, said = read(word)
    if said:
        assert value is MISSING
    elif isinstance(older, bool | int | None):
        assert told_apart(json.loads(value)) == told_apart(older)
    elif isinstance(older, float) or (isinstance(older, str) and not is_number(json.loads(value))):
        assert json.loads(value) == older


def is_number(value: Any) -> bool:
    """Whether YAML 1.2 sees a number where 1.1 sees none (`1e3`)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@given(WORDS)
def test_texts_are_those_that_need_no_quotes(word: str) -> None:
    """What is called a text is read as that text, and what is not is no text without quotes."""
    dumped = yaml.safe_dump(word).removesuffix("...\n")
    node = yaml.compose(dumped, Loader=yaml.SafeLoader)
    if isinstance(node, yaml.ScalarNode) and not node.style and node.value == word:
        found = Value(node, "key", 1, Report("alone"))
        if is_text(word):
            assert sure_text(found) == word
        else:
            with pytest.raises(Refusal):
                sure_text(found)


def test_numbers_are_finite() -> None:
    """Nothing infinite is ever written."""
    assert not math.isinf(value_of("1.7976931348623157e308"))
    assert value_of("4.9e-324") == 5e-324


@pytest.mark.parametrize("part", ["1", "1_", "1.", "1:1", ":", "1e", "_", ".", "+", "0x"])
def test_long_words_are_looked_at_once(part: str) -> None:
    """However long a word is, nothing goes back over it; if it did, this would not end."""
    word = part * 200_000
    assert isinstance(is_text(word), bool)
    assert is_text(f"{word}x")
